/* Token by token, the state in registers: short sequences and decoding. */
#include "plan/plan.h"

static clattn_status add(struct clattn_plan *plan, int most_group, struct text *description)
{
    struct pass passes[2];
    int count = plan_passes(plan, passes);

    for (int i = 0; i < count; i++) {
        struct variant variant = plan_variant(plan, KERNEL_RECURRENT, passes[i]);
        TRY(plan_add(plan, &variant, passes[i], GRID_SEQUENCES, most_group, description));
    }
    return CLATTN_SUCCESS;
}

/* clang-format off */
static const struct parameter parameters[] = {
    {"vec",     1 << KERNEL_RECURRENT, offsetof(struct tiles, vec),     {4, 16, BY_THUMB}},
    {"lanes_k", 1 << KERNEL_RECURRENT, offsetof(struct tiles, lanes_k), {1, 2, 4, 8, 16, 32, BY_THUMB}},
    {"block_v", 1 << KERNEL_RECURRENT, offsetof(struct tiles, block_v), {4, 8, 16, 32, 64, 128, BY_THUMB}},
    {NULL, 0, 0, {BY_THUMB}},
};
/* clang-format on */

const struct solver solver_recurrent = {"recurrent", CLATTN_MODE_RECURRENT, add, parameters, 32};
