/* The kernels of register blocks as steps: constants, local arrays and words that follow from a problem and tiles. */
#include "solve/blocks/blocks.h"
#include "solve/state_words.h"

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

struct blocks_sizes blocks_sizes(const struct blocks_kernel *kernel)
{
    const struct problem *problem = kernel->problem;
    const struct erase_words erase = erase_words(problem);
    struct blocks_sizes s;

    s.erases = erase.streams > 0;
    s.second = erase.streams > 1;
    s.leaves_rows = problem_decay(problem) == DECAY_CHANNEL;
    s.channels = higher(power_from(problem->desc.key_dim), kernel->engine != NULL ? kernel->engine->lanes : 32);
    s.widest = lower(power_from(problem_values(problem)), BLOCKS_MOST_COLUMNS);
    if (kernel->engine != NULL)
        s.widest = higher(s.widest, BLOCKS_ENGINE_TILE);
    s.values = round_up(problem_values(problem), s.widest);
    s.streams = 2 + erase.streams;
    s.scores = s.second ? 4 : 1 + s.erases;
    s.scored_by_outputs = !s.leaves_rows && !s.second && !reads_bonus(problem);
    return s;
}

/* ---- Lanes --------------------------------------------------------------------------------------------------------
 */

int blocks_state_rows(const struct blocks_part_tiles *t, const struct blocks_sizes *s)
{
    const int rows = blocks_lean(t) || t->block_v < 16 ? VEC : 2 * VEC;

    return lower(s->channels / rows, MOST_ROW_LANES);
}

/* Sub-groups of a part of the group below each other: as many as rows of a chunk, and vectors of channels, allow. */
static struct grid_lanes engine_grid(const struct blocks_kernel *kernel, const struct blocks_sizes *s)
{
    const int lanes = kernel->engine->lanes, rows = lanes / ENGINE_COLUMNS;
    const int sub_groups = kernel->tiles.group / kernel->tiles.split / lanes;
    struct grid_lanes grid = {kernel->chunk / BLOCKS_ENGINE_TILE, 1};

    if (kernel->part == BLOCKS_STATES)
        grid.rows = lower(grid.rows, s->channels / (VEC * rows));
    grid.rows = higher(lower(grid.rows, sub_groups), 1);
    grid.columns = higher(sub_groups / grid.rows, 1);
    return (struct grid_lanes){grid.rows * rows, grid.columns * ENGINE_COLUMNS};
}

struct grid_lanes blocks_lanes(const struct blocks_kernel *kernel, const struct blocks_sizes *s)
{
    const struct blocks_part_tiles *t = &kernel->tiles;
    struct grid_lanes lanes = {1, higher(t->block_v / VEC / higher(t->wide, 1), 1)};

    if (kernel->engine != NULL)
        return engine_grid(kernel, s);
    switch (kernel->part) {
    case BLOCKS_STATES: lanes.rows = blocks_state_rows(t, s); break;
    case BLOCKS_OUTPUTS: lanes.rows = kernel->chunk / higher(t->rows, 1); break;
    case BLOCKS_PREPARE: lanes.rows = higher(t->group / lanes.columns, 1); break;
    case BLOCKS_JOIN:
    case BLOCKS_PARTS: break;
    }
    return lanes;
}

/* On and below the diagonal; below it alone where decays by channel make the others by themselves. */
int blocks_pairs(int chunk, const struct blocks_sizes *s)
{
    const int spots = chunk / SPOT;

    return spots * (spots + (s->leaves_rows ? -1 : 1)) / 2;
}

/* ---- Pitches ------------------------------------------------------------------------------------------------------
 */

/* Of a tile that products read by columns: floats from row to row. */
static int columns_pitch(const struct blocks_kernel *kernel)
{
    return kernel->tiles.block_v + (kernel->engine != NULL ? ENGINE_PAD : 0);
}

/* The same of a slice of tokens. */
static int tokens_pitch(const struct blocks_kernel *kernel, const struct blocks_sizes *s)
{
    return s->channels + (kernel->engine != NULL ? ENGINE_PAD : 0);
}

