/* levels_tokens: token by token, with a state for each bucket of earlier tokens; for short sequences and decoding.
 *
 * A group has block_v value columns of one head of one sequence; lanes_k work-items share a column. A call of one token
 * reads the initial states and writes the final ones, and nothing else. */
#include "solve/levels/levels.h"

#include <stddef.h>

enum { FLOAT = 4 };

struct tokens_tiles {
    struct state_tile tile;
};

struct tokens_shape {
    struct state_tile tile;
    struct kernel_step step, position;
    int value_groups;
};

static const struct parameter parameters[] = {
    PARAMETER_ROW("vec", struct tokens_tiles, tile.vec, 4, 16),
    PARAMETER_ROW("lanes_k", struct tokens_tiles, tile.lanes_k, 1, 2, 4, 8, 16, 32),
    PARAMETER_ROW("block_v", struct tokens_tiles, tile.block_v, 4, 8, 16, 32, 64, 128),
    PARAMETERS_END,
};

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts;
    return levels_apply(problem);
}

static enum preference prefers(const struct device_facts *facts, const struct problem *problem)
{
    return levels_apply(problem) && problem_rows(problem) <= levels_most_tokens(facts) ? PREFERENCE_HIGH
                                                                                       : PREFERENCE_NONE;
}

struct kernel_step levels_tokens_step(const struct problem *problem, const struct state_tile *t, int tail)
{
    const struct state_sizes s = state_sizes(problem, t);
    struct kernel_step step = levels_step(FILE_levels_tokens, problem, t);

    step_constant(&step, "TAIL", tail);
    step_local(&step, "LOCAL_ROWS_Q", s.slice, FLOAT);
    step_local(&step, "LOCAL_ROWS_K", s.slice, FLOAT);
    step_local(&step, "LOCAL_ROWS_X", s.values, FLOAT);
    step_local(&step, "LOCAL_PREDICTED_PARTS", t->lanes_k > 1 ? 2 * t->group * t->vec : 1, FLOAT);
    step_local(&step, "FACTORS", s.factors, FLOAT);
    add_decay_locals(&step, problem, t, &s);
    if (problem->rule->erase != ERASE_NONE)
        step_local(&step, "LOCAL_ERASE_P", s.slice, FLOAT);
    return step;
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

/* A lane has two states in registers: a bucket's and the one that is being put together. On a CPU they are arrays. */
static void follow(const struct problem *problem, const struct device_facts *facts, struct state_tile *t)
{
    enum { MOST_CHANNELS = 8 };

    state_tile_follow(t, problem);
    t->chunk = 1;
    while (!is_serial(facts) && t->lanes_k * MOST_CHANNELS < problem->desc.key_dim &&
           2 * t->lanes_k * (t->block_v / t->vec) <= facts->most_group)
        t->lanes_k *= 2;
    t->group = t->block_v / t->vec * t->lanes_k;
    t->block_k = round_up(problem->desc.key_dim, higher(t->lanes_k, t->vec));
}

clattn_status levels_tokens_tile(const struct device_facts *facts, const struct problem *problem, struct state_tile *t)
{
    const struct shared_wish wish = {32, 8, 2 * (int64_t)facts->device->info.compute_units, 32};
    const struct state_tile tuned = *t;
    struct kernel_step step;

    *t = state_tile(facts, problem, &wish);
    if (is_serial(facts))
        t->block_v = t->vec;
    t->vec = tuned.vec != TILE_OPEN ? tuned.vec : t->vec;
    t->lanes_k = tuned.lanes_k != TILE_OPEN ? tuned.lanes_k : t->lanes_k;
    t->block_v = tuned.block_v != TILE_OPEN ? tuned.block_v : t->block_v;
    follow(problem, facts, t);
    if (!state_tile_is_sound(t, facts))
        return CLATTN_UNSUPPORTED;
    step = levels_tokens_step(problem, t, 0);
    return step_fits(&step, facts->device);
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    (void)solver;
    return levels_tokens_tile(facts, problem, &((struct tokens_tiles *)tiles)->tile);
}

/* ---- Shape and recipe ---------------------------------------------------------------------------------------------
 */

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    struct tokens_shape *s = shape;

    (void)solver;
    s->tile = ((const struct tokens_tiles *)tiles)->tile;
    s->step = levels_tokens_step(problem, &s->tile, 0);
    s->position = levels_position_step(problem);
    s->value_groups = value_groups(problem, s->tile.block_v);
    return step_fits(&s->step, facts->device);
}

/* A row has a turn for each level, and sums over the lanes of its columns. */
static int64_t turns(const struct problem *problem, const void *shape)
{
    enum { LOADS = 8 };
    const struct state_tile *t = &((const struct tokens_shape *)shape)->tile;
    const int64_t sums = erase_words(problem).streams > 0 ? t->lanes_k : 0;

    return problem_rows(problem) * (problem->desc.levels * (1 + sums) + t->lanes_k + LOADS);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    (void)problem, (void)shape;
    return (struct reach){.chunk = 1, .parts = 1};
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct tokens_shape *s = shape;

    levels_bind_buckets(b, problem, &s->tile);
    build_kernel(b, &s->step,
                 (struct grid3){build_length(b, IR_SEQUENCES), problem_work_heads(problem), s->value_groups});
    levels_add_position(b, &s->position);
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct tokens_shape *s = shape;

    if (step == 1) {
        text_format(text, "group 1\n");
        return;
    }
    state_tile_describe(text, &s->tile, "rows");
    text_format(text, "local %zu bytes\n", s->step.local_bytes);
}

const struct solver solver_levels_tokens = {
    .space = {"levels_tokens", parameters, 32, 0, 0, 1},
    .mode = CLATTN_MODE_RECURRENT,
    .rank = 960,
    .units = 1,
    .tiles_size = sizeof(struct tokens_tiles),
    .shape_size = sizeof(struct tokens_shape),
    .prefers = prefers,
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .turns = turns,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
