/* A kernel's constants and local arrays, and the sizes of what it leaves others. */
#include "solve/matrix_scan/matrix_scan.h"

enum {
    TILE = MATRIX_TILE,
    PAD = 8,         /* numbers after a staged row: eight rows meet all banks */
    FLOAT_PAD = 4,   /* floats after a row of a matrix that is solved */
    KEPT_PITCH = 24, /* of a tile on its way to the matrix that a segment keeps */
    FRAG = 128,      /* words of 32 bits of a tile of 16 bits */
    SLICES = 8,      /* parts of a score that lanes sum by themselves */
    NUMBER = 2,      /* bytes */
    FLOAT = 4
};

/* ---- All kernels ---------------------------------------------------------------------------------------------------
 */

static struct kernel_step step_of(const struct part *part, const struct part_traits *traits)
{
    static const enum embedded_file files[] = {[PART_PREPARE] = FILE_prepare_matrix,
                                               [PART_FACTORS] = FILE_prepare_factors,
                                               [PART_SCAN] = FILE_scan_matrix,
                                               [PART_GATHER] = FILE_gather_matrix};
    enum { VEC = 4 };
    const struct engine *engine = part->facts->engine;
    const struct part_tiles *t = &part->tiles;
    const int by_channel = part->kind == PART_PREPARE && traits->decayed;
    struct kernel_step step = kernel_step(by_channel ? FILE_prepare_channels : files[part->kind], part->problem);

    step_tile(&step, t->group, VEC, t->chunk, t->sub_group);
    step.options = engine->options;
    step.any_group = 1; /* NVIDIA says 256 of every kernel, and runs these in the larger groups they are compiled for */
    if (part->kind != PART_FACTORS)
        step_scratch(&step, engine->scratch);
    step_constant(&step, "FRAG", FRAG);
    step_constant(&step, "VALUE_TILES", t->value_tiles);
    step_constant(&step, "KEY_SPLIT", t->key_split);
    step_constant(&step, "STAGES", t->stages);
    step_constant(&step, "LOADERS", t->loaders);
    step_constant(&step, "READERS", t->readers * t->value_tiles);
    step_constant(&step, "SEGMENTS", t->segments);
    step_constant(&step, "SPAN", t->span);
    step_constant(&step, "DEPTH", traits->depth);
    return step;
}

static int stage_factors(const struct part *part, const struct part_traits *traits)
{
    return traits->row_factors * part->tiles.chunk + traits->state_factors;
}

/* Of a chunk's rows and values, in numbers of 16 bits, and of what a record has, in words of 32. */
static void add_chunk_sizes(const struct part *part, const struct part_traits *traits, struct part_layout *layout)
{
    const int chunk = part->tiles.chunk, tiles = chunk / TILE;
    const int value_width = round_up(problem_values(part->problem), 8);
    const int factors = stage_factors(part, traits) + (traits->scan_scores ? 4 * chunk : 0);
    const int made_values = makes_values(part->problem) ? value_width : 0;
    const int64_t made_rows = (int64_t)chunk * (traits->streams * traits->width + made_values);

    layout->record = traits->matrices * tiles * tiles * FRAG + factors;
    layout->rows = traits->made ? made_rows / 2 : 0;
    step_constants(&layout->step,
                   (const struct number[]){{"WIDTH", traits->width},
                                           {"PITCH", traits->width + PAD},
                                           {"STREAM", (int64_t)chunk * (traits->width + PAD)},
                                           {"STREAMS", traits->streams},
                                           {"MATRICES", traits->matrices},
                                           {"TILES", traits->prepared_streams},
                                           {"NORMS", traits->norms},
                                           {"SOLVED_FLOATS", traits->solved},
                                           {"ROWS_MADE", traits->made},
                                           {"SCAN_SCORES", traits->scan_scores},
                                           {"DECAYED_ROWS", traits->decayed},
                                           {"ROW_FACTORS", traits->row_factors},
                                           {"DECAY_FACTORS", traits->state_factors},
                                           {"STAGE_FACTORS", stage_factors(part, traits)},
                                           {"MATRIX_FACTORS", factors},
                                           {"MATRIX_RECORD", layout->record},
                                           {"VALUE_WIDTH", value_width},
                                           {"MADE_ROWS", made_rows},
                                           {"ERASES", traits->erasing},
                                           {"LOW_RANK", part->problem->rule->erase == ERASE_LOW_RANK}},
                   20);
}

/* ---- What prepares ------------------------------------------------------------------------------------------------
 */

/* Matrices as floats and as numbers of 16 bits, rows that are read, and decays by channel. */
struct prepared {
    int pitch, matrix; /* of a matrix of floats; its floats */
    int number_pitch;  /* of one of numbers */
    int64_t rows;      /* numbers */
    int decay_pitch, parts;
};

