#include "matrix.h"

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
    TILE = 16,
    PAD = 8,
    SUB_GROUPS = 4,
    PREPARE_LANES = 128,
    MOST_STAGES = 2,
    DECAYED_DEPTH = 3, /* chunks that loading sub-groups hold where rows are decayed, */
    READ_DEPTH = 2,    /* and where there are readers */
    SIDE_BY_SIDE = 4,  /* sub-groups that a group has at least before they become wider */
    MOST_VALUES = 64,
    LEAST_SEGMENT = 8, /* chunks */
    FILLED = 9,        /* tenths of the compute units that count as all of them */
    SLICES = 8
};

int matrix_kernel(enum kernel_id id)
{
    return id == KERNEL_PREPARE_MATRIX || id == KERNEL_SCAN_MATRIX || id == KERNEL_PROBE_MATRIX;
}

static int round_up(int64_t x, int n)
{
    return (int)((x + n - 1) / n * n);
}

static int decayed(const struct variant *variant)
{
    return problem_decay(variant->problem) == DECAY_CHANNEL;
}

static int width(const struct variant *variant)
{
    int split = variant->tiles.key_split;
    return round_up(variant->problem->desc.key_dim, TILE * (split > 2 ? split : 2));
}

/* Whether prepare must write the rows that scan reads. */
static int made(const struct variant *variant)
{
    const clattn_plan_desc *desc = &variant->problem->desc;

    enum erase erase = variant->problem->rule->erase;

    return decayed(variant) || erase == ERASE_GATED || desc->feature_map != 0 || desc->steps > 1 ||
           desc->key_dim != width(variant) ||
           (erase == ERASE_LOW_RANK && desc->flags & CLATTN_QK_L2NORM); /* a norm of k is no factor of e */
}

static int streams(const struct variant *variant)
{
    enum erase erase = variant->problem->rule->erase;
    return erases[erase].streams + (decayed(variant) ? erases[erase].own : 0);
}

static int erasing(const struct variant *variant)
{
    return variant->problem->rule->erase != ERASE_NONE;
}

/* Whether sub-groups move their values themselves, and may have several tiles of them. */
static int strips(const struct variant *variant)
{
    return variant->engine->span > 1 && !erasing(variant) && variant->tiles.key_split == 1;
}

int matrix_scored(const struct variant *variant)
{
    return strips(variant) && !decayed(variant) && variant->problem->rule->read != READ_BONUS;
}

static int matrices(const struct variant *variant)
{
    return matrix_scored(variant) ? 0 : erases[variant->problem->rule->erase].matrices;
}

/* Factors of a chunk that a stage has. */
static int factor_floats(const struct variant *variant)
{
    return decayed(variant) ? width(variant) : 3 * variant->tiles.chunk + 4;
}

/* Numbers of 16 bits of the scores that are made in a stage. */
static int score_numbers(const struct variant *variant)
{
    int tiles = variant->tiles.chunk / TILE;

    return matrix_scored(variant) ? tiles * (tiles + 1) / 2 * TILE * TILE : 0;
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
    if (strips(variant))
        return "outputs_strips.clh";
    return variant->tiles.readers ? "outputs_apart.clh" : "outputs_staged.clh";
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
    return erasing(variant) ? "kept_matrix.clh" : "kept_factors.clh";
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
        strips(variant) ? "values_strips.clh" : "values_staged.clh",
        outputs_header(variant),
        segments_header(variant),
        kept_header(variant),
        variant->tiles.key_split > 1 ? "share_split.clh" : "share_one.clh",
        variant->output,
        "matrix_scan.clh",
    };

    const int count = variant->kernel == KERNEL_PROBE_MATRIX  ? 2 /* the engine */
                      : variant->kernel != KERNEL_SCAN_MATRIX ? 8 /* up to the rows */
                                                              : MATRIX_HEADERS;

    for (int i = 0; i < count; i++)
        if (list[i] != NULL)
            *headers++ = list[i];
}

