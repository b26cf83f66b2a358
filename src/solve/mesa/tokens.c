/* mesa_tokens: mesa_net token by token, for decoding and short sequences.
 *
 * A group has one head of one sequence. For each token it updates the gram matrix, which is read and written once, and
 * takes the steps of conjugate gradients. Then the solved queries read the state. */
#include "solve/mesa/mesa.h"

#include <stddef.h>

enum { FLOAT = 4 };

struct tokens_tiles {
    struct state_tile tile;
};

struct tokens_shape {
    struct state_tile tile;
    struct kernel_step step;
    int64_t tokens; /* of a sequence that a launch goes through; 0: all */
};

static const struct parameter parameters[] = {
    PARAMETER_ROW("vec", struct tokens_tiles, tile.vec, 4, 16),
    PARAMETER_ROW("group", struct tokens_tiles, tile.group, 1, 32, 64, 128, 256),
    PARAMETERS_END,
};

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts;
    return rule_is_solved(problem->rule);
}

/* Few tokens, or states on the way. */
static enum preference prefers(const struct device_facts *facts, const struct problem *problem)
{
    enum { FEW = 4 };

    (void)facts;
    return rule_is_solved(problem->rule) && problem->desc.seq_len <= FEW ? PREFERENCE_HIGH : PREFERENCE_NONE;
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    enum { GROUP = 128, SERIAL_VEC = 16, SHARED_VEC = 4 };
    const int serial = is_serial(facts);
    struct state_tile *t = &((struct tokens_tiles *)tiles)->tile;

    (void)solver;
    default_to(&t->vec, serial ? SERIAL_VEC : SHARED_VEC);
    default_to(&t->group, serial ? 1 : lower(GROUP, facts->most_group));
    t->chunk = t->lanes_k = 1;
    t->block_k = round_up(problem->desc.key_dim, t->vec);
    t->block_v = t->vec;
    t->pad = 0;
    t->sub_group = serial ? 0 : facts->device->sub_group;
    return state_tile_is_sound(t, facts) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

static struct kernel_step step_of(const struct problem *problem, const struct state_tile *t)
{
    const int columns = t->block_k / t->vec, lanes = higher(t->group / columns, 1);
    struct kernel_step step = mesa_step_of(FILE_mesa_tokens, problem, t);

    step_local(&step, "FACTORS", 6 + t->vec, FLOAT);
    step_locals(&step, "LOCAL_ROW", 7, t->block_k, FLOAT);
    step_local(&step, "LOCAL_PARTS", (int64_t)columns * lanes * t->vec, FLOAT);
    step_local(&step, "LOCAL_SUMS", columns, FLOAT);
    return step;
}

/* Turns of loops that a work-item has for a token: of each step two sums over a row, and a product with R. */
static int64_t token_turns(const struct problem *problem, const struct state_tile *t)
{
    const int64_t columns = t->block_k / t->vec, lanes = higher(t->group / columns, 1), K = problem->desc.key_dim;
    const int64_t blocks = divide_up(columns, t->group), product = divide_up(columns * lanes, t->group);
    const int64_t step = 2 * columns + 6 * blocks + product * (divide_up(K, lanes) + 1) + blocks * (lanes + 1);

    return divide_up(K * columns, t->group) + columns + mesa_steps(problem) * step;
}

/* A launch's tokens: as many as the device lets a work-item have turns for. */
static clattn_status cut_sequence(const struct device *device, const struct problem *problem, struct tokens_shape *s)
{
    if (device->loop_turns == 0)
        return CLATTN_SUCCESS;
    s->tokens = device->loop_turns / token_turns(problem, &s->tile);
    return s->tokens > 0 ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    struct tokens_shape *s = shape;

    (void)solver;
    s->tile = ((const struct tokens_tiles *)tiles)->tile;
    s->step = step_of(problem, &s->tile);
    TRY(cut_sequence(facts->device, problem, s));
    return step_fits(&s->step, facts->device);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    enum { TOKENS = 16 }; /* x is rounded to the operands' type: k x of one token may be small beside that */

    (void)problem, (void)shape;
    return (struct reach){.chunk = 1, .parts = TOKENS, .reported = 1};
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct tokens_shape *s = shape;
    const int64_t K = problem->desc.key_dim;
    const int names = b->name_count, first = b->ir->step_count, loop = build_next_loop(b), parted = s->tokens > 0;
    int gram;

    if (problem->pass != PASS_OUTPUTS)
        return mesa_read(b, problem, CLATTN_MODE_RECURRENT, names);
    mesa_bind(b, problem);
    gram = build_scratch(b, "gram matrices", CLATTN_F32, problem_heads(problem) * K * K);
    build_bind(b, "gram", parted ? build_carry(b, gram) : gram);
    build_number(b, "first_row", parted ? ir_loop_value(b->ir, IR_LOOP_FIRST, loop) : build_constant(b, 0));
    build_number(b, "stretch_rows", build_constant(b, parted ? s->tokens : problem->desc.seq_len));
    build_kernel(b, &s->step, (struct grid3){build_length(b, IR_SEQUENCES), problem_work_heads(problem), 1});
    if (parted)
        build_loop(b, first, build_rows(b), s->tokens);
    return mesa_read(b, problem, CLATTN_MODE_RECURRENT, names);
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct tokens_shape *s = shape;

    (void)step;
    state_tile_describe(text, &s->tile, "rows");
    if (s->tokens > 0)
        text_format(text, "%lld tokens a launch, ", (long long)s->tokens);
    text_format(text, "local %zu bytes\n", s->step.local_bytes);
}

const struct solver solver_mesa_tokens = {
    .space = {"mesa_tokens", parameters, 32, 0, 0, 1},
    .mode = CLATTN_MODE_RECURRENT,
    .rank = 960,
    .units = 1,
    .tiles_size = sizeof(struct tokens_tiles),
    .shape_size = sizeof(struct tokens_shape),
    .prefers = prefers,
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
