/* Kernels of register blocks, for devices whose work-items share a tile: the state is carried over chunks and left
 * before each, and outputs of all chunks are made at once. With an engine in the variant the blocks of products are the
 * engine's, of floats. */
#include "kernel/plain.h"

enum {
    VEC = 4,
    SPOT = 8, /* rows of a block of scores */
    FLOAT = 4,
    MOST_COLUMNS = 128,
    MOST_ROW_LANES = 32,
    LEAST_CHUNK = 16,
    MOST_HELD = 8, /* vectors of a slice on its way to a lane */
    JOIN_GROUP = 64,
    MOST_SEGMENTS = 16,
    CHUNKS_A_SEGMENT = 4, /* at least */
    PRODUCT_COLUMNS = 32, /* of what prepare multiplies by T at once */
    ENGINE_AHEAD = 8,     /* slices on their way, at most */
    ENGINE_TILE = 16,     /* rows, columns and depth of an engine's product, */
    ENGINE_COLUMNS = 4,   /* lanes of a sub-group along its columns, */
    STATE_COLUMNS = 32,   /* of the state and of outputs for each, */
    OUTPUT_COLUMNS = 64,
    ENGINE_PAD = 8 /* and floats after a row that it reads by columns: its lanes meet all banks */
};

static int lower(int64_t a, int64_t b)
{
    return (int)(a < b ? a : b);
}

static int higher(int64_t a, int64_t b)
{
    return (int)(a > b ? a : b);
}

static int power_from(int64_t x)
{
    int power = VEC;

    while (power < x)
        power *= 2;
    return power;
}

/* ---- What follows from a problem ----------------------------------------------------------------------------------
 */

static const enum embedded_file decay_headers[] = {
#define DECAY(value, name, dims, list_dims, plain, matrix, bias, blocks, ...) FILE_##blocks,
#include "op/words.def"
};

/* How its rows and matrices lie. */
struct shape {
    int erases, second; /* whether anything is erased; whether a second stream of rows is written */
    int made;           /* whether prepare leaves rows as they meet the state */
    int channels;       /* padded: a power of two from 32 on */
    int values, widest; /* value columns, padded to whole tiles of the widest kind */
    int streams;        /* of rows in prepare */
    int scores;         /* matrices of scores */
    int scored;         /* whether the outputs make theirs: prepare leaves them none */
};

static struct shape shape_of(const struct variant *variant)
{
    const struct plain_erase erase = plain_erase(variant);
    struct shape s;

    s.erases = erase.streams > 0;
    s.second = erase.streams > 1;
    s.made = problem_decay(variant->problem) == DECAY_CHANNEL;
    s.channels = higher(power_from(variant->problem->desc.key_dim), variant->engine ? variant->engine->lanes : 32);
    s.widest = lower(power_from(variant_values(variant)), MOST_COLUMNS);
    if (variant->engine != NULL)
        s.widest = higher(s.widest, ENGINE_TILE);
    s.values = round_up(variant_values(variant), s.widest);
    s.streams = 2 + erase.streams;
    s.scores = s.second ? 4 : 1 + s.erases;
    s.scored = !s.made && !s.second && !plain_bonus(variant);
    return s;
}

/* ---- Layout -------------------------------------------------------------------------------------------------------
 */

/* The grid of lanes over a result, a power of two each way. */
struct grid_lanes {
    int rows, columns;
};

/* Whether a lane should hold half as much as usual: of Intel's sub-groups, whose registers are 128 floats a lane. */
static int is_lean(const struct tiles *t)
{
    return t->sub_group != 0;
}

static int state_row_lanes(const struct tiles *t, const struct shape *s)
{
    int rows = is_lean(t) || t->block_v < 16 ? VEC : 2 * VEC;

    return lower(s->channels / rows, MOST_ROW_LANES);
}

/* Sub-groups of a part of the group below each other: as many as rows of a chunk, and vectors of channels, allow. */
static struct grid_lanes engine_grid(const struct variant *variant, const struct shape *s)
{
    const struct tiles *t = &variant->tiles;
    int rows = variant->engine->lanes / ENGINE_COLUMNS, sub_groups = t->group / higher(t->split, 1);
    struct grid_lanes grid = {t->chunk / ENGINE_TILE, 1};

