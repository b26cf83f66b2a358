/* Tiles of the kernels of register blocks: by heuristic, and what follows from those that tuning chose. */
#include "solve/blocks/blocks.h"

enum {
    VEC = BLOCKS_VEC,
    SPOT = BLOCKS_SPOT,
    ENGINE_COLUMNS = BLOCKS_ENGINE_COLUMNS,
    FLOAT = 4,
    LEAST_CHUNK = 16,
    MOST_HELD = 8, /* vectors of a slice on its way to a lane */
    JOIN_GROUP = 64,
    MOST_SEGMENTS = 16,
    CHUNKS_A_SEGMENT = 4, /* at least */
    PRODUCT_COLUMNS = 32, /* of what prepare multiplies by T at once */
    ENGINE_AHEAD = 8,     /* slices on their way, at most */
    STATE_COLUMNS = 32,   /* of the state and of outputs for each sub-group of an engine */
    OUTPUT_COLUMNS = 64
};

/* ---- What follows from chunk, slices and columns ------------------------------------------------------------------
 */

/* Vectors on their way to a lane of the kernel that carries the state: slices of tokens, and of channels. */
static int token_vectors(const struct blocks_kernel *kernel, const struct blocks_sizes *s)
{
    const struct blocks_part_tiles *t = &kernel->tiles;
    const int slices = lower(t->ahead, kernel->chunk / t->tokens);

    return (1 + s->second) * slices * (int)divide_up(t->tokens * s->channels / VEC, t->group);
}

static int channel_vectors(const struct blocks_kernel *kernel, const struct blocks_sizes *s)
{
    const struct blocks_part_tiles *t = &kernel->tiles;
    const int slices = lower(t->ahead, s->channels / t->block_k);

    return s->erases ? slices * (int)divide_up(kernel->chunk * t->block_k / VEC, t->group) : 0;
}

/* Slices that are narrow enough, and as many of them ahead as a lane holds; fewer where rows end within one, for then
 * each vector has an edge of its own. */
static void follow_slices(struct blocks_kernel *kernel, const struct blocks_sizes *s, int whole, int least)
{
    struct blocks_part_tiles *t = &kernel->tiles;

    while (t->ahead > 1 && token_vectors(kernel, s) + channel_vectors(kernel, s) > (1 + whole) * MOST_HELD)
        t->ahead /= 2;
    while (t->tokens > least && token_vectors(kernel, s) > MOST_HELD * (1 + s->second))
        t->tokens /= 2;
    while (t->block_k > least && channel_vectors(kernel, s) > MOST_HELD)
        t->block_k /= 2;
}

/* Lanes that every pair of blocks of scores takes, with so many rows a lane. */
static int lanes_of_scores(int chunk, const struct blocks_sizes *s, int rows)
{
    return blocks_pairs(chunk, s) * (SPOT / rows) * (SPOT / VEC);
}

/* Of a block of scores a lane's rows: as few as there are lanes for (an H100, prepare_blocks of rwkv7, ms: four rows
 * 3.04, one 2.33). */
static int rows_of_scores(int chunk, const struct blocks_sizes *s, int most, int lanes)
{
    int rows = most;

    while (!s->scored_by_outputs && rows > 1 && lanes_of_scores(chunk, s, rows / 2) <= lanes)
        rows /= 2;
    return rows;
}

/* The state's kernel on an engine: where channels are few, sub-groups have rows of the state and not of a chunk. */
static int follow_engine_states(struct blocks_kernel *kernel, const struct blocks_sizes *s, int sub_groups)
{
    struct blocks_part_tiles *t = &kernel->tiles;
    const int lanes = kernel->engine->lanes;

    while (t->split > 1 && lower(t->tokens, t->block_k) < BLOCKS_ENGINE_TILE * t->split)
        t->split /= 2;
    sub_groups = lower(sub_groups, s->channels / (VEC * lanes / ENGINE_COLUMNS));
    sub_groups *= t->split * higher(t->block_v / STATE_COLUMNS, 1);
    t->group = sub_groups * lanes;
    follow_slices(kernel, s, 1, BLOCKS_ENGINE_TILE * t->split);
    return sub_groups;
}

