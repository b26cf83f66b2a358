/* The solver of a part of a recipe: the first in the list that can compute it, of the problem's mode if one of that mode
 * can. */
#include "solve/solve.h"

static clattn_status build_of_mode(struct builder *b, const struct problem *problem, clattn_mode mode)
{
    clattn_status status = CLATTN_UNSUPPORTED;

    for (int i = 0; b->solvers[i] != NULL && status == CLATTN_UNSUPPORTED; i++)
        if (mode == CLATTN_MODE_AUTO || b->solvers[i]->mode == mode)
            status = build_child(b, b->solvers[i], problem);
    return status;
}

clattn_status build_problem(struct builder *b, const struct problem *problem)
{
    const clattn_status status = build_of_mode(b, problem, problem->desc.mode);

    return status == CLATTN_UNSUPPORTED ? build_of_mode(b, problem, CLATTN_MODE_AUTO) : status;
}
