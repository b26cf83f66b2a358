/* Tiles of the kernels of register blocks: by rule of thumb, or what follows from those that were chosen. */
#include "kernel/blocks.h"

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

/* Vectors on their way to a lane of the kernel that carries the state: slices of tokens, and of channels. */
static int token_vectors(const struct tiles *t, const struct blocks_shape *s)
{
    int slices = lower(t->ahead, t->chunk / t->tokens);

    return (1 + s->second) * slices * (int)divide_up(t->tokens * s->channels / VEC, t->group);
}

static int channel_vectors(const struct tiles *t, const struct blocks_shape *s)
{
    int slices = lower(t->ahead, s->channels / t->block_k);

    return s->erases ? slices * (int)divide_up(t->chunk * t->block_k / VEC, t->group) : 0;
}

/* Slices that are narrow enough, and as many of them ahead as a lane holds; fewer where rows end within one, for then
 * each vector has an edge of its own. */
static void follow_slices(struct tiles *t, const struct blocks_shape *s, int whole, int least)
{
    while (t->ahead > 1 && token_vectors(t, s) + channel_vectors(t, s) > (1 + whole) * MOST_HELD)
        t->ahead /= 2;
    while (t->tokens > least && token_vectors(t, s) > MOST_HELD * (1 + s->second))
        t->tokens /= 2;
    while (t->block_k > least && channel_vectors(t, s) > MOST_HELD)
        t->block_k /= 2;
}

/* That every pair of blocks of scores wants, with so many rows a lane. */
static int lanes_of_scores(const struct tiles *t, const struct blocks_shape *s, int rows)
{
    return blocks_pairs(t, s) * (SPOT / rows) * (SPOT / VEC);
}

/* Of a block of scores a lane's rows: as few as there are lanes for (an H100, prepare_blocks of rwkv7, ms: four rows
 * 3.04, one 2.33). */
static int rows_of_scores(const struct tiles *t, const struct blocks_shape *s, int most, int lanes)
{
    int rows = most;

    while (!s->scored && rows > 1 && lanes_of_scores(t, s, rows / 2) <= lanes)
        rows /= 2;
    return rows;
}

/* On an engine a sub-group has 16 rows of a chunk; of the state, where those are fewer, as many as vectors of channels
 * allow. */
static void follow_engine(struct variant *variant, const struct blocks_shape *s)
{
    struct tiles *t = &variant->tiles;
    const int lanes = variant->engine->lanes, rows = lanes / ENGINE_COLUMNS;
    int sub_groups = t->chunk / BLOCKS_ENGINE_TILE;
    struct grid_lanes grid;

    switch (variant->kernel) {
    case KERNEL_PREPARE_BLOCKS:
        sub_groups = higher(t->chunk * (s->second ? 4 : 2) / lanes, 1);
        t->rows = rows_of_scores(t, s, SPOT / (s->second || s->made ? 2 : 1), sub_groups * lanes);
        break;
    case KERNEL_STATES:
        while (t->split > 1 && lower(t->tokens, t->block_k) < BLOCKS_ENGINE_TILE * t->split)
            t->split /= 2;
        sub_groups = lower(sub_groups, s->channels / (VEC * rows));
        sub_groups *= higher(t->split, 1) * higher(t->block_v / STATE_COLUMNS, 1);
        t->group = sub_groups * lanes;
        follow_slices(t, s, 1, BLOCKS_ENGINE_TILE * higher(t->split, 1));
        break;
    case KERNEL_JOIN: sub_groups = JOIN_GROUP / lanes; break;
    default: t->rows = t->chunk / (sub_groups * rows); sub_groups *= higher(t->block_v / OUTPUT_COLUMNS, 1);
    }
    t->group = sub_groups * lanes;
    grid = blocks_lanes(variant, s);
    t->wide = t->block_v / (grid.columns * VEC);
}

/* The same of multiply-adds. */
static void follow_lanes(struct variant *variant, const struct blocks_shape *s)
{
    struct tiles *t = &variant->tiles;
    int most;

    t->wide = 1;
    switch (variant->kernel) {
    case KERNEL_PREPARE_BLOCKS:
        t->group = t->chunk * (s->second || blocks_lean(t) ? 4 : 2);
        most = lower(SPOT / (s->second ? 2 : 1) / (blocks_lean(t) ? 2 : 1), SPOT / (1 + s->made));
        t->rows = rows_of_scores(t, s, most, t->group);
        break;
    case KERNEL_STATES:
        t->group = higher(t->split, 1) * blocks_state_rows(t, s) * t->block_v / VEC;
        follow_slices(t, s, s->channels == variant->problem->desc.key_dim,
                      VEC * higher(t->split, 1)); /* a part has whole vectors */
        break;
    case KERNEL_JOIN: t->group = JOIN_GROUP; break;
    default:
        t->wide = t->block_v == BLOCKS_MOST_COLUMNS ? 2 : 1;
        t->rows = blocks_lean(t) ? SPOT / 2 : SPOT;
        while (t->rows > 1 && (t->chunk / t->rows < VEC || t->chunk / t->rows * t->block_v / VEC / t->wide < 64))
            t->rows /= 2;
        t->group = t->chunk / t->rows * t->block_v / VEC / t->wide;
    }
}