static struct prepared prepared_of(const struct part *part, const struct part_traits *traits)
{
    const int chunk = part->tiles.chunk;

    return (struct prepared){.pitch = chunk + FLOAT_PAD,
                             .matrix = chunk * (chunk + FLOAT_PAD),
                             .number_pitch = chunk + PAD,
                             .rows = (int64_t)traits->prepared_streams * chunk * (traits->width + PAD),
                             .decay_pitch = traits->width + PAD,
                             .parts = chunk * (chunk + 1) / 2 * SLICES};
}

static void add_prepared_sizes(const struct part *part, const struct part_traits *traits, struct kernel_step *step)
{
    const struct prepared p = prepared_of(part, traits);

    step_constant(step, "MP", p.pitch);
    step_constant(step, "HP", p.number_pitch);
    step_constant(step, "MATRIX_FLOATS", p.matrix);
    step_constant(step, "ROWS_NUMBERS", p.rows);
    if (traits->decayed) {
        step_constant(step, "DP", p.decay_pitch);
        step_constant(step, "SLICES", SLICES);
        step_constant(step, "PARTS", p.parts);
    }
}

static void add_prepare_locals(const struct part *part, const struct part_traits *traits, struct kernel_step *step)
{
    const struct prepared p = prepared_of(part, traits);
    const int chunk = part->tiles.chunk;
    const int64_t solved = 2 * traits->solved * p.matrix + traits->matrices * chunk * p.number_pitch;

    step_local(step, "LOCAL_TILES", traits->made ? p.rows + solved : p.rows > solved ? p.rows : solved, NUMBER);
    step_local(step, "LOCAL_NORMS", traits->norms * chunk, FLOAT);
    step_local(step, "LOCAL_STRENGTH", chunk, FLOAT);
    if (traits->decayed) {
        step_local(step, "LOCAL_DECAYS", chunk * p.decay_pitch + 2 * p.parts, FLOAT);
        step_local(step, "LOCAL_STEEP", 1, FLOAT);
    }
    step_constant(step, "ROWS_DECAY", problem_decay(part->problem) == DECAY_SCALAR);
    if (problem_decay(part->problem) == DECAY_SCALAR) {
        step_local(step, "LOCAL_DECAY_LOGS", chunk, FLOAT);
        step_local(step, "LOCAL_DECAY_SUMS", chunk + 1, FLOAT);
    }
}

/* ---- Scans --------------------------------------------------------------------------------------------------------
 */

/* Rows of values and of the output in local memory, in numbers; the output's are of its own type. */
struct scan_rows {
    int value_pitch, output_pitch;
    int64_t values, strip, output; /* of a chunk: staged values, a strip of values, a strip of outputs */
};

static struct scan_rows scan_rows(const struct part *part, const struct part_traits *traits)
{
    const struct part_tiles *t = &part->tiles;
    const int out = (int)dtype_size(problem_out_type(part->problem)), rows = part->facts->engine->rows;
    const int span = t->span * rows;
    const int output_columns = traits->strips ? span : t->readers ? rows : t->block_v;
    struct scan_rows r = {.value_pitch = (traits->strips ? span : t->block_v) * out / 2 + PAD,
                          .output_pitch = output_columns + 2 * PAD / out};

    r.strip = t->chunk * r.value_pitch;
    r.values = traits->strips ? 0 : r.strip;
    r.output = t->chunk * r.output_pitch * out / 2;
    return r;
}

/* Of a chunk, in numbers: streams but those that are read apart or not at all, values, factors, the scores that are made
 * there, divisors. */
static int64_t stage_size(const struct part *part, const struct part_traits *traits, int64_t values)
{
    const struct part_tiles *t = &part->tiles;
    const int tiles = t->chunk / TILE;
    const int64_t streams = traits->streams - (t->readers || part->kind == PART_GATHER);
    const int64_t scores = traits->scan_scores ? tiles * (tiles + 1) / 2 * 2 * FRAG : 0;

    return streams * t->chunk * (traits->width + PAD) + values + 2 * stage_factors(part, traits) + scores +
           (traits->divided ? 2 * t->chunk : 0);
}

static void add_stages(const struct part *part, const struct part_traits *traits, const struct scan_rows *rows,
                       struct kernel_step *step)
{
    const struct part_tiles *t = &part->tiles;
    const int64_t stage = stage_size(part, traits, rows->values);

