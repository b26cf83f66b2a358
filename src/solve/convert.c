/* convert: copies rows of one type into rows of another, o = v. A group copies a row of one head. */
#include "solve/around.h"
#include "solve/solve.h"

struct convert_tiles {
    int group, vec, sub_group;
};

struct convert_shape {
    struct convert_tiles tiles;
    struct kernel_step step;
};

static const struct parameter parameters[] = {
    PARAMETERS_END,
};

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts, (void)problem;
    return 1;
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    enum { GROUP = 64, VEC = 4 };
    const int serial = is_serial(facts);

    (void)solver, (void)problem;
    *(struct convert_tiles *)tiles = (struct convert_tiles){.group = serial ? 1 : lower(GROUP, facts->most_group),
                                                            .vec = VEC,
                                                            .sub_group = serial ? 0 : facts->device->sub_group};
    return CLATTN_SUCCESS;
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    struct convert_shape *s = shape;
    const struct convert_tiles *t = tiles;

    (void)solver;
    s->tiles = *t;
    s->step = kernel_step(FILE_convert, problem);
    step_tile(&s->step, t->group, t->vec, 1, t->sub_group);
    return step_fits(&s->step, facts->device);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    (void)problem, (void)shape;
    return (struct reach){.chunk = 1, .parts = 1};
}

/* The caller has bound seq_len, and rows: those of all batch elements. */
static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct convert_shape *s = shape;

    build_kernel(b, &s->step, (struct grid3){build_bound_number(b, "rows"), problem->desc.heads, 1});
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct convert_shape *s = shape;

    (void)step;
    text_format(text, "group %d\n", s->tiles.group);
}

const struct solver solver_convert = {
    .space = {"convert", parameters, 1, 0, 0, 1},
    .mode = CLATTN_MODE_RECURRENT,
    .tiles_size = sizeof(struct convert_tiles),
    .shape_size = sizeof(struct convert_shape),
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
