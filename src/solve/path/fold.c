/* fold_path: keys carried to the end of their sequence, in their own memory (CLATTN_CARRY), once all has been read: a
 * child behind every solver of PaTH attention. A group has one block of keys of one key head. */
#include "solve/path/path.h"

enum { FEW_TOKENS = 16 };

struct fold_shape {
    struct path_tiles tiles;
    struct kernel_step step;
};

static const struct parameter no_parameters[] = {PARAMETERS_END};

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts;
    return rule_has_list(problem->rule) && problem->rule->erase == ERASE_POSITION;
}

/* Those of the read, in shorter blocks where few tokens turn keys: rows of w past the tail are zero. */
static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    struct path_tiles *t = tiles;

    (void)solver;
    TRY(path_by_heuristic(facts, problem, t));
    if (problem->desc.tail != 0 && problem->desc.tail <= FEW_TOKENS) {
        t->chunk = lower(t->chunk, FEW_TOKENS);
        t->span = PATH_SPAN_TOKENS / t->chunk;
    }
    return CLATTN_SUCCESS;
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    struct fold_shape *s = shape;

    (void)solver;
    s->tiles = *(const struct path_tiles *)tiles;
    s->step = path_fold_step(problem, tiles);
    return step_fits(&s->step, facts->device);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    const struct fold_shape *s = shape;

    (void)problem;
    return (struct reach){.chunk = s->tiles.chunk, .parts = 1};
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct fold_shape *s = shape;

    build_kernel(b, &s->step, (struct grid3){build_key_slots(b, s->tiles.chunk), problem->desc.kv_heads, 1});
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct fold_shape *s = shape;

    (void)step;
    path_describe(text, &s->tiles, &s->step, s->tiles.block_v);
}

static const struct solver fold_path = {
    .space = {"fold_path", no_parameters, 1024, 0, 0, 1},
    .mode = CLATTN_MODE_CHUNK,
    .tiles_size = sizeof(struct path_tiles),
    .shape_size = sizeof(struct fold_shape),
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};

clattn_status path_add_carry(struct builder *b, const struct problem *problem)
{
    return problem->desc.flags & CLATTN_CARRY ? build_child(b, &fold_path, problem) : CLATTN_SUCCESS;
}