    sub_groups /= variant->engine->lanes;
    if (variant->kernel == KERNEL_STATES)
        grid.rows = lower(grid.rows, s->channels / (VEC * rows));
    grid.rows = higher(lower(grid.rows, sub_groups), 1);
    grid.columns = higher(sub_groups / grid.rows, 1);
    return (struct grid_lanes){grid.rows * rows, grid.columns * ENGINE_COLUMNS};
}

static struct grid_lanes lanes_of(const struct variant *variant, const struct shape *s)
{
    const struct tiles *t = &variant->tiles;
    struct grid_lanes lanes = {1, higher(t->block_v / VEC / higher(t->wide, 1), 1)};

    if (variant->engine != NULL)
        return engine_grid(variant, s);

    switch (variant->kernel) {
    case KERNEL_STATES: lanes.rows = state_row_lanes(t, s); break;
    case KERNEL_JOIN: lanes.rows = 1; break;
    case KERNEL_OUTPUTS: lanes.rows = t->chunk / higher(t->rows, 1); break;
    default: lanes.rows = t->group / lanes.columns; break;
    }
    lanes.rows = higher(lanes.rows, 1); /* where only the words are wanted, tiles may be any */
    return lanes;
}

/* Of a tile that products read by columns: floats from row to row. */
static int columns_pitch(const struct variant *variant)
{
    return variant->tiles.block_v + (variant->engine != NULL ? ENGINE_PAD : 0);
}

/* The same of a slice of tokens. */
static int tokens_pitch(const struct variant *variant, const struct shape *s)
{
    return s->channels + (variant->engine != NULL ? ENGINE_PAD : 0);
}

/* Vectors of columns of scores that a lane has, where they are made in squares; and floats from row to row of the keys
 * that they are made with, in outputs beside the state. */
static int score_wide(const struct variant *variant, const struct shape *s)
{
    return (int)divide_up(variant->tiles.chunk, VEC * lanes_of(variant, s).columns);
}

static int score_pitch(const struct variant *variant, const struct shape *s)
{
    int beside = variant->kernel == KERNEL_OUTPUTS ? variant->tiles.block_v : 0;

    return beside + VEC * lanes_of(variant, s).columns * score_wide(variant, s) +
           (variant->engine != NULL ? ENGINE_PAD : VEC);
}

/* Of a chunk's decays, where they are of a head. */
static int decay_logs(const struct variant *variant)
{
    int chunk = variant->tiles.chunk, spots = chunk / SPOT;

    return problem_decay(variant->problem) == DECAY_SCALAR ? 3 * chunk + spots + spots * spots : 0;
}

static void prepare_locals(const struct variant *variant, const struct shape *s, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    int pitch = t->block_k + t->pad, spots = t->chunk / SPOT, parts = t->group / t->chunk;
    int square = t->chunk * pitch + t->block_k * score_pitch(variant, s);
    int slices = s->scored ? square : s->streams * t->chunk * pitch,
        diagonal = s->made ? s->scores * SPOT * parts * t->chunk : 0;
    int solved = s->erases ? (1 + s->second) * t->chunk * (t->chunk + VEC) + t->chunk * columns_pitch(variant) : 0;
    /* those that the words declare by other constants */
    int others = t->chunk + (s->made ? t->chunk * pitch + (spots + spots * (spots - 1) / 2 + 1) * t->block_k
                                     : decay_logs(variant));

    layout_local(layout, "LOCAL_SLICES", higher(higher(slices, diagonal), solved), FLOAT); /* norms need less */
    layout_local(layout, "LOCAL_OTHERS", others, FLOAT);
    if (plain_erase(variant).norms > 0)
        layout_local(layout, "LOCAL_ERASE_NORMS", t->chunk, FLOAT);
}

/* Whether what is written has the place of the state, which was read when it is known. */
static int written_in_state(const struct shape *s)
{
    return s->erases && !s->second;
}

static void states_locals(const struct variant *variant, const struct shape *s, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    int pitch = t->block_k + t->pad, tokens = t->tokens * tokens_pitch(variant, s), columns = columns_pitch(variant),
        channels = s->erases ? t->chunk * pitch : 0;

    layout_constant(layout, "WRITTEN_IN_STATE", written_in_state(s));
    layout_local(layout, "LOCAL_STATE", s->erases ? higher(s->channels, t->chunk) * columns : VEC, FLOAT);
    layout_local(layout, "LOCAL_WRITTEN", written_in_state(s) ? VEC : t->chunk * columns, FLOAT);
    layout_local(layout, "LOCAL_SLICE", higher(tokens, channels), FLOAT);
}

