/* decode: a work-group reads one part of the keys for a tile of query rows, and stores O, m and l of its softmax; then
 * the parts are joined. path_decode does the same for keys that were carried to the beginning of a short tail. Its
 * queries first walk back over the tail, which counts as one more part. cl/decode/README.md has the formulas. */
#include "solve/decode/decode.h"
#include "solve/path/path.h"

/* The kernels, in the order of the recipe. Only path_decode has WALK. */
enum { WALK, READ, JOIN, STEPS };

struct decode_shape {
    struct decode_tiles tiles;
    struct kernel_step steps[STEPS];
    struct decode_sizes sizes;
    int first; /* the first kernel: WALK or READ */
};

static const struct parameter decode_parameters[] = {
    PARAMETER_ROW("vec", struct decode_tiles, vec, 4, 16),
    PARAMETER_ROW("group", struct decode_tiles, read.group, 1, 16, 32, 64, 128, 256),
    PARAMETER_ROW("heads", struct decode_tiles, heads, 1, 2, 4, 8, 16),
    PARAMETER_ROW("keys", struct decode_tiles, read.keys, 16, 32, 64, 128),
    PARAMETER_ROW("lanes_k", struct decode_tiles, read.lanes, 1, 2, 4, 8, 16),
    PARAMETER_ROW("splits", struct decode_tiles, splits, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
    PARAMETERS_END,
};

static const struct parameter path_decode_parameters[] = {
    PARAMETER_ROW("vec", struct decode_tiles, vec, 4, 16),
    PARAMETER_ROW("decode.group", struct decode_tiles, read.group, 1, 16, 32, 64, 128, 256),
    PARAMETER_ROW("walk.group", struct decode_tiles, walk.group, 1, 16, 32, 64, 128, 256),
    PARAMETER_ROW("heads", struct decode_tiles, heads, 1, 2, 4, 8, 16),
    PARAMETER_ROW("keys", struct decode_tiles, read.keys, 16, 32, 64, 128),
    PARAMETER_ROW("decode.lanes_k", struct decode_tiles, read.lanes, 1, 2, 4, 8, 16),
    PARAMETER_ROW("walk.lanes_k", struct decode_tiles, walk.lanes, 1, 2, 4, 8, 16),
    PARAMETER_ROW("splits", struct decode_tiles, splits, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
    PARAMETERS_END,
};

/* ---- What they apply to -------------------------------------------------------------------------------------------
 */

/* The kernels support only these two decays and softmax. Their tiles do not depend on a chunk. */
static int is_read_in_parts(const struct problem *problem)
{
    const enum decay decay = problem_decay(problem);

    return rule_has_list(problem->rule) && (decay == DECAY_NONE || decay == DECAY_SCALAR) && problem->desc.chunk == 0 &&
           problem->desc.kernel == CLATTN_WEIGHTS_SOFTMAX;
}

static int decode_applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts;
    return is_read_in_parts(problem) && problem->rule->erase == ERASE_NONE;
}

static int path_decode_applies(const struct solver *solver, const struct device_facts *facts,
                               const struct problem *problem)
{
    (void)solver, (void)facts;
    return is_read_in_parts(problem) && has_walk(problem) && problem->desc.tail != 0 &&
           (problem->desc.flags & CLATTN_WITH_ATTN) == 0;
}

/* ---- Shape --------------------------------------------------------------------------------------------------------
 */

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    struct decode_shape *s = shape;

    (void)solver;
    s->tiles = *(const struct decode_tiles *)tiles;
    s->sizes = decode_sizes(problem, tiles);
    s->first = has_walk(problem) ? WALK : READ;
    if (s->first == WALK)
        s->steps[WALK] = decode_walk_step(problem, tiles);
    s->steps[READ] = decode_read_step(problem, tiles);
    s->steps[JOIN] = decode_join_step(problem, tiles);
    for (int i = s->first; i < STEPS; i++)
        TRY(step_fits(&s->steps[i], facts->device));
    return CLATTN_SUCCESS;
}

/* ---- The recipe ---------------------------------------------------------------------------------------------------
 */

static struct reach reach(const struct problem *problem, const void *shape)
{
    const struct decode_shape *s = shape;

