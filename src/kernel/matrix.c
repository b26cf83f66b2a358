#include "kernel/matrix.h"

/* What a rule's words add to the kernels. */
#define MATRIX(header, ...)                                                                                            \
    {                                                                                                                  \
        FILE_##header, __VA_ARGS__                                                                                     \
    }
static const struct {
    enum embedded_file header;
    int streams;          /* of rows */
    int own;              /* one stream more where rows are decayed */
    int tiles;            /* streams that prepare reads */
    int norms;            /* those of them that may be normalised */
    int matrices, floats; /* chunk x chunk: in a record, and as floats in prepare */
    int most_chunk;
    int readers;       /* whether sub-groups of their own may make the output: 2 where they usually do */
    int made;          /* whether prepare makes its rows whatever the decay */
    int norms_in_rows; /* whether a norm of k is no factor of each of its rows */
} erases[] = {
#define ERASE(value, name, p, e, draw, work, plain, matrix) matrix,
#include "op/words.def"
};
static const enum embedded_file decay_headers[] = {
#define DECAY(value, name, dims, list_dims, plain, matrix, ...) FILE_##matrix,
#include "op/words.def"
};
static const struct {
    enum embedded_file strength, values;
    int made;
} writes[] = {
#define WRITE(value, row, role, strength, plain, matrix, made, ...) {FILE_##strength, FILE_##matrix, made},
#include "op/words.def"
};
static const struct {
    enum embedded_file header;
    int before;
} reads[] = {
#define READ(value, row, plain, matrix, before, ...) {FILE_##matrix, before},
#include "op/words.def"
};

enum {
    TILE = MATRIX_TILE,
    PAD = 8,           /* numbers after a staged row: eight rows meet all banks */
    FLOAT_PAD = 4,     /* floats after a row of a matrix that is solved */
    KEPT_PITCH = 24,   /* of a tile on its way to the matrix that a segment keeps */
    FRAG = 128,        /* words of 32 bits of a tile of 16 bits */
    DECAYED_DEPTH = 3, /* chunks that loading sub-groups hold where rows are decayed, */
    READ_DEPTH = 2,    /* and where there are readers */
    SLICES = 8,        /* parts of a score that lanes sum by themselves */
    NUMBER = 2,        /* bytes */
    FLOAT = 4
};

/* ---- Shape --------------------------------------------------------------------------------------------------------
 */

static int is_made(const struct variant *variant, const struct matrix_shape *s)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    enum erase erase = variant->problem->rule->erase;

    return s->decayed || erases[erase].made || desc->feature_map != 0 || desc->steps > 1 || desc->key_dim != s->width ||
           (erases[erase].norms_in_rows && desc->flags & CLATTN_QK_L2NORM);
}

static int depth(const struct tiles *t, const struct matrix_shape *s)
{
    int usual = t->readers ? READ_DEPTH : s->decayed ? DECAYED_DEPTH : 1;

    return t->loaders == 0 ? 1 : t->depth > 0 ? t->depth : usual;
}

struct matrix_shape matrix_shape(const struct variant *variant)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    const struct rule *rule = variant->problem->rule;
    const struct tiles *t = &variant->tiles;
    struct matrix_shape s = {.erasing = rule->erase != ERASE_NONE,
                             .decayed = problem_decay(variant->problem) == DECAY_CHANNEL,
                             .before = reads[rule->read].before,
                             .may_read = erases[rule->erase].readers,
                             .tiles = erases[rule->erase].tiles,
                             .norms = erases[rule->erase].norms,
                             .recorded = erases[rule->erase].matrices,
                             .floats = erases[rule->erase].floats};

    s.most_chunk = s.decayed ? TILE : erases[rule->erase].most_chunk;
    s.streams = erases[rule->erase].streams + (s.decayed ? erases[rule->erase].own : 0);
    s.width = round_up(desc->key_dim, TILE * (t->key_split > 2 ? t->key_split : 2));
    s.made = is_made(variant, &s);
    s.strips = variant->engine->span > 1 && !s.erasing && t->key_split == 1;
    s.scored = s.strips && !s.decayed && !s.before;
    s.matrices = s.scored ? 0 : s.recorded;
    s.reads_rows = s.matrices > 0 || (desc->flags & CLATTN_QK_L2NORM) || s.made;
    s.row_factors = s.decayed ? 0 : 2 + s.erasing;
    s.decay_factors = s.decayed ? s.width : 4;
    s.divided = problem_normalized(variant->problem) && !variant->normalizer && !variant->gather;
    s.depth = depth(t, &s);
    s.value_groups = t->block_v > 0 ? (int)divide_up(variant_values(variant), t->block_v) : 0;
    return s;
}

