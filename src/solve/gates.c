/* gates: log-decays from a model's projections, with their bias, scale and map, of all heads of a token.
 *
 * The numbers of all heads lie side by side, so that a group works `chunk` tokens of all of them, a work-item `tokens` of
 * the tokens, whose loads are under way together. */
#include "solve/pieces.h"

struct gates_tiles {
    int group, vec, block_v, sub_group; /* as in struct columns */
    int chunk, tokens;                  /* tokens of a group, and of a work-item */
};

struct gates_shape {
    struct gates_tiles tiles;
    struct kernel_step step;
};

static const struct parameter parameters[] = {
    PARAMETER_ROW("vec", struct gates_tiles, vec, 4, 16),
    PARAMETER_ROW("group", struct gates_tiles, group, 1, 32, 64, 128, 256),
    PARAMETER_ROW("chunk", struct gates_tiles, chunk, 1, 4, 16, 32, 64, 128, 256),
    PARAMETERS_END,
};

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts;
    return problem->rule->op == OP_PIECE && problem->rule->piece == PIECE_GATES;
}

/* Tokens of a work-item, whose loads are under way together. */
static void by_heuristic(const struct device_facts *facts, const struct problem *problem, struct gates_tiles *t)
{
    enum { RUN = 4, SERIAL_NUMBERS = 4096 };
    const int64_t numbers = problem->desc.heads * problem->desc.value_dim;
    const int64_t wanted = is_serial(facts) ? SERIAL_NUMBERS : (int64_t)RUN * t->group * t->vec;

    t->tokens = RUN;
    for (t->chunk = RUN; t->chunk < 64 * RUN && 2 * t->chunk * numbers <= wanted;)
        t->chunk *= 2;
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    struct gates_tiles *t = tiles, given = *t;
    struct columns columns = piece_columns(facts, problem);

    (void)solver;
    *t = (struct gates_tiles){columns.group, columns.vec, columns.block_v, columns.sub_group, 0, 0};
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
    struct gates_shape *s = shape;
    const struct gates_tiles *t = tiles;
    const struct columns columns = {t->group, t->vec, t->block_v, t->sub_group};

    (void)solver;
    s->tiles = *t;
    s->step = piece_step(FILE_gates, problem, &columns, t->chunk);
    step_constant(&s->step, "HEADS", problem->desc.heads);
    step_constant(&s->step, "RUN", t->tokens);
    step_constant(&s->step, "VECTORS", divide_up(problem->desc.heads * problem->desc.value_dim, t->vec));
    return step_fits(&s->step, facts->device);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    const struct gates_shape *s = shape;

    (void)problem;
    return (struct reach){.chunk = s->tiles.chunk, .parts = 1};
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct gates_shape *s = shape;

    (void)problem;
    piece_add(b, &s->step, s->tiles.chunk, 1, 1, 0);
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct gates_shape *s = shape;
    const struct columns columns = {s->tiles.group, s->tiles.vec, s->tiles.block_v, s->tiles.sub_group};

    (void)step;
    piece_describe(text, &columns, s->tiles.chunk, s->tiles.tokens, s->step.local_bytes);
}

const struct solver solver_gates = {
    .space = {"gates", parameters, 1024, 0, 0, 1},
    .mode = CLATTN_MODE_RECURRENT,
    .tiles_size = sizeof(struct gates_tiles),
    .shape_size = sizeof(struct gates_shape),
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