/* What follows from chunk, slices and columns. */
static void follow(struct variant *variant)
{
    const struct blocks_shape s = blocks_shape(variant);
    struct tiles *t = &variant->tiles;

    t->vec = VEC;
    t->pad = VEC;
    t->block_k = lower(t->block_k, s.channels);
    t->lanes_k = 1;
    t->block_v = lower(t->block_v, variant->kernel == KERNEL_PREPARE_BLOCKS ? s.channels : s.widest);
    if (variant->kernel == KERNEL_PREPARE_BLOCKS && s.second) /* whose second matrix is multiplied in its place */
        t->block_v = lower(t->block_v, higher(t->chunk, variant->engine != NULL ? PRODUCT_COLUMNS : 0));
    if (variant->kernel == KERNEL_OUTPUTS) /* a slice is of tokens, too: those past the chunk are another's */
        t->block_k = lower(t->block_k, t->chunk);
    if (variant->kernel != KERNEL_PREPARE_BLOCKS)
        t->tokens = lower(t->tokens, t->chunk);
    if (variant->engine != NULL)
        follow_engine(variant, &s);
    else
        follow_lanes(variant, &s);
}

/* Floats of a chunk of all heads in the workspace. */
static int64_t slot_floats(const struct variant *variant)
{
    struct variant whole = *variant;
    struct layout layout;

    whole.normalizer = 0; /* both passes have the same stretch */
    layout = layout_of(&whole, blocks_lay_out);

    return (layout.record + layout.rows + layout.states) * problem_work_heads(variant->problem);
}

/* Of the workspace: a sixteenth of the device's memory, 1 GiB at most. */
static int64_t most_floats(const struct device *device)
{
    const int64_t most = (int64_t)256 << 20, share = (int64_t)(device->info.global_memory / 16 / FLOAT);

    return share < most ? share : most;
}

/* So many chunks of every sequence that their workspace stays below a bound; 0 where that is all of them, -1 where one
 * of each is too much. */
static int stretch_of(const struct device *device, const struct variant *variant)
{
    const int64_t most = most_floats(device);
    const clattn_plan_desc *desc = &variant->problem->desc;
    const struct extent extent = problem_most(variant->problem);
    int64_t floats = slot_floats(variant), chunks = divide_up(problem_rows(variant->problem), variant->tiles.chunk);
    int64_t slots = chunks * desc->batch + (desc->flags & CLATTN_CU_SEQLENS ? extent.sequences : 0);
    int stretch = 1;

    if (slots * floats <= most)
        return 0;
    if (extent.sequences * floats > most)
        return -1;
    while (2 * stretch * extent.sequences * floats <= most)
        stretch *= 2;
    return stretch;
}

/* Whether every pair of blocks of scores has its lanes. */
static int has_pairs(const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;
    const struct blocks_shape s = blocks_shape(variant);

    return variant->kernel != KERNEL_PREPARE_BLOCKS || s.scored ||
           lanes_of_scores(t, &s, higher(t->rows, 1)) <= t->group;
}

/* Whether parts of an engine's products have whole tiles. */
static int has_tiles(const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;

    return variant->engine == NULL || variant->kernel == KERNEL_JOIN ||
           (t->wide > 0 && t->block_k >= BLOCKS_ENGINE_TILE * higher(t->split, 1) &&
            (variant->kernel != KERNEL_STATES || t->tokens >= BLOCKS_ENGINE_TILE * higher(t->split, 1)));
}

/* So few registers that a compute unit holds as many groups as are wanted of it: compilers take them in eights. */
static int registers_of(const struct device *device, const struct variant *variant)
{
    enum { MOST = 255 }; /* that an instruction can name */
    const struct tiles *t = &variant->tiles;
    int unit = variant->engine != NULL ? variant->engine->registers : device->registers;
    int share = unit / higher(t->group * t->residents, 1) / 8 * 8;

    return t->residents > 1 && share < MOST ? share : 0;
}

static int fits(const struct device *device, struct variant *variant, int most_group)
{
    const struct blocks_shape s = blocks_shape(variant);

    follow(variant);
    variant->tiles.registers = registers_of(device, variant);
    return has_tiles(variant) && variant->tiles.group <= most_group &&
           (!s.erases || blocks_lanes(variant, &s).rows <= variant->tiles.chunk) && has_pairs(variant) &&
           layout_fits(device, variant, blocks_lay_out);
}

