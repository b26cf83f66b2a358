/* Token by token, the state in registers: short sequences and decoding. */
#include "plan.h"

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

const struct solver solver_recurrent = {"recurrent", CLATTN_MODE_RECURRENT, add};
