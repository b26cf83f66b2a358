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

int operands_used(const struct operand_choice *all, size_t count, struct operand_row rows[OPERAND_COUNT])
{
    int used = 0;

    for (size_t i = 0; i < count; i++)
        if (all[i].used && all[i].row.id != NO_OPERAND)
            rows[used++] = all[i].row;
    return used;
}
