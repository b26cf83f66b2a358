/* The solver of a part of a recipe: the first in the list that can compute it. */
#include "solve/solve.h"

clattn_status build_problem(struct builder *b, const struct problem *problem)
{
    clattn_status status = CLATTN_UNSUPPORTED;

    for (int i = 0; b->solvers[i] != NULL && status == CLATTN_UNSUPPORTED; i++)
        status = build_child(b, b->solvers[i], problem);
    return status;
}
