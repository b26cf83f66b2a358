/* What is written of a list where that depends on what was, on a matrix engine: tiles by rule of thumb, and what
 * follows from them. */
#include "kernel/flash.h"

/* As the chunk, a span and the parts of the keys before it do not depend on lengths: packed sequences have the bits
 * that they have alone. */
enum {
    TILE = MATRIX_TILE,
    SPAN_TOKENS = 512,
    SPAN_CHUNKS = 4, /* where the chunk is asked for */
    MOST_SPLITS = 8,
    MOST_SUBS = 8,  /* that solve side by side */
    MOST_TEAMS = 2, /* of a group of rows */
    PAD = 8,
    NUMBER = 2,
    FLOAT = 4,
    CHAIN_WORDS = 256 /* of a tile of 16 rows, at most */
};

/* ---- Layout -------------------------------------------------------------------------------------------------------
 */

/* Floats of a span of a key head that the first kernel leaves the second: sums, logs, weights (flash_write.clh). */
static int64_t part_floats(const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;
    int64_t rows = t->tokens, tiles = rows / TILE, values = round_up(variant->problem->desc.value_dim, TILE);

    return t->splits * rows * values + (t->splits + 1) * 2 * rows + tiles * (tiles + 1) / 2 * CHAIN_WORDS;
}

static int columns(const struct variant *variant)
{
    return (int)divide_up(variant->problem->desc.value_dim, variant->tiles.block_v);
}

/* Then a span's own keys are worked in the groups of the first part. */
static int in_teams(const struct variant *variant)
{
    return variant->kernel == KERNEL_WRITE_BEFORE_TEAM || variant->kernel == KERNEL_WRITE_SOLVE_TEAM;
}

/* The first of the two kernels */
static int is_before(const struct variant *variant)
{
    return variant->kernel == KERNEL_WRITE_BEFORE_MATRIX || variant->kernel == KERNEL_WRITE_BEFORE_TEAM;
}

static void lay_out_before(const struct variant *variant, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;

    flash_lay_out(variant, layout);
    layout->value_groups = columns(variant) * (t->tokens / t->chunk) * (t->splits + !in_teams(variant));
    layout_header(layout, in_teams(variant) ? FILE_flash_before_team : FILE_flash_before);
}

static void lay_out_solve(const struct variant *variant, struct layout *layout)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    const struct tiles *t = &variant->tiles;
    int rows = t->value_tiles * variant->engine->rows, pitch = t->block_v + PAD;

    layout->step.options = variant->engine->options;
    layout->step.any_group = 1;
    if (variant->engine->registers > 0) /* two groups a compute unit: a few more, and there were one */
        layout->step.registers = variant->engine->registers / (2 * t->group) / 8 * 8;
    layout_scratch(layout, variant, variant->engine->scratch);
    layout->value_groups = columns(variant);
    layout_local(layout, "LOCAL_TILES", (int64_t)t->tokens * pitch, NUMBER);
    layout_local(layout, "LOCAL_FACTORS", (t->splits + 1) * rows, FLOAT);
    layout_local(layout, "LOCAL_DIAGONALS", rows * TILE, FLOAT);
    layout_local(layout, "LOCAL_INVERSES", rows * (TILE + PAD), NUMBER);
    layout_local(layout, "LOCAL_TILE", TILE * pitch, NUMBER);
    layout_constant(layout, "ROWS", rows);
    layout_constant(layout, "KV_GROUP", desc->heads / desc->kv_heads);
    layout_constant(layout, "VT", t->block_v / TILE);
    layout_constant(layout, "VALUE_PITCH", pitch);
    layout_constant(layout, "BV", t->block_v);
    layout_constant(layout, "VALUE_TILES", t->value_tiles);
    layout_constant(layout, "READERS", 0);
    layout_header(layout, variant->engine->instructions);
    layout_header(layout, variant->engine->words);
    layout_header(layout, FILE_flash_solve);
}

static void lay_out(const struct variant *variant, struct layout *layout)
{
    if (is_before(variant))
        lay_out_before(variant, layout);
    else
        lay_out_solve(variant, layout);
    layout->head_groups = (int)variant->problem->desc.kv_heads;
    layout->record = part_floats(variant);
    layout_constant(layout, "SPAN_ROWS", variant->tiles.tokens);
    layout_constant(layout, "SPLITS", variant->tiles.splits);
    layout_constant(layout, "PART", layout->record);
}