static void outputs_locals(const struct variant *variant, const struct shape *s, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    int rows = t->chunk * (t->block_k + t->pad), columns = t->block_k * columns_pitch(variant);

    if (s->scored) {
        rows += t->block_k * score_pitch(variant, s);
        columns += t->chunk * (t->chunk + VEC);
        layout_local(layout, "LOCAL_TILES", higher(rows, columns), FLOAT);
        layout->local_bytes += (size_t)(decay_logs(variant) * FLOAT);
    } else
        layout_local(layout, "LOCAL_TILES", rows + columns, FLOAT);
    layout_local(layout, "LOCAL_KEEPS", t->segments > 1 ? s->channels : VEC, FLOAT);
}

static void add_headers(const struct variant *variant, struct layout *layout)
{
    int scored = shape_of(variant).scored;

    plain_product_headers(variant, layout);
    plain_headers(variant, layout);
    layout_header(layout, decay_headers[problem_decay(variant->problem)]);
    if (variant->kernel == KERNEL_PREPARE_BLOCKS)
        layout_header(layout, scored ? FILE_blocks_scores_squares : FILE_blocks_scores_spots);
    if (variant->kernel == KERNEL_STATES)
        layout_header(layout, FILE_blocks_states);
    if (variant->kernel == KERNEL_OUTPUTS)
        layout_header(layout, scored ? FILE_blocks_outputs_scored : FILE_blocks_outputs);
}

static int value_groups(const struct variant *variant)
{
    return (int)divide_up(variant_values(variant), variant->tiles.block_v);
}

static int factors_of(const struct tiles *t)
{
    return 6 * t->chunk + t->vec;
}

static int record_matrices(const struct shape *s)
{
    return s->scored ? 0 : 1 + s->second;
}

/* Of a chunk and head, and of a segment and head. */
static void lay_out_workspace(const struct variant *variant, const struct shape *s, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    int64_t rows = (int64_t)t->chunk * s->channels;

    layout->record = record_matrices(s) * t->chunk * t->chunk + factors_of(t) + decay_logs(variant) +
                     (s->made + !s->erases) * s->channels;
    layout->rows = ((2 + s->second) * s->made + s->erases) * rows + s->erases * t->chunk * (int64_t)s->values;
    layout->states = layout->segment = (int64_t)s->channels * s->values;
    layout->segment_kept = s->channels;
    layout->stretch = t->stretch;
}

static void lay_out_groups(const struct variant *variant, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;

    switch (variant->kernel) {
    case KERNEL_PREPARE_BLOCKS: break;
    case KERNEL_STATES: layout->value_groups = value_groups(variant) * higher(t->segments, 1); break;
    case KERNEL_JOIN: layout->value_groups = (int)divide_up(layout->states, (int64_t)VEC * t->group); break;
    default: layout->value_groups = value_groups(variant);
    }
}

struct number {
    const char *name;
    int64_t value;
};

static void add_numbers(struct layout *layout, const struct number *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        layout_constant(layout, numbers[i].name, numbers[i].value);
}

static void shape_constants(const struct variant *variant, const struct shape *s, struct layout *layout)
{
    const struct number numbers[] = {
        {"KP", s->channels},
        {"VP", s->values},
        {"ERASES", s->erases},
        {"SECOND", s->second},
        {"BONUS", plain_bonus(variant)},
        {"MADE", s->made},
        {"MADE_ROWS", layout->rows},
        {"RECORD", layout->record},
        {"RECORD_MATRICES", record_matrices(s)},
        {"DECAY_LOGS", decay_logs(variant)},
        {"SCORE_MATRICES", s->scores},
        {"LONG_SUMS", variant->kernel == KERNEL_STATES && !s->erases}, /* of a whole sequence */
    };

    add_numbers(layout, numbers, sizeof numbers / sizeof *numbers);
}

