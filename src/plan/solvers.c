/* Channels; and what is added behind solvers of lists. */
#include "plan/recipe.h"

#include <string.h>

/* ---- Elements of the state by themselves, stretches of tokens at once ----------------------------------------------
 */

static clattn_status make_of_channels(const struct recipe_maker *maker, enum kernel_id kernel)
{
    const struct variant channels = maker_variant(maker, kernel);

    if (maker->problem->desc.state_window != 0 || maker->problem->desc.state_every != 0)
        return CLATTN_UNSUPPORTED;
    return maker_add(maker, &channels, GRID_SEQUENCES, NULL);
}

static clattn_status make_channels_lanes(const struct recipe_maker *maker)
{
    return make_of_channels(maker, KERNEL_CHANNELS_LANES);
}

static clattn_status make_channels(const struct recipe_maker *maker)
{
    return make_of_channels(maker, KERNEL_CHANNELS);
}

const struct old_solver old_channels_lanes = {"channels_lanes", make_channels_lanes};
const struct old_solver old_channels = {"channels", make_channels};

static const struct old_solver *old_find(const struct solver *solver)
{
    static const struct old_solver *const all[] = {&old_channels_lanes, &old_channels, &old_delta, &old_delta_matrix,
                                                   &old_delta_team};
    int i = 0;

    if (solver->variant != NULL)
        return solver->variant;
    while (strcmp(all[i]->name, solver->space.name) != 0)
        i++;
    return all[i];
}

/* The attention matrix of values that are made launch by launch is the reference's alone. */
clattn_status solver_make(const struct solver *solver, const struct recipe_maker *maker)
{
    if (rule_has_list(maker->problem->rule) && (maker->problem->desc.flags & CLATTN_WITH_ATTN))
        return CLATTN_UNSUPPORTED;
    return old_find(solver)->make(maker);
}