/* On an engine a sub-group has 16 rows of a chunk. */
static void follow_engine(struct blocks_kernel *kernel, const struct blocks_sizes *s)
{
    struct blocks_part_tiles *t = &kernel->tiles;
    const int lanes = kernel->engine->lanes, rows = lanes / ENGINE_COLUMNS;
    int sub_groups = kernel->chunk / BLOCKS_ENGINE_TILE;

    switch (kernel->part) {
    case BLOCKS_PREPARE:
        sub_groups = higher(kernel->chunk * (s->second ? 4 : 2) / lanes, 1);
        t->rows = rows_of_scores(kernel->chunk, s, SPOT / (s->second || s->leaves_rows ? 2 : 1), sub_groups * lanes);
        break;
    case BLOCKS_STATES: sub_groups = follow_engine_states(kernel, s, sub_groups); break;
    case BLOCKS_JOIN: sub_groups = JOIN_GROUP / lanes; break;
    case BLOCKS_OUTPUTS:
        t->rows = kernel->chunk / (sub_groups * rows);
        sub_groups *= higher(t->block_v / OUTPUT_COLUMNS, 1);
        break;
    case BLOCKS_PARTS: break;
    }
    t->group = sub_groups * lanes;
    t->wide = t->block_v / (blocks_lanes(kernel, s).columns * VEC);
}

/* Rows and vectors of outputs that a lane has: fewer where a group would have less than 64 of them. */
static void follow_outputs(struct blocks_kernel *kernel)
{
    struct blocks_part_tiles *t = &kernel->tiles;

    t->wide = t->block_v == BLOCKS_MOST_COLUMNS ? 2 : 1;
    t->rows = blocks_lean(t) ? SPOT / 2 : SPOT;
    while (t->rows > 1 && (kernel->chunk / t->rows < VEC || kernel->chunk / t->rows * t->block_v / VEC / t->wide < 64))
        t->rows /= 2;
    t->group = kernel->chunk / t->rows * t->block_v / VEC / t->wide;
}

/* The same of multiply-adds. */
static void follow_lanes(struct blocks_kernel *kernel, const struct blocks_sizes *s)
{
    struct blocks_part_tiles *t = &kernel->tiles;
    const int lean = blocks_lean(t);

    t->wide = 1;
    switch (kernel->part) {
    case BLOCKS_PREPARE:
        t->group = kernel->chunk * (s->second || lean ? 4 : 2);
        t->rows =
            rows_of_scores(kernel->chunk, s,
                           lower(SPOT / (s->second ? 2 : 1) / (lean ? 2 : 1), SPOT / (1 + s->leaves_rows)), t->group);
        break;
    case BLOCKS_STATES:
        t->group = t->split * blocks_state_rows(t, s) * t->block_v / VEC;
        /* a part has whole vectors */
        follow_slices(kernel, s, s->channels == kernel->problem->desc.key_dim, VEC * t->split);
        break;
    case BLOCKS_JOIN: t->group = JOIN_GROUP; break;
    case BLOCKS_OUTPUTS: follow_outputs(kernel); break;
    case BLOCKS_PARTS: break;
    }
}

static int most_columns(const struct blocks_kernel *kernel, const struct blocks_sizes *s)
{
    if (kernel->part != BLOCKS_PREPARE)
        return s->widest;
    if (!s->second)
        return s->channels;
    /* the second matrix is multiplied in its place */
    return lower(s->channels, higher(kernel->chunk, kernel->engine != NULL ? PRODUCT_COLUMNS : 0));
}

static void follow(struct blocks_kernel *kernel)
{
    const struct blocks_sizes s = blocks_sizes(kernel);
    struct blocks_part_tiles *t = &kernel->tiles;

    t->block_k = lower(t->block_k, s.channels);
    t->block_v = lower(t->block_v, most_columns(kernel, &s));
    if (kernel->part == BLOCKS_OUTPUTS) /* a slice is of tokens, too: those past the chunk are another's */
        t->block_k = lower(t->block_k, kernel->chunk);
    if (kernel->part != BLOCKS_PREPARE)
        t->tokens = lower(t->tokens, kernel->chunk);
    if (kernel->engine != NULL)
        follow_engine(kernel, &s);
    else
        follow_lanes(kernel, &s);
}