/* Whether prepare has a use for q and k. */
static int reads_rows(const struct variant *variant)
{
    return matrices(variant) > 0 || variant->problem->desc.flags & CLATTN_QK_L2NORM || made(variant);
}

static int64_t scan_bytes(const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;
    int out = strcmp(variant->out, "f32") == 0 ? 4 : 2;
    int moved = strips(variant) ? t->value_tiles : 1; /* what values are in */
    int64_t values = t->chunk * (t->block_v * out / 2 + moved * PAD);
    int64_t stream = t->chunk * (width(variant) + PAD);
    int64_t stage = (streams(variant) - t->readers - variant->gather) * stream + 2 * factor_floats(variant) +
                    score_numbers(variant);
    int64_t strip = t->chunk * (variant->engine->rows * out / 2 + PAD);
    int64_t read = t->readers ? stream + t->value_tiles * (2 * strip + variant->engine->rows * width(variant)) : 0;
    int64_t kept = variant->gather && erasing(variant) ? t->value_tiles * TILE * (TILE + PAD) : 0;
    int64_t share = t->key_split > 1 ? (int64_t)t->key_split * t->block_v * 2 * t->chunk : 0;

    return 2 * (t->stages * stage + (strips(variant) ? 1 : t->stages) * values + read + kept) + 4 * share;
}

static int64_t prepare_bytes(const struct variant *variant)
{
    int chunk = variant->tiles.chunk;
    enum erase erase = variant->problem->rule->erase;
    int64_t tiles = reads_rows(variant) ? erases[erase].tiles * chunk * (width(variant) + PAD) : 1;
    int64_t halves = tiles + (matrices(variant) > 0 ? matrices(variant) * chunk * (chunk + PAD) : 1);
    int matrix_floats =
        erases[erase].floats - (erase != ERASE_NONE && !made(variant)); /* one lies where the rows were */
    int64_t floats = matrix_floats * chunk * (chunk + 4) + 3 * chunk;

    floats += decayed(variant) ? chunk * (width(variant) + 4) + chunk * (chunk + 1) * SLICES : 2 * chunk + 1;
    return 2 * halves + 4 * floats;
}

static int value_groups(const struct variant *variant)
{
    return (variant->value_dim + variant->tiles.block_v - 1) / variant->tiles.block_v;
}

int64_t matrix_segment_floats(const struct variant *variant)
{
    return (int64_t)value_groups(variant) * variant->tiles.block_v * width(variant);
}

int64_t matrix_segment_kept_floats(const struct variant *variant)
{
    if (erasing(variant))
        return (int64_t)width(variant) * width(variant);
    return decayed(variant) ? width(variant) : 4;
}

/* Groups of the first of two scans: what segments add, but the last, which nothing comes after; and where something is erased what
 * they keep, but the first. */
static int gathering_groups(const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;
    int kept = erasing(variant) ? (width(variant) + t->block_v - 1) / t->block_v : 0;

    return value_groups(variant) * (t->segments - 1) + kept * (t->segments - 2);
}

int matrix_groups(const struct variant *variant)
{
    if (variant->kernel != KERNEL_SCAN_MATRIX)
        return 1;
    return variant->gather ? gathering_groups(variant) : value_groups(variant) * variant->tiles.segments;
}

size_t matrix_local_bytes(const struct variant *variant)
{
    int64_t scratch = variant->engine->scratch * variant->tiles.group;

    return (size_t)(scratch + (variant->kernel == KERNEL_SCAN_MATRIX ? scan_bytes(variant) : prepare_bytes(variant)));
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

    return made(variant) ? variant->tiles.chunk * (streams(variant) * (int64_t)width(variant) + values) / 2 : 0;
}

/* What the words do not cover. */
static int takes(const struct variant *variant)
{
    const clattn_plan_desc *desc = &variant->problem->desc;

    return desc->dtype != CLATTN_F32 && !(desc->flags & CLATTN_VALUE_GATE);
}

