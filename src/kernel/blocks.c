/* Kernels of register blocks, for devices whose work-items share a tile: the state is carried over chunks and left
 * before each, and outputs of all chunks are made at once. With an engine in the variant the blocks of products are the
 * engine's, of floats. */
#include "kernel/blocks.h"
#include "kernel/plain.h"

enum {
    VEC = BLOCKS_VEC,
    SPOT = BLOCKS_SPOT,
    FLOAT = 4,
    MOST_ROW_LANES = 32,
    ENGINE_COLUMNS = BLOCKS_ENGINE_COLUMNS,
    ENGINE_PAD = 8 /* floats after a row that an engine reads by columns: its lanes meet all banks */
};

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

struct blocks_shape blocks_shape(const struct variant *variant)
{
    const struct plain_erase erase = plain_erase(variant);
    struct blocks_shape s;

    s.erases = erase.streams > 0;
    s.second = erase.streams > 1;
    s.made = problem_decay(variant->problem) == DECAY_CHANNEL;
    s.channels = higher(power_from(variant->problem->desc.key_dim), variant->engine ? variant->engine->lanes : 32);
    s.widest = lower(power_from(variant_values(variant)), BLOCKS_MOST_COLUMNS);
    if (variant->engine != NULL)
        s.widest = higher(s.widest, BLOCKS_ENGINE_TILE);
    s.values = round_up(variant_values(variant), s.widest);
    s.streams = 2 + erase.streams;
    s.scores = s.second ? 4 : 1 + s.erases;
    s.scored = !s.made && !s.second && !plain_bonus(variant);
    return s;
}

/* ---- Layout -------------------------------------------------------------------------------------------------------
 */

int blocks_state_rows(const struct tiles *t, const struct blocks_shape *s)
{
    int rows = blocks_lean(t) || t->block_v < 16 ? VEC : 2 * VEC;

    return lower(s->channels / rows, MOST_ROW_LANES);
}

/* Sub-groups of a part of the group below each other: as many as rows of a chunk, and vectors of channels, allow. */
static struct grid_lanes engine_grid(const struct variant *variant, const struct blocks_shape *s)
{
    const struct tiles *t = &variant->tiles;
    int rows = variant->engine->lanes / ENGINE_COLUMNS, sub_groups = t->group / higher(t->split, 1);
    struct grid_lanes grid = {t->chunk / BLOCKS_ENGINE_TILE, 1};

    sub_groups /= variant->engine->lanes;
    if (variant->kernel == KERNEL_STATES)
        grid.rows = lower(grid.rows, s->channels / (VEC * rows));
    grid.rows = higher(lower(grid.rows, sub_groups), 1);
    grid.columns = higher(sub_groups / grid.rows, 1);
    return (struct grid_lanes){grid.rows * rows, grid.columns * ENGINE_COLUMNS};
}

struct grid_lanes blocks_lanes(const struct variant *variant, const struct blocks_shape *s)
{
    const struct tiles *t = &variant->tiles;
    struct grid_lanes lanes = {1, higher(t->block_v / VEC / higher(t->wide, 1), 1)};

    if (variant->engine != NULL)
        return engine_grid(variant, s);

    switch (variant->kernel) {
    case KERNEL_STATES: lanes.rows = blocks_state_rows(t, s); break;
    case KERNEL_JOIN: lanes.rows = 1; break;
    case KERNEL_OUTPUTS: lanes.rows = t->chunk / higher(t->rows, 1); break;
    default: lanes.rows = t->group / lanes.columns; break;
    }
    lanes.rows = higher(lanes.rows, 1); /* where only the words are wanted, tiles may be any */
    return lanes;
}

/* Blocks of SPOT rows by as many columns that lanes have scores of: on and below the diagonal, or below it alone where
 * decays a channel make the others by themselves. */
int blocks_pairs(const struct tiles *t, const struct blocks_shape *s)
{
    int spots = t->chunk / SPOT;

    return spots * (spots + (s->made ? -1 : 1)) / 2;
}

/* Of a tile that products read by columns: floats from row to row. */
static int columns_pitch(const struct variant *variant)
{
    return variant->tiles.block_v + (variant->engine != NULL ? ENGINE_PAD : 0);
}

