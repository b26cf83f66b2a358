/* flash_matrix, flash_team: a list of 16 bits read on a matrix engine. A sub-group has `span` tiles of rows, a row a query
 * of one head, with their queries, m, l and O in registers; the group's sub-groups share the blocks of keys and values in
 * local memory. flash_team's sub-groups multiply in teams, and where decays are added to scores flash_sums sums these
 * first, once for all queries. */
#include "solve/flash/flash.h"

static const struct parameter matrix_parameters[] = {
    PARAMETER_ROW("chunk", struct flash_matrix_tiles, chunk, 16, 32, 64, 128, 256),
    PARAMETER_ROW("span", struct flash_matrix_tiles, span, 1, 2),
    PARAMETER_ROW("keys", struct flash_matrix_tiles, keys, 16, 32, 64, 128),
    PARAMETER_ROW("step", struct flash_matrix_tiles, step, 1, 2, 4),
    PARAMETER_ROW("stages", struct flash_matrix_tiles, stages, 1, 2, 3),
    PARAMETERS_END,
};

static const struct parameter team_parameters[] = {
    PARAMETER_ROW("chunk", struct flash_matrix_tiles, chunk, 64, 128),
    PARAMETER_ROW("step", struct flash_matrix_tiles, step, 2, 4),
    PARAMETER_ROW("stages", struct flash_matrix_tiles, stages, 2, 3),
    PARAMETERS_END,
};

/* flash_team's variant. */
static const int by_team = 1;

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    return problem->rule->erase == ERASE_NONE && flash_matrix_applies(facts, problem, solver->variant == &by_team);
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    return flash_matrix_choose_tiles(facts, problem, solver->variant == &by_team, tiles);
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    (void)solver;
    return flash_matrix_derive_shape(facts, problem, tiles, shape);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    (void)problem;
    return flash_matrix_reach(shape);
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    flash_matrix_add(b, problem, shape);
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    flash_matrix_describe(text, shape, step);
}

#define MATRIX_SOLVER                                                                                                  \
    .mode = CLATTN_MODE_CHUNK, .tiles_size = sizeof(struct flash_matrix_tiles),                                        \
    .shape_size = sizeof(struct flash_matrix_shape), .applies = applies, .choose_tiles = choose_tiles,                 \
    .derive_shape = derive_shape, .reach = reach, .recipe = recipe, .describe = describe

const struct solver solver_flash_team = {.space = {"flash_team", team_parameters, 1024, 0, 1, 1},
                                         .rank = 950,
                                         .team = TEAM_ALWAYS,
                                         .variant = &by_team,
                                         MATRIX_SOLVER};
const struct solver solver_flash_matrix = {
    .space = {"flash_matrix", matrix_parameters, 1024, 0, 1, 1}, .rank = 940, MATRIX_SOLVER};