static int most_chunk(const struct variant *variant)
{
    return decayed(variant) ? TILE : erases[variant->problem->rule->erase].most_chunk;
}

/* Whether sub-groups of their own may make the output. */
static int reads_apart(const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;

    return variant->kernel == KERNEL_SCAN_MATRIX && !variant->gather && variant->engine->readers && t->loaders > 0 &&
           t->stages == 2 && t->key_split == 1 && erases[variant->problem->rule->erase].readers > 0;
}

/* The work-items of a group, and how its sub-groups stand. */
static void cut_group(struct variant *variant)
{
    const struct engine *engine = variant->engine;
    struct tiles *t = &variant->tiles;

    t->readers = t->readers && reads_apart(variant);
    t->span = strips(variant) && t->block_v >= SIDE_BY_SIDE * engine->span * engine->rows ? engine->span : 1;
    t->value_tiles = t->block_v / (engine->rows * t->span);
    if (variant->kernel == KERNEL_SCAN_MATRIX)
        t->group = engine->lanes * ((t->key_split + t->readers) * t->value_tiles + t->loaders);
    else if (!reads_rows(variant))
        t->group = engine->lanes;
    else
        t->group = engine->lanes < PREPARE_LANES / SUB_GROUPS ? PREPARE_LANES : engine->lanes * SUB_GROUPS;
}

/* Into how many segments a sequence is cut by rule of thumb: at least `least`, or none; at most `most`, of `chunks` or more; and the
 * most columns of a group. A rule that erases scans twice with a matrix beside, and each segment joins those before it. */
static const struct {
    int least, most, chunks, columns;
} cuts[] = {{1, 32, LEAST_SEGMENT, 2 * MOST_VALUES}, {4, 16, 16, 32}};

/* Whether the words cover a sequence in segments: what one keeps of the state is a product of sub-groups that have all channels. */
static int segments_possible(const struct variant *variant)
{
    int whole = variant->tiles.key_split == 1 && variant->engine->rows == TILE;

    return variant->problem->desc.steps == 1 && (whole || !erasing(variant));
}

/* Whether twice as many segments of so many tokens would still have that many chunks each. */
static int long_enough(const struct variant *variant, int64_t tokens, int segments, int chunks)
{
    return tokens >= (int64_t)2 * segments * chunks * variant->tiles.chunk;
}

clattn_status matrix_complete(const struct device *device, struct variant *variant)
{
    struct tiles *t = &variant->tiles;
    int columns = round_up(variant->value_dim, TILE);

    t->block_v = t->block_v < columns ? t->block_v : columns;
    while (t->segments > 1 && (!segments_possible(variant) ||
                               !long_enough(variant, variant->problem->desc.seq_len, t->segments / 2, LEAST_SEGMENT)))
        t->segments /= 2;
    cut_group(variant);
    if (matrix_local_bytes(variant) > device->info.local_memory) {
        t->readers = 0;
        cut_group(variant);
    }
    return t->chunk <= most_chunk(variant) && (size_t)t->group <= device->info.max_work_group &&
                   matrix_local_bytes(variant) <= device->info.local_memory
               ? CLATTN_SUCCESS
               : CLATTN_UNSUPPORTED;
}

/* Whether scans of that many value columns and segments give nearly every compute unit a group. */
static int fills(const struct device *device, const struct variant *variant, int columns, int segments)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    int64_t sequences = desc->flags & CLATTN_CU_SEQLENS ? desc->sequences : desc->batch;
    int64_t groups = sequences * desc->heads * ((variant->value_dim + columns - 1) / columns) * segments;

    return groups * 10 >= (int64_t)device->info.compute_units * FILLED;
}