/* ---- Headers ------------------------------------------------------------------------------------------------------
 */

static enum embedded_file values_header(const struct variant *variant)
{
    return variant->normalizer ? FILE_values_ones : writes[variant->problem->rule->write].values;
}

static enum embedded_file reads_header(const struct variant *variant, const struct matrix_shape *s)
{
    if (variant->gather)
        return FILE_reads_nothing;
    if (s->scored)
        return FILE_reads_scored;
    return variant->tiles.readers ? FILE_reads_apart : FILE_reads_outputs;
}

static enum embedded_file outputs_header(const struct variant *variant, const struct matrix_shape *s)
{
    if (s->strips)
        return FILE_outputs_strips;
    return variant->tiles.readers ? FILE_outputs_apart : FILE_outputs_staged;
}

/* How a number of the output is finished: where it is divided, the staged reciprocals do that. */
static enum embedded_file output_header(const struct variant *variant)
{
    if (!variant->normalizer || variant->gather)
        return FILE_output_plain;
    return problem_stabilized(variant->problem) ? FILE_output_stable : FILE_output_sum;
}

static void segment_headers(const struct variant *variant, const struct matrix_shape *s, struct layout *layout)
{
    if (variant->tiles.segments == 1) {
        layout_header(layout, FILE_segments_one);
        return;
    }
    layout_header(layout, s->erasing ? FILE_kept_matrix : FILE_kept_factors);
    layout_header(layout, variant->gather ? FILE_segments_gather : FILE_segments_scan);
}

static void engine_headers(const struct variant *variant, struct layout *layout)
{
    layout_header(layout, variant->engine->instructions);
    layout_header(layout, variant->engine->words);
}

/* What prepare and scan have in common. */
static void shared_headers(const struct variant *variant, const struct matrix_shape *s, struct layout *layout)
{
    const struct rule *rule = variant->problem->rule;

    engine_headers(variant, layout);
    layout_header(layout, reads[rule->read].header);
    layout_header(layout, writes[rule->write].strength);
    layout_header(layout, values_header(variant));
    layout_header(layout, erases[rule->erase].header);
    layout_header(layout, s->made ? FILE_rows_made : FILE_rows_raw);
    layout_header(layout, decay_headers[problem_decay(variant->problem)]);
}

static void scan_headers(const struct variant *variant, const struct matrix_shape *s, struct layout *layout)
{
    layout_header(layout, reads_header(variant, s));
    layout_header(layout, s->strips ? FILE_values_strips : FILE_values_staged);
    layout_header(layout, outputs_header(variant, s));
    segment_headers(variant, s, layout);
    layout_header(layout, variant->tiles.key_split > 1 ? FILE_share_split : FILE_share_one);
    layout_header(layout, s->divided ? FILE_divisors_staged : FILE_divisors_none);
    layout_header(layout, output_header(variant));
    layout_header(layout, FILE_matrix_scan);
}

/* ---- Sizes --------------------------------------------------------------------------------------------------------
 */

