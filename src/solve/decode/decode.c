/* decode: a work-group reads one part of the keys for a tile of query rows, and leaves O, m and l of its softmax; then
 * the parts are joined. path_decode does the same of keys that were carried to where a short tail begins: the queries
 * walk back over the tail first, which is one part more. cl/decode/README.md has the formulas. */
#include "solve/decode/decode.h"

enum { FLOAT = 4, PART_UNIT = 16 };

/* The kernels, in the order of the recipe; walk is path_decode's alone. */
enum { WALK, READ, JOIN, STEPS };

struct decode_shape {
    struct decode_tiles tiles;
    struct kernel_step steps[STEPS];
    int first;   /* WALK or READ */
    int parts;   /* of the keys: splits, and the tail */
    int record;  /* floats that a part leaves of a tile */
    int queries; /* floats of a tile's queries */
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

/* The kernels know these two decays, and softmax alone; their tiles follow from no chunk. */
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

/* Whether queries walk over the tail of the keys, which is one part more. */
static int has_walk(const struct problem *problem)
{
    return problem->rule->erase == ERASE_POSITION;
}

static int path_decode_applies(const struct solver *solver, const struct device_facts *facts,
                               const struct problem *problem)
{
    (void)solver, (void)facts;
    return is_read_in_parts(problem) && has_walk(problem) && problem->desc.tail != 0;
}

/* ---- Kernels ------------------------------------------------------------------------------------------------------
 */

/* A tile's numbers. */
struct sizes {
    int rows;
    int channels, values; /* of a row, in whole vectors */
    int parts, record;
};

static struct sizes sizes_of(const struct problem *problem, const struct decode_tiles *t)
{
    struct sizes s = {.rows = t->tokens * t->heads,
                      .channels = round_up(problem->desc.key_dim, t->vec),
                      .values = round_up(problem->desc.value_dim, t->vec),
                      .parts = t->splits + has_walk(problem)};

    s.record = round_up((int64_t)s.rows * (s.values + 3), PART_UNIT);
    return s;
}

/* Lanes beyond those that a row's values need work other keys of the block, or other parts. */
static int shares(int group, int columns, int count)
{
    int share = 1;

    while (2 * share * columns <= group && count % (2 * share) == 0)
        share *= 2;
    return share;
}

static struct kernel_step part_step(enum embedded_file file, const struct problem *problem,
                                    const struct decode_tiles *t, const struct reading *reading)
{
    const struct sizes s = sizes_of(problem, t);
    const struct number numbers[] = {
        {"KV_GROUP", query_heads(problem)},
        {"HEADS", t->heads},
        {"ROWS", s.rows},
        {"KEYS", reading->keys},
        {"SPLITS", t->splits},
        {"PARTS", s.parts},
        {"WALKED", has_walk(problem)},
        {"LANES_K", reading->lanes},
        {"KP", s.channels},
        {"VP", s.values},
        {"PART", s.record},
        {"BK", t->vec},
        {"BV", t->vec},
        {"RP", t->vec},
        {"CP", round_up(t->tokens, t->vec)},
    };
    struct kernel_step step = kernel_step(file, problem);

    step_tile(&step, reading->group, t->vec, t->tokens, t->sub_group);
    step_constants(&step, numbers, sizeof numbers / sizeof *numbers);
    return step;
}

/* The local arrays and first words of a kernel that reads keys. */
static void add_reading(struct kernel_step *step, const struct problem *problem, const struct decode_tiles *t,
                        const struct reading *reading, int products)
{
    static const enum embedded_file bias[] = {
        [DECAY_NONE] = FILE_parts_bias_none, [DECAY_SCALAR] = FILE_parts_bias_scalar};
    const struct sizes s = sizes_of(problem, t);
    const int share = shares(reading->group, s.values / t->vec, reading->keys), scores = s.rows * reading->keys;
    const enum decay decay = problem_decay(problem);

    step_constant(step, "SHARES", share);
    step_header(step, bias[decay]);
    step_header(step, FILE_parts_weigh);
    step_local(step, "LOCAL_QUERIES", (int64_t)s.rows * s.channels, FLOAT);
    step_local(step, "LOCAL_PRODUCTS", (int64_t)reading->lanes * products, FLOAT);
    step_local(step, "LOCAL_SCORES", scores, FLOAT);
    step_local(step, "LOCAL_OUTPUT", (int64_t)share * s.rows * s.values, FLOAT);
    step_local(step, "LOCAL_DECAYS", decay == DECAY_NONE ? 1 : scores, FLOAT);
    step_locals(step, "LOCAL_MOST", 4, scores / t->vec, FLOAT);
    step_local(step, "LOCAL_KEPT", s.rows, FLOAT);
}

static struct kernel_step walk_step(const struct problem *problem, const struct decode_tiles *t)
{
    struct kernel_step step = part_step(FILE_walk_path, problem, t, &t->walk);