/* The same of a slice of channels. */
static int slice_pitch(const struct blocks_kernel *kernel)
{
    return kernel->tiles.block_k + VEC;
}

/* Vectors of columns of scores that a lane has, where they are made in squares; and floats from row to row of the keys
 * that they are made with, in outputs beside the state. */
static int score_wide(const struct blocks_kernel *kernel, const struct blocks_sizes *s)
{
    return (int)divide_up(kernel->chunk, VEC * blocks_lanes(kernel, s).columns);
}

static int score_pitch(const struct blocks_kernel *kernel, const struct blocks_sizes *s)
{
    const int beside = kernel->part == BLOCKS_OUTPUTS ? kernel->tiles.block_v : 0;

    return beside + VEC * blocks_lanes(kernel, s).columns * score_wide(kernel, s) +
           (kernel->engine != NULL ? ENGINE_PAD : VEC);
}

/* ---- Local memory -------------------------------------------------------------------------------------------------
 */

/* Of a chunk's decays, where they are of a head. */
static int decay_logs(const struct blocks_kernel *kernel)
{
    const int chunk = kernel->chunk, spots = chunk / SPOT;

    return problem_decay(kernel->problem) == DECAY_SCALAR ? round_up((3 + SPOT) * chunk + spots + spots * spots, VEC)
                                                          : 0;
}

/* What decays of a chunk are computed with: those of a head, or of a slice of channels. */
static int64_t prepared_decays(const struct blocks_kernel *kernel, const struct blocks_sizes *s)
{
    const int spots = kernel->chunk / SPOT, pairs = spots * (spots - 1) / 2 + 1;

    if (!s->leaves_rows)
        return decay_logs(kernel);
    return (int64_t)kernel->chunk * slice_pitch(kernel) + (int64_t)(spots + pairs + 2 * spots) * kernel->tiles.block_k;
}

static void add_prepare_locals(struct kernel_step *step, const struct blocks_kernel *kernel,
                               const struct blocks_sizes *s)
{
    const int chunk = kernel->chunk, slice = chunk * slice_pitch(kernel), parts = kernel->tiles.group / chunk;
    const int square = slice + kernel->tiles.block_k * score_pitch(kernel, s);
    const int slices = s->scored_by_outputs ? square : s->streams * slice;
    const int diagonal = s->leaves_rows ? s->scores * SPOT * parts * chunk : 0;
    const int solved = s->erases ? (1 + s->second) * chunk * (chunk + VEC) + chunk * columns_pitch(kernel) : 0;

    step_local(step, "LOCAL_SLICES", higher(higher(slices, diagonal), solved), FLOAT); /* norms need less */
    step_local(step, "LOCAL_DECAY", prepared_decays(kernel, s), FLOAT);
    step_local(step, "LOCAL_ERASE_NORMS", erase_words(kernel->problem).norms > 0 ? chunk : 0, FLOAT);
}

/* Whether what is written has the place of the state, which was read when it is known. */
static int written_in_state(const struct blocks_sizes *s)
{
    return s->erases && !s->second;
}

static void add_states_locals(struct kernel_step *step, const struct blocks_kernel *kernel,
                              const struct blocks_sizes *s)
{
    const int chunk = kernel->chunk, columns = columns_pitch(kernel);
    const int tokens = kernel->tiles.tokens * tokens_pitch(kernel, s);
    const int channels = s->erases ? chunk * slice_pitch(kernel) : 0;

    step_constant(step, "WRITTEN_IN_STATE", written_in_state(s));
    step_local(step, "LOCAL_STATE", s->erases || kernel->tiles.split > 1 ? higher(s->channels, chunk) * columns : VEC,
               FLOAT);
    step_local(step, "LOCAL_WRITTEN", written_in_state(s) ? VEC : chunk * columns, FLOAT);
    step_local(step, "LOCAL_SLICE", higher(tokens, channels), FLOAT);
}

