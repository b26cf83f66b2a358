/* What pieces' descs must be, and their operands: o of v, each row by itself or with the few before it. */
#include "op/op.h"

enum { MOST_PIECE_DIM = 65536, MOST_TAPS = 8, MOST_FEATURES = 256 };

static void complete(clattn_plan_desc *desc, const struct rule *rule)
{
    if (desc->key_dim == 0)
        desc->key_dim = 1;
    if ((rule->knobs & RULE_TAKES_TAPS) && desc->taps == 0)
        desc->taps = 4;
    if ((rule->knobs & RULE_TAKES_EPS) && desc->eps == 0)
        desc->eps = rule->knobs & RULE_TAKES_FEATURES ? 1e-4 : 1e-5;
    if (!(rule->knobs & RULE_TAKES_GATE_MAP))
        return;
    if (desc->gate_map == CLATTN_GATE_MAP_LOG)
        desc->gate_map = CLATTN_GATE_MAP_SOFTPLUS;
    if (desc->gate_scale == 0)
        desc->gate_scale = 1;
}

static clattn_status check_numbers(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    const struct {
        uint32_t knob;
        const char *name;
        int64_t value, low, high;
    } numbers[] = {{RULE_TAKES_TAPS, "taps", desc->taps, 1, MOST_TAPS},
                   {RULE_TAKES_TAPS, "activation", desc->activation, CLATTN_ACTIVATION_SILU, CLATTN_ACTIVATION_NONE},
                   {RULE_TAKES_TAPS, "with_bias", desc->with_bias, 0, 1},
                   {RULE_TAKES_TAPS, "residual", desc->residual, 0, 1},
                   {RULE_TAKES_NORM, "weighting", desc->weighting, CLATTN_WEIGHTING_SHARED, CLATTN_WEIGHTING_NONE},
                   {RULE_TAKES_NORM, "gating", desc->gating, CLATTN_GATING_AFTER, CLATTN_GATING_SIGMOID},
                   {RULE_TAKES_NORM, "centered", desc->centered, 0, 1},
                   {RULE_TAKES_NORM, "eps_outside", desc->eps_outside, 0, 1},
                   {RULE_TAKES_FEATURES, "features", desc->features, CLATTN_FEATURES_FAVOR, CLATTN_FEATURES_HEDGEHOG},
                   {RULE_TAKES_FEATURES, "of_queries", desc->of_queries, 0, 1},
                   {RULE_TAKES_FEATURES, "key_dim", desc->key_dim, 1, MOST_FEATURES},
                   {RULE_TAKES_FEATURES, "value_dim", desc->value_dim, 1, MOST_FEATURES}};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (rule->knobs & numbers[i].knob)
            TRY(check_range(log, numbers[i].name, numbers[i].value, numbers[i].low, numbers[i].high));
    if ((rule->knobs & RULE_TAKES_FEATURES) && desc->features != CLATTN_FEATURES_FAVOR && desc->key_dim % 2 != 0)
        return FAIL(log, INVALID_DESC, "key_dim is %lld, expected an even number: these features come in pairs",
                    (long long)desc->key_dim);
    return CLATTN_SUCCESS;
}

static clattn_status check(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    uint32_t others = desc->flags & ~(rule->flags | CLATTN_CU_SEQLENS | CLATTN_CU_SEQLENS_INT64);

    if (others != 0)
        return FAIL(log, INVALID_DESC, "%s takes no such option: flags 0x%x", rule->name, others);
    if ((desc->key_dim != 1 && !(rule->knobs & RULE_TAKES_FEATURES)) || desc->qk_heads != desc->heads)
        return FAIL(log, INVALID_DESC,
                    "%s has no queries and keys: key_dim is %lld, expected 1, qk_heads %lld, expected heads %lld",
                    rule->name, (long long)desc->key_dim, (long long)desc->qk_heads, (long long)desc->heads);
    if (desc->kv_heads != desc->heads)
        return FAIL(log, INVALID_DESC, "%s: kv_heads is %lld, expected heads %lld: states are not shared", rule->name,
                    (long long)desc->kv_heads, (long long)desc->heads);
    if (desc->scale != 1 && rule->piece != PIECE_GATES)
        return FAIL(log, INVALID_DESC, "%s takes no option scale", rule->name);
    TRY(check_slots(desc, log));
    return check_numbers(desc, rule, log);
}

static int operands(const clattn_plan_desc *desc, const struct rule *rule, struct operand_row rows[OPERAND_COUNT])
{
    int conv = rule->piece == PIECE_SHORT_CONV, pool = (desc->flags & CLATTN_WITH_STATE_INDICES) != 0;
    int features = rule->piece == PIECE_FEATURES, gates = rule->piece == PIECE_GATES,
        norm = rule->piece == PIECE_RMS_NORM;
    const char *state = pool ? "MRHV" : "NRHV";
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
        {desc->with_bias, ROW(OP(BIAS), "HV", STORE_GATE, VALUE)},
        {(desc->flags & CLATTN_INITIAL_STATE) != 0, ROW(OP(STATE_IN), state, STORE_MATRIX, STATE)},
        {(desc->flags & CLATTN_FINAL_STATE) != 0, ROW(OP(STATE_OUT), state, STORE_MATRIX, WRITTEN)},
        {pool, ROW(OP(STATE_INDICES), "N", STORE_LENGTH, SLOTS)},
        {desc->with_position, ROW(OP(POSITION), "N", STORE_LENGTH, POSITIONS)},
        {(desc->flags & CLATTN_CU_SEQLENS) != 0, ROW(OP(SEQLENS), "P", STORE_INDEX, CUTS)},
    };

    return operands_used(all, sizeof all / sizeof *all, rows);
}

const struct op op_piece = {MOST_PIECE_DIM, complete, check, operands};
