/* Pieces: checks of their descs, and their operands. o follows from v, each row alone or with a few rows before it. */
#include "op/op.h"
#include "op/state.h"

enum { MOST_PIECE_DIM = 65536 };

static void complete(clattn_plan_desc *desc, const struct rule *rule)
{
    if (desc->key_dim == 0)
        desc->key_dim = 1;
    if (rule->piece != PIECE_GATES)
        return;
    if (desc->gate_map == CLATTN_GATE_MAP_LOG)
        desc->gate_map = CLATTN_GATE_MAP_SOFTPLUS;
    if (desc->gate_scale == 0)
        desc->gate_scale = 1;
}

static clattn_status check_features(const clattn_plan_desc *desc, const struct log *log)
{
    TRY(check_range(log, "key_dim", desc->key_dim, 1, MAX_DIM));
    TRY(check_range(log, "value_dim", desc->value_dim, 1, MAX_DIM));
    if (desc->features != CLATTN_FEATURES_FAVOR && desc->key_dim % 2 != 0)
        return FAIL(log, INVALID_DESC, "key_dim is %lld, expected an even number: these features come in pairs",
                    (long long)desc->key_dim);
    return CLATTN_SUCCESS;
}

static clattn_status check(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    int features = rule->piece == PIECE_FEATURES;

    if ((desc->key_dim != 1 && !features) || desc->qk_heads != desc->heads)
        return FAIL(log, INVALID_DESC,
                    "%s has no queries and keys: key_dim is %lld, expected 1, qk_heads %lld, expected heads %lld",
                    rule->name, (long long)desc->key_dim, (long long)desc->qk_heads, (long long)desc->heads);
    if (desc->kv_heads != desc->heads)
        return FAIL(log, INVALID_DESC, "%s: kv_heads is %lld, expected heads %lld: states are not shared", rule->name,
                    (long long)desc->kv_heads, (long long)desc->heads);
    TRY(check_slots(desc, log));
    TRY(check_pass(desc, rule, log));
    TRY(check_snapshots(desc, rule, log));
    return features ? check_features(desc, log) : CLATTN_SUCCESS;
}

static int forward_operands(const clattn_plan_desc *desc, const struct rule *rule,
                            struct operand_row rows[OPERAND_COUNT])
{
    int conv = rule->piece == PIECE_SHORT_CONV, features = rule->piece == PIECE_FEATURES,
        gates = rule->piece == PIECE_GATES, norm = rule->piece == PIECE_RMS_NORM;
    int count;
    const struct operand_choice all[] = {
        {1, ROW(OP(V), "BTHV", STORE_DATA, VALUE)},
        {1, ROW(OP(O), features ? "BTHK" : "BTHV", gates ? STORE_GATE : STORE_DATA, WRITTEN)},
        {features, ROW(OP(OMEGA), "HFV", STORE_GATE, VALUE)},
        {norm && desc->weighting != CLATTN_WEIGHTING_NONE,
         ROW(OP(W), desc->weighting == CLATTN_WEIGHTING_HEADS ? "HV" : "V", STORE_GATE, VALUE)},
        {(desc->flags & CLATTN_WITH_Z) != 0, ROW(OP(Z), "BTHV", STORE_DATA, VALUE)},
        {(desc->flags & CLATTN_WITH_D) != 0, ROW(OP(U), "BTHV", STORE_DATA, VALUE)},
        {(desc->flags & CLATTN_WITH_D) != 0, ROW(OP(D), "HV", STORE_STATE, BONUS)},
        {(desc->flags & CLATTN_WITH_A_LOG) != 0, ROW(OP(A_LOG), "H", STORE_STATE, BONUS)},
        {(desc->flags & CLATTN_WITH_DT_BIAS) != 0, ROW(OP(DT_BIAS), "HV", STORE_STATE, BONUS)},
        {conv, ROW(OP(W), "HVJ", STORE_GATE, VALUE)},
        {(desc->flags & CLATTN_WITH_BIAS) != 0, ROW(OP(BIAS), "HV", STORE_GATE, VALUE)},
        {(desc->flags & CLATTN_WITH_ACCEPTED) != 0, ROW(OP(ACCEPTED), "N", STORE_LENGTH, COUNTS)},
        {(desc->flags & CLATTN_WITH_STATE_INDICES) != 0, ROW(OP(STATE_INDICES), "N", STORE_LENGTH, SLOTS)},
        {(desc->flags & CLATTN_WITH_POSITION) != 0, ROW(OP(POSITION), "N", STORE_LENGTH, POSITIONS)},
        {(desc->flags & CLATTN_CU_SEQLENS) != 0, ROW(OP(SEQLENS), "P", STORE_INDEX, CUTS)},
    };

    count = operands_used(all, sizeof all / sizeof *all, rows);
    return count + state_operands(desc, rule, rows + count);
}

static int operands(const clattn_plan_desc *desc, const struct rule *rule, struct operand_row rows[OPERAND_COUNT])
{
    struct operand_row forward[OPERAND_COUNT];

    if (desc->pass == CLATTN_PASS_FORWARD)
        return forward_operands(desc, rule, rows);
    return backward_operands(desc, rule, forward, forward_operands(desc, rule, forward), rows);
}

const struct op op_piece = {MOST_PIECE_DIM, complete, check, operands};
