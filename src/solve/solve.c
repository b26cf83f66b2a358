#include "solve/solve.h"

#include <stdlib.h>
#include <string.h>

/* Whether the steps around a solver can be computed for the problem. */
static clattn_status around_fits(const struct problem *problem)
{
    return problem_reads_whole(problem) && problem_state_type(problem) != CLATTN_F32 ? CLATTN_UNSUPPORTED
                                                                                     : CLATTN_SUCCESS;
}

int group_fits(const struct device_facts *facts, int group)
{
    return group >= 1 && (size_t)group <= facts->device->info.max_work_group && (group == 1 || !facts->device->serial);
}

int64_t product_turns(int group, int vec, int64_t m, int64_t n, int64_t depth)
{
    const int64_t blocks = divide_up(m * n, vec), rows = blocks >= 4 * group ? 4 : blocks >= 2 * group ? 2 : 1;

    return divide_up(blocks, rows * group) * (depth + 1);
}

clattn_status solver_tiles(const struct solver *solver, const struct device_facts *facts, const struct problem *problem,
                           const struct tuned *tuned, void *tiles)
{
    if ((problem->pass == PASS_ATTENTION && !solver->units) ||
        (problem->pass == PASS_TRANSITION && !solver->transitions) ||
        (problem->leaves_erased && !solver->leaves_erased) || (problem_is_backward(problem) && !solver->backward))
        return CLATTN_UNSUPPORTED;
    if (!solver->applies(solver, facts, problem))
        return CLATTN_UNSUPPORTED;
    TRY(around_fits(problem));
    tuned_tiles(tuned, tiles, solver->tiles_size);
    return solver->choose_tiles(solver, facts, problem, tiles);
}

clattn_status solver_fits(const struct solver *solver, const struct device_facts *facts, const struct problem *problem,
                          const struct tuned *tuned, void *tiles, void *shape)
{
    memset(shape, 0, solver->shape_size);
    TRY(solver_tiles(solver, facts, problem, tuned, tiles));
    return solver->derive_shape(solver, facts, problem, tiles, shape);
}

int solver_can(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    void *tiles = calloc(1, solver->tiles_size), *shape = calloc(1, solver->shape_size);
    const int can =
        tiles != NULL && shape != NULL && solver_fits(solver, facts, problem, NULL, tiles, shape) == CLATTN_SUCCESS;

    free(tiles);
    free(shape);
    return can;
}

struct tuned solver_explicit(const struct solver *solver, const void *tiles)
{
    struct tuned tuned = tuned_default(&solver->space);
    const struct parameter *parameters = solver->space.parameters;

    for (int i = 0; parameters[i].name != NULL; i++) {
        int value = ((const int *)tiles)[parameters[i].field / sizeof(int)];
        tuned.values[i] = parameter_has(&parameters[i], value) ? value : BY_HEURISTIC;
    }
    return tuned;
}
