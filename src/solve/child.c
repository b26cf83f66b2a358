/* A child: a solver whose steps are part of a recipe. */
#include "solve/solve.h"

#include <stdlib.h>
#include <string.h>

static struct child *new_child(struct builder *b, const struct solver *solver)
{
    struct child *child = &b->built->children[b->built->child_count];

    if (b->built->child_count == BUILDER_CHILDREN)
        return NULL;
    b->built->child_count++;
    *child = (struct child){.solver = solver,
                            .tiles = calloc(1, solver->tiles_size),
                            .shape = calloc(1, solver->shape_size),
                            .first = b->ir->step_count};
    return child->tiles != NULL && child->shape != NULL ? child : NULL;
}

/* The tiles of the child with the same number in the plan `like`, or NULL. */
static const void *tiles_of_like(const struct builder *b, const struct child *child)
{
    const int number = (int)(child - b->built->children);

    return b->like != NULL && number < b->like->child_count && b->like->children[number].solver == child->solver
               ? b->like->children[number].tiles
               : NULL;
}

static void drop_child(struct builder *b)
{
    struct child *child = &b->built->children[--b->built->child_count];

    free(child->tiles);
    free(child->shape);
}

/* Whether the device leaves loops of a kernel before they are at their end. */
static int leaves_loops(const struct builder *b, const struct child *child)
{
    const int64_t most = b->facts->device->loop_turns;

    return most != 0 && child->solver->turns != NULL && child->solver->turns(b->problem, child->shape) > most;
}

/* Chooses the child's tiles and derives its shape. */
static clattn_status fit_child(const struct builder *b, struct child *child, const void *tiles)
{
    const struct solver *solver = child->solver;

    if (tiles == NULL)
        tiles = tiles_of_like(b, child);
    if (tiles != NULL)
        memcpy(child->tiles, tiles, solver->tiles_size);
    else
        TRY(solver_tiles(solver, b->facts, b->problem, NULL, child->tiles));
    TRY(solver->derive_shape(solver, b->facts, b->problem, child->tiles, child->shape));
    return leaves_loops(b, child) ? CLATTN_UNSUPPORTED : CLATTN_SUCCESS;
}

clattn_status build_solver(struct builder *b, const struct solver *solver, const void *tiles)
{
    struct child *child = new_child(b, solver);
    clattn_status status = child != NULL ? fit_child(b, child, tiles) : CLATTN_OUT_OF_MEMORY;

    if (status == CLATTN_UNSUPPORTED) /* another solver may succeed */
        drop_child(b);
    TRY(status);
    TRY(solver->recipe(b, b->problem, child->shape));
    child->count = b->ir->step_count - child->first;
    return CLATTN_SUCCESS;
}

clattn_status build_child(struct builder *b, const struct solver *solver, const struct problem *problem)
{
    const struct problem *outside = b->problem;
    const int names = b->name_count;
    clattn_status status;

    b->problem = problem;
    status = build_solver(b, solver, NULL);
    b->problem = outside;
    b->name_count = names;
    return status;
}
