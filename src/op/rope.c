/* Rotary positions: rows that are rotated by their tokens' positions, as a piece or before a rule (q, k and p). */
#include "op/op.h"
#include "op/options.h"

enum { MOST_ROPE_DIM = 1024 };

static int is_turned(const clattn_plan_desc *desc, const struct rule *rule)
{
    return option_taken(OPTION_rope_dim, desc, rule);
}

/* The number of columns of a row that are rotated */
static int64_t columns_of(const clattn_plan_desc *desc, const struct rule *rule)
{
    return rule->op == OP_PIECE ? desc->value_dim : desc->key_dim;
}

void rope_complete(clattn_plan_desc *desc, const struct rule *rule)
{
    if (!is_turned(desc, rule))
        return;
    if (desc->rope_dim == 0 && columns_of(desc, rule) <= INT32_MAX)
        desc->rope_dim = (int32_t)columns_of(desc, rule);
}

/* Keys that were rotated before, channels that are pairs already, and a sum of weights that could have both signs */
static clattn_status check_flag(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    if (!(desc->flags & CLATTN_WITH_ROPE))
        return CLATTN_SUCCESS;
    if (desc->kv_len != 0 || (desc->flags & CLATTN_CARRY))
        return FAIL(log, INVALID_DESC, "%s: rope with %s, whose keys are kept turned: see the rule rope", rule->name,
                    desc->kv_len != 0 ? "kv_len" : "carry");
    if (desc->flags & CLATTN_COMPLEX)
        return FAIL(log, INVALID_DESC, "%s: rope with complex, whose channels are pairs of their own", rule->name);
    if ((desc->flags & CLATTN_NORMALIZE) && desc->feature_map == CLATTN_FEATURE_IDENTITY)
        return FAIL(log, INVALID_DESC, "%s: rope with normalize, whose weights need a feature_map to be above 0",
                    rule->name);
    return CLATTN_SUCCESS;
}

clattn_status rope_check(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    int64_t columns = columns_of(desc, rule);

    if (!is_turned(desc, rule))
        return CLATTN_SUCCESS;
    TRY(check_flag(desc, rule, log));
    if (desc->rope_dim % 2 != 0)
        return FAIL(log, INVALID_DESC, "rope_dim is %d, expected an even number: columns turn in pairs",
                    (int)desc->rope_dim);
    TRY(check_range(log, "rope_dim", desc->rope_dim, 2, columns < MOST_ROPE_DIM ? columns : MOST_ROPE_DIM));
    if (!(desc->rope_base > 1 && desc->rope_base <= 1e30))
        return FAIL(log, INVALID_DESC, "rope_base is %g, expected above 1 to 1e30", desc->rope_base);
    return CLATTN_SUCCESS;
}