/* The same of a slice of tokens. */
static int tokens_pitch(const struct variant *variant, const struct blocks_shape *s)
{
    return s->channels + (variant->engine != NULL ? ENGINE_PAD : 0);
}

/* Vectors of columns of scores that a lane has, where they are made in squares; and floats from row to row of the keys
 * that they are made with, in outputs beside the state. */
static int score_wide(const struct variant *variant, const struct blocks_shape *s)
{
    return (int)divide_up(variant->tiles.chunk, VEC * blocks_lanes(variant, s).columns);
}

static int score_pitch(const struct variant *variant, const struct blocks_shape *s)
{
    int beside = variant->kernel == KERNEL_OUTPUTS ? variant->tiles.block_v : 0;

    return beside + VEC * blocks_lanes(variant, s).columns * score_wide(variant, s) +
           (variant->engine != NULL ? ENGINE_PAD : VEC);
}

/* Of a chunk's decays, where they are of a head. */
static int decay_logs(const struct variant *variant)
{
    int chunk = variant->tiles.chunk, spots = chunk / SPOT;

    return problem_decay(variant->problem) == DECAY_SCALAR ? round_up((3 + SPOT) * chunk + spots + spots * spots, VEC)
                                                           : 0;
}

/* What decays of a chunk, of a head or of a slice of channels, are worked with. */
static void decay_locals(const struct variant *variant, const struct blocks_shape *s, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    int spots = t->chunk / SPOT;

    if (s->made) {
        layout_local(layout, "LOCAL_DECAY_LOG", t->chunk * (t->block_k + t->pad), FLOAT);
        layout_local(layout, "LOCAL_DECAY_SPOT", spots * t->block_k, FLOAT);
        layout_local(layout, "LOCAL_DECAY_PAIR", (spots * (spots - 1) / 2 + 1) * t->block_k, FLOAT);
        layout_local(layout, "LOCAL_DECAY_ENDS", 2 * spots * t->block_k, FLOAT);
    } else
        layout_local(layout, "LOCAL_DECAY_LOGS", decay_logs(variant), FLOAT);
}

static void prepare_locals(const struct variant *variant, const struct blocks_shape *s, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    int pitch = t->block_k + t->pad, parts = t->group / t->chunk;
    int square = t->chunk * pitch + t->block_k * score_pitch(variant, s);
    int slices = s->scored ? square : s->streams * t->chunk * pitch,
        diagonal = s->made ? s->scores * SPOT * parts * t->chunk : 0;
    int solved = s->erases ? (1 + s->second) * t->chunk * (t->chunk + VEC) + t->chunk * columns_pitch(variant) : 0;

    layout_local(layout, "LOCAL_SLICES", higher(higher(slices, diagonal), solved), FLOAT); /* norms need less */
    decay_locals(variant, s, layout);
    if (plain_erase(variant).norms > 0)
        layout_local(layout, "LOCAL_ERASE_NORMS", t->chunk, FLOAT);
}

/* Whether what is written has the place of the state, which was read when it is known. */
static int written_in_state(const struct blocks_shape *s)
{
    return s->erases && !s->second;
}

static void states_locals(const struct variant *variant, const struct blocks_shape *s, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    int pitch = t->block_k + t->pad, tokens = t->tokens * tokens_pitch(variant, s), columns = columns_pitch(variant),
        channels = s->erases ? t->chunk * pitch : 0;

    layout_constant(layout, "WRITTEN_IN_STATE", written_in_state(s));
    layout_local(layout, "LOCAL_STATE", s->erases || t->split > 1 ? higher(s->channels, t->chunk) * columns : VEC,
                 FLOAT);
    layout_local(layout, "LOCAL_WRITTEN", written_in_state(s) ? VEC : t->chunk * columns, FLOAT);
    layout_local(layout, "LOCAL_SLICE", higher(tokens, channels), FLOAT);
}

static void outputs_locals(const struct variant *variant, const struct blocks_shape *s, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    int rows = t->chunk * (t->block_k + t->pad), columns = t->block_k * columns_pitch(variant);

    if (s->scored) {
        rows += t->block_k * score_pitch(variant, s);
        columns += t->chunk * (t->chunk + VEC);
        layout_local(layout, "LOCAL_TILES", higher(rows, columns), FLOAT);
        decay_locals(variant, s, layout);
    } else
        layout_local(layout, "LOCAL_TILES", rows + columns, FLOAT);
    layout_local(layout, "LOCAL_KEEPS", t->segments > 1 ? s->channels : VEC, FLOAT);
}

