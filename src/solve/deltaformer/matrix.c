/* delta_matrix, delta_team: the same on a matrix engine, for numbers of 16 bits. write_before reads the keys ahead of a
 * span in `splits` parts, as flash_matrix reads a list, and leaves the weights of the span's own keys; write_solve joins
 * the parts and solves the span tile by tile, a group a few value columns. delta_team's sub-groups multiply in teams. */
#include "solve/deltaformer/matrix.h"

enum { TILE = MATRIX_TILE };

struct shape {
    struct deltaformer_matrix_tiles tiles;
    struct kernel_step before, solve;
    struct flash_matrix_shape read;
};

static const struct parameter matrix_parameters[] = {
    PARAMETER_ROW("span", struct deltaformer_matrix_tiles, span, 64, 128, 256, 512, 1024),
    PARAMETER_ROW("splits", struct deltaformer_matrix_tiles, splits, 1, 2, 4, 8, 16),
    PARAMETER_ROW("before.chunk", struct deltaformer_matrix_tiles, before.chunk, 16, 32, 64, 128, 256),
    PARAMETER_ROW("before.keys", struct deltaformer_matrix_tiles, before.keys, 16, 32, 64, 128),
    PARAMETER_ROW("before.step", struct deltaformer_matrix_tiles, before.step, 1, 2, 4),
    PARAMETER_ROW("before.stages", struct deltaformer_matrix_tiles, before.stages, 1, 2, 3),
    PARAMETER_ROW("solve.subs", struct deltaformer_matrix_tiles, solve.subs, 2, 4, 8, 16),
    PARAMETER_ROW("solve.block_v", struct deltaformer_matrix_tiles, solve.block_v, 16, 32, 64, 128),
    PARAMETER_ROW("chunk", struct deltaformer_matrix_tiles, read.chunk, 16, 32, 64, 128, 256),
    PARAMETER_ROW("keys", struct deltaformer_matrix_tiles, read.keys, 16, 32, 64, 128),
    PARAMETERS_END,
};

static const struct parameter team_parameters[] = {
    PARAMETER_ROW("span", struct deltaformer_matrix_tiles, span, 128, 256, 512, 1024),
    PARAMETER_ROW("splits", struct deltaformer_matrix_tiles, splits, 1, 2, 4, 8, 16),
    PARAMETER_ROW("solve.subs", struct deltaformer_matrix_tiles, solve.subs, 2, 4, 8, 16),
    PARAMETER_ROW("solve.block_v", struct deltaformer_matrix_tiles, solve.block_v, 16, 32, 64, 128),
    PARAMETERS_END,
};

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    struct shape *s = shape;

    (void)solver;
    s->tiles = *(const struct deltaformer_matrix_tiles *)tiles;
    s->before = deltaformer_before_step(facts->engine, problem, tiles);
    s->solve = deltaformer_solve_step(facts->engine, problem, tiles);
    TRY(step_fits(&s->before, facts->device));
    TRY(step_fits(&s->solve, facts->device));
    return flash_matrix_derive_shape(facts, problem, &s->tiles.read, &s->read);
}

/* ---- The recipe ---------------------------------------------------------------------------------------------------
 */

/* delta_team's variant. */
static const int by_team = 1;

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    const clattn_plan_desc *desc = &problem->desc;

    return deltaformer_applies(problem) && flash_matrix_applies(facts, problem, solver->variant == &by_team) &&
           desc->write_kernel == CLATTN_WEIGHTS_SOFTMAX &&
           !(desc->flags & (CLATTN_WITH_KV_LENS | CLATTN_CU_SEQLENS_KV)) &&
           (desc->chunk == 0 || solver->variant != &by_team);
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    return deltaformer_choose_tiles(facts, problem, solver->variant == &by_team, tiles);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    (void)problem;
    return flash_matrix_reach(&((const struct shape *)shape)->read);
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    enum { ALIGNED = 16 }; /* floats that the first span's own may begin later */
    const struct shape *s = shape;
    const struct deltaformer_matrix_tiles *t = &s->tiles;
    const struct flash_matrix_tiles *before = &t->before;
    const int64_t values = problem->desc.value_dim;
    /* The span's own keys are worked in groups of their own, or by teams in those of the first part. */
    const int64_t parts = t->splits + !before->team;
    const struct deltaformer_span span = {.before = &s->before,
                                          .solve = &s->solve,
                                          .before_groups =
                                              divide_up(values, before->block_v) * (t->span / before->chunk) * parts,
                                          .solve_groups = divide_up(values, t->solve.block_v),
                                          .part = deltaformer_part_floats(problem, t) + ALIGNED,
                                          .rows = t->span};

    deltaformer_add_spans(b, problem, &span);
    flash_matrix_add(b, problem, &s->read);
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    enum { BEFORE, SOLVE, READ };
    const struct shape *s = shape;
    const struct deltaformer_matrix_tiles *t = &s->tiles;
    const struct flash_matrix_tiles *before = &t->before;

    if (step >= READ) {
        flash_matrix_describe(text, &s->read, step - READ);
        return;
    }
    text_format(text, "group %d, span of %d keys", step == BEFORE ? before->group : t->solve.group, t->span);
    if (step == BEFORE)
        text_format(text, ", chunk %d, keys %d in steps of %d, stages %d, those before in %d parts", before->chunk,
                    before->keys, before->step * TILE, before->stages, t->splits);
    text_format(text, ", value tile %d by %d sub-groups, local %zu bytes\n",
                step == BEFORE ? before->block_v : t->solve.block_v, step == BEFORE ? before->subs : t->solve.subs,
                step == BEFORE ? s->before.local_bytes : s->solve.local_bytes);
}

#define MATRIX_SOLVER                                                                                                  \
    .mode = CLATTN_MODE_CHUNK, .tiles_size = sizeof(struct deltaformer_matrix_tiles),                                  \
    .shape_size = sizeof(struct shape), .applies = applies, .choose_tiles = choose_tiles,                              \
    .derive_shape = derive_shape, .reach = reach, .recipe = recipe, .describe = describe

const struct solver solver_delta_team = {.space = {"delta_team", team_parameters, 1024, 0, 1, 1},
                                         .rank = 850,
                                         .team = TEAM_ALWAYS,
                                         .variant = &by_team,
                                         MATRIX_SOLVER};
const struct solver solver_delta_matrix = {
    .space = {"delta_matrix", matrix_parameters, 1024, 0, 1, 1}, .rank = 840, .team = TEAM_IF_RIGHT, MATRIX_SOLVER};