static void describe(struct text *text, const struct variant *variant, const struct layout *layout)
{
    const struct tiles *t = &variant->tiles;

    text_format(text, "group %d, span of %d keys", t->group, t->tokens);
    if (is_before(variant))
        text_format(text, ", chunk %d, keys %d in steps of %d, stages %d, those before in %d parts", t->chunk, t->keys,
                    t->step * TILE, t->stages, t->splits);
    text_format(text, ", value tile %d by %d sub-groups, local %zu bytes\n", t->block_v, t->value_tiles,
                layout->step.local_bytes);
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

static int fits(const struct device *device, const struct variant *variant)
{
    return (size_t)variant->tiles.group <= device->info.max_work_group && layout_fits(device, variant, lay_out);
}

/* Rows of the first kernel's groups, which a span has whole ones of. */
static void cut_rows(struct variant *variant)
{
    struct tiles *t = &variant->tiles;
    int rows = t->span * variant->engine->rows;

    if (in_teams(variant))
        t->chunk = t->value_tiles * rows;
    t->value_tiles = (int)divide_up(t->chunk, rows);
    t->group = (t->value_tiles + t->loaders) * variant->engine->lanes;
}

/* Parts of the keys, such that all compute units are busy: with a group of teams, or two others. */
static int parts(const struct device *device, const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;
    const clattn_plan_desc *desc = &variant->problem->desc;
    int64_t groups = desc->batch * desc->kv_heads * (t->tokens / t->chunk) * columns(variant);
    int64_t most = (in_teams(variant) ? 1 : 2) * (int64_t)device->info.compute_units;
    int count = 1;

    while (count < MOST_SPLITS && 2 * count * groups <= most)
        count *= 2;
    return count;
}

static clattn_status before_tiles(const struct device *device, struct variant *variant)
{
    struct tiles *t = &variant->tiles;
    int asked = variant->problem->desc.chunk, subs = variant->engine->lanes < 32 ? 8 : 4;

    if (asked % (t->span * variant->engine->rows) != 0)
        t->span = 1;
    variant_cut_values(variant);
    t->tokens = asked != 0 ? SPAN_CHUNKS * asked : SPAN_TOKENS;
    for (t->chunk = asked != 0 ? asked : subs * t->span * variant->engine->rows; t->chunk >= variant->engine->rows;
         t->chunk /= 2) {
        cut_rows(variant);
        if (t->tokens % t->chunk == 0 && (size_t)t->group <= device->info.max_work_group &&
            variant_cut_keys(device, variant))
            break;
        if (asked != 0)
            return CLATTN_UNSUPPORTED;
    }
    t->splits = parts(device, variant);
    if (t->span > 1 && t->keys % (2 * TILE) == 0)
        t->step = 2; /* a seventh less time on an H100 */
    return t->chunk >= variant->engine->rows && t->tokens % t->keys == 0 ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

/* Two teams' rows a group, or one's where they move blocks themselves: their lanes have enough to hold. All columns. */
static clattn_status team_tiles(const struct device *device, struct variant *variant)
{
    struct tiles *t = &variant->tiles;

    t->span = 1;
    t->loaders = variant->engine->loaders > 0 ? MOVERS : 0;
    t->tokens = SPAN_TOKENS;
    t->value_tiles = (t->loaders > 0 ? MOST_TEAMS : 1) * TEAM;
    cut_rows(variant);
    variant_cut_values(variant);
    t->splits = parts(device, variant);
    return columns(variant) == 1 && (size_t)t->group <= device->info.max_work_group && variant_cut_keys(device, variant)
               ? CLATTN_SUCCESS
               : CLATTN_UNSUPPORTED;
}

/* The widest group of few columns that local memory holds */
static clattn_status solve_tiles(const struct device *device, struct variant *variant)
{
    struct tiles *t = &variant->tiles;
    int values = round_up(variant->problem->desc.value_dim, TILE);

    for (int subs = MOST_SUBS; subs * variant->engine->rows >= TILE; subs /= 2)
        for (int tiles = 2; tiles >= 1; tiles--) {
            t->value_tiles = subs;
            t->group = subs * variant->engine->lanes;
            t->block_v = tiles * TILE < values ? tiles * TILE : values;
            if (t->tokens % (subs * variant->engine->rows) == 0 && fits(device, variant))
                return CLATTN_SUCCESS;
        }
    return CLATTN_UNSUPPORTED;
}

static clattn_status heuristic(const struct device *device, struct variant *variant, int most_group)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    struct tiles *t = &variant->tiles;
    enum kernel_id kernel = variant->kernel;
    int before = is_before(variant);
    clattn_status status;

    (void)most_group; /* the words decide it */
    *t = (struct tiles){
        .vec = 4, .sub_group = device->sub_group, .span = variant->engine->span, .step = 1, .share = 1, .keys = TILE};
    if (desc->dtype == CLATTN_F32 || desc->write_kernel != CLATTN_WEIGHTS_SOFTMAX ||
        desc->flags & (CLATTN_WITH_KV_LENS | CLATTN_CU_SEQLENS_KV) || desc->chunk % variant->engine->rows != 0)
        return CLATTN_UNSUPPORTED;
    if (in_teams(variant) && desc->chunk != 0)
        return CLATTN_UNSUPPORTED;
    /* which cuts the span for both */
    variant->kernel = in_teams(variant) ? KERNEL_WRITE_BEFORE_TEAM : KERNEL_WRITE_BEFORE_MATRIX;
    status = in_teams(variant) ? team_tiles(device, variant) : before_tiles(device, variant);
    variant->kernel = kernel;
    if (status != CLATTN_SUCCESS || before)
        return status;
    t->loaders = 0;
    return solve_tiles(device, variant);
}

static clattn_status complete(const struct device *device, struct variant *variant)
{
    struct tiles *t = &variant->tiles;
    int values = round_up(variant->problem->desc.value_dim, TILE), rows, sound;

    t->block_v = t->block_v < values ? t->block_v : values;
    t->group = t->value_tiles * variant->engine->lanes;
    if (is_before(variant))
        cut_rows(variant);
    rows = is_before(variant) ? t->chunk : t->value_tiles * variant->engine->rows;
    sound = t->tokens % t->keys == 0 && t->keys % (t->step * TILE) == 0 && rows % variant->engine->rows == 0 &&
            t->tokens % rows == 0;
    return sound && fits(device, variant) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

const struct family family_write_matrix = {heuristic, complete, lay_out, describe, 1, 0};