/* Of a chunk's rows and values, in numbers of 16 bits, and of what a record has, in words of 32. */
static void chunk_sizes(const struct variant *variant, const struct matrix_shape *s, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    int tiles = t->chunk / TILE, value_width = round_up(variant_values(variant), 8);
    int stage_factors = s->row_factors * t->chunk + s->decay_factors;
    int factors = stage_factors + (s->scored ? 4 * t->chunk : 0);
    int made_values = writes[variant->problem->rule->write].made && !variant->normalizer ? value_width : 0;
    int64_t made_rows = (int64_t)t->chunk * (s->streams * s->width + made_values);

    layout->record = s->matrices * tiles * tiles * FRAG + factors;
    layout->rows = s->made ? made_rows / 2 : 0;
    layout_constant(layout, "WIDTH", s->width);
    layout_constant(layout, "PITCH", s->width + PAD);
    layout_constant(layout, "STREAM", t->chunk * (s->width + PAD));
    layout_constant(layout, "STREAMS", s->streams);
    layout_constant(layout, "MATRICES", s->matrices);
    layout_constant(layout, "TILES", s->tiles);
    layout_constant(layout, "NORMS", s->norms);
    layout_constant(layout, "SOLVED_FLOATS", s->floats);
    layout_constant(layout, "ROWS_MADE", s->made);
    layout_constant(layout, "SCORED", s->scored);
    layout_constant(layout, "DECAYED_ROWS", s->decayed);
    layout_constant(layout, "ROW_FACTORS", s->row_factors);
    layout_constant(layout, "DECAY_FACTORS", s->decay_factors);
    layout_constant(layout, "STAGE_FACTORS", stage_factors);
    layout_constant(layout, "MATRIX_FACTORS", factors);
    layout_constant(layout, "MATRIX_RECORD", layout->record);
    layout_constant(layout, "VALUE_WIDTH", value_width);
    layout_constant(layout, "MADE_ROWS", made_rows);
}

/* What a stage holds of a chunk, in numbers: streams but those that are read apart or not at all, values, factors, the
 * scores that are made there, divisors. */
static int64_t stage_size(const struct variant *variant, const struct matrix_shape *s, int64_t values)
{
    const struct tiles *t = &variant->tiles;
    int tiles = t->chunk / TILE;
    int64_t streams = s->streams - (t->readers || variant->gather);
    int64_t scores = s->scored ? tiles * (tiles + 1) / 2 * 2 * FRAG : 0;

    return streams * t->chunk * (s->width + PAD) + values + 2 * (s->row_factors * t->chunk + s->decay_factors) +
           scores + (s->divided ? 2 * t->chunk : 0);
}

static void segment_sizes(const struct variant *variant, const struct matrix_shape *s, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    int64_t kept_groups = s->erasing ? divide_up(s->width, t->block_v) : 0;

    layout->segment = (int64_t)s->value_groups * t->block_v * s->width;
    layout->segment_kept = s->erasing ? (int64_t)s->width * s->width : s->decay_factors;
    /* The first of two scans: what segments add, but the last, which nothing comes after; and where something is erased
     * what they keep, but the first. */
    layout->value_groups = (int)(variant->gather ? s->value_groups * (t->segments - 1) + kept_groups * (t->segments - 2)
                                                 : s->value_groups * t->segments);
    layout_constant(layout, "SEGMENT_STATE", layout->segment);
    layout_constant(layout, "KEPT_WORDS", layout->segment_kept);
    layout_constant(layout, "KEPT_GROUPS", kept_groups);
}

