/* stabilize: makes mLSTM's gates safe before its recurrence.
 *
 * m_t = max(f_t + m_(t-1), i_t);  log-decay f_t + m_(t-1) - m_t <= 0;  write strength e^(i_t - m_t) <= 1
 *
 * Later steps need m only to divide the outputs. A group computes one head of one sequence, a work-item a few tokens at
 * once. Only other solvers use it: it is not in solver_list. */
#include "solve/around.h"
#include "solve/state_tile.h"

struct stabilize_tiles {
    struct state_tile tile;
};

struct stabilize_shape {
    struct state_tile tile;
    struct kernel_step step;
};

static const struct parameter parameters[] = {PARAMETERS_END};

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts;
    return problem_stabilized(problem);
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    const struct shared_wish wish = {16, 8, 2 * (int64_t)facts->device->info.compute_units, 32};
    struct stabilize_tiles *t = tiles;

    (void)solver;
    t->tile = state_tile(facts, problem, &wish);
    return CLATTN_SUCCESS;
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    const struct stabilize_tiles *t = tiles;
    struct stabilize_shape *s = shape;

    (void)solver;
    s->tile = t->tile;
    s->step = kernel_step(FILE_stabilize, problem);
    s->step.gate = problem->desc.gate_dtype; /* it reads the caller's gates and writes the library's own */
    s->step.state = CLATTN_F32;
    step_replace(&s->step, "GATE_MAP", problem->desc.gate_map);
    step_tile(&s->step, t->tile.group, t->tile.vec, t->tile.chunk, t->tile.sub_group);
    step_local(&s->step, "LOCAL_PLACES", 2 * (int64_t)t->tile.group, 2 * sizeof(float));
    return step_fits(&s->step, facts->device);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    (void)problem, (void)shape;
    return (struct reach){.chunk = 1, .parts = 1};
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct stabilize_shape *s = shape;

    build_bind(b, "initial", build_operand(b, CLATTN_STABILIZER_IN));
    build_bind(b, "final", build_operand(b, CLATTN_STABILIZER_OUT));
    build_bind(b, "snapshots", build_operand(b, CLATTN_STABILIZERS));
    build_bind(b, "total", build_operand(b, CLATTN_TRANSITION));
    build_kernel(b, &s->step, (struct grid3){build_length(b, IR_SEQUENCES), problem_work_heads(problem), 1});
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct stabilize_shape *s = shape;

    (void)step;
    state_tile_describe(text, &s->tile, "chunk");
    text_format(text, "local %zu bytes\n", s->step.local_bytes);
}

const struct solver solver_stabilize = {
    .space = {"stabilize", parameters, 1024, 0, 0, 1},
    .mode = CLATTN_MODE_RECURRENT,
    .backward = 1,
    .tiles_size = sizeof(struct stabilize_tiles),
    .shape_size = sizeof(struct stabilize_shape),
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
