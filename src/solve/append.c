/* append: copies the rows of k_new and v_new into k and v, at the positions of their queries. A group copies `chunk`
 * rows of one key head. */
#include "solve/around.h"
#include "solve/solve.h"

struct append_tiles {
    int group, vec, sub_group;
    int chunk; /* tokens of a group */
};

struct append_shape {
    struct append_tiles tiles;
    struct kernel_step step;
};

static const struct parameter parameters[] = {
    PARAMETERS_END,
};

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts;
    return (problem->desc.flags & CLATTN_APPEND) != 0;
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    enum { GROUP = 64, CHUNK = 16, SERIAL_VEC = 16, SHARED_VEC = 4 };
    struct append_tiles *t = tiles;
    const int serial = is_serial(facts);

    (void)solver;
    *t = (struct append_tiles){.group = serial ? 1 : lower(GROUP, facts->most_group),
                               .vec = serial ? SERIAL_VEC : SHARED_VEC,
                               .sub_group = serial ? 0 : facts->device->sub_group,
                               .chunk = problem->desc.chunk != 0 ? problem->desc.chunk : CHUNK};
    return CLATTN_SUCCESS;
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    struct append_shape *s = shape;
    const struct append_tiles *t = tiles;

    (void)solver;
    s->tiles = *t;
    s->step = kernel_step(FILE_append, problem);
    step_tile(&s->step, t->group, t->vec, t->chunk, t->sub_group);
    step_constant(&s->step, "KV_GROUP", problem->desc.heads / problem->desc.kv_heads);
    return step_fits(&s->step, facts->device);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    const struct append_shape *s = shape;

    (void)problem;
    return (struct reach){.chunk = s->tiles.chunk, .parts = 1};
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct append_shape *s = shape;

    build_kernel(b, &s->step, (struct grid3){build_slots(b, s->tiles.chunk), problem->desc.kv_heads, 1});
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct append_shape *s = shape;

    (void)step;
    text_format(text, "group %d, chunk %d\n", s->tiles.group, s->tiles.chunk);
}

const struct solver solver_append = {
    .space = {"append", parameters, 1, 0, 0, 1},
    .mode = CLATTN_MODE_CHUNK,
    .tiles_size = sizeof(struct append_tiles),
    .shape_size = sizeof(struct append_shape),
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