static void tile_constants(const struct variant *variant, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    const struct number numbers[] = {
        {"BK", t->block_k},
        {"BT", t->tokens},
        {"AHEAD", higher(t->ahead, 1)},
        {"BV", t->block_v},
        {"RP", t->block_k + t->pad},
        {"CP", t->chunk + VEC},
        {"COLUMN_PITCH", columns_pitch(variant)},
        {"MATRIX", t->chunk * (t->chunk + VEC)},
        {"SPOT", SPOT},
        {"STRETCH", t->stretch},
        {"SEGMENTS", higher(t->segments, 1)},
        {"SPLIT", higher(t->split, 1)},
        {"VALUE_GROUPS", value_groups(variant)},
        /* of words of tile.clh that these kernels do not use */
        {"PAD", t->pad},
        {"LANES_K", 1},
        {"TOKEN_PARTS", 1},
        {"ERASE_MATRICES", 0},
    };

    add_numbers(layout, numbers, sizeof numbers / sizeof *numbers);
}

/* What a lane has of each kernel's results. */
static void lane_constants(const struct variant *variant, const struct shape *s, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    const struct grid_lanes lanes = lanes_of(variant, s);
    int rows = higher(t->rows, 1), spots = t->chunk / SPOT;
    const struct number numbers[] = {
        {"ROW_LANES", lanes.rows},
        {"COL_LANES", lanes.columns},
        {"WIDE", higher(t->wide, 1)},
        {"WIDEST", higher(t->wide, 1) + (s->scored ? score_wide(variant, s) : 0)},
        {"SCORE_WIDE", score_wide(variant, s)},
        {"SCORE_PITCH", score_pitch(variant, s)},
        {"SCORE_ROWS", rows},
        {"LANES_PAIR", SPOT / rows * (SPOT / VEC)},
        {"PAIRS", spots * (spots + 1) / 2},
        {"BLOCK_ROWS", t->chunk / lanes.rows},
        {"STATE_ROWS", s->channels / lanes.rows},
        {"TOKEN_PITCH", tokens_pitch(variant, s)},
        {"WRITTEN_ROWS", divide_up(t->chunk, lanes.rows)},
        {"OUTPUT_ROWS", rows},
        {"MOST_ROWS", higher(higher(s->channels, t->chunk) / lanes.rows, rows)},
    };

    add_numbers(layout, numbers, sizeof numbers / sizeof *numbers);
}

static void lay_out_locals(const struct variant *variant, const struct shape *s, struct layout *layout)
{
    if (variant->engine != NULL)
        layout->local_bytes += (size_t)(variant->engine->exact_scratch * variant->tiles.group);
    layout_local(layout, "FACTORS", factors_of(&variant->tiles), FLOAT);
    switch (variant->kernel) {
    case KERNEL_PREPARE_BLOCKS: prepare_locals(variant, s, layout); break;
    case KERNEL_STATES: states_locals(variant, s, layout); break;
    case KERNEL_JOIN: break;
    default: outputs_locals(variant, s, layout);
    }
}

static void lay_out(const struct variant *variant, struct layout *layout)
{
    const struct shape s = shape_of(variant);

    layout->options = PLAIN_OPTIONS;
    lay_out_workspace(variant, &s, layout);
    lay_out_groups(variant, layout);
    shape_constants(variant, &s, layout);
    tile_constants(variant, layout);
    lane_constants(variant, &s, layout);
    lay_out_locals(variant, &s, layout);
    add_headers(variant, layout);
}