/* ---- What fits ----------------------------------------------------------------------------------------------------
 */

/* Whether every pair of blocks of scores has its lanes. */
static int has_pairs(const struct blocks_kernel *kernel, const struct blocks_sizes *s)
{
    return kernel->part != BLOCKS_PREPARE || s->scored_by_outputs ||
           lanes_of_scores(kernel->chunk, s, kernel->tiles.rows) <= kernel->tiles.group;
}

/* Whether parts of an engine's products have whole tiles. */
static int has_tiles(const struct blocks_kernel *kernel)
{
    const struct blocks_part_tiles *t = &kernel->tiles;
    const int depth = BLOCKS_ENGINE_TILE * t->split;

    return kernel->engine == NULL || kernel->part == BLOCKS_JOIN ||
           (t->wide > 0 && t->block_k >= depth && (kernel->part != BLOCKS_STATES || t->tokens >= depth));
}

/* So few registers that a compute unit holds as many groups as are wanted of it: compilers take them in eights. */
static int registers_of(const struct device *device, const struct blocks_kernel *kernel)
{
    enum { MOST = 255 }; /* that an instruction can name */
    const struct blocks_part_tiles *t = &kernel->tiles;
    const int unit = kernel->engine != NULL ? kernel->engine->registers : device->registers;
    const int share = unit / higher(t->group * t->residents, 1) / 8 * 8;

    return t->residents > 1 && share < MOST ? share : 0;
}

static int fits_memory(const struct device *device, const struct blocks_kernel *kernel)
{
    const struct kernel_step step = blocks_step(kernel);

    return step_fits(&step, device) == CLATTN_SUCCESS;
}

static int fits(const struct device *device, struct blocks_kernel *kernel, int most_group)
{
    const struct blocks_sizes s = blocks_sizes(kernel);

    follow(kernel);
    kernel->tiles.registers = registers_of(device, kernel);
    return has_tiles(kernel) && kernel->tiles.group <= most_group &&
           (!s.erases || blocks_lanes(kernel, &s).rows <= kernel->chunk) && has_pairs(kernel, &s) &&
           fits_memory(device, kernel);
}

/* Smaller tiles until they fit; 0 where none do. */
static int cut_to_fit(const struct device_facts *facts, struct blocks_kernel *kernel)
{
    struct blocks_part_tiles *t = &kernel->tiles;
    const int least = kernel->engine != NULL || kernel->part == BLOCKS_PREPARE ? 16 : VEC;

    while (!fits(facts->device, kernel, facts->most_group)) {
        if (t->split > 1 && t->group > facts->most_group)
            t->split = 1;
        else if (t->block_v > least && t->block_v > 16)
            t->block_v /= 2;
        else if (t->block_k > 16 * t->split && kernel->part != BLOCKS_PREPARE)
            t->block_k /= 2;
        else if (t->tokens > 16 * t->split)
            t->tokens /= 2;
        else if (t->split > 1)
            t->split = 1;
        else if (t->block_v > least)
            t->block_v /= 2;
        else
            return 0;
    }
    return 1;
}

/* ---- By heuristic -------------------------------------------------------------------------------------------------
 */

static int usual_slice(const struct blocks_kernel *kernel, const struct blocks_sizes *s)
{
    int most = kernel->part == BLOCKS_STATES ? 32 : 16;

    /* wider where fewer matrices, or more, are made at once */
    if (kernel->engine != NULL && s->leaves_rows && s->erases &&
        kernel->part == (s->second ? BLOCKS_PREPARE : BLOCKS_OUTPUTS))
        most = 32;
    return blocks_lean(&kernel->tiles) ? most / 2 : most;
}

/* Of the state where something is erased: there are no segments, so that narrow tiles alone keep all units busy. Of low
 * rank an engine has 16 columns (an H100, rwkv7, ms: 2.50, of 32 columns 4.30; by multiply-adds 2.53 and 2.36). */