static void scan_sizes(const struct variant *variant, const struct matrix_shape *s, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    int out = variant_out(variant) == CLATTN_F32 ? 4 : 2, span = t->span * variant->engine->rows;
    int value_pitch = (s->strips ? span : t->block_v) * out / 2 + PAD;
    int output_columns = s->strips ? span : t->readers ? variant->engine->rows : t->block_v;
    int output_pitch = output_columns + 2 * PAD / out; /* of numbers of the output's type */
    int64_t strip = t->chunk * value_pitch, output = t->chunk * output_pitch * out / 2;
    int64_t values = s->strips ? 0 : t->chunk * value_pitch;
    int64_t stage = stage_size(variant, s, values);

    layout_constant(layout, "VALUES", t->block_v);
    layout_constant(layout, "VALUE_GROUPS", s->value_groups);
    layout_constant(layout, "KT", s->width / t->key_split / TILE);
    layout_constant(layout, "FIRST_STREAM", t->readers || variant->gather);
    layout_constant(layout, "VALUE_PITCH", value_pitch);
    layout_constant(layout, "OUTPUT_PITCH", output_pitch);
    layout_constant(layout, "STAGE_VALUES", values);
    layout_constant(layout, "DIVISORS", s->divided ? t->chunk : 0);
    layout_constant(layout, "STAGE", stage);
    layout_local(layout, "LOCAL_STAGES", t->stages * stage, NUMBER);
    if (s->strips) {
        layout_constant(layout, "STRIP", strip);
        layout_local(layout, "LOCAL_STRIPS", t->value_tiles * strip, NUMBER);
    }
    if (t->readers) {
        layout_constant(layout, "OUTPUT_STRIP", output);
        layout_local(layout, "LOCAL_QUERIES", t->chunk * (s->width + PAD), NUMBER);
        layout_local(layout, "LOCAL_OUTPUT_STRIPS", 2 * t->value_tiles * output, NUMBER);
        layout_local(layout, "LOCAL_LEFT", t->value_tiles * (s->width / TILE) * FRAG, FLOAT);
    }
    layout_constant(layout, "KEPT_PITCH", KEPT_PITCH);
    layout_constant(layout, "KEPT_TILE", TILE * KEPT_PITCH);
    if (variant->gather && s->erasing)
        layout_local(layout, "LOCAL_KEPT_TILES", t->value_tiles * TILE * KEPT_PITCH, NUMBER);
    if (t->key_split > 1) {
        layout_constant(layout, "SHARE_FLOATS", 2 * t->chunk * variant->engine->rows);
        layout_local(layout, "LOCAL_SHARE",
                     (int64_t)t->key_split * t->value_tiles * 2 * t->chunk * variant->engine->rows, FLOAT);
    }
    segment_sizes(variant, s, layout);
}

/* Of what prepare works with: the rows it reads, matrices as floats and as numbers of 16 bits, decays by channel. */
struct prepared {
    int pitch, matrix, number_pitch; /* of a matrix of floats; its floats; of one of numbers */
    int64_t rows;                    /* numbers */
    int decay_pitch, parts;
};

static struct prepared prepared_sizes(const struct variant *variant, const struct matrix_shape *s,
                                      struct layout *layout)
{
    int chunk = variant->tiles.chunk;
    struct prepared p = {.pitch = chunk + FLOAT_PAD,
                         .matrix = chunk * (chunk + FLOAT_PAD),
                         .number_pitch = chunk + PAD,
                         .rows = (int64_t)s->tiles * chunk * (s->width + PAD),
                         .decay_pitch = s->width + PAD,
                         .parts = chunk * (chunk + 1) / 2 * SLICES};

    layout_constant(layout, "MP", p.pitch);
    layout_constant(layout, "HP", p.number_pitch);
    layout_constant(layout, "MATRIX_FLOATS", p.matrix);
    layout_constant(layout, "ROWS_NUMBERS", p.rows);
    if (s->decayed) {
        layout_constant(layout, "DP", p.decay_pitch);
        layout_constant(layout, "SLICES", SLICES);
        layout_constant(layout, "PARTS", p.parts);
    }
    return p;
}

static void prepare_locals(const struct variant *variant, const struct matrix_shape *s, const struct prepared *p,
                           struct layout *layout)
{
    int chunk = variant->tiles.chunk;
    int64_t solved = 2 * s->floats * p->matrix + s->matrices * chunk * p->number_pitch;

    layout_local(layout, "LOCAL_TILES", s->made ? p->rows + solved : p->rows > solved ? p->rows : solved, NUMBER);
    layout_local(layout, "LOCAL_NORMS", s->norms * chunk, FLOAT);
    layout_local(layout, "LOCAL_STRENGTH", chunk, FLOAT);
    if (s->decayed) {
        layout_local(layout, "LOCAL_DECAYS", chunk * p->decay_pitch + 2 * p->parts, FLOAT);
        layout_local(layout, "LOCAL_STEEP", 1, FLOAT);
    } else if (problem_decay(variant->problem) == DECAY_SCALAR) {
        layout_local(layout, "LOCAL_DECAY_LOGS", chunk, FLOAT);
        layout_local(layout, "LOCAL_DECAY_SUMS", chunk + 1, FLOAT);
    }
}