static void describe(struct text *text, const struct variant *variant, const struct layout *layout)
{
    const struct tiles *t = &variant->tiles;

    text_format(text, "group %d, chunk %d, slice %d, value tile %d, rows %d, stretch %d, local %zu bytes\n", t->group,
                t->chunk, t->block_k, t->block_v, t->rows, t->stretch, layout->local_bytes);
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

/* Vectors on their way to a lane of the kernel that carries the state: slices of tokens, and of channels. */
static int token_vectors(const struct tiles *t, const struct shape *s)
{
    int slices = lower(t->ahead, t->chunk / t->tokens);

    return (1 + s->second) * slices * (int)divide_up(t->tokens * s->channels / VEC, t->group);
}

static int channel_vectors(const struct tiles *t, const struct shape *s)
{
    int slices = lower(t->ahead, s->channels / t->block_k);

    return s->erases ? slices * (int)divide_up(t->chunk * t->block_k / VEC, t->group) : 0;
}

/* Slices that are narrow enough, and as many of them ahead as a lane holds. */
static void follow_slices(struct tiles *t, const struct shape *s, int least)
{
    while (t->ahead > 1 && token_vectors(t, s) + channel_vectors(t, s) > 2 * MOST_HELD)
        t->ahead /= 2;
    while (t->tokens > least && token_vectors(t, s) > MOST_HELD * (1 + s->second))
        t->tokens /= 2;
    while (t->block_k > least && channel_vectors(t, s) > MOST_HELD)
        t->block_k /= 2;
}

/* On an engine a sub-group has 16 rows of a chunk; of the state, where those are fewer, as many as vectors of channels
 * allow. */
static void follow_engine(struct variant *variant, const struct shape *s)
{
    struct tiles *t = &variant->tiles;
    const int lanes = variant->engine->lanes, rows = lanes / ENGINE_COLUMNS;
    int sub_groups = t->chunk / ENGINE_TILE;
    struct grid_lanes grid;

    switch (variant->kernel) {
    case KERNEL_PREPARE_BLOCKS:
        t->rows = SPOT / (s->second ? 2 : 1);
        sub_groups = higher(t->chunk * (s->second ? 4 : 2) / lanes, 1);
        break;
    case KERNEL_STATES:
        while (t->split > 1 && lower(t->tokens, t->block_k) < ENGINE_TILE * t->split)
            t->split /= 2;
        sub_groups = lower(sub_groups, s->channels / (VEC * rows));
        sub_groups *= higher(t->split, 1) * higher(t->block_v / STATE_COLUMNS, 1);
        t->group = sub_groups * lanes;
        follow_slices(t, s, ENGINE_TILE * higher(t->split, 1));
        break;
    case KERNEL_JOIN: sub_groups = JOIN_GROUP / lanes; break;
    default: t->rows = t->chunk / (sub_groups * rows); sub_groups *= higher(t->block_v / OUTPUT_COLUMNS, 1);
    }
    t->group = sub_groups * lanes;
    grid = engine_grid(variant, s);
    t->wide = t->block_v / (grid.columns * VEC);
}

/* The same of multiply-adds. */
static void follow_lanes(struct variant *variant, const struct shape *s)
{
    struct tiles *t = &variant->tiles;

    t->wide = 1;
    switch (variant->kernel) {
    case KERNEL_PREPARE_BLOCKS:
        t->rows = SPOT / (s->second ? 2 : 1) / (is_lean(t) ? 2 : 1);
        t->group = t->chunk * (s->second || is_lean(t) ? 4 : 2);
        break;
    case KERNEL_STATES:
        t->group = higher(t->split, 1) * state_row_lanes(t, s) * t->block_v / VEC;
        follow_slices(t, s, VEC * higher(t->split, 1)); /* a part has whole vectors */
        break;
    case KERNEL_JOIN: t->group = JOIN_GROUP; break;
    default:
        t->wide = t->block_v == MOST_COLUMNS ? 2 : 1;
        t->rows = is_lean(t) ? SPOT / 2 : SPOT;
        while (t->rows > 1 && (t->chunk / t->rows < VEC || t->chunk / t->rows * t->block_v / VEC / t->wide < 64))
            t->rows /= 2;
        t->group = t->chunk / t->rows * t->block_v / VEC / t->wide;
    }
}

/* What follows from chunk, slices and columns. */
static void follow(struct variant *variant)
{
    const struct shape s = shape_of(variant);
    struct tiles *t = &variant->tiles;

    t->vec = VEC;
    t->pad = VEC;
    t->block_k = lower(t->block_k, s.channels);
    t->lanes_k = 1;
    if (variant->kernel == KERNEL_PREPARE_BLOCKS && s.second) /* whose second matrix is multiplied in its place */
        t->block_v = lower(t->block_v, higher(t->chunk, variant->engine != NULL ? PRODUCT_COLUMNS : 0));
    if (variant->kernel != KERNEL_PREPARE_BLOCKS) {
        t->tokens = lower(t->tokens, t->chunk);
        t->block_v = lower(t->block_v, s.widest);
    }
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
    layout = layout_of(&whole, lay_out);

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
    int64_t floats = slot_floats(variant), chunks = divide_up(desc->seq_len * desc->steps, variant->tiles.chunk);
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
    int spots = t->chunk / SPOT, lanes = SPOT / higher(t->rows, 1) * (SPOT / VEC);

    return variant->kernel != KERNEL_PREPARE_BLOCKS || shape_of(variant).scored ||
           spots * (spots + 1) / 2 * lanes <= t->group;
}

/* Whether parts of an engine's products have whole tiles. */
static int has_tiles(const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;

    return variant->engine == NULL || variant->kernel == KERNEL_JOIN ||
           (t->wide > 0 && t->block_k >= ENGINE_TILE * higher(t->split, 1) &&
            (variant->kernel != KERNEL_STATES || t->tokens >= ENGINE_TILE * higher(t->split, 1)));
}

static int fits(const struct device *device, struct variant *variant, int most_group)
{
    const struct shape s = shape_of(variant);

    follow(variant);
    return has_tiles(variant) && variant->tiles.group <= most_group &&
           (!s.erases || lanes_of(variant, &s).rows <= variant->tiles.chunk) && has_pairs(variant) &&
           layout_fits(device, variant, lay_out);
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
    int most = variant->kernel != KERNEL_STATES ? 16 : 32;

    return is_lean(&variant->tiles) ? most / 2 : most;
}

/* Of the state where something is erased: there are no segments, so that narrow tiles alone keep all units busy. */
static int usual_erased(const struct device *device, const struct variant *variant, const struct shape *s)
{
    int64_t groups = problem_heads(variant->problem) * divide_up(variant_values(variant), 32);

    return s->second || 4 * groups < 3 * (int64_t)device->info.compute_units ? 16 : 32;
}

static int usual_columns(const struct device *device, const struct variant *variant, const struct shape *s)
{
    int lean = is_lean(&variant->tiles);

    switch (variant->kernel) {
    case KERNEL_PREPARE_BLOCKS: return PRODUCT_COLUMNS;
    case KERNEL_STATES: return lean ? 32 : s->erases ? usual_erased(device, variant, s) : 64;
    default: return lean ? MOST_COLUMNS / 2 : MOST_COLUMNS;
    }
}

static clattn_status tiles_of_chunk(const struct device *device, struct variant *variant, int most_group, int chunk)
{
    const struct shape s = shape_of(variant);

    if (variant->engine != NULL && chunk % ENGINE_TILE != 0)
        return CLATTN_UNSUPPORTED;
    variant->tiles = (struct tiles){.chunk = chunk, .sub_group = device->sub_group};
    variant->tiles.block_k = usual_slice(variant);
    variant->tiles.block_v = usual_columns(device, variant, &s);
    variant->tiles.tokens = s.erases || is_lean(&variant->tiles) ? usual_slice(variant) : ENGINE_TILE;
    variant->tiles.ahead = variant->engine != NULL ? ENGINE_AHEAD : is_lean(&variant->tiles) ? 1 : 2;
    variant->tiles.split = variant->kernel == KERNEL_STATES && s.erases && !is_lean(&variant->tiles) ? 2 : 1;
    return cut_to_fit(device, variant, most_group);
}

/* Segments of a stretch, until every compute unit has some groups of the kernel that carries the state. */
static int segments_of(const struct device *device, const struct variant *variant, int most_group)
{
    const struct tiles *t = &variant->tiles;
    const clattn_plan_desc *desc = &variant->problem->desc;
    int64_t chunks = t->stretch > 0 ? t->stretch : divide_up(desc->seq_len * desc->steps, t->chunk), groups;
    struct variant states = *variant;
    int segments = 1;

    states.kernel = KERNEL_STATES;
    if (shape_of(variant).erases || tiles_of_chunk(device, &states, most_group, t->chunk) != CLATTN_SUCCESS)
        return 1;
    groups = problem_heads(variant->problem) * divide_up(variant_values(variant), states.tiles.block_v);
    while (segments < MOST_SEGMENTS && groups * segments < 2 * (int64_t)device->info.compute_units &&
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

static clattn_status heuristic(const struct device *device, struct variant *variant, int most_group)
{
    int asked = variant->problem->desc.chunk, chunk = asked != 0 ? asked : 64;

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
    if (variant->tiles.segments > 1 && shape_of(variant).erases)
        return CLATTN_UNSUPPORTED;
    return fits(device, variant, (int)device->info.max_work_group) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

const struct family family_blocks = {heuristic, complete, lay_out, describe, 0, 1};
