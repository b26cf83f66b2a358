/* mesa_matrix: mesa_net in chunks of tokens on a matrix engine.
 *
 * keys:   normalised, and a row for each head, where they are not so already
 * (walk)  the gram matrices before all chunks: the states on the way of a rule whose values are its keys
 * matrix: conjugate gradients for the rows of all chunks at once
 *
 * Then the solved queries read the state. Gram matrices are K^2 floats a chunk and head. */
#include "solve/mesa/mesa.h"

#include <stddef.h>

enum { FLOAT = 4, NUMBER = 2 };

struct mesa_matrix_tiles {
    int chunk;
};

struct mesa_matrix_shape {
    struct mesa_matrix_tiles tiles;
    struct kernel_step keys, solve;
    struct problem walk;
    int has_keys;
};

static const struct parameter parameters[] = {
    PARAMETER_ROW("chunk", struct mesa_matrix_tiles, chunk, 16, 32, 64, 128),
    PARAMETERS_END,
};

/* Channels that registers hold three rows of, in tiles. */
static int channels_fit(const struct engine *engine, const struct problem *problem)
{
    enum { MOST = 128, MOST_OF_FEW = 64 };

    return problem->desc.key_dim <= (engine->key_split > 1 ? MOST_OF_FEW : MOST);
}

/* Where query heads share a state, the walk writes states in the last read alone, and every read is solved with them. */
static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver;
    return facts->engine != NULL && rule_is_solved(problem->rule) && problem->desc.dtype != CLATTN_F32 &&
           problem_reads(problem) == 1 && problem->desc.state_window == 0 && problem->desc.state_every == 0 &&
           channels_fit(facts->engine, problem);
}

/* ---- Kernels ------------------------------------------------------------------------------------------------------
 */

/* Whether keys are at most 1, and so in f16's range; and whether they are written in f16 beside bf16. */
static int keys_are_half(const struct problem *problem)
{
    return (problem->desc.flags & CLATTN_QK_L2NORM) != 0;
}

static int has_halves(const struct problem *problem)
{
    return keys_are_half(problem) && problem->desc.dtype != CLATTN_F16;
}

static int channels_of(const struct problem *problem)
{
    return round_up(problem->desc.key_dim, MATRIX_TILE);
}

static struct kernel_step keys_step(const struct device_facts *facts, const struct problem *problem, int chunk)
{
    enum { GROUP = 64, SERIAL_VEC = 16, SHARED_VEC = 4, ROW_LANES = 8 };
    const int serial = facts->device->serial, vec = serial ? SERIAL_VEC : SHARED_VEC;
    const int row_lanes = serial ? 1 : ROW_LANES;
    const struct state_tile tile = {.group = serial ? 1 : GROUP,
                                    .vec = vec,
                                    .chunk = chunk,
                                    .block_k = round_up(problem->desc.key_dim, vec),
                                    .block_v = vec,
                                    .lanes_k = 1,
                                    .sub_group = serial ? 0 : facts->device->sub_group};

    struct kernel_step step = mesa_step_of(FILE_mesa_keys, problem, &tile);

    step_constant(&step, "ROW_LANES", row_lanes);
    step_local(&step, "LOCAL_PARTS", (int64_t)chunk * row_lanes, FLOAT);
    return step;
}

static void add_locals(struct kernel_step *step, int chunk, int channels)
{
    enum { PAD = 8, PITCH = MATRIX_TILE + PAD, ARRAYS = 4, PARTS = 8 };
    const int tiles = channels / MATRIX_TILE, gram = tiles * (tiles + 1) / 2 * MATRIX_TILE * PITCH;

    step_constant(step, "PARTS", PARTS); /* of a row, which lie where the gram matrix comes to lie */
    step_local(step, "LOCAL_GRAM", higher(gram, higher(chunk * PARTS, channels) * FLOAT / NUMBER), NUMBER);
    step_local(step, "LOCAL_KEYS", chunk * (channels + PAD), NUMBER);
    step->local_bytes += (size_t)((ARRAYS * chunk + 2 * channels + 1) * FLOAT);
}

