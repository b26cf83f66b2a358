#include "kernel/matrix.h"

#include <string.h>

/* What a rule's erase adds to the kernels: rows of this table are the constants of cl/matrix_erase_*.clh. */
static const struct {
    const char *header;
    int streams;          /* of rows */
    int own;              /* one stream more where rows are decayed */
    int tiles;            /* streams that prepare reads */
    int matrices, floats; /* chunk x chunk: in a record, and as floats in prepare */
    int most_chunk;
    int readers; /* whether sub-groups of their own may make the output: 2 where they usually do */
} erases[] = {
    [ERASE_NONE] = {"matrix_erase_none.clh", 2, 0, 2, 1, 0, 32, 0},
    [ERASE_KEY] = {"matrix_erase_key.clh", 2, 1, 2, 2, 2, 32, 2},
    [ERASE_OPERAND] = {"matrix_erase_operand.clh", 3, 0, 3, 2, 2, 16, 2},
    [ERASE_GATED] = {"matrix_erase_gated.clh", 3, 0, 3, 2, 2, 16, 2},
    [ERASE_LOW_RANK] = {"matrix_erase_low_rank.clh", 4, 0, 4, 4, 3, 16, 1},
};

static const char *const decay_headers[] = {[DECAY_NONE] = "matrix_decay_none.clh",
                                            [DECAY_SCALAR] = "matrix_decay_scalar.clh",
                                            [DECAY_CHANNEL] = "matrix_decay_channel.clh"};

enum {
    PAD = 8,
    DECAYED_DEPTH = 3, /* chunks that loading sub-groups hold where rows are decayed, */
    READ_DEPTH = 2,    /* and where there are readers */
    SLICES = 8
};

int matrix_kernel(enum kernel_id id)
{
    return id == KERNEL_PREPARE_MATRIX || id == KERNEL_PREPARE_FACTORS || id == KERNEL_SCAN_MATRIX ||
           id == KERNEL_PROBE_MATRIX;
}

static int decayed(const struct variant *variant)
{
    return problem_decay(variant->problem) == DECAY_CHANNEL;
}

int matrix_width(const struct variant *variant)
{
    int split = variant->tiles.key_split;
    return round_up(variant->problem->desc.key_dim, MATRIX_TILE * (split > 2 ? split : 2));
}

/* Whether prepare must write the rows that scan reads. */
static int made(const struct variant *variant)
{
    const clattn_plan_desc *desc = &variant->problem->desc;

    enum erase erase = variant->problem->rule->erase;

    return decayed(variant) || erase == ERASE_GATED || desc->feature_map != 0 || desc->steps > 1 ||
           desc->key_dim != matrix_width(variant) ||
           (erase == ERASE_LOW_RANK && desc->flags & CLATTN_QK_L2NORM); /* a norm of k is no factor of e */
}

static int streams(const struct variant *variant)
{
    enum erase erase = variant->problem->rule->erase;
    return erases[erase].streams + (decayed(variant) ? erases[erase].own : 0);
}

int matrix_erasing(const struct variant *variant)
{
    return variant->problem->rule->erase != ERASE_NONE;
}

int matrix_strips(const struct variant *variant)
{
    return variant->engine->span > 1 && !matrix_erasing(variant) && variant->tiles.key_split == 1;
}

int matrix_scored(const struct variant *variant)
{
    return matrix_strips(variant) && !decayed(variant) && variant->problem->rule->read != READ_BONUS;
}

static int matrices(const struct variant *variant)
{
    return matrix_scored(variant) ? 0 : erases[variant->problem->rule->erase].matrices;
}

/* Factors of a chunk that a stage has. */
static int factor_floats(const struct variant *variant)
{
    int rows = 2 + matrix_erasing(variant);

    return decayed(variant) ? matrix_width(variant) : rows * variant->tiles.chunk + 4;
}

/* Numbers of 16 bits of the scores that are made in a stage. */
static int score_numbers(const struct variant *variant)
{
    int tiles = variant->tiles.chunk / MATRIX_TILE;

    return matrix_scored(variant) ? tiles * (tiles + 1) / 2 * MATRIX_TILE * MATRIX_TILE : 0;
}

