/* The solver of a part of a recipe: the first in the list that can compute it, of the problem's mode if one of that mode
 * can. */
#include "solve/solve.h"

/* Kernels whose work-items share a tile do not suit Intel GPUs yet: states and prepare_blocks use private memory there,
 * whose cost has not been measured. A solver that uses a matrix engine suits wherever there is one. */
int solver_suits(const struct solver *solver, const struct device *device, const struct engine *engine)
{
    return (solver->space.engine && engine != NULL) || !solver->shared || (!device->serial && device->sub_group == 0);
}

static clattn_status build_of_mode(struct builder *b, const struct problem *problem, clattn_mode mode)
{
    clattn_status status = CLATTN_UNSUPPORTED;

    for (int i = 0; b->solvers[i] != NULL && status == CLATTN_UNSUPPORTED; i++)
        if ((mode == CLATTN_MODE_AUTO || b->solvers[i]->mode == mode) &&
            solver_suits(b->solvers[i], b->facts->device, b->facts->engine))
            status = build_child(b, b->solvers[i], problem);
    return status;
}

clattn_status build_problem(struct builder *b, const struct problem *problem)
{
    const clattn_status status = build_of_mode(b, problem, problem->desc.mode);

    return status == CLATTN_UNSUPPORTED ? build_of_mode(b, problem, CLATTN_MODE_AUTO) : status;
}
