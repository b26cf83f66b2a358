#include "tune/tiles.h"

#include <stdlib.h>
#include <string.h>

/* A solver's tiles, put at the beginning. */
static int module_tiles(const struct solver *solver, const struct device_facts *facts, const struct problem *problem,
                        const struct tuned *tuned, struct tiles tiles[KERNEL_COUNT])
{
    void *shape = calloc(1, solver->shape_size);
    int fits = shape != NULL && solver->tiles_size <= KERNEL_COUNT * sizeof *tiles &&
               solver_fits(solver, facts, problem, tuned, tiles, shape) == CLATTN_SUCCESS;

    free(shape);
    return fits;
}

int tuning_point_tiles(const clattn_context *context, const struct problem *problem, const struct tuned *tuned,
                       struct tiles tiles[KERNEL_COUNT])
{
    enum { MOST_GROUP = 256 };
    const struct device_facts facts = {.device = &context->device,
                                       .engine = context->engine,
                                       .most_group = lower(MOST_GROUP, (int64_t)context->device.info.max_work_group)};
    const struct solver *solver = solver_find(tuned->space->name);

    memset(tiles, 0, KERNEL_COUNT * sizeof *tiles);
    if (tuned->space->engine && context->engine == NULL)
        return 0;
    return module_tiles(solver, &facts, problem, tuned, tiles);
}
