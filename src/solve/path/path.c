/* path: PaTH attention on any device. A work-group has `chunk` queries of one head and walks back over the keys in blocks
 * of as many: the queries turn on their way, and cross a span of `span` blocks at once. cl/path/README.md has the
 * formulas. */
#include "solve/path/path.h"

enum { PREPARE, CARRY, READ, READ_ATTENTION };

struct solver_tiles {
    struct path_tiles path;
    struct flash_tiles read; /* of queries and keys that were turned each by itself */
};

struct path_shape {
    struct path_tiles tiles;
    int is_absolute;
    struct kernel_step prepare, carry, read, attention;
    struct path_turning turning; /* where it is absolute these two */
    struct flash_shape turned;
};

static const struct parameter parameters[] = {
    PARAMETER_ROW("chunk", struct solver_tiles, path.chunk, 8, 16, 32, 64),
    PARAMETER_ROW("vec", struct solver_tiles, path.vec, 4, 16),
    PARAMETER_ROW("span", struct solver_tiles, path.span, 2, 4, 8, 16, 32, 64),
    PARAMETER_ROW("prepare.group", struct solver_tiles, path.prepare_group, 1, 16, 32, 64, 128, 256),
    PARAMETER_ROW("flash.group", struct solver_tiles, path.read_group, 1, 16, 32, 64, 128, 256),
    PARAMETER_ROW("block_k", struct solver_tiles, path.block_k, 16, 32, 64, 128),
    PARAMETER_ROW("block_v", struct solver_tiles, path.block_v, 16, 32, 64, 128, 256),
    PARAMETERS_END,
};

static int is_absolute(const struct problem *problem)
{
    return (problem->desc.flags & CLATTN_ABSOLUTE) != 0;
}

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts;
    return rule_has_list(problem->rule) && problem->rule->erase == ERASE_POSITION;
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    struct solver_tiles *t = tiles;

    (void)solver;
    TRY(path_choose_tiles(facts, problem, &t->path));
    return is_absolute(problem) ? flash_choose_tiles(facts, problem, &t->read) : CLATTN_SUCCESS;
}

/* ---- Shape --------------------------------------------------------------------------------------------------------
 */

/* The read that leaves the attention matrix. */
static struct kernel_step attention_step(const struct problem *problem, const struct path_tiles *tiles)
{
    struct problem attention = *problem;
    struct path_tiles t = *tiles;

    attention.pass = PASS_ATTENTION;
    t.block_v = t.matrix_block_v;
    return path_read_step(&attention, &t);
}

static clattn_status derive_turned(const struct device_facts *facts, const struct problem *problem,
                                   const struct solver_tiles *t, struct path_shape *s)
{
    TRY(path_derive_turning(facts, problem, &t->path, &s->turning));
    return flash_derive_shape(facts, problem, &t->read, &s->turned);
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    const struct solver_tiles *t = tiles;
    struct path_shape *s = shape;

    (void)solver;
    s->tiles = t->path;
    s->is_absolute = is_absolute(problem);
    if (s->is_absolute)
        return derive_turned(facts, problem, t, s);
    s->prepare = path_prepare_step(problem, &t->path);
    s->carry = path_carry_step(problem, &t->path);
    s->read = path_read_step(problem, &t->path);
    s->attention = attention_step(problem, &t->path);
    TRY(step_fits(&s->prepare, facts->device));
    TRY(step_fits(&s->carry, facts->device));
    TRY(step_fits(&s->read, facts->device));
    return problem->desc.flags & CLATTN_WITH_ATTN ? step_fits(&s->attention, facts->device) : CLATTN_SUCCESS;
}

/* ---- The recipe ---------------------------------------------------------------------------------------------------
 */

/* Queries walk back over blocks of keys. On their way they turn, in their own span block by block, then a span at once. */
static int64_t turns(const struct problem *problem, const void *shape)
{
    const struct path_tiles *t = &((const struct path_shape *)shape)->tiles;
    const int64_t K = problem->desc.key_dim, blocks = divide_up(problem_most(problem).kv_len, t->chunk);

    return (blocks + lower(blocks, t->span)) * list_block_turns(problem, t->read_group, t->vec, t->chunk, t->block_v) +
           divide_up(blocks, t->span) * product_turns(t->read_group, t->vec, K, t->chunk, K);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    const struct path_shape *s = shape;

    (void)problem;
    if (s->is_absolute)
        return flash_reach(&s->turned);
    return (struct reach){.chunk = s->tiles.chunk, .parts = 1};
}

static void add_read(struct builder *b, const struct problem *problem, const struct path_shape *s,
                     const struct kernel_step *step, int block_v)
{
    const struct grid3 grid = {build_slots(b, s->tiles.chunk), problem_work_heads(problem),
                               divide_up(problem_values(problem), block_v)};

    build_kernel(b, step, grid);
}

static clattn_status add_attention(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct path_shape *s = shape;

    add_read(b, problem, s, &s->attention, s->tiles.matrix_block_v);
    return CLATTN_SUCCESS;
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct path_shape *s = shape;

    if (s->is_absolute) {
        path_add_turning(b, &s->turning);
        flash_add(b, problem, &s->turned);
        return CLATTN_SUCCESS;
    }
    path_add_prepared(b, &s->tiles, &s->prepare, &s->carry);
    add_read(b, problem, s, &s->read, s->tiles.block_v);
    if (problem->desc.flags & CLATTN_WITH_ATTN)
        TRY(build_pass(b, PASS_ATTENTION, s, add_attention));
    return path_add_carry(b, problem);
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct path_shape *s = shape;
    const struct kernel_step *const steps[] = {&s->prepare, &s->carry, &s->read, &s->attention};

    if (s->is_absolute && step < PATH_TURNING_STEPS)
        path_describe_turning(text, &s->turning, step);
    else if (s->is_absolute)
        flash_describe(text, &s->turned);
    else
        path_describe(text, &s->tiles, steps[step],
                      step == READ_ATTENTION ? s->tiles.matrix_block_v : s->tiles.block_v);
}

const struct solver solver_path = {
    .space = {"path", parameters, 1024, 0, 0, 1},
    .mode = CLATTN_MODE_CHUNK,
    .rank = 870,
    .tiles_size = sizeof(struct solver_tiles),
    .shape_size = sizeof(struct path_shape),
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .turns = turns,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