static int usual_erased(const struct device *device, const struct blocks_kernel *kernel, const struct blocks_sizes *s)
{
    const int64_t groups = problem_heads(kernel->problem) * divide_up(problem_values(kernel->problem), 32);

    return (s->second && kernel->engine != NULL) || 4 * groups < 3 * (int64_t)device->info.compute_units ? 16 : 32;
}

static int usual_columns(const struct device *device, const struct blocks_kernel *kernel, const struct blocks_sizes *s)
{
    const int lean = blocks_lean(&kernel->tiles);

    switch (kernel->part) {
    case BLOCKS_PREPARE: return PRODUCT_COLUMNS;
    case BLOCKS_STATES: return lean ? 32 : s->erases ? usual_erased(device, kernel, s) : 64;
    case BLOCKS_JOIN:
    case BLOCKS_OUTPUTS:
    case BLOCKS_PARTS: break;
    }
    return lean ? BLOCKS_MOST_COLUMNS / 2 : BLOCKS_MOST_COLUMNS;
}

/* Whether multiply-adds fetch keys and values of 16 bits as they lie, in half the registers. */
static int fetches_halves(const struct blocks_kernel *kernel, const struct blocks_sizes *s)
{
    return kernel->part == BLOCKS_STATES && kernel->engine == NULL && !s->leaves_rows && !s->erases &&
           kernel->problem->desc.dtype != CLATTN_F32;
}

/* Of a slice: few where a lane's vectors on their way are many numbers. */
static int usual_tokens(const struct blocks_kernel *kernel, const struct blocks_sizes *s)
{
    const int many =
        kernel->engine == NULL && !s->leaves_rows && !s->second && kernel->problem->desc.dtype == CLATTN_F32;

    if (blocks_lean(&kernel->tiles) || (s->erases && !many) || fetches_halves(kernel, s))
        return usual_slice(kernel, s);
    return BLOCKS_ENGINE_TILE;
}

/* Slices on their way: of halves one, for it is of twice the tokens (an H100, states of simple_gla, bf16, ms: .546 so,
 * two of 16 tokens .577, one .565). */
static int usual_ahead(const struct blocks_kernel *kernel, const struct blocks_sizes *s)
{
    if (kernel->engine != NULL)
        return ENGINE_AHEAD;
    return blocks_lean(&kernel->tiles) || fetches_halves(kernel, s) ? 1 : 2;
}

/* Groups that share a compute unit's registers, where compilers can be told, of kernels that a bound makes faster,
 * though they spill a little with it (H100, ms: states of simple_gla, 208 registers, .70, at 128 .60; prepare_blocks of
 * gla 1.06, at 128 .91). */
static int usual_residents(const struct blocks_kernel *kernel, const struct blocks_sizes *s)
{
    switch (kernel->part) {
    case BLOCKS_OUTPUTS: return 2;
    case BLOCKS_STATES: return kernel->engine == NULL && !s->erases ? 2 : 1;
    case BLOCKS_PREPARE: return !s->leaves_rows || s->second ? 1 : s->erases ? 3 : 4;
    case BLOCKS_JOIN:
    case BLOCKS_PARTS: break;
    }
    return 1;
}

clattn_status blocks_choose_tiles(const struct device_facts *facts, struct blocks_kernel *kernel)
{
    const struct blocks_sizes s = blocks_sizes(kernel);
    struct blocks_part_tiles *t = &kernel->tiles;

    if (kernel->engine != NULL && kernel->chunk % BLOCKS_ENGINE_TILE != 0)
        return CLATTN_UNSUPPORTED;
    *t = (struct blocks_part_tiles){.sub_group = facts->device->sub_group};
    t->block_k = usual_slice(kernel, &s);
    t->block_v = usual_columns(facts->device, kernel, &s);
    t->tokens = usual_tokens(kernel, &s);
    t->ahead = usual_ahead(kernel, &s);
    t->residents = usual_residents(kernel, &s);
    t->split = kernel->part == BLOCKS_STATES && s.erases && !blocks_lean(t) ? 2 : 1;
    return cut_to_fit(facts, kernel) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

/* Whether all kernels can have chunks of so many tokens. */
static int all_have(const struct device_facts *facts, struct blocks_kernel *kernel)
{
    static const enum blocks_part parts[] = {BLOCKS_PREPARE, BLOCKS_STATES, BLOCKS_OUTPUTS};

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        kernel->part = parts[i];
        if (blocks_choose_tiles(facts, kernel) != CLATTN_SUCCESS)
            return 0;
    }
    return 1;
}

