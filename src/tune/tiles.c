#include "tune/tiles.h"

#include <stdlib.h>
#include <string.h>

int tuning_point_tiles(const clattn_context *context, const struct problem *problem, const struct tuned *tuned,
                       struct point_tiles *tiles)
{
    enum { MOST_GROUP = 256 };
    const struct device_facts facts = {.device = &context->device,
                                       .engine = context->engine,
                                       .most_group = lower(MOST_GROUP, (int64_t)context->device.info.max_work_group)};
    const struct solver *solver = solver_find(tuned->space->name);
    void *shape;
    int fits;

    memset(tiles, 0, sizeof *tiles);
    if (tuned->space->engine && context->engine == NULL)
        return 0;
    shape = calloc(1, solver->shape_size);
    fits = shape != NULL && solver->tiles_size <= sizeof *tiles &&
           solver_fits(solver, &facts, problem, tuned, tiles, shape) == CLATTN_SUCCESS;
    free(shape);
    return fits;
}
