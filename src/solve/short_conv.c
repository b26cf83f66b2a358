/* short_conv: o = act(sum over the taps of w v + bias) + v, a causal convolution of each channel.
 *
 * A group works `chunk` tokens of a head and `block_v` of its columns, a work-item `tokens` of the tokens, so that tokens
 * share the loads of weights and of the tokens before. */
#include "solve/pieces.h"

struct short_conv_tiles {
    int group, vec, block_v, sub_group; /* as in struct columns */
    int chunk, tokens;                  /* tokens of a group, and of a work-item */
};

struct short_conv_shape {
    struct short_conv_tiles tiles;
    struct kernel_step step;
    int64_t value_groups;
};

static const struct parameter parameters[] = {
    PARAMETER_ROW("vec", struct short_conv_tiles, vec, 4, 16),
    PARAMETER_ROW("group", struct short_conv_tiles, group, 1, 32, 64, 128, 256),
    PARAMETER_ROW("chunk", struct short_conv_tiles, chunk, 1, 4, 16, 32, 64, 128, 256),
    PARAMETERS_END,
};

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts;
    return problem->rule->op == OP_PIECE && problem->rule->piece == PIECE_SHORT_CONV;
}

/* Tokens of a work-item: as many as share the loads of weights and of the tokens before. */
static void by_heuristic(const struct device_facts *facts, const struct problem *problem, struct short_conv_tiles *t)
{
    enum { FEW = 8, RUN = 16, SERIAL_RUN = 128 };
    const int few = problem->desc.seq_len <= FEW, serial = is_serial(facts);

    t->tokens = few ? FEW : serial ? SERIAL_RUN : RUN;
    t->chunk = few ? FEW : t->tokens * (serial ? 1 : (int)divide_up(t->group, t->block_v / t->vec));
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    struct short_conv_tiles *t = tiles, given = *t;
    struct columns columns = piece_columns(facts, problem);

    (void)solver;
    *t = (struct short_conv_tiles){columns.group, columns.vec, columns.block_v, columns.sub_group, 0, 0};
    by_heuristic(facts, problem, t);
    columns_complete(&columns, given.group, given.vec);
    t->group = columns.group;
    t->vec = columns.vec;
    t->block_v = columns.block_v;
    if (given.chunk != TILE_OPEN)
        t->chunk = given.chunk;
    t->tokens = lower(t->tokens, t->chunk);
    return t->chunk % t->tokens == 0 && t->tokens >= problem->desc.taps && group_fits(facts, t->group)
               ? CLATTN_SUCCESS
               : CLATTN_UNSUPPORTED;
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    struct short_conv_shape *s = shape;
    const struct short_conv_tiles *t = tiles;
    const struct columns columns = {t->group, t->vec, t->block_v, t->sub_group};

    (void)solver;
    s->tiles = *t;
    s->step = piece_step(FILE_short_conv, problem, &columns, t->chunk);
    s->value_groups = divide_up(problem_values(problem), t->block_v);
    step_constant(&s->step, "TAPS", problem->desc.taps);
    step_constant(&s->step, "RUN", t->tokens);
    step_constant(&s->step, "AHEAD", problem->desc.taps > 4 ? 2 : 4); /* more would not stay in registers */
    step_constant(&s->step, "HAS_BIAS", (problem->desc.flags & CLATTN_WITH_BIAS) != 0);
    step_constant(&s->step, "HAS_SILU", problem->desc.activation == CLATTN_ACTIVATION_SILU);
    step_constant(&s->step, "HAS_RESIDUAL", (problem->desc.flags & CLATTN_RESIDUAL) != 0);
    return step_fits(&s->step, facts->device);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    const struct short_conv_shape *s = shape;

    (void)problem;
    return (struct reach){.chunk = s->tiles.chunk, .parts = 1};
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct short_conv_shape *s = shape;

    piece_add(b, &s->step, s->tiles.chunk, problem_work_heads(problem), s->value_groups,
              (problem->desc.flags & CLATTN_FINAL_STATE) != 0);
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct short_conv_shape *s = shape;
    const struct columns columns = {s->tiles.group, s->tiles.vec, s->tiles.block_v, s->tiles.sub_group};

    (void)step;
    piece_describe(text, &columns, s->tiles.chunk, s->tiles.tokens, s->step.local_bytes);
}

const struct solver solver_short_conv = {
    .space = {"short_conv", parameters, 1024, 0, 0, 1},
    .mode = CLATTN_MODE_RECURRENT,
    .tiles_size = sizeof(struct short_conv_tiles),
    .shape_size = sizeof(struct short_conv_shape),
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