    add_reading(&step, problem, t, &t->walk, 2 * t->tokens * t->heads);
    step_header(&step, FILE_parts_walk);
    step_header(&step, FILE_output_plain);
    return step;
}

/* Whether registers can hold a lane's part of a block, of one column at most: Intel's, of which sub-groups are asked
 * for, cannot. */
static int is_ahead(const struct problem *problem, const struct decode_tiles *t)
{
    enum { MOST_BYTES = 512 };
    const struct sizes s = sizes_of(problem, t);
    const int columns = s.values / t->vec, share = shares(t->read.group, columns, t->read.keys);
    const int64_t turns = divide_up((int64_t)t->read.keys * t->read.lanes, t->read.group) *
                          divide_up(s.channels, (int64_t)t->read.lanes * t->vec);
    const int64_t bytes = (turns + t->read.keys / share) * t->vec * (int64_t)dtype_size(problem->desc.dtype);

    return t->read.group > 1 && t->sub_group == 0 && share * columns <= t->read.group && bytes <= MOST_BYTES;
}

struct kernel_step decode_read_step(const struct problem *problem, const struct decode_tiles *t)
{
    struct kernel_step step = part_step(FILE_decode, problem, t, &t->read);
    const int norms = (problem->desc.flags & CLATTN_QK_L2NORM) != 0;

    add_reading(&step, problem, t, &t->read, (t->tokens * t->heads + norms) * t->read.keys);
    step_header(&step, is_ahead(problem, t) ? FILE_parts_ahead : FILE_parts_direct);
    step_header(&step, has_walk(problem) ? FILE_parts_queries_walked : FILE_parts_queries_given);
    step_header(&step, FILE_output_plain);
    return step;
}

static struct kernel_step join_step(const struct problem *problem, const struct decode_tiles *t)
{
    struct kernel_step step = part_step(FILE_join_parts, problem, t, &t->read);
    const struct sizes s = sizes_of(problem, t);
    const int share = shares(t->read.group, s.values / t->vec, t->splits);

    step_constant(&step, "SHARES", share);
    step_locals(&step, "LOCAL_PARTS", 3, s.parts, FLOAT);
    step_local(&step, "LOCAL_SHARES", (int64_t)share * s.values, FLOAT);
    step_header(&step, FILE_list);
    step_header(&step, FILE_output_plain);
    return step;
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    struct decode_shape *s = shape;
    const struct sizes sizes = sizes_of(problem, tiles);

    (void)solver;
    s->tiles = *(const struct decode_tiles *)tiles;
    s->first = has_walk(problem) ? WALK : READ;
    s->parts = sizes.parts;
    s->record = sizes.record;
    s->queries = sizes.rows * sizes.channels;
    if (s->first == WALK)
        s->steps[WALK] = walk_step(problem, tiles);
    s->steps[READ] = decode_read_step(problem, tiles);
    s->steps[JOIN] = join_step(problem, tiles);
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

/* Queries walk over the tail; from there on they are those that have walked. */
static void add_walk(struct builder *b, const struct decode_shape *s, struct grid3 grid, int queries)
{
    build_bind(b, "rows", queries);
    build_kernel(b, &s->steps[WALK], grid);
    build_bind(b, "q", queries);
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct decode_shape *s = shape;
    const int64_t head_groups = head_tiles(problem, &s->tiles);
    const int64_t tiles = most_slots(problem, s->tiles.tokens) * head_groups;
    const int queries = s->first == WALK ? build_scratch(b, "rows", CLATTN_F32, tiles * s->queries) : IR_NONE;
    const ir_expression slots = build_slots(b, s->tiles.tokens);

    build_bind(b, "parts", build_scratch(b, "parts of the keys", CLATTN_F32, tiles * s->parts * s->record));
    if (s->first == WALK)
        add_walk(b, s, (struct grid3){slots, head_groups, 1}, queries);
    build_kernel(b, &s->steps[READ], (struct grid3){slots, head_groups, s->tiles.splits});
    build_kernel(b, &s->steps[JOIN], (struct grid3){slots, problem_work_heads(problem), 1});
    return CLATTN_SUCCESS;
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

const struct solver solver_decode = {
    .space = {"decode", decode_parameters, 1, 8192, 0, 1},
    .mode = CLATTN_MODE_CHUNK,
    .rank = 900,
    .tiles_size = sizeof(struct decode_tiles),
    .shape_size = sizeof(struct decode_shape),
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
    .applies = path_decode_applies,
    .choose_tiles = decode_choose_tiles,
    .derive_shape = derive_shape,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