static clattn_status cut_to_fit(const struct device *device, struct variant *variant, int most_group)
{
    struct tiles *t = &variant->tiles;
    int least = variant->engine != NULL || variant->kernel == KERNEL_PREPARE_BLOCKS ? 16 : VEC;

    while (!fits(device, variant, most_group)) {
        if (t->split > 1 && t->group > most_group)
            t->split = 1;
        else if (t->block_v > least && t->block_v > 16)
            t->block_v /= 2;
        else if (t->block_k > 16 * higher(t->split, 1) && variant->kernel != KERNEL_PREPARE_BLOCKS)
            t->block_k /= 2;
        else if (t->tokens > 16 * higher(t->split, 1))
            t->tokens /= 2;
        else if (t->split > 1)
            t->split = 1;
        else if (t->block_v > least)
            t->block_v /= 2;
        else
            return CLATTN_UNSUPPORTED;
    }
    return CLATTN_SUCCESS;
}

static int usual_slice(const struct variant *variant)
{
    const struct blocks_shape s = blocks_shape(variant);
    int most = 16;

    if (variant->kernel == KERNEL_STATES)
        most = 32;
    if (variant->engine != NULL && s.made && s.erases) /* wider where fewer matrices, or more, are made at once */
        most = variant->kernel == (s.second ? KERNEL_PREPARE_BLOCKS : KERNEL_OUTPUTS) ? 32 : most;

    return blocks_lean(&variant->tiles) ? most / 2 : most;
}

/* Of the state where something is erased: there are no segments, so that narrow tiles alone keep all units busy. Of low
 * rank an engine has 16 columns (an H100, rwkv7, ms: 2.50, of 32 columns 4.30; by multiply-adds 2.53 and 2.36). */
static int usual_erased(const struct device *device, const struct variant *variant, const struct blocks_shape *s)
{
    int64_t groups = problem_heads(variant->problem) * divide_up(variant_values(variant), 32);

    return (s->second && variant->engine != NULL) || 4 * groups < 3 * (int64_t)device->info.compute_units ? 16 : 32;
}

static int usual_columns(const struct device *device, const struct variant *variant, const struct blocks_shape *s)
{
    int lean = blocks_lean(&variant->tiles);

    switch (variant->kernel) {
    case KERNEL_PREPARE_BLOCKS: return PRODUCT_COLUMNS;
    case KERNEL_STATES: return lean ? 32 : s->erases ? usual_erased(device, variant, s) : 64;
    default: return lean ? BLOCKS_MOST_COLUMNS / 2 : BLOCKS_MOST_COLUMNS;
    }
}

/* Whether multiply-adds fetch keys and values of 16 bits as they lie, in half the registers. */
static int fetches_halves(const struct variant *variant, const struct blocks_shape *s)
{
    return variant->kernel == KERNEL_STATES && variant->engine == NULL && !s->made && !s->erases &&
           variant->problem->desc.dtype != CLATTN_F32;
}

/* Of a slice: few where a lane's vectors on their way are many numbers. */
static int usual_tokens(const struct variant *variant, const struct blocks_shape *s)
{
    int many = variant->engine == NULL && !s->made && !s->second && variant->problem->desc.dtype == CLATTN_F32;

    return blocks_lean(&variant->tiles) || (s->erases && !many) || fetches_halves(variant, s) ? usual_slice(variant)
                                                                                              : BLOCKS_ENGINE_TILE;
}

/* Slices on their way: of halves one, for it is of twice the tokens (an H100, states of simple_gla, bf16, ms: .546 so,
 * two of 16 tokens .577, one .565). */
static int usual_ahead(const struct variant *variant, const struct blocks_shape *s)
{
    if (variant->engine != NULL)
        return ENGINE_AHEAD;
    return blocks_lean(&variant->tiles) || fetches_halves(variant, s) ? 1 : 2;
}

/* Groups that share a compute unit's registers, where compilers can be told, of kernels that a bound makes faster,
 * though they spill a little with it (H100, ms: states of simple_gla, 208 registers, .70, at 128 .60; prepare_blocks of
 * gla 1.06, at 128 .91). */
static int usual_residents(const struct variant *variant, const struct blocks_shape *s)
{
    switch (variant->kernel) {
    case KERNEL_OUTPUTS: return 2;
    case KERNEL_STATES: return variant->engine == NULL && !s->erases ? 2 : 1;
    case KERNEL_PREPARE_BLOCKS: return !s->made || s->second ? 1 : s->erases ? 3 : 4;
    default: return 1;
    }
}

