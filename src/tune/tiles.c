#include "tune/tiles.h"

#include <stdlib.h>
#include <string.h>

/* Writes what tuned says of this kernel; returns how many fields. */
static int apply(const struct tuned *tuned, struct variant *variant)
{
    const struct parameter *parameter = tuned->space->parameters;
    int count = 0;

    for (int i = 0; parameter[i].name != NULL; i++) {
        if (tuned->values[i] == BY_THUMB || !(parameter[i].kernels >> variant->kernel & 1))
            continue;
        memcpy((char *)&variant->tiles + parameter[i].field, &tuned->values[i], sizeof(int));
        count++;
    }
    return count;
}

clattn_status tuning_tiles(const struct device *device, const struct tuned *tuned, struct variant *variant,
                           int most_group)
{
    const struct family *family = kernel_family(variant->kernel);

    if ((family->needs_engine && variant->engine == NULL) || !kernel_takes(variant->kernel, variant->problem->rule))
        return CLATTN_UNSUPPORTED;
    TRY(family->heuristic(device, variant, most_group));
    return tuned != NULL && apply(tuned, variant) > 0 ? family->complete(device, variant) : CLATTN_SUCCESS;
}

/* The same of a solver of src/solve, whose tiles are put at the beginning. */
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
    uint64_t kernels = space_kernels(tuned->space);

    memset(tiles, 0, KERNEL_COUNT * sizeof *tiles);
    if (tuned->space->engine && context->engine == NULL)
        return 0;
    if (!solver->old)
        return module_tiles(solver, &facts, problem, tuned, tiles);
    for (int id = 0; id < KERNEL_COUNT; id++) {
        struct variant variant = {
            .kernel = (enum kernel_id)id, .problem = problem, .engine = tuned->space->engine ? context->engine : NULL};
        if (!(kernels >> id & 1))
            continue;
        if (tuning_tiles(&context->device, tuned, &variant, MOST_GROUP) != CLATTN_SUCCESS)
            return 0;
        tiles[id] = variant.tiles;
    }
    return 1;
}