static void probe_sizes(struct layout *layout)
{
    layout_constant(layout, "PROBE_PITCH", KEPT_PITCH);
    layout_local(layout, "LOCAL_PROBE", TILE * KEPT_PITCH, 2 * NUMBER);
}

/* Of cl/kernels/probe_team.cl */
static void probe_team_sizes(struct layout *layout)
{
    enum { TILES = 7, PANELS = (TILES * TILE + PANEL - 1) / PANEL };

    layout_constant(layout, "COMPUTING_REGISTERS", 0);
    layout_constant(layout, "MOVING_REGISTERS", 0);
    layout_constant(layout, "TILES", TILES);
    layout_constant(layout, "VALUE_PITCH", TILE * PANEL);
    layout_local(layout, "LOCAL_KEYS", TILES * TILE * PANEL, NUMBER);
    layout_local(layout, "LOCAL_VALUES", PANELS * TILE * PANEL, NUMBER);
}

/* ---- Layout -------------------------------------------------------------------------------------------------------
 */

void matrix_lay_out(const struct variant *variant, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    const struct matrix_shape s = matrix_shape(variant);
    struct prepared prepared;

    layout->step.options = variant->engine->options;
    layout->step.any_group =
        1; /* NVIDIA says 256 of every kernel, and runs these in the larger groups they are compiled for */
    if (variant->kernel != KERNEL_PREPARE_FACTORS) /* which asks nothing of it */
        layout_scratch(layout, variant, variant->engine->scratch);
    layout_constant(layout, "FRAG", FRAG);
    layout_constant(layout, "VALUE_TILES", t->value_tiles);
    layout_constant(layout, "KEY_SPLIT", t->key_split);
    layout_constant(layout, "STAGES", t->stages);
    layout_constant(layout, "LOADERS", t->loaders);
    layout_constant(layout, "READERS", t->readers * t->value_tiles);
    layout_constant(layout, "SEGMENTS", t->segments);
    layout_constant(layout, "SPAN", t->span);
    layout_constant(layout, "DEPTH", s.depth);
    if (variant->kernel == KERNEL_PROBE_MATRIX || variant->kernel == KERNEL_PROBE_TEAM) {
        probe_sizes(layout);
        engine_headers(variant, layout);
        if (variant->kernel == KERNEL_PROBE_TEAM) {
            probe_team_sizes(layout);
            layout_header(layout, variant->engine->team);
        }
        return;
    }
    chunk_sizes(variant, &s, layout);
    prepared = prepared_sizes(variant, &s, layout);
    shared_headers(variant, &s, layout);
    if (variant->kernel == KERNEL_SCAN_MATRIX) {
        scan_sizes(variant, &s, layout);
        scan_headers(variant, &s, layout);
    } else if (variant->kernel == KERNEL_PREPARE_MATRIX)
        prepare_locals(variant, &s, &prepared, layout);
    else {
        layout_local(layout, "LOCAL_LOGS", t->group, FLOAT);
        layout->slots = t->group / t->chunk; /* a work-item a row */
    }
}

void matrix_describe(struct text *text, const struct variant *variant, const struct layout *layout)
{
    const struct tiles *t = &variant->tiles;

    text_format(text, "group %d, chunk %d", t->group, t->chunk);
    if (variant->kernel == KERNEL_SCAN_MATRIX)
        text_format(text,
                    ", value tile %d by %d sub-groups, key split %d, readers %d, loaders %d, depth %d, stages %d, "
                    "segments %d%s",
                    t->block_v, t->value_tiles, t->key_split, t->readers * t->value_tiles, t->loaders,
                    matrix_shape(variant).depth, t->stages, t->segments, variant->gather ? ", gathers" : "");
    text_format(text, ", local %zu bytes\n", layout->step.local_bytes);
}