static clattn_status tiles_of_chunk(const struct device *device, struct variant *variant, int most_group, int chunk)
{
    const struct blocks_shape s = blocks_shape(variant);

    if (variant->engine != NULL && chunk % BLOCKS_ENGINE_TILE != 0)
        return CLATTN_UNSUPPORTED;
    variant->tiles = (struct tiles){.chunk = chunk, .sub_group = device->sub_group};
    variant->tiles.block_k = usual_slice(variant);
    variant->tiles.block_v = usual_columns(device, variant, &s);
    variant->tiles.tokens = usual_tokens(variant, &s);
    variant->tiles.ahead = usual_ahead(variant, &s);
    variant->tiles.residents = usual_residents(variant, &s);
    variant->tiles.split = variant->kernel == KERNEL_STATES && s.erases && !blocks_lean(&variant->tiles) ? 2 : 1;
    return cut_to_fit(device, variant, most_group);
}

/* Groups of the kernel that carries the state that keep a device busy, or nearly so: with an engine one has a compute
 * unit's registers, else two share them, and in segments outputs read a state beside their own. */
static int64_t wanted_groups(const struct device *device, const struct variant *variant)
{
    int64_t units = device->info.compute_units;

    return 9 * units / (variant->engine != NULL ? 10 : 5);
}

/* Segments of a stretch, until every compute unit has its groups. */
static int segments_of(const struct device *device, const struct variant *variant, int most_group)
{
    const struct tiles *t = &variant->tiles;
    int64_t chunks = t->stretch > 0 ? t->stretch : divide_up(problem_rows(variant->problem), t->chunk), groups;
    struct variant states = *variant;
    int segments = 1;

    states.kernel = KERNEL_STATES;
    if (blocks_shape(variant).erases || tiles_of_chunk(device, &states, most_group, t->chunk) != CLATTN_SUCCESS)
        return 1;
    groups = problem_heads(variant->problem) * divide_up(variant_values(variant), states.tiles.block_v);
    while (segments < MOST_SEGMENTS && groups * segments < wanted_groups(device, variant) &&
           chunks >= 2 * segments * CHUNKS_A_SEGMENT)
        segments *= 2;
    return segments;
}

/* Whether all kernels of the problem can have chunks of so many tokens. */
static int all_have(const struct device *device, const struct variant *variant, int most_group, int chunk)
{
    static const enum kernel_id kernels[] = {KERNEL_PREPARE_BLOCKS, KERNEL_STATES, KERNEL_OUTPUTS};
    struct variant one = *variant;

    one.normalizer = 0;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        one.kernel = kernels[i];
        if (tiles_of_chunk(device, &one, most_group, chunk) != CLATTN_SUCCESS)
            return 0;
    }
    return 1;
}

static int takes(const struct variant *variant)
{
    int is_float = variant->problem->desc.dtype == CLATTN_F32;

    return !(variant->problem->desc.flags & CLATTN_VALUE_GATE) &&
           (variant->engine == NULL || (variant->engine->exact != FILE_nothing && is_float));
}

/* Short ones where prepare_blocks has two streams in local memory: of long ones a compute unit has one group (an H100,
 * ms: prepare_blocks of rwkv7 3.08 and 4.59; on an engine all of rwkv7 6.01 and 6.15, of iplr 5.17 and 6.91). */
static int usual_chunk(const struct variant *variant)
{
    const struct blocks_shape s = blocks_shape(variant);

    return s.second ? 32 : 64;
}

static clattn_status heuristic(const struct device *device, struct variant *variant, int most_group)
{
    int asked = variant->problem->desc.chunk, chunk = asked != 0 ? asked : usual_chunk(variant);

    if (!takes(variant))
        return CLATTN_UNSUPPORTED;
    while (asked == 0 && chunk > LEAST_CHUNK && !all_have(device, variant, most_group, chunk))
        chunk /= 2;
    if (chunk < LEAST_CHUNK)
        return CLATTN_UNSUPPORTED;
    TRY(tiles_of_chunk(device, variant, most_group, chunk));
    variant->tiles.stretch = stretch_of(device, variant);
    if (variant->tiles.stretch < 0)
        return CLATTN_UNSUPPORTED;
    variant->tiles.segments = segments_of(device, variant, most_group);
    return CLATTN_SUCCESS;
}

static clattn_status complete(const struct device *device, struct variant *variant)
{
    if (variant->tiles.segments > 1 && blocks_shape(variant).erases)
        return CLATTN_UNSUPPORTED;
    return fits(device, variant, (int)device->info.max_work_group) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

const struct family family_blocks = {heuristic, complete, blocks_lay_out, blocks_describe, 0, 1};
