/* What a summary keeps of a state: tokens that write nothing are applied to a unit state.
 *
 * unit_state fills that state, a group a row. Only the steps around a solver use it: it is not in solver_list. */
#include "solve/around.h"

struct unit_tiles {
    int group, vec, sub_group;
};

struct unit_shape {
    struct unit_tiles tiles;
    struct kernel_step step;
};

static const struct parameter parameters[] = {PARAMETERS_END};

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts;
    return problem->pass == PASS_TRANSITION;
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    enum { GROUP = 64, VEC = 4 };
    const int serial = is_serial(facts);

    (void)solver, (void)problem;
    *(struct unit_tiles *)tiles = (struct unit_tiles){.group = serial ? 1 : lower(GROUP, facts->most_group),
                                                      .vec = VEC,
                                                      .sub_group = serial ? 0 : facts->device->sub_group};
    return CLATTN_SUCCESS;
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    const enum unit unit = problem_unit(problem);
    struct unit_shape *s = shape;

    (void)solver;
    s->tiles = *(const struct unit_tiles *)tiles;
    s->step = kernel_step(FILE_unit_state, problem);
    step_tile(&s->step, s->tiles.group, s->tiles.vec, 1, s->tiles.sub_group);
    step_constant(&s->step, "IS_DIAGONAL", unit == UNIT_DIAGONAL);
    step_constant(&s->step, "ROW_PAIRS", unit == UNIT_ROW_PAIRS);
    step_constant(&s->step, "COLUMN_PAIRS", unit == UNIT_COLUMN_PAIRS);
    return step_fits(&s->step, facts->device);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    (void)problem, (void)shape;
    return (struct reach){.chunk = 1, .parts = 1};
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct unit_shape *s = shape;
    const ir_expression rows = build_constant(b, problem->desc.key_dim);

    build_number(b, "rows", rows);
    build_kernel(b, &s->step, (struct grid3){rows, 1, 1});
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct unit_shape *s = shape;

    (void)step;
    text_format(text, "group %d\n", s->tiles.group);
}

static const struct solver solver_unit_state = {
    .space = {"unit_state", parameters, 1, 0, 0, 1},
    .mode = CLATTN_MODE_RECURRENT,
    .transitions = 1,
    .tiles_size = sizeof(struct unit_tiles),
    .shape_size = sizeof(struct unit_shape),
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};

/* Applies the tokens to the unit state, which is the same for all heads of all sequences. */
static clattn_status add_transition(struct builder *b, const struct problem *problem, const void *shape)
{
    const ir_expression none = build_constant(b, 0), strides[3] = {none, none, none};
    const int unit =
        build_scratch_of(b, "unit", CLATTN_F32, problem->desc.key_dim * problem_unit_columns(problem), strides);

    (void)shape;
    build_bind(b, "unit", unit);
    TRY(build_child(b, &solver_unit_state, problem));
    build_bind(b, "initial", unit);
    build_bind(b, "final", build_operand(b, CLATTN_TRANSITION));
    return build_problem(b, problem);
}

clattn_status around_summary(struct builder *b)
{
    if (problem_unit_columns(b->problem) == 0)
        return CLATTN_SUCCESS;
    return build_pass(b, PASS_TRANSITION, NULL, add_transition);
}
