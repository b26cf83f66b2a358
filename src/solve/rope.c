/* rope: rotary positions. Pairs of a row's channels turn by angles that grow with the position; the other channels are
 * copied.
 *
 * A group works `chunk` tokens of `share` heads, a work-item `tokens` of the tokens: heads share the angles. Angles are
 * kept in 2^-64 of a turn, so that they are exact at any position. */
#include "solve/pieces.h"

#include <math.h>

struct rope_tiles {
    int group, vec, block_v, sub_group; /* as in struct columns */
    int chunk, tokens;                  /* tokens of a group, and of a work-item */
    int share;                          /* heads of a group */
};

struct rope_shape {
    struct rope_tiles tiles;
    struct kernel_step step;
};

static const struct parameter parameters[] = {
    PARAMETER_ROW("vec", struct rope_tiles, vec, 4, 16),
    PARAMETER_ROW("group", struct rope_tiles, group, 1, 32, 64, 128, 256),
    PARAMETER_ROW("chunk", struct rope_tiles, chunk, 1, 4, 16, 32, 64, 128, 256),
    PARAMETERS_END,
};

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts;
    return problem->rule->op == OP_PIECE && problem->rule->piece == PIECE_ROPE;
}

/* Heads share the angles; tokens, what these are multiples of. */
static void by_heuristic(const struct device_facts *facts, const struct problem *problem, struct rope_tiles *t)
{
    enum { FEW = 8, RUN = 4, HEADS = 8, SERIAL_RUN = 32 };
    const clattn_plan_desc *desc = &problem->desc;
    const int64_t tasks = divide_up(desc->rope_dim / 2, t->vec) + divide_up(desc->value_dim - desc->rope_dim, t->vec);

    t->tokens = desc->seq_len <= FEW ? 1 : is_serial(facts) ? SERIAL_RUN : RUN;
    t->share = lower(desc->heads, HEADS);
    t->chunk = t->tokens * (is_serial(facts) ? 1 : (int)divide_up(t->group, tasks));
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    struct rope_tiles *t = tiles, given = *t;
    struct columns columns = piece_columns(facts, problem);

    (void)solver;
    *t = (struct rope_tiles){columns.group, columns.vec, columns.block_v, columns.sub_group, 0, 0, 0};
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

/* What pair 1, 2, 4 … turns by, over what pair 0 does, in 2^-63; and pair 0, in 2^-64 of a turn. */
static void add_angles(struct kernel_step *step, const clattn_plan_desc *desc)
{
    static const char *const names[] = {"ROPE_POWER_0", "ROPE_POWER_1", "ROPE_POWER_2", "ROPE_POWER_3", "ROPE_POWER_4",
                                        "ROPE_POWER_5", "ROPE_POWER_6", "ROPE_POWER_7", "ROPE_POWER_8"};

    for (int bit = 0; bit < (int)(sizeof names / sizeof *names); bit++) {
        const double power = pow(desc->rope_base, -2 * ldexp(1, bit) / desc->rope_dim);
        step_constant(step, names[bit], (int64_t)fmin(ldexp(power, 63), 0x1p63 - 1024));
    }
    step_constant(step, "ROPE_FIRST", 2935890503282001226); /* 2^64 / 2 pi */
    step_constant(step, "ROPE_DIM", desc->rope_dim);
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    struct rope_shape *s = shape;
    const struct rope_tiles *t = tiles;
    const struct columns columns = {t->group, t->vec, t->block_v, t->sub_group};

    (void)solver;
    s->tiles = *t;
    s->step = piece_step(FILE_rope, problem, &columns, t->chunk);
    add_angles(&s->step, &problem->desc);
    step_constant(&s->step, "HALF", problem->desc.rope_dim / 2);
    step_constant(&s->step, "INTERLEAVED", (problem->desc.flags & CLATTN_INTERLEAVED) != 0);
    step_constant(&s->step, "ROPE_INVERSE", (problem->desc.flags & CLATTN_TURNED_BACK) != 0);
    step_constant(&s->step, "HAS_POSITION", (problem->desc.flags & CLATTN_WITH_POSITION) != 0);
    step_constant(&s->step, "HEADS", problem->desc.heads);
    step_constant(&s->step, "SHARE", t->share);
    step_constant(&s->step, "RUN", t->tokens);
    step_constant(&s->step, "TURNS", divide_up(problem->desc.rope_dim / 2, t->vec));
    step_constant(&s->step, "RESTS", divide_up(problem->desc.value_dim - problem->desc.rope_dim, t->vec));
    return step_fits(&s->step, facts->device);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    const struct rope_shape *s = shape;

    (void)problem;
    return (struct reach){.chunk = s->tiles.chunk, .parts = 1};
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct rope_shape *s = shape;

    piece_add(b, &s->step, s->tiles.chunk, divide_up(problem->desc.heads, s->tiles.share), 1, 0);
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct rope_shape *s = shape;
    const struct columns columns = {s->tiles.group, s->tiles.vec, s->tiles.block_v, s->tiles.sub_group};

    (void)step;
    piece_describe(text, &columns, s->tiles.chunk, s->tiles.tokens, s->step.local_bytes);
}

const struct solver solver_rope = {
    .space = {"rope", parameters, 1024, 0, 0, 1},
    .mode = CLATTN_MODE_RECURRENT,
    .tiles_size = sizeof(struct rope_tiles),
    .shape_size = sizeof(struct rope_shape),
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
