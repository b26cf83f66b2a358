/* Checks that several families of rules share. */
#include "op/op.h"

clattn_status check_range(const struct log *log, const char *name, int64_t value, int64_t low, int64_t high)
{
    if (value >= low && value <= high)
        return CLATTN_SUCCESS;
    return FAIL(log, INVALID_DESC, "%s is %lld, expected %lld to %lld", name, (long long)value, (long long)low,
                (long long)high);
}

clattn_status check_slots(const clattn_plan_desc *desc, const struct log *log)
{
    if (desc->state_slots != 0 && !(desc->flags & CLATTN_WITH_STATE_INDICES))
        return FAIL(log, INVALID_DESC, "state_slots is %lld without CLATTN_WITH_STATE_INDICES, expected 0",
                    (long long)desc->state_slots);
    return CLATTN_SUCCESS;
}

clattn_status check_pass(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    if (desc->pass == CLATTN_PASS_BACKWARD &&
        (desc->state_window != 0 || desc->state_every != 0 || (desc->flags & CLATTN_WITH_ATTN)))
        return FAIL(log, INVALID_DESC, "%s: the backward pass has no %s", rule->name,
                    desc->flags & CLATTN_WITH_ATTN ? "attn" : "gradients by states on the way");
    if (desc->pass == CLATTN_PASS_BACKWARD && (desc->flags & CLATTN_NORM_OUTPUT))
        return FAIL(log, INVALID_DESC, "%s: the backward pass has no norm: rms_norm has a backward pass of its own",
                    rule->name);
    if (desc->pass != CLATTN_PASS_BACKWARD && desc->added_gradients != 0)
        return FAIL(log, INVALID_DESC, "%s: added_gradients is for the backward pass", rule->name);
    return CLATTN_SUCCESS;
}

clattn_status check_snapshots(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    if (desc->state_window != 0 && desc->state_every != 0)
        return FAIL(log, INVALID_DESC, "state_window is %lld and state_every %lld, expected one of them",
                    (long long)desc->state_window, (long long)desc->state_every);
    if (!(desc->flags & CLATTN_WITH_ACCEPTED))
        return CLATTN_SUCCESS;
    if (desc->state_window == 0)
        return FAIL(log, INVALID_DESC, "%s: accepted without state_window, the number of states of a sequence",
                    rule->name);
    if (!(desc->flags & CLATTN_INITIAL_STATE))
        return FAIL(log, INVALID_DESC, "%s: accepted without initial_state, the states of the previous call",
                    rule->name);
    return CLATTN_SUCCESS;
}

int operands_used(const struct operand_choice *all, size_t count, struct operand_row rows[OPERAND_COUNT])
{
    int used = 0;

    for (size_t i = 0; i < count; i++)
        if (all[i].used && all[i].row.id != NO_OPERAND)
            rows[used++] = all[i].row;
    return used;
}