/* Chunks that loading sub-groups hold. */
int matrix_depth(const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;
    int usual = t->readers ? READ_DEPTH : decayed(variant) ? DECAYED_DEPTH : 1;

    return t->loaders == 0 ? 1 : t->depth > 0 ? t->depth : usual;
}

static const char *values_header(const struct variant *variant)
{
    if (variant->value_ones)
        return "values_ones.clh";
    return variant->problem->rule->write == WRITE_GATED ? "values_gated.clh" : "values_plain.clh";
}

static const char *reads_header(const struct variant *variant)
{
    if (variant->gather)
        return "reads_nothing.clh";
    if (matrix_scored(variant))
        return "reads_scored.clh";
    return variant->tiles.readers ? "reads_apart.clh" : "reads_outputs.clh";
}

static const char *outputs_header(const struct variant *variant)
{
    if (matrix_strips(variant))
        return "outputs_strips.clh";
    return variant->tiles.readers ? "outputs_apart.clh" : "outputs_staged.clh";
}

/* Whether the output is over what an earlier launch left. */
static int divided(const struct variant *variant)
{
    return problem_normalized(variant->problem) && !variant->value_ones && !variant->gather;
}

static const char *segments_header(const struct variant *variant)
{
    if (variant->tiles.segments == 1)
        return "segments_one.clh";
    return variant->gather ? "segments_gather.clh" : "segments_scan.clh";
}

/* What a segment keeps of the state before it: NULL where there is one. */
static const char *kept_header(const struct variant *variant)
{
    if (variant->tiles.segments == 1)
        return NULL;
    return matrix_erasing(variant) ? "kept_matrix.clh" : "kept_factors.clh";
}

void matrix_headers(const struct variant *variant, const char *headers[MATRIX_HEADERS])
{
    const struct rule *rule = variant->problem->rule;
    const char *const list[MATRIX_HEADERS] = {
        variant->engine->instructions,
        variant->engine->words,
        rule->read == READ_BONUS ? "read_bonus.clh" : "read_after.clh",
        rule->write == WRITE_BETA || rule->write == WRITE_EXP ? "strength_operand.clh" : "strength_none.clh",
        values_header(variant),
        erases[rule->erase].header,
        decay_headers[problem_decay(variant->problem)],
        made(variant) ? "rows_made.clh" : "rows_raw.clh",
        reads_header(variant),
        matrix_strips(variant) ? "values_strips.clh" : "values_staged.clh",
        outputs_header(variant),
        segments_header(variant),
        kept_header(variant),
        variant->tiles.key_split > 1 ? "share_split.clh" : "share_one.clh",
        divided(variant) ? "divisors_staged.clh" : "divisors_none.clh",
        divided(variant) ? "output_plain.clh" : variant->output,
        "matrix_scan.clh",
    };

    const int count = variant->kernel == KERNEL_PROBE_MATRIX  ? 2 /* the engine */
                      : variant->kernel != KERNEL_SCAN_MATRIX ? 8 /* up to the rows */
                                                              : MATRIX_HEADERS;

    for (int i = 0; i < count; i++)
        if (list[i] != NULL)
            *headers++ = list[i];
}

int matrix_reads_rows(const struct variant *variant)
{
    return matrices(variant) > 0 || variant->problem->desc.flags & CLATTN_QK_L2NORM || made(variant);
}

static int64_t scan_bytes(const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;
    int out = strcmp(variant->out, "f32") == 0 ? 4 : 2;
    int moved = matrix_strips(variant) ? t->value_tiles : 1; /* what values are in */
    int64_t values = t->chunk * (t->block_v * out / 2 + moved * PAD);
    int64_t stream = t->chunk * (matrix_width(variant) + PAD);
    int64_t stage = (streams(variant) - t->readers - variant->gather) * stream + 2 * factor_floats(variant) +
                    score_numbers(variant) + (divided(variant) ? 2 * t->chunk : 0);
    int64_t strip = t->chunk * (variant->engine->rows * out / 2 + PAD);
    int64_t read =
        t->readers ? stream + t->value_tiles * (2 * strip + variant->engine->rows * matrix_width(variant)) : 0;
    int64_t kept = variant->gather && matrix_erasing(variant) ? t->value_tiles * MATRIX_TILE * (MATRIX_TILE + PAD) : 0;
    int64_t share = t->key_split > 1 ? (int64_t)t->key_split * t->block_v * 2 * t->chunk : 0;

    return 2 * (t->stages * stage + (matrix_strips(variant) ? 1 : t->stages) * values + read + kept) + 4 * share;
}