static struct kernel_step solve_step(const struct engine *engine, const struct problem *problem, int sub_group,
                                     int chunk)
{
    enum { VEC = 4 };
    const struct problem rows = mesa_rows(problem);
    const int channels = channels_of(problem), group = chunk / engine->rows * engine->lanes;
    struct kernel_step step = kernel_step(FILE_mesa_matrix, &rows);

    mesa_add_steps(&step, problem);
    step.data = CLATTN_F16;
    step.out = problem->desc.dtype;
    step.options = engine->options;
    step.any_group = 1;
    step_tile(&step, group, VEC, chunk, sub_group);
    step_scratch(&step, engine->scratch);
    step_constant(&step, "VALUE_TILES", chunk / engine->rows);
    step_constant(&step, "READERS", 0);
    step_constant(&step, "CHANNELS", channels);
    step_constant(&step, "KEYS_HALF", keys_are_half(problem));
    step_constant(&step, "K_PER_HEAD", mesa_has_keys(problem));
    add_locals(&step, chunk, channels);
    step_header(&step, engine->instructions);
    step_header(&step, engine->words);
    step_header(&step, FILE_strength_operand);
    return step;
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

static int chunk_fits(const struct device_facts *facts, const struct problem *problem, int chunk)
{
    const struct engine *engine = facts->engine;
    const struct kernel_step step = solve_step(engine, problem, facts->device->sub_group, chunk);

    return chunk % MATRIX_TILE == 0 && (size_t)step.group <= facts->device->info.max_work_group &&
           step_fits(&step, facts->device) == CLATTN_SUCCESS;
}

/* A long chunk has few gram matrices to be stored and loaded, and many keys of its own that each of its rows
 * multiplies. */
static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    enum { USUAL = 64 };
    struct mesa_matrix_tiles *t = tiles;
    const int asked = t->chunk != TILE_OPEN ? t->chunk : problem->desc.chunk;

    (void)solver;
    t->chunk = asked != 0 ? asked : USUAL;
    while (asked == 0 && t->chunk > MATRIX_TILE && !chunk_fits(facts, problem, t->chunk))
        t->chunk /= 2;
    return chunk_fits(facts, problem, t->chunk) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

/* ---- Shape and recipe ---------------------------------------------------------------------------------------------
 */

/* The gram matrices as the states of a rule whose values are its keys. Nothing reads its outputs. */
static struct problem walk_of(const struct problem *problem, int chunk)
{
    struct problem walk = mesa_rows(problem);

    walk.desc.flags &= ~CLATTN_QK_L2NORM;
    if (mesa_has_keys(problem))
        walk.desc.qk_heads = walk.desc.heads;
    walk.desc.mode = CLATTN_MODE_CHUNK;
    walk.desc.chunk = 0;
    walk.desc.scale = 1;
    walk.desc.state_every = chunk;
    walk.states_in_order = 1;
    if (keys_are_half(problem))
        walk.desc.dtype = CLATTN_F16;
    walk.types[CLATTN_Q] = walk.types[CLATTN_K] = walk.types[CLATTN_V] = walk.types[CLATTN_O] = walk.desc.dtype;
    walk.types[CLATTN_STATE_IN] = walk.types[CLATTN_STATE_OUT] = walk.types[CLATTN_STATES] = CLATTN_F32;
    return walk;
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    struct mesa_matrix_shape *s = shape;

    (void)solver;
    s->tiles = *(const struct mesa_matrix_tiles *)tiles;
    s->keys = keys_step(facts, problem, s->tiles.chunk);
    s->solve = solve_step(facts->engine, problem, facts->device->sub_group, s->tiles.chunk);
    s->walk = walk_of(problem, s->tiles.chunk);
    s->has_keys = mesa_has_keys(problem);
    TRY(step_fits(&s->keys, facts->device));
    return step_fits(&s->solve, facts->device);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    (void)problem;
    return (struct reach){.chunk = ((const struct mesa_matrix_shape *)shape)->tiles.chunk, .parts = 1};
}

/* Memory for the gram matrix after each whole chunk, [sequence][chunk][head]; packed sequences' follow each other. */
static int chunk_grams(struct builder *b, const struct problem *problem, int chunk)
{
    const struct extent most = problem_most(problem);
    const int64_t heads = problem_work_heads(problem), matrix = problem->desc.key_dim * problem->desc.key_dim;
    const ir_expression chunks = build_binary(b, IR_DIVIDE, build_length(b, IR_TOKENS), build_constant(b, chunk));
    const ir_expression strides[3] = {build_times(b, chunks, heads * matrix), build_constant(b, heads * matrix),
                                      build_constant(b, matrix)};

    return build_scratch_of(b, "gram matrices", CLATTN_F32, most.batch * (most.seq_len / chunk) * heads * matrix,
                            strides);
}

static clattn_status add_walk(struct builder *b, const struct mesa_matrix_shape *s, int keys, int grams)
{
    const int names = b->name_count;
    clattn_status status;

    build_bind(b, "q", keys);
    build_bind(b, "v", keys);
    build_bind(b, "o", build_bound(b, "solved")); /* which is written afterwards */
    build_bind(b, "snapshots", grams);
    status = build_problem(b, &s->walk);
    b->name_count = names;
    return status;
}

static clattn_status add_solve(struct builder *b, const struct problem *problem, const struct mesa_matrix_shape *s)
{
    const int64_t heads = problem_work_heads(problem);
    const struct grid3 chunks = {build_slots(b, s->tiles.chunk), heads, 1};
    const int grams = chunk_grams(b, problem, s->tiles.chunk);
    int keys;

    mesa_bind(b, problem);
    keys = build_bound(b, "keys");
    build_bind(b, "halves", has_halves(problem) ? mesa_rows_of_tokens(b, problem, "keys in f16") : IR_NONE);
    if (keys != IR_NONE) {
        build_kernel(b, &s->keys, chunks);
        build_bind(b, "k", has_halves(problem) ? build_bound(b, "halves") : keys);
    }
    keys = build_bound(b, "k");
    build_bind(b, "grams", grams);
    TRY(add_walk(b, s, keys, grams));
    build_kernel(b, &s->solve, chunks);
    return CLATTN_SUCCESS;
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    enum { MOST_READ = 32 };
    struct problem read = *problem;
    const int names = b->name_count;

    if (read.desc.chunk > MOST_READ)
        read.desc.chunk = 0; /* another solver's own */
    if (problem->pass == PASS_OUTPUTS)
        TRY(add_solve(b, problem, shape));
    return mesa_read(b, &read, CLATTN_MODE_CHUNK, names);
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct mesa_matrix_shape *s = shape;
    const int keys = step == 0 && s->has_keys;

    text_format(text, "group %d, chunk %d, local %zu bytes\n", keys ? s->keys.group : s->solve.group, s->tiles.chunk,
                keys ? s->keys.local_bytes : s->solve.local_bytes);
}

const struct solver solver_mesa_matrix = {
    .space = {"mesa_matrix", parameters, 1024, 0, 1, 1},
    .mode = CLATTN_MODE_CHUNK,
    .rank = 975,
    .shared = 1,
    .units = 1,
    .tiles_size = sizeof(struct mesa_matrix_tiles),
    .shape_size = sizeof(struct mesa_matrix_shape),
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