/* Short chunks where prepare_blocks has two streams in local memory: of long ones a compute unit has one group (an
 * H100, ms: prepare_blocks of rwkv7 3.08 and 4.59; on an engine all of rwkv7 6.01 and 6.15, of iplr 5.17 and 6.91). */
int blocks_choose_chunk(const struct device_facts *facts, const struct problem *problem, const struct engine *engine)
{
    const int asked = problem->desc.chunk;
    struct blocks_kernel kernel = {.problem = problem, .engine = engine, .segments = 1};

    kernel.chunk = asked != 0 ? asked : blocks_sizes(&kernel).second ? 32 : 64;
    while (asked == 0 && kernel.chunk > LEAST_CHUNK && !all_have(facts, &kernel))
        kernel.chunk /= 2;
    return kernel.chunk >= LEAST_CHUNK ? kernel.chunk : 0;
}

/* Floats of the workspace: a sixteenth of the device's memory, 1 GiB at most. */
static int64_t most_floats(const struct device *device)
{
    const int64_t most = (int64_t)256 << 20, share = (int64_t)(device->info.global_memory / 16 / FLOAT);

    return share < most ? share : most;
}

int blocks_choose_stretch(const struct device_facts *facts, const struct blocks_kernel *kernel)
{
    const int64_t most = most_floats(facts->device);
    const struct extent extent = problem_most(kernel->problem);
    const struct blocks_workspace of = blocks_workspace(kernel);
    const int64_t floats = (of.record + of.rows + of.state) * problem_work_heads(kernel->problem);
    const int64_t chunks = divide_up(problem_rows(kernel->problem), kernel->chunk) * kernel->problem->desc.batch;
    const int64_t slots = chunks + (kernel->problem->desc.flags & CLATTN_CU_SEQLENS ? extent.sequences : 0);
    int stretch = 1;

    if (slots * floats <= most)
        return 0;
    if (extent.sequences * floats > most)
        return -1;
    while (2 * stretch * extent.sequences * floats <= most)
        stretch *= 2;
    return stretch;
}

/* Groups of the kernel that carries the state that keep a device busy, or nearly so: with an engine one has a compute
 * unit's registers, else two share them, and in segments outputs read a state beside their own. */
static int64_t wanted_groups(const struct device *device, const struct engine *engine)
{
    const int64_t units = device->info.compute_units;

    return 9 * units / (engine != NULL ? 10 : 5);
}

int blocks_choose_segments(const struct device_facts *facts, const struct blocks_kernel *kernel)
{
    const int64_t chunks =
        kernel->stretch > 0 ? kernel->stretch : divide_up(problem_rows(kernel->problem), kernel->chunk);
    const int64_t wanted = wanted_groups(facts->device, kernel->engine);
    struct blocks_kernel states = *kernel;
    int64_t groups;
    int segments = 1;

    states.part = BLOCKS_STATES;
    if (blocks_sizes(kernel).erases || blocks_choose_tiles(facts, &states) != CLATTN_SUCCESS)
        return 1;
    groups = problem_heads(kernel->problem) * divide_up(problem_values(kernel->problem), states.tiles.block_v);
    while (segments < MOST_SEGMENTS && groups * segments < wanted && chunks >= 2 * segments * CHUNKS_A_SEGMENT)
        segments *= 2;
    return segments;
}

clattn_status blocks_complete(const struct device_facts *facts, struct blocks_kernel *kernel)
{
    if (kernel->segments > 1 && blocks_sizes(kernel).erases)
        return CLATTN_UNSUPPORTED;
    return fits(facts->device, kernel, (int)facts->device->info.max_work_group) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}
