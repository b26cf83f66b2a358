/* read_state: O = Q S, where S is the state after the whole sequence and every token reads it.
 *
 * A group computes block_v value columns of one chunk of one head. Only other solvers use it: it is not in
 * solver_list. */
#include "solve/around.h"
#include "solve/state_tile.h"

struct read_state_tiles {
    struct state_tile tile;
};

struct read_state_shape {
    struct state_tile tile;
    struct kernel_step step;
    int value_groups;
};

static const struct parameter parameters[] = {PARAMETERS_END};

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts;
    return problem_reads_whole(problem) && problem_state_type(problem) == CLATTN_F32;
}

static struct kernel_step step_of(const struct problem *problem, const struct state_tile *t)
{
    const struct state_sizes sizes = state_sizes(problem, t);
    struct kernel_step step = state_step(FILE_read_state, problem, t, &sizes, OUTPUTS_AT_END);

    step_local(&step, "LOCAL_STATE", (int64_t)sizes.channels * t->block_v, sizeof(float));
    step_local(&step, "LOCAL_ROWS", sizes.slice, sizeof(float));
    step_local(&step, "LOCAL_OUTPUT", sizes.values, sizeof(float));
    step_local(&step, "LOCAL_NORMS", t->chunk, sizeof(float));
    return step;
}

/* Narrows the value tiles, then the slices of channels, until local memory holds the kernel. */
static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    const struct shared_wish wish = {16, 8, 2 * (int64_t)facts->device->info.compute_units, 32};
    struct state_tile *t = &((struct read_state_tiles *)tiles)->tile;
    struct kernel_step step;

    (void)solver;
    *t = state_tile(facts, problem, &wish);
    for (step = step_of(problem, t); step_fits(&step, facts->device) != CLATTN_SUCCESS; step = step_of(problem, t))
        if (t->block_v > t->vec)
            t->block_v = round_up(t->block_v / 2, t->vec);
        else if (t->block_k > t->vec)
            t->block_k = round_up(t->block_k / 2, t->vec);
        else
            return CLATTN_UNSUPPORTED;
    return CLATTN_SUCCESS;
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    const struct read_state_tiles *t = tiles;
    struct read_state_shape *s = shape;

    (void)solver;
    s->tile = t->tile;
    s->step = step_of(problem, &t->tile);
    s->value_groups = value_groups(problem, t->tile.block_v);
    return step_fits(&s->step, facts->device);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    const struct read_state_shape *s = shape;

    (void)problem;
    return (struct reach){.chunk = s->tile.chunk, .parts = 1};
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct read_state_shape *s = shape;

    build_kernel(b, &s->step,
                 (struct grid3){build_slots(b, s->tile.chunk), problem_work_heads(problem), s->value_groups});
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct read_state_shape *s = shape;

    (void)step;
    state_tile_describe(text, &s->tile, "chunk");
    text_format(text, "local %zu bytes\n", s->step.local_bytes);
}

const struct solver solver_read_state = {
    .space = {"read_state", parameters, 1024, 0, 0, 1},
    .mode = CLATTN_MODE_CHUNK,
    .tiles_size = sizeof(struct read_state_tiles),
    .shape_size = sizeof(struct read_state_shape),
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
