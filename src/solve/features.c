/* features: feature maps of queries or keys for linear attention: FAVOR+, random Fourier features, Hedgehog.
 *
 * A group works `chunk` rows of one head: it projects them on all of omega, which its rows share, then writes the
 * features; a work-item projects `tokens` of the rows at once. */
#include "solve/pieces.h"

enum { STATS = 3 }; /* numbers that the work-items of a row share */

struct features_tiles {
    int group, vec, block_v, sub_group; /* as in struct columns */
    int chunk, tokens;                  /* tokens of a group, and of a work-item */
};

struct features_shape {
    struct features_tiles tiles;
    struct kernel_step step;
};

static const struct parameter parameters[] = {
    PARAMETER_ROW("vec", struct features_tiles, vec, 4, 16),
    PARAMETER_ROW("group", struct features_tiles, group, 1, 32, 64, 128, 256),
    PARAMETER_ROW("chunk", struct features_tiles, chunk, 1, 4, 16, 32, 64, 128, 256),
    PARAMETERS_END,
};

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts;
    return problem->rule->op == OP_PIECE && problem->rule->piece == PIECE_FEATURES;
}

/* Projections of a row. */
static int64_t projections_of(const clattn_plan_desc *desc)
{
    return desc->features == CLATTN_FEATURES_FAVOR ? desc->key_dim : desc->key_dim / 2;
}

/* Bytes of local memory of so many rows. */
static int64_t local_bytes(const clattn_plan_desc *desc, int rows)
{
    return rows * (projections_of(desc) + STATS) * (int64_t)sizeof(float);
}

/* Rows of a work-item share what it reads of omega. */
static void by_heuristic(const struct device_facts *facts, const struct problem *problem, struct features_tiles *t)
{
    enum { RUN = 4, ROWS = 16 };
    const int few = problem->desc.seq_len < RUN;

    t->tokens = few ? 1 : RUN;
    t->chunk = few ? 1 : ROWS;
    while (t->chunk > t->tokens && local_bytes(&problem->desc, t->chunk) > (int64_t)facts->device->info.local_memory)
        t->chunk /= 2;
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    struct features_tiles *t = tiles, given = *t;
    struct columns columns = piece_columns(facts, problem);

    (void)solver;
    *t = (struct features_tiles){columns.group, columns.vec, columns.block_v, columns.sub_group, 0, 0};
    by_heuristic(facts, problem, t);
    columns_complete(&columns, given.group, given.vec);
    t->group = columns.group;
    t->vec = columns.vec;
    t->block_v = columns.block_v;
    if (given.chunk != TILE_OPEN)
        t->chunk = given.chunk;
    t->tokens = lower(t->tokens, t->chunk);
    return t->chunk % t->tokens == 0 && group_fits(facts, t->group) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    struct features_shape *s = shape;
    const struct features_tiles *t = tiles;
    const struct columns columns = {t->group, t->vec, t->block_v, t->sub_group};
    const int64_t projections = projections_of(&problem->desc);

    (void)solver;
    s->tiles = *t;
    s->step = piece_step(FILE_features, problem, &columns, t->chunk);
    step_constant(&s->step, "M", projections);
    step_constant(&s->step, "RUN", t->tokens);
    step_constant(&s->step, "IS_FAVOR", problem->desc.features == CLATTN_FEATURES_FAVOR);
    step_constant(&s->step, "IS_RFA", problem->desc.features == CLATTN_FEATURES_RFA);
    step_constant(&s->step, "IS_HEDGEHOG", problem->desc.features == CLATTN_FEATURES_HEDGEHOG);
    step_constant(&s->step, "OF_QUERIES", (problem->desc.flags & CLATTN_OF_QUERIES) != 0);
    step_local(&s->step, "LOCAL_PROJECTIONS", t->chunk * projections, sizeof(float));
    step_local(&s->step, "LOCAL_STATS", (int64_t)t->chunk * STATS, sizeof(float));
    return step_fits(&s->step, facts->device);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    const struct features_shape *s = shape;

    (void)problem;
    return (struct reach){.chunk = s->tiles.chunk, .parts = 1};
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct features_shape *s = shape;

    piece_add(b, &s->step, s->tiles.chunk, problem_work_heads(problem), 1, 0);
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct features_shape *s = shape;
    const struct columns columns = {s->tiles.group, s->tiles.vec, s->tiles.block_v, s->tiles.sub_group};

    (void)step;
    piece_describe(text, &columns, s->tiles.chunk, s->tiles.tokens, s->step.local_bytes);
}

const struct solver solver_features = {
    .space = {"features", parameters, 1024, 0, 0, 1},
    .mode = CLATTN_MODE_RECURRENT,
    .tiles_size = sizeof(struct features_tiles),
    .shape_size = sizeof(struct features_shape),
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