/* Cuts the sequence into as many segments as fill the device. Of packed ones the usual length is what there is to go by. */
static void cut_sequence(const struct device *device, struct variant *variant, int columns)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    int64_t tokens = desc->flags & CLATTN_CU_SEQLENS ? desc->seq_len / desc->sequences : desc->seq_len;
    struct tiles *t = &variant->tiles;
    int kind = erasing(variant);

    while (!fills(device, variant, columns, t->segments) && t->segments < cuts[kind].most &&
           long_enough(variant, tokens, t->segments, cuts[kind].chunks))
        t->segments *= 2;
    if (t->segments < cuts[kind].least)
        t->segments = 1;
}

/* The columns of a group whose sequences are cut into segments, and the segments; 0 where they are better left whole: where one is a
 * matrix larger than the state, for one. */
static int segment_columns(const struct device *device, struct variant *variant, int columns)
{
    int most = cuts[erasing(variant)].columns;

    if (!segments_possible(variant) || (erasing(variant) && 2 * variant->value_dim < width(variant)))
        return 0;
    if (columns < variant->value_dim)
        columns *= 2;
    columns = columns < most ? columns : most;
    cut_sequence(device, variant, columns);
    return erasing(variant) && variant->tiles.segments == 1 ? 0 : columns;
}

/* As many value columns a group as leave nearly every compute unit one, for its chunks are then fetched the fewest times. Where
 * that would be few, the sequence is cut instead. */
static int value_columns(const struct device *device, struct variant *variant)
{
    int columns = MOST_VALUES, cut;

    while (columns > TILE && columns / 2 >= variant->value_dim)
        columns /= 2;
    if (fills(device, variant, columns, 1))
        return columns;
    cut = segment_columns(device, variant, columns);
    if (cut > 0)
        return cut;
    while (columns > TILE && !fills(device, variant, columns, 1))
        columns /= 2;
    return columns;
}

/* Sub-groups that share value columns: no more than there are tiles of channels. */
static int key_split(const struct variant *variant)
{
    int split = variant->engine->key_split;

    while (split > 1 && TILE * split / 2 >= variant->problem->desc.key_dim)
        split /= 2;
    return split;
}

/* The group that works `columns` value columns, or that prepares. */
static void cut_values(struct variant *variant, int columns)
{
    struct tiles *t = &variant->tiles;

    t->block_v = columns;
    t->loaders = variant->kernel == KERNEL_SCAN_MATRIX ? variant->engine->loaders : 0;
    cut_group(variant);
}

/* Without readers, then fewer stages, then fewer columns, until a chunk fits local memory. */
static clattn_status cut_to_fit(const struct device *device, struct variant *variant)
{
    static const struct {
        int stages, readers;
    } ways[] = {{MOST_STAGES, 1}, {MOST_STAGES, 0}, {1, 0}};
    struct tiles *t = &variant->tiles;

    for (int columns = value_columns(device, variant); columns >= TILE; columns /= 2)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            t->stages = ways[i].stages;
            t->readers = ways[i].readers && erases[variant->problem->rule->erase].readers > 1;
            cut_values(variant, columns);
            if (matrix_local_bytes(variant) <= device->info.local_memory)
                return CLATTN_SUCCESS;
        }
    return CLATTN_UNSUPPORTED;
}

clattn_status matrix_tiles(const struct device *device, struct variant *variant)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    int most = most_chunk(variant), usual = most < variant->engine->chunk ? most : variant->engine->chunk;
    struct tiles *t = &variant->tiles;

    *t = (struct tiles){.vec = 4,
                        .block_k = 16,
                        .chunk = desc->chunk != 0 ? desc->chunk : usual,
                        .lanes_k = 1,
                        .segments = 1,
                        .sub_group = device->sub_group,
                        .key_split = key_split(variant)};
    if (!takes(variant) || (t->chunk != TILE && t->chunk != 2 * TILE) || t->chunk > most)
        return CLATTN_UNSUPPORTED;
    return cut_to_fit(device, variant);
}