    step_constant(step, "VALUES", t->block_v);
    step_constant(step, "VALUE_GROUPS", traits->value_groups);
    step_constant(step, "KT", traits->width / t->key_split / TILE);
    step_constant(step, "FIRST_STREAM", t->readers || part->kind == PART_GATHER);
    step_constant(step, "VALUE_PITCH", rows->value_pitch);
    step_constant(step, "OUTPUT_PITCH", rows->output_pitch);
    step_constant(step, "STAGE_VALUES", rows->values);
    step_constant(step, "DIVISORS", traits->divided ? t->chunk : 0);
    step_constant(step, "STAGE", stage);
    step_local(step, "LOCAL_STAGES", t->stages * stage, NUMBER);
    step_constant(step, "STRIPS", traits->strips);
    step_constant(step, "STRIP", rows->strip);
    if (traits->strips)
        step_local(step, "LOCAL_STRIPS", t->value_tiles * rows->strip, NUMBER);
}

/* What sub-groups leave each other: the state and the output of those that read, and sums of those that share columns. */
static void add_exchanges(const struct part *part, const struct part_traits *traits, const struct scan_rows *rows,
                          struct kernel_step *step)
{
    const struct part_tiles *t = &part->tiles;
    const int64_t share = (int64_t)2 * t->chunk * part->facts->engine->rows;

    step_constant(step, "READS_APART", t->readers != 0);
    step_constant(step, "CHANNELS_SHARED", t->key_split > 1);
    step_constant(step, "OUTPUT_STRIP", rows->output);
    step_constant(step, "SHARE_FLOATS", share);
    if (t->readers) {
        step_local(step, "LOCAL_QUERIES", t->chunk * (traits->width + PAD), NUMBER);
        step_local(step, "LOCAL_OUTPUT_STRIPS", 2 * t->value_tiles * rows->output, NUMBER);
        step_local(step, "LOCAL_LEFT", t->value_tiles * (traits->width / TILE) * FRAG, FLOAT);
    }
    if (t->key_split > 1)
        step_local(step, "LOCAL_SHARE", t->key_split * t->value_tiles * share, FLOAT);
}

static void add_segments(const struct part *part, const struct part_traits *traits, struct part_layout *layout)
{
    const struct part_tiles *t = &part->tiles;
    const int gathers = part->kind == PART_GATHER;
    const int64_t kept_groups = traits->erasing ? divide_up(traits->width, t->block_v) : 0;

    layout->segment = (int64_t)traits->value_groups * t->block_v * traits->width;
    layout->segment_kept = traits->erasing ? (int64_t)traits->width * traits->width : traits->state_factors;
    /* The first of two scans: what segments add, but the last, which nothing comes after; and where something is erased
     * what they keep, but the first. */
    layout->groups = (int)(gathers ? traits->value_groups * (t->segments - 1) + kept_groups * (t->segments - 2)
                                   : traits->value_groups * t->segments);
    step_constant(&layout->step, "KEPT_PITCH", KEPT_PITCH);
    step_constant(&layout->step, "KEPT_TILE", TILE * KEPT_PITCH);
    step_constant(&layout->step, "GATHERS", gathers);
    step_constant(&layout->step, "KEEPS_MATRIX", gathers && traits->erasing);
    if (gathers && traits->erasing)
        step_local(&layout->step, "LOCAL_KEPT_TILES", t->value_tiles * TILE * KEPT_PITCH, NUMBER);
    step_constant(&layout->step, "SEGMENT_STATE", layout->segment);
    step_constant(&layout->step, "KEPT_WORDS", layout->segment_kept);
    step_constant(&layout->step, "KEPT_GROUPS", kept_groups);
}

static void add_scan(const struct part *part, const struct part_traits *traits, struct part_layout *layout)
{
    const struct scan_rows rows = scan_rows(part, traits);

    add_stages(part, traits, &rows, &layout->step);
    add_exchanges(part, traits, &rows, &layout->step);
    add_segments(part, traits, layout);
    add_scan_headers(&layout->step, part, traits);
}

struct part_layout part_layout(const struct part *part)
{
    const struct part_traits traits = part_traits(part);
    struct part_layout layout = {.step = step_of(part, &traits), .slots = 1, .groups = 1};

    add_chunk_sizes(part, &traits, &layout);
    add_prepared_sizes(part, &traits, &layout.step);
    add_shared_headers(&layout.step, part, &traits);
    switch (part->kind) {
    case PART_PREPARE: add_prepare_locals(part, &traits, &layout.step); break;
    case PART_FACTORS:
        step_local(&layout.step, "LOCAL_LOGS", part->tiles.group, FLOAT);
        layout.slots = part->tiles.group / part->tiles.chunk; /* a work-item a row */
        break;
    case PART_SCAN:
    case PART_GATHER: add_scan(part, &traits, &layout); break;
    }
    return layout;
}
