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

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    struct tokens_shape *s = shape;

    (void)solver;
    s->tile = ((const struct tokens_tiles *)tiles)->tile;
    s->step = step_of(problem, &s->tile);
    return step_fits(&s->step, facts->device);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    (void)problem, (void)shape;
    return (struct reach){.chunk = 1, .parts = 1, .reported = 1};
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct tokens_shape *s = shape;
    const int64_t K = problem->desc.key_dim;
    const int names = b->name_count;

    if (problem->pass != PASS_OUTPUTS)
        return mesa_read(b, problem, CLATTN_MODE_RECURRENT, names);
    mesa_bind(b, problem);
    build_bind(b, "gram", build_scratch(b, "gram matrices", CLATTN_F32, problem_heads(problem) * K * K));
    build_kernel(b, &s->step, (struct grid3){build_length(b, IR_SEQUENCES), problem_work_heads(problem), 1});
    return mesa_read(b, problem, CLATTN_MODE_RECURRENT, names);
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct tokens_shape *s = shape;

    (void)step;
    state_tile_describe(text, &s->tile, "rows");
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
