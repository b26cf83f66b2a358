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

static void set_default(int64_t *field, int64_t value)
{
    if (*field == 0)
        *field = value;
}

void learner_complete_kinds(clattn_plan_desc *desc, const struct rule *rule)
{
    if (desc->loss == CLATTN_LOSS_RULE)
        desc->loss = rule->default_loss;
    if (desc->readout == CLATTN_READOUT_RULE)
        desc->readout = rule->default_readout;
}

static void complete(clattn_plan_desc *desc, const struct rule *rule)
{
    enum { LARGE = 2048, SMALL = 16, WIDER = 4 };
    const int lact = rule->model == MODEL_GATED;

    const int64_t width =
        desc->key_dim > 0 && desc->key_dim <= MAX_LENGTH ? desc->key_dim : 1; /* it is not checked yet */

    if (rule->model != MODEL_LINEAR)
        set_default(&desc->hidden_dim, rule->model == MODEL_MLP ? WIDER * width : width);
    if (desc->mini_batch == 0)
        desc->mini_batch = lact ? LARGE : SMALL;
    learner_complete_kinds(desc, rule);
}

/* eta is a factor of the steps since the batch's first, so that there is nothing that goes on from token to token. */
static clattn_status check_eta(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    const char *other = desc->flags & CLATTN_WITH_ALPHA      ? "with_alpha"
                        : desc->flags & CLATTN_WITH_MOMENTUM ? "with_momentum"
                        : desc->flags & CLATTN_WITH_GAMMA    ? "with_gamma"
                        : desc->omega > 1                    ? "omega"
                        : desc->muon != CLATTN_MUON_NONE     ? "muon"
                                                             : NULL;

    if (!(desc->flags & CLATTN_WITH_ETA) || other == NULL)
        return CLATTN_SUCCESS;
    return FAIL(log, INVALID_DESC, "%s: with_eta with %s: eta is a factor of all steps of a batch", rule->name, other);
}

int learner_has_norm(const clattn_plan_desc *desc)
{
    return desc->loss == CLATTN_LOSS_LN || desc->readout == CLATTN_READOUT_Z || desc->readout == CLATTN_READOUT_Q;
}

static clattn_status check_trained(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    const int compares = desc->loss == CLATTN_LOSS_LN, adds = desc->readout == CLATTN_READOUT_Q;

    if ((compares || adds) && desc->key_dim != desc->value_dim)
        return FAIL(log, INVALID_DESC, "%s: value_dim is %lld, expected key_dim %lld with %s", rule->name,
                    (long long)desc->value_dim, (long long)desc->key_dim,
                    compares ? "loss ln, which learns v - k" : "readout q, which adds q to LN(z)");
    return check_eta(desc, rule, log);
}

static clattn_status check(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    if (desc->qk_heads != desc->heads || desc->kv_heads != desc->heads)
        return FAIL(log, INVALID_DESC, "%s: qk_heads is %lld, kv_heads %lld, expected heads %lld: none are shared",
                    rule->name, (long long)desc->qk_heads, (long long)desc->kv_heads, (long long)desc->heads);
    if (rule->model == MODEL_GATED)
        return check_range(log, "hidden_dim", desc->hidden_dim, 1, MAX_DIM);
    return check_trained(desc, rule, log);
}

static int lact_operands(const clattn_plan_desc *desc, struct operand_row rows[OPERAND_COUNT])
{
    const struct operand_choice all[] = {
        {1, ROW(OP(LR0), "BTH", STORE_GATE, SPEED)},
        {1, ROW(OP(LR1), "BTH", STORE_GATE, SPEED)},
        {1, ROW(OP(LR2), "BTH", STORE_GATE, SPEED)},
        {(desc->flags & CLATTN_WITH_MOMENTUM) != 0, ROW(OP(MOMENTUM), "BTH", STORE_GATE, STRENGTH)},
    };

    return operands_used(all, sizeof all / sizeof *all, rows);
}

static int trained_operands(const clattn_plan_desc *desc, const struct rule *rule,
                            struct operand_row rows[OPERAND_COUNT])
{
    const int eta = rule->rates == RATES_ETA || (desc->flags & CLATTN_WITH_ETA);
    const int theta = rule->rates == RATES_THETA || (desc->flags & CLATTN_WITH_THETA);
    const int normed = learner_has_norm(desc);
    const struct operand_choice all[] = {
        {theta, ROW(OP(THETA), "BTH", STORE_GATE, SPEED)},
        {eta, ROW(OP(ETA), "BTH", STORE_GATE, SPEED)},
        {(desc->flags & CLATTN_WITH_ALPHA) != 0, ROW(OP(ALPHA), "BTH", STORE_GATE, SHARE)},
        {(desc->flags & CLATTN_WITH_MOMENTUM) != 0, ROW(OP(MOMENTUM), "BTH", STORE_GATE, SHARE)},
        {(desc->flags & CLATTN_WITH_GAMMA) != 0, ROW(OP(GAMMA), "BTH", STORE_GATE, SHARE)},
        {normed, ROW(OP(LN_WEIGHT), "HV", STORE_STATE, STRENGTH)},
        {normed, ROW(OP(LN_BIAS), "HV", STORE_STATE, BONUS)},
    };

    return operands_used(all, sizeof all / sizeof *all, rows);
}

static int operands(const clattn_plan_desc *desc, const struct rule *rule, struct operand_row rows[OPERAND_COUNT])
{
    const struct operand_choice shared[] = {
        {1, ROW(OP(Q), "BTHK", STORE_DATA, KEY)},
        {1, ROW(OP(K), "BTHK", STORE_DATA, KEY)},
        {1, ROW(OP(V), "BTHV", STORE_DATA, VALUE)},
        {1, ROW(OP(O), "BTHV", STORE_DATA, WRITTEN)},
        {(desc->flags & CLATTN_WITH_POSITION) != 0, ROW(OP(POSITION), "N", STORE_LENGTH, POSITIONS)},
    };
    int count = operands_used(shared, sizeof shared / sizeof *shared, rows);

    count +=
        rule->model == MODEL_GATED ? lact_operands(desc, rows + count) : trained_operands(desc, rule, rows + count);
    return count + state_operands(desc, rule, rows + count);
}

const struct op op_learner = {MAX_DIM, complete, check, operands};
