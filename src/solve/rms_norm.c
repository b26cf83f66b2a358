/* rms_norm: o = x / sqrt(mean(x^2) + eps) w f(z), x = v, v + d u, or either times silu(z): of each head's row.
 *
 * A group works `chunk` rows of one head: `lanes` work-items share a row, and each has `tokens` of the rows. Its columns
 * of them stay in registers between the sum of squares and the output, unless they are too many: then a row is read
 * twice. */
#include "solve/pieces.h"

enum { MOST_HELD = 4 }; /* vectors that a work-item keeps */

struct rms_norm_tiles {
    int group, vec, block_v, sub_group; /* as in struct columns */
    int chunk, tokens;                  /* tokens of a group, and of a work-item */
    int lanes;                          /* work-items of a row */
};

struct rms_norm_shape {
    struct rms_norm_tiles tiles;
    struct kernel_step step;
};

static const struct parameter parameters[] = {
    PARAMETER_ROW("vec", struct rms_norm_tiles, vec, 4, 16),
    PARAMETER_ROW("group", struct rms_norm_tiles, group, 1, 32, 64, 128, 256),
    PARAMETER_ROW("chunk", struct rms_norm_tiles, chunk, 1, 4, 16, 32, 64, 128, 256),
    PARAMETERS_END,
};

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts;
    return problem->rule->op == OP_PIECE && problem->rule->piece == PIECE_RMS_NORM;
}

/* Vectors of a row that a work-item keeps between its sum and its output; 0 where they are too many, or near anyway. */
static int held_of(const struct rms_norm_tiles *t, int values)
{
    const int vectors = (int)divide_up(values, (int64_t)t->lanes * t->vec);

    return t->group > 1 && vectors <= MOST_HELD ? vectors : 0;
}

/* Work-items of a row: as many as read a line of memory together, and more where these could not keep it. Rows of a
 * work-item: as many as it keeps. */
static void by_heuristic(const struct device_facts *facts, const struct problem *problem, struct rms_norm_tiles *t)
{
    enum { SERIAL_ROWS = 64, LINE = 8 };
    const int values = problem_values(problem);
    int held;

    for (t->lanes = 1; 2 * t->lanes <= t->group; t->lanes *= 2) {
        const int wide = t->lanes * t->vec;
        if ((t->lanes >= LINE || 2 * wide > values) && values <= MOST_HELD * wide)
            break;
    }
    held = held_of(t, values);
    for (t->tokens = 1; held > 0 && 2 * t->tokens * held <= MOST_HELD;)
        t->tokens *= 2;
    t->chunk = is_serial(facts) ? SERIAL_ROWS : t->tokens * t->group / t->lanes;
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    struct rms_norm_tiles *t = tiles, given = *t;
    struct columns columns = piece_columns(facts, problem);

    (void)solver;
    *t = (struct rms_norm_tiles){columns.group, columns.vec, columns.block_v, columns.sub_group, 0, 0, 0};
    by_heuristic(facts, problem, t);
    columns_complete(&columns, given.group, given.vec);
    t->group = columns.group;
    t->vec = columns.vec;
    t->block_v = columns.block_v;
    if (given.chunk != TILE_OPEN)
        t->chunk = given.chunk;
    t->tokens = lower(t->tokens, t->chunk);
    t->lanes = lower(t->lanes, t->group);
    return t->chunk % t->tokens == 0 && group_fits(facts, t->group) && t->group % t->lanes == 0 &&
                   t->chunk * t->lanes % t->group == 0
               ? CLATTN_SUCCESS
               : CLATTN_UNSUPPORTED;
}

static void add_gating(struct kernel_step *step, const clattn_plan_desc *desc)
{
    const int gated = (desc->flags & CLATTN_WITH_Z) != 0;

    step_constant(step, "GATED_BEFORE", gated && desc->gating == CLATTN_GATING_BEFORE);
    step_constant(step, "GATED_AFTER", gated && desc->gating == CLATTN_GATING_AFTER);
    step_constant(step, "GATED_SIGMOID", gated && desc->gating == CLATTN_GATING_SIGMOID);
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    struct rms_norm_shape *s = shape;
    const struct rms_norm_tiles *t = tiles;
    const struct columns columns = {t->group, t->vec, t->block_v, t->sub_group};

    (void)solver;
    s->tiles = *t;
    s->step = piece_step(FILE_rms_norm, problem, &columns, t->chunk);
    step_constant(&s->step, "LANES", t->lanes);
    step_constant(&s->step, "ROWS", t->tokens);
    step_constant(&s->step, "HELD", held_of(t, problem_values(problem)));
    step_constant(&s->step, "HAS_WEIGHTS", problem->desc.weighting != CLATTN_WEIGHTING_NONE);
    step_constant(&s->step, "CENTERED", (problem->desc.flags & CLATTN_CENTERED) != 0);
    step_constant(&s->step, "EPS_OUTSIDE", (problem->desc.flags & CLATTN_EPS_OUTSIDE) != 0);
    step_constant(&s->step, "HAS_D", (problem->desc.flags & CLATTN_WITH_D) != 0);
    add_gating(&s->step, &problem->desc);
    step_local(&s->step, "LOCAL_SUMS", (int64_t)t->group * t->tokens, sizeof(float));
    return step_fits(&s->step, facts->device);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    const struct rms_norm_shape *s = shape;

    (void)problem;
    return (struct reach){.chunk = s->tiles.chunk, .parts = 1};
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct rms_norm_shape *s = shape;

    piece_add(b, &s->step, s->tiles.chunk, problem_work_heads(problem), 1, 0);
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct rms_norm_shape *s = shape;
    const struct columns columns = {s->tiles.group, s->tiles.vec, s->tiles.block_v, s->tiles.sub_group};

    (void)step;
    piece_describe(text, &columns, s->tiles.chunk, s->tiles.tokens, s->step.local_bytes);
}

const struct solver solver_rms_norm = {
    .space = {"rms_norm", parameters, 1024, 0, 0, 1},
    .mode = CLATTN_MODE_RECURRENT,
    .tiles_size = sizeof(struct rms_norm_tiles),
    .shape_size = sizeof(struct rms_norm_shape),
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