static void add_headers(const struct variant *variant, struct layout *layout)
{
    int scored = blocks_shape(variant).scored;

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

static int record_matrices(const struct blocks_shape *s)
{
    return s->scored ? 0 : 1 + s->second;
}

/* Of a chunk and head, and of a segment and head. */
static void lay_out_workspace(const struct variant *variant, const struct blocks_shape *s, struct layout *layout)
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

static void shape_constants(const struct variant *variant, const struct blocks_shape *s, struct layout *layout)
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

    layout_constants(layout, numbers, sizeof numbers / sizeof *numbers);
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

    layout_constants(layout, numbers, sizeof numbers / sizeof *numbers);
}

/* What a lane has of each kernel's results. */
static void lane_constants(const struct variant *variant, const struct blocks_shape *s, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    const struct grid_lanes lanes = blocks_lanes(variant, s);
    int rows = higher(t->rows, 1);
    const struct number numbers[] = {
        {"ROW_LANES", lanes.rows},
        {"COL_LANES", lanes.columns},
        {"WIDE", higher(t->wide, 1)},
        {"WIDEST", higher(t->wide, 1) + (s->scored ? score_wide(variant, s) : 0)},
        {"SCORE_WIDE", score_wide(variant, s)},
        {"SCORE_PITCH", score_pitch(variant, s)},
        {"SCORE_ROWS", rows},
        {"LANES_PAIR", SPOT / rows * (SPOT / VEC)},
        {"PAIRS", blocks_pairs(t, s)},
        {"BLOCK_ROWS", t->chunk / lanes.rows},
        {"STATE_ROWS", s->channels / lanes.rows},
        {"TOKEN_PITCH", tokens_pitch(variant, s)},
        {"WRITTEN_ROWS", divide_up(t->chunk, lanes.rows)},
        {"OUTPUT_ROWS", rows},
        {"MOST_ROWS", higher(higher(s->channels, t->chunk) / lanes.rows, rows)},
    };

    layout_constants(layout, numbers, sizeof numbers / sizeof *numbers);
}

static void lay_out_locals(const struct variant *variant, const struct blocks_shape *s, struct layout *layout)
{
    if (variant->engine != NULL)
        layout_scratch(layout, variant, variant->engine->exact_scratch);
    layout_local(layout, "FACTORS", factors_of(&variant->tiles), FLOAT);
    switch (variant->kernel) {
    case KERNEL_PREPARE_BLOCKS: prepare_locals(variant, s, layout); break;
    case KERNEL_STATES: states_locals(variant, s, layout); break;
    case KERNEL_JOIN: break;
    default: outputs_locals(variant, s, layout);
    }
}

static void bound_registers(const struct tiles *t, struct layout *layout)
{
    layout->step.registers = t->registers;
    if (t->registers > 0)
        layout_constant(layout, "BOUND_REGISTERS", t->registers);
}

void blocks_lay_out(const struct variant *variant, struct layout *layout)
{
    const struct blocks_shape s = blocks_shape(variant);

    layout->step.options = PLAIN_OPTIONS;
    lay_out_workspace(variant, &s, layout);
    lay_out_groups(variant, layout);
    shape_constants(variant, &s, layout);
    tile_constants(variant, layout);
    lane_constants(variant, &s, layout);
    lay_out_locals(variant, &s, layout);
    bound_registers(&variant->tiles, layout);
    add_headers(variant, layout);
}

void blocks_describe(struct text *text, const struct variant *variant, const struct layout *layout)
{
    const struct tiles *t = &variant->tiles;

    text_format(text, "group %d, chunk %d, slice %d, value tile %d, rows %d, stretch %d, local %zu bytes", t->group,
                t->chunk, t->block_k, t->block_v, t->rows, t->stretch, layout->step.local_bytes);
    if (layout->step.registers > 0)
        text_format(text, ", %d registers", layout->step.registers);
    text_format(text, "\n");
}
