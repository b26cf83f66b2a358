/* Tiles of the kernels on matrix engines: by rule of thumb, or what follows from those that were chosen. */
#include "kernel/matrix.h"

enum {
    TILE = MATRIX_TILE,
    SUB_GROUPS = 4,
    PREPARE_LANES = 128,
    MOST_STAGES = 2,
    SIDE_BY_SIDE = 4, /* sub-groups that a group has at least before they become wider */
    MOST_VALUES = 64,
    NARROW = 2,        /* groups that a compute unit has when only one sub-group of each computes */
    LEAST_SEGMENT = 8, /* chunks */
    FILLED = 9         /* tenths of the compute units that count as all of them */
};

/* What the words do not cover. */
static int takes(const struct variant *variant)
{
    const clattn_plan_desc *desc = &variant->problem->desc;

    return desc->dtype != CLATTN_F32 && !(desc->flags & CLATTN_VALUE_GATE);
}

/* Whether sub-groups of their own may make the output. */
static int reads_apart(const struct variant *variant, const struct matrix_shape *s)
{
    const struct tiles *t = &variant->tiles;

    return variant->kernel == KERNEL_SCAN_MATRIX && !variant->gather && variant->engine->readers && t->loaders > 0 &&
           t->stages == 2 && t->key_split == 1 && s->may_read > 0;
}

/* The work-items of a group, and how its sub-groups stand. */
static void cut_group(struct variant *variant)
{
    const struct engine *engine = variant->engine;
    const struct matrix_shape s = matrix_shape(variant);
    struct tiles *t = &variant->tiles;

    t->readers = t->readers && reads_apart(variant, &s);
    t->span = s.strips && t->block_v >= SIDE_BY_SIDE * engine->span * engine->rows ? engine->span : 1;
    t->value_tiles = t->block_v / (engine->rows * t->span);
    if (variant->kernel == KERNEL_SCAN_MATRIX)
        t->group = engine->lanes * ((t->key_split + t->readers) * t->value_tiles + t->loaders);
    else if (variant->kernel == KERNEL_PREPARE_FACTORS)
        t->group = PREPARE_LANES;
    else
        t->group = engine->lanes < PREPARE_LANES / SUB_GROUPS ? PREPARE_LANES : engine->lanes * SUB_GROUPS;
}

/* Whether registers are so few that a chunk has the fewest tokens. Groups are wide there, so that each lane moves
 * little. */
static int few_registers(const struct variant *variant)
{
    return variant->engine->chunk == TILE;
}

static int fits(const struct device *device, const struct variant *variant)
{
    return layout_fits(device, variant, matrix_lay_out);
}

/* Into how many segments a sequence is cut by rule of thumb: at least `least`, or none; at most `most`, of `chunks` or
 * more; and the most columns of a group. A rule that erases scans twice with a matrix beside, and each segment joins
 * those before it. */
static const struct {
    int least, most, chunks, columns;
} cuts[] = {{1, 32, LEAST_SEGMENT, 2 * MOST_VALUES}, {4, 16, 16, 32}};

/* Whether the words cover a sequence in segments: what one keeps of the state is a product of sub-groups that have all
 * channels. */
static int segments_possible(const struct variant *variant)
{
    int whole = variant->tiles.key_split == 1 && variant->engine->rows == TILE;

    return variant->problem->desc.steps == 1 && (whole || variant->problem->rule->erase == ERASE_NONE);
}

/* Whether twice as many segments of so many tokens would still have that many chunks each. */
static int long_enough(const struct variant *variant, int64_t tokens, int segments, int chunks)
{
    return tokens >= (int64_t)2 * segments * chunks * variant->tiles.chunk;
}

