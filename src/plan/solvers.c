/* What is added behind solvers of lists. */
#include "plan/recipe.h"

#include <string.h>

/* ---- The attention matrix beside the outputs: what unit vectors become --------------------------------------------
 */

/* KERNEL_COUNT: the rule's values are made by others, launch by launch. */
static enum kernel_id attn_kernel(const struct problem *problem)
{
    if (problem->desc.flags & CLATTN_ABSOLUTE)
        return KERNEL_FLASH;
    return problem->rule->erase == ERASE_POSITION ? KERNEL_FLASH_PATH : KERNEL_COUNT;
}

static clattn_status add_attn(const struct recipe_maker *maker)
{
    enum kernel_id kernel = attn_kernel(maker->problem);
    struct variant variant = maker_variant(maker, kernel);
    int turned = kernel == KERNEL_FLASH_PATH;

    variant.attn = 1;
    if (kernel == KERNEL_COUNT || (turned && recipe_first(maker->recipe)->variant.kernel != KERNEL_PREPARE_PATH))
        return CLATTN_UNSUPPORTED;
    return maker_add(maker, &variant, GRID_SLOTS, NULL);
}

/* ---- Keys that are carried to the end when all has been read ------------------------------------------------------
 */

static clattn_status add_fold(const struct recipe_maker *maker)
{
    const struct variant fold = maker_variant(maker, KERNEL_FOLD_PATH);

    return maker_add(maker, &fold, GRID_KEY_SLOTS, NULL);
}

static const struct old_solver *old_find(const struct solver *solver)
{
    static const struct old_solver *const all[] = {&old_path, &old_path_matrix, &old_path_team};
    int i = 0;

    if (solver->variant != NULL)
        return solver->variant;
    while (strcmp(all[i]->name, solver->space.name) != 0)
        i++;
    return all[i];
}

clattn_status solver_make(const struct solver *solver, const struct recipe_maker *maker)
{
    TRY(old_find(solver)->make(maker));
    return solver_make_behind(maker);
}

int solver_has_behind(const struct problem *problem)
{
    return rule_has_list(problem->rule) && problem->rule->erase != ERASE_NONE &&
           (problem->desc.flags & (CLATTN_WITH_ATTN | CLATTN_CARRY)) != 0;
}

clattn_status solver_make_behind(const struct recipe_maker *maker)
{
    if (maker->problem->desc.flags & CLATTN_WITH_ATTN)
        TRY(add_attn(maker));
    return maker->problem->desc.flags & CLATTN_CARRY ? add_fold(maker) : CLATTN_SUCCESS;
}