    (void)problem;
    return (struct reach){.chunk = s->tiles.tokens, .parts = 1, .keys = s->tiles.read.keys};
}

/* Adds the walk over the tail. Later steps find the walked queries in place of q. */
static void add_walk(struct builder *b, const struct decode_shape *s, struct grid3 grid, int64_t tiles)
{
    const int queries = build_scratch(b, "rows", CLATTN_F32, tiles * s->sizes.rows * s->sizes.channels);

    build_bind(b, "rows", queries);
    build_kernel(b, &s->steps[WALK], grid);
    build_bind(b, "q", queries);
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct decode_shape *s = shape;
    const int64_t head_groups = head_tiles(problem, &s->tiles);
    const int64_t tiles = most_slots(problem, s->tiles.tokens) * head_groups;
    const int64_t floats = tiles * s->sizes.parts * s->sizes.record;
    const ir_expression slots = build_slots(b, s->tiles.tokens);

    build_bind(b, "parts", build_scratch(b, "parts of the keys", CLATTN_F32, floats));
    if (s->first == WALK)
        add_walk(b, s, (struct grid3){slots, head_groups, 1}, tiles);
    build_kernel(b, &s->steps[READ], (struct grid3){slots, head_groups, s->tiles.splits});
    build_kernel(b, &s->steps[JOIN], (struct grid3){slots, problem_work_heads(problem), 1});
    return path_add_carry(b, problem);
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct decode_shape *s = shape;
    const struct kernel_step *kernel = &s->steps[s->first + step];
    const struct reading *reading = s->first + step == WALK ? &s->tiles.walk : &s->tiles.read;

    text_format(text, "group %d, vec %d, %d tokens of %d heads, %d keys at once in %d parts, local %zu bytes\n",
                kernel->group, s->tiles.vec, s->tiles.tokens, s->tiles.heads, reading->keys, s->tiles.splits,
                kernel->local_bytes);
}

/* Whether there are few queries and many keys, as decode needs. */
static int is_few(const struct problem *problem)
{
    enum { MOST_TOKENS = 16, LEAST_KEYS = 64 };
    const struct extent most = problem_most(problem);
    const int64_t packed = problem->desc.flags & CLATTN_CU_SEQLENS ? most.sequences : 1;

    return rule_has_list(problem->rule) && problem->desc.kernel == CLATTN_WEIGHTS_SOFTMAX &&
           most.seq_len <= MOST_TOKENS * packed && most.kv_len >= LEAST_KEYS * packed;
}

static enum preference decode_prefers(const struct device_facts *facts, const struct problem *problem)
{
    (void)facts;
    return problem->rule->erase == ERASE_NONE && is_few(problem) ? PREFERENCE_FIRST : PREFERENCE_NONE;
}

/* Preferred if all keys but a few have been carried. */
static enum preference path_decode_prefers(const struct device_facts *facts, const struct problem *problem)
{
    enum { MOST_WALKED = 256 };
    const int64_t tail = problem->desc.tail;

    (void)facts;
    return problem->rule->erase != ERASE_NONE && tail > 0 && tail <= MOST_WALKED && is_few(problem) ? PREFERENCE_FIRST
                                                                                                    : PREFERENCE_NONE;
}

const struct solver solver_decode = {
    .space = {"decode", decode_parameters, 1, 8192, 0, 1},
    .mode = CLATTN_MODE_CHUNK,
    .rank = 900,
    .tiles_size = sizeof(struct decode_tiles),
    .shape_size = sizeof(struct decode_shape),
    .prefers = decode_prefers,
    .applies = decode_applies,
    .choose_tiles = decode_choose_tiles,
    .derive_shape = derive_shape,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};

const struct solver solver_path_decode = {
    .space = {"path_decode", path_decode_parameters, 1, 8192, 0, 1},
    .mode = CLATTN_MODE_CHUNK,
    .rank = 860,
    .tiles_size = sizeof(struct decode_tiles),
    .shape_size = sizeof(struct decode_shape),
    .prefers = path_decode_prefers,
    .applies = path_decode_applies,
    .choose_tiles = decode_choose_tiles,
    .derive_shape = derive_shape,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