static clattn_status complete(const struct device *device, struct variant *variant)
{
    struct tiles *t = &variant->tiles;
    int columns = round_up(variant_values(variant), TILE);

    t->block_v = t->block_v < columns ? t->block_v : columns;
    while (t->segments > 1 && (!segments_possible(variant) ||
                               !long_enough(variant, variant->problem->desc.seq_len, t->segments / 2, LEAST_SEGMENT)))
        t->segments /= 2;
    cut_group(variant);
    if (!fits(device, variant)) {
        t->readers = 0;
        cut_group(variant);
    }
    return t->chunk <= matrix_shape(variant).most_chunk && (size_t)t->group <= device->info.max_work_group &&
                   fits(device, variant)
               ? CLATTN_SUCCESS
               : CLATTN_UNSUPPORTED;
}

/* Whether scans of that many value columns and segments give nearly every compute unit a group. */
static int fills(const struct device *device, const struct variant *variant, int columns, int segments)
{
    int64_t groups = problem_heads(variant->problem) * divide_up(variant_values(variant), columns) * segments;

    return groups * 10 >= (int64_t)device->info.compute_units * FILLED;
}

/* Cuts the sequence into as many segments as fill the device. Of packed ones the usual length is what there is to go
 * by. */
static void cut_sequence(const struct device *device, struct variant *variant, int columns)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    int64_t tokens = desc->flags & CLATTN_CU_SEQLENS ? desc->seq_len / desc->sequences : desc->seq_len;
    struct tiles *t = &variant->tiles;
    int kind = variant->problem->rule->erase != ERASE_NONE;
    int side_by_side = columns == TILE ? NARROW : 1;

    while (!fills(device, variant, columns, t->segments / side_by_side) && t->segments < cuts[kind].most &&
           long_enough(variant, tokens, t->segments, cuts[kind].chunks))
        t->segments *= 2;
    if (t->segments < cuts[kind].least)
        t->segments = 1;
}

/* The columns of a group whose sequences are cut into segments, and the segments; 0 where they are better left whole:
 * where one is a matrix larger than the state, for one. */
static int segment_columns(const struct device *device, struct variant *variant, int columns)
{
    const struct matrix_shape s = matrix_shape(variant);
    int most = few_registers(variant) ? MOST_VALUES : cuts[s.erasing].columns;

    if (!segments_possible(variant) || (s.erasing && 2 * variant_values(variant) < s.width))
        return 0;
    if (columns < variant_values(variant))
        columns *= 2;
    columns = columns < most ? columns : most;
    cut_sequence(device, variant, columns);
    return s.erasing && variant->tiles.segments == 1 ? 0 : columns;
}

/* As many value columns a group as leave nearly every compute unit one, for its chunks are then fetched the fewest
 * times. Where that would be few, the sequence is cut instead. */
static int value_columns(const struct device *device, struct variant *variant)
{
    int columns = MOST_VALUES, least = few_registers(variant) ? 2 * TILE : TILE, cut;

    while (columns > TILE && columns / 2 >= variant_values(variant))
        columns /= 2;
    if (fills(device, variant, columns, 1))
        return columns;
    cut = segment_columns(device, variant, columns);
    if (cut > 0)
        return cut;
    while (columns > least && !fills(device, variant, columns, 1))
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
            t->readers = ways[i].readers && matrix_shape(variant).may_read > 1;
            cut_values(variant, columns);
            if (fits(device, variant))
                return CLATTN_SUCCESS;
        }
    return CLATTN_UNSUPPORTED;
}

static clattn_status heuristic(const struct device *device, struct variant *variant, int most_group)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    int most = matrix_shape(variant).most_chunk, usual = most < variant->engine->chunk ? most : variant->engine->chunk;
    struct tiles *t = &variant->tiles;

    (void)most_group; /* the words decide it */
    *t = (struct tiles){.vec = 4,
                        .chunk = desc->chunk != 0 ? desc->chunk : usual,
                        .segments = 1,
                        .sub_group = device->sub_group,
                        .key_split = key_split(variant)};
    if (!takes(variant) || (t->chunk != TILE && t->chunk != 2 * TILE) || t->chunk > most)
        return CLATTN_UNSUPPORTED;
    return cut_to_fit(device, variant);
}

const struct family family_matrix = {heuristic, complete, matrix_lay_out, matrix_describe, 1, 0};