static int64_t prepare_bytes(const struct variant *variant)
{
    int chunk = variant->tiles.chunk;
    enum erase erase = variant->problem->rule->erase;
    int64_t rows = erases[erase].tiles * chunk * (matrix_width(variant) + PAD);
    int64_t solved = 2 * erases[erase].floats * chunk * (chunk + 4) + matrices(variant) * chunk * (chunk + PAD);
    int64_t numbers = made(variant) ? rows + solved : rows > solved ? rows : solved;
    int64_t floats = 3 * chunk;

    floats += decayed(variant) ? chunk * (matrix_width(variant) + PAD) + chunk * (chunk + 1) * SLICES : 2 * chunk + 1;
    return 2 * numbers + 4 * floats;
}

static int value_groups(const struct variant *variant)
{
    return (variant->value_dim + variant->tiles.block_v - 1) / variant->tiles.block_v;
}

int64_t matrix_segment_floats(const struct variant *variant)
{
    return (int64_t)value_groups(variant) * variant->tiles.block_v * matrix_width(variant);
}

int64_t matrix_segment_kept_floats(const struct variant *variant)
{
    if (matrix_erasing(variant))
        return (int64_t)matrix_width(variant) * matrix_width(variant);
    return decayed(variant) ? matrix_width(variant) : 4;
}

/* Groups of the first of two scans: what segments add, but the last, which nothing comes after; and where something is erased what
 * they keep, but the first. */
static int gathering_groups(const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;
    int kept = matrix_erasing(variant) ? (matrix_width(variant) + t->block_v - 1) / t->block_v : 0;

    return value_groups(variant) * (t->segments - 1) + kept * (t->segments - 2);
}

int matrix_groups(const struct variant *variant)
{
    if (variant->kernel != KERNEL_SCAN_MATRIX)
        return 1;
    return variant->gather ? gathering_groups(variant) : value_groups(variant) * variant->tiles.segments;
}

static int64_t kernel_bytes(const struct variant *variant)
{
    switch (variant->kernel) {
    case KERNEL_SCAN_MATRIX: return scan_bytes(variant);
    case KERNEL_PREPARE_MATRIX: return prepare_bytes(variant);
    case KERNEL_PREPARE_FACTORS: return 4 * variant->tiles.group;
    case KERNEL_PROBE_MATRIX:
    case KERNEL_PREPARE:
    case KERNEL_SCAN:
    case KERNEL_RECURRENT:
    case KERNEL_STABILIZE:
    case KERNEL_COUNT: break;
    }
    return 0;
}

size_t matrix_local_bytes(const struct variant *variant)
{
    return (size_t)(variant->engine->scratch * variant->tiles.group + kernel_bytes(variant));
}

int64_t matrix_record_floats(const struct variant *variant)
{
    int64_t chunk = variant->tiles.chunk;
    int64_t factors = factor_floats(variant) + (matrix_scored(variant) ? 4 * chunk : 0);

    return matrices(variant) * chunk * chunk / 2 + factors;
}

int64_t matrix_row_floats(const struct variant *variant)
{
    int64_t values = variant->problem->rule->write == WRITE_GATED ? round_up(variant->problem->desc.value_dim, 8) : 0;

    return made(variant) ? variant->tiles.chunk * (streams(variant) * (int64_t)matrix_width(variant) + values) / 2 : 0;
}

int matrix_most_chunk(const struct variant *variant)
{
    return decayed(variant) ? MATRIX_TILE : erases[variant->problem->rule->erase].most_chunk;
}

int matrix_readers(const struct variant *variant)
{
    return erases[variant->problem->rule->erase].readers;
}