static void add_outputs_locals(struct kernel_step *step, const struct blocks_kernel *kernel,
                               const struct blocks_sizes *s)
{
    const int chunk = kernel->chunk, block_k = kernel->tiles.block_k;
    int rows = chunk * slice_pitch(kernel), columns = block_k * columns_pitch(kernel);

    if (s->scored_by_outputs) {
        rows += block_k * score_pitch(kernel, s);
        columns += chunk * (chunk + VEC);
    }
    step_local(step, "LOCAL_TILES", s->scored_by_outputs ? higher(rows, columns) : rows + columns, FLOAT);
    step_local(step, "LOCAL_DECAY", s->scored_by_outputs ? decay_logs(kernel) : 0, FLOAT);
    step_local(step, "LOCAL_SEGMENT_DECAYS", kernel->segments > 1 ? s->channels : VEC, FLOAT);
}

static int factors_of(const struct blocks_kernel *kernel)
{
    return 6 * kernel->chunk + VEC;
}

static void add_locals(struct kernel_step *step, const struct blocks_kernel *kernel, const struct blocks_sizes *s)
{
    if (kernel->engine != NULL)
        step_scratch(step, kernel->engine->exact_scratch);
    step_local(step, "FACTORS", factors_of(kernel), FLOAT);
    switch (kernel->part) {
    case BLOCKS_PREPARE: add_prepare_locals(step, kernel, s); break;
    case BLOCKS_STATES: add_states_locals(step, kernel, s); break;
    case BLOCKS_OUTPUTS: add_outputs_locals(step, kernel, s); break;
    case BLOCKS_JOIN:
    case BLOCKS_PARTS: break;
    }
}

/* ---- Workspace and grid -------------------------------------------------------------------------------------------
 */

static int record_matrices(const struct blocks_sizes *s)
{
    return s->scored_by_outputs ? 0 : 1 + s->second;
}

struct blocks_workspace blocks_workspace(const struct blocks_kernel *kernel)
{
    const struct blocks_sizes s = blocks_sizes(kernel);
    const int64_t chunk = kernel->chunk, channels = s.channels;

    return (struct blocks_workspace){.record = record_matrices(&s) * chunk * chunk + factors_of(kernel) +
                                               decay_logs(kernel) + (s.leaves_rows + !s.erases) * channels,
                                     .rows = ((2 + s.second) * s.leaves_rows + s.erases) * chunk * channels +
                                             s.erases * chunk * s.values,
                                     .state = channels * s.values,
                                     .kept = channels};
}

static int value_tiles(const struct blocks_kernel *kernel)
{
    return (int)divide_up(problem_values(kernel->problem), kernel->tiles.block_v);
}

int64_t blocks_value_groups(const struct blocks_kernel *kernel)
{
    switch (kernel->part) {
    case BLOCKS_STATES: return (int64_t)value_tiles(kernel) * kernel->segments;
    case BLOCKS_JOIN: return divide_up(blocks_workspace(kernel).state, (int64_t)VEC * kernel->tiles.group);
    case BLOCKS_OUTPUTS: return value_tiles(kernel);
    case BLOCKS_PREPARE:
    case BLOCKS_PARTS: break;
    }
    return 1;
}

/* ---- Constants ----------------------------------------------------------------------------------------------------
 */

static void add_size_constants(struct kernel_step *step, const struct blocks_kernel *kernel,
                               const struct blocks_sizes *s)
{
    const struct blocks_workspace workspace = blocks_workspace(kernel);
    const struct number numbers[] = {
        {"KP", s->channels},
        {"VP", s->values},
        {"ERASES", s->erases},
        {"SECOND", s->second},
        {"BONUS", reads_bonus(kernel->problem)},
        {"CHANNEL_DECAYS", s->leaves_rows},
        {"CHUNK_ROWS", workspace.rows},
        {"RECORD", workspace.record},
        {"RECORD_MATRICES", record_matrices(s)},
        {"DECAY_LOGS", decay_logs(kernel)},
        {"SCORE_MATRICES", s->scores},
        {"OUTPUT_SCORES", s->scored_by_outputs},
        {"SPOT_SCORES", kernel->part == BLOCKS_PREPARE && !s->scored_by_outputs},
        {"LONG_SUMS", kernel->part == BLOCKS_STATES && !s->erases}, /* of a whole sequence */
    };

    step_constants(step, numbers, sizeof numbers / sizeof *numbers);
}

