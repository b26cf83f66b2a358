/* Learners: checks of their descs, and their operands, which are the weights that batches of tokens train and the
 * tokens' learning rates. */
#include "op/op.h"
#include "op/state.h"

const double (*learner_muon(clattn_muon muon))[3]
{
    static const double steps[][MUON_STEPS][3] = {[CLATTN_MUON_FIVE] = {{4.0848, -6.8946, 2.9270},
                                                                        {3.9505, -6.3029, 2.6377},
                                                                        {3.7418, -5.5913, 2.3037},
                                                                        {2.8769, -3.1427, 1.2046},
                                                                        {2.8366, -3.0525, 1.2012}},
                                                  [CLATTN_MUON_KELLER] = {{3.4445, -4.7750, 2.0315},
                                                                          {3.4445, -4.7750, 2.0315},
                                                                          {3.4445, -4.7750, 2.0315},
                                                                          {3.4445, -4.7750, 2.0315},
                                                                          {3.4445, -4.7750, 2.0315}}};
    return steps[muon];
}

static void complete(clattn_plan_desc *desc, const struct rule *rule)
{
    (void)rule;
    if (desc->hidden_dim == 0)
        desc->hidden_dim = desc->key_dim;
}

static clattn_status check(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    if (desc->qk_heads != desc->heads || desc->kv_heads != desc->heads)
        return FAIL(log, INVALID_DESC, "%s: qk_heads is %lld, kv_heads %lld, expected heads %lld: none are shared",
                    rule->name, (long long)desc->qk_heads, (long long)desc->kv_heads, (long long)desc->heads);
    return CLATTN_SUCCESS;
}

static int operands(const clattn_plan_desc *desc, const struct rule *rule, struct operand_row rows[OPERAND_COUNT])
{
    int count;
    const struct operand_choice all[] = {
        {1, ROW(OP(Q), "BTHK", STORE_DATA, KEY)},
        {1, ROW(OP(K), "BTHK", STORE_DATA, KEY)},
        {1, ROW(OP(V), "BTHV", STORE_DATA, VALUE)},
        {1, ROW(OP(O), "BTHV", STORE_DATA, WRITTEN)},
        {1, ROW(OP(LR0), "BTH", STORE_GATE, SPEED)},
        {1, ROW(OP(LR1), "BTH", STORE_GATE, SPEED)},
        {1, ROW(OP(LR2), "BTH", STORE_GATE, SPEED)},
        {(desc->flags & CLATTN_WITH_MOMENTUM) != 0, ROW(OP(MOMENTUM), "BTH", STORE_GATE, STRENGTH)},
        {(desc->flags & CLATTN_WITH_POSITION) != 0, ROW(OP(POSITION), "N", STORE_LENGTH, POSITIONS)},
    };

    count = operands_used(all, sizeof all / sizeof *all, rows);
    return count + state_operands(desc, rule, rows + count);
}

const struct op op_learner = {MAX_DIM, complete, check, operands};