static void add_tile_constants(struct kernel_step *step, const struct blocks_kernel *kernel)
{
    const struct blocks_part_tiles *t = &kernel->tiles;
    const struct number numbers[] = {
        {"BK", t->block_k},
        {"BT", t->tokens},
        {"AHEAD", t->ahead},
        {"BV", t->block_v},
        {"RP", slice_pitch(kernel)},
        {"CP", kernel->chunk + VEC},
        {"COLUMN_PITCH", columns_pitch(kernel)},
        {"MATRIX", kernel->chunk * (kernel->chunk + VEC)},
        {"SPOT", SPOT},
        {"STRETCH", kernel->stretch},
        {"SEGMENTS", kernel->segments},
        {"SPLIT", t->split},
        {"VALUE_GROUPS", value_tiles(kernel)},
        /* of words of tile.clh that these kernels do not use */
        {"PAD", VEC},
        {"LANES_K", 1},
        {"TOKEN_PARTS", 1},
        {"ERASE_MATRICES", 0},
    };

    step_constants(step, numbers, sizeof numbers / sizeof *numbers);
}

/* What a lane has of each kernel's results. */
static void add_lane_constants(struct kernel_step *step, const struct blocks_kernel *kernel,
                               const struct blocks_sizes *s)
{
    const struct blocks_part_tiles *t = &kernel->tiles;
    const struct grid_lanes lanes = blocks_lanes(kernel, s);
    const int rows = higher(t->rows, 1), wide = higher(t->wide, 1);
    const struct number numbers[] = {
        {"ROW_LANES", lanes.rows},
        {"COL_LANES", lanes.columns},
        {"WIDE", wide},
        {"WIDEST", wide + (s->scored_by_outputs ? score_wide(kernel, s) : 0)},
        {"SCORE_WIDE", score_wide(kernel, s)},
        {"SCORE_PITCH", score_pitch(kernel, s)},
        {"SCORE_ROWS", rows},
        {"LANES_PAIR", SPOT / rows * (SPOT / VEC)},
        {"PAIRS", blocks_pairs(kernel->chunk, s)},
        {"BLOCK_ROWS", kernel->chunk / lanes.rows},
        {"STATE_ROWS", s->channels / lanes.rows},
        {"TOKEN_PITCH", tokens_pitch(kernel, s)},
        {"WRITTEN_ROWS", divide_up(kernel->chunk, lanes.rows)},
        {"OUTPUT_ROWS", rows},
        {"MOST_ROWS", higher(higher(s->channels, kernel->chunk) / lanes.rows, rows)},
    };

    step_constants(step, numbers, sizeof numbers / sizeof *numbers);
}

static void bound_registers(struct kernel_step *step, int registers)
{
    step->registers = registers;
    if (registers > 0)
        step_constant(step, "BOUND_REGISTERS", registers);
}

/* ---- Words --------------------------------------------------------------------------------------------------------
 */

static void add_words(struct kernel_step *step, const struct blocks_kernel *kernel)
{
    add_block_products(step, kernel->engine);
    step_header(step, FILE_blocks);
    add_state_words(step, kernel->problem, OUTPUTS_WRITTEN);
    step_header(step, decay_headers[problem_decay(kernel->problem)]);
}

struct kernel_step blocks_step(const struct blocks_kernel *kernel)
{
    static const enum embedded_file files[] = {
        [BLOCKS_PREPARE] = FILE_prepare_blocks,
        [BLOCKS_STATES] = FILE_states,
        [BLOCKS_JOIN] = FILE_join,
        [BLOCKS_OUTPUTS] = FILE_outputs,
    };
    const struct blocks_sizes s = blocks_sizes(kernel);
    struct kernel_step step = kernel_step(files[kernel->part], kernel->problem);

    step.shared = 1;
    step_tile(&step, kernel->tiles.group, VEC, kernel->chunk, kernel->tiles.sub_group);
    add_size_constants(&step, kernel, &s);
    add_tile_constants(&step, kernel);
    add_lane_constants(&step, kernel, &s);
    add_locals(&step, kernel, &s);
    bound_registers(&step, kernel->tiles.registers);
    add_words(&step, kernel);
    return step;
}
