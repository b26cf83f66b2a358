/* Kernels of matrix products: tiles by rule of thumb, and what follows from them. In struct tiles chunk, block_v and
 * block_k are the rows, columns and depth of a group's tile; rows by wide what a lane (of vectors), or on a matrix
 * engine a sub-group (of tiles), has of it; span the tiles below each other that are worked one after the other;
 * lanes_k the lanes that share the columns of few rows. */
#include "kernel/gemm.h"

#include <string.h>

enum { SERIAL_VEC = 16, SHARED_VEC = 4, FLOAT = 4, NUMBER = 2, TILE = 16, PAD = 8, MOST_LANE_FLOATS = 128 };

static int turned(const struct variant *variant, enum gemm_operand id)
{
    return gemm_turned(variant->gemm, id);
}

/* ---- Layout -------------------------------------------------------------------------------------------------------
 */

#define ADD(layout, numbers) layout_constants(layout, numbers, sizeof(numbers) / sizeof *(numbers))

/* Floats or numbers after a row of a tile in local memory: those that read it by columns meet all banks. */
static void tile_pitches(const struct variant *variant, int left_pad, int right_pad, int *left, int *right)
{
    const struct tiles *t = &variant->tiles;

    *left = (turned(variant, GEMM_A) ? t->chunk : t->block_k) + left_pad;
    *right = (variant->kernel == KERNEL_GEMM_MATRIX && turned(variant, GEMM_B) ? t->block_k : t->block_v) + right_pad;
}

static void lay_out_tiles(const struct variant *variant, int left, int right, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    const struct number numbers[] = {
        {"BM", t->chunk},
        {"BN", t->block_v},
        {"BK", t->block_k},
        {"BAND", t->span},
        {"TURNED_A", turned(variant, GEMM_A)},
        {"LEFT_PITCH", left},
        {"RIGHT_PITCH", right},
        {"LEFT_TILE", left * (turned(variant, GEMM_A) ? t->block_k : t->chunk)},
        {"RIGHT_TILE",
         right * (variant->kernel == KERNEL_GEMM_MATRIX && turned(variant, GEMM_B) ? t->block_v : t->block_k)},
    };

    ADD(layout, numbers);
}

static int64_t constant_of(const struct layout *layout, const char *name)
{
    int i = 0;

    while (strcmp(layout->step.constants[i].name, name) != 0)
        i++;
    return layout->step.constants[i].value;
}

static void lay_out_blocks(const struct variant *variant, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    const struct number numbers[] = {
        {"ROW_LANES", t->chunk / t->rows},
        {"COL_LANES", t->block_v / (t->wide * t->vec)},
        {"SPLIT", 1},
        {"MOST_ROWS", t->rows},
        {"WIDEST", t->wide},
    };
    int left, right, pad = variant->engine != NULL ? PAD : SHARED_VEC;

    tile_pitches(variant, SHARED_VEC + turned(variant, GEMM_A) * (pad - SHARED_VEC), pad, &left, &right);
    lay_out_tiles(variant, left, right, layout);
    ADD(layout, numbers);
    layout_constant(layout, "LONG_SUMS", 1);
    layout_local(layout, "LOCAL_TILES", 2 * (constant_of(layout, "LEFT_TILE") + constant_of(layout, "RIGHT_TILE")),
                 FLOAT);
    if (variant->engine != NULL) {
        layout->step.options = variant->engine->options;
        layout_scratch(layout, variant, variant->engine->exact_scratch);
        layout_header(layout, variant->engine->exact);
    } else
        layout_header(layout, FILE_rows_given);
    layout_header(layout, variant->engine != NULL ? FILE_blocks_engine : FILE_blocks_lanes);
}

static void lay_out_serial(const struct variant *variant, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    int left, right;

    tile_pitches(variant, 0, 0, &left, &right);
    lay_out_tiles(variant, left, right, layout);
    layout_local(layout, "SUMS_TILE", (int64_t)t->chunk * t->block_v, FLOAT);
    layout_local(layout, "LOCAL_LEFT", constant_of(layout, "LEFT_TILE"), FLOAT);
    layout_local(layout, "LOCAL_RIGHT", constant_of(layout, "RIGHT_TILE"), FLOAT);
    layout_constant(layout, "LEFT_ROW", turned(variant, GEMM_A) ? 1 : left);
    layout_constant(layout, "LEFT_DEPTH", turned(variant, GEMM_A) ? left : 1);
}

/* Whether the weights of few rows lie as [column][depth] */
static int weights_turned(const struct variant *variant)
{
    int few_rows = variant->gemm->desc.m <= variant->gemm->desc.n;

    return few_rows ? turned(variant, GEMM_B) : !turned(variant, GEMM_A);
}

static int gemv_columns(const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;

    return t->group / t->lanes_k * t->wide * (weights_turned(variant) ? 1 : t->vec);
}

static void lay_out_gemv(const struct variant *variant, struct layout *layout)
{
    layout_constant(layout, "DEPTH_LANES", variant->tiles.lanes_k);
    layout_local(layout, "LOCAL_PARTS", (int64_t)variant->tiles.lanes_k * gemv_columns(variant), FLOAT);
    layout->value_groups = gemv_columns(variant);
    layout_header(layout, variant->tiles.vec == SERIAL_VEC ? FILE_gemv_serial : FILE_gemv_shared);
}

static void lay_out(const struct variant *variant, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;

    layout->step.options = PLAIN_OPTIONS;
    layout_constant(layout, "ROWS", t->rows);
    layout_constant(layout, "WIDE", t->wide);
    layout_constant(layout, "TURNED_B",
                    variant->kernel == KERNEL_GEMV ? weights_turned(variant) : turned(variant, GEMM_B));
    switch (variant->kernel) {
    case KERNEL_GEMM: lay_out_blocks(variant, layout); break;
    case KERNEL_GEMM_SERIAL: lay_out_serial(variant, layout); break;
    default: lay_out_gemv(variant, layout);
    }
}

void gemm_lay_out_engine(const struct variant *variant, struct layout *layout)
{
    const struct engine *engine = variant->engine;
    const struct tiles *t = &variant->tiles;
    const struct number numbers[] = {
        {"ROW_TILES", t->rows}, {"STAGES", t->stages}, {"TURNED_B", turned(variant, GEMM_B)},
        {"READERS", 0},         {"VALUE_TILES", 1},
    };

    layout->step.options = engine->options;
    layout->step.any_group = 1; /* as for the other kernels on matrix engines */
    layout_scratch(layout, variant, engine->scratch);
    ADD(layout, numbers);
    layout_header(layout, engine->instructions);
    layout_header(layout, engine->words);
    layout_copies(layout, engine);
}

static void lay_out_matrix(const struct variant *variant, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    int left, right;

    tile_pitches(variant, PAD, PAD, &left, &right);
    lay_out_tiles(variant, left, right, layout);
    layout_constant(layout, "COLUMN_TILES", t->wide);
    layout_constant(layout, "SUB_COLUMNS", t->block_v / (t->wide * TILE));
    layout_local(layout, "LOCAL_TILES",
                 t->stages * (constant_of(layout, "LEFT_TILE") + constant_of(layout, "RIGHT_TILE")), NUMBER);
    gemm_lay_out_engine(variant, layout);
}

void gemm_describe(struct text *text, const struct variant *variant, const struct layout *layout)
{
    const struct tiles *t = &variant->tiles;

    if (variant->kernel == KERNEL_GEMV)
        text_format(text, "group %d, vec %d, %d rows, %d columns, %d lanes along the depth\n", t->group, t->vec,
                    t->rows, gemv_columns(variant), t->lanes_k);
    else
        text_format(text, "group %d, tile %d x %d, depth %d, %d x %d each, stages %d, bands of %d, local %zu bytes\n",
                    t->group, t->chunk, t->block_v, t->block_k, t->rows, t->wide, t->stages, t->span,
                    layout->step.local_bytes);
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

static int halved(int x, int64_t needed, int least)
{
    while (x / 2 >= least && x / 2 >= needed)
        x /= 2;
    return x;
}

/* What fields leave open, and whether all goes together. */
static clattn_status complete(const struct device *device, struct variant *variant)
{
    struct tiles *t = &variant->tiles;
    int tile_rows = 1, tile_columns = 1, lanes = 1, sound;

    t->chunk = t->chunk > 0 ? t->chunk : 1;
    if (variant->kernel == KERNEL_GEMM) {
        tile_rows = t->rows * (variant->engine != NULL ? variant->engine->lanes / 4 : 1);
        tile_columns = t->wide * SHARED_VEC * (variant->engine != NULL ? 4 : 1);
        lanes = variant->engine != NULL ? variant->engine->lanes : 1;
    }
    if (variant->kernel == KERNEL_GEMM_SERIAL) {
        tile_rows = turned(variant, GEMM_A) ? SERIAL_VEC : t->rows;
        tile_columns = t->wide * SERIAL_VEC;
    }
    if (variant->kernel == KERNEL_GEMM_MATRIX) {
        tile_rows = t->rows * variant->engine->rows;
        tile_columns = t->wide * TILE;
        lanes = variant->engine->lanes;
    }
    if (variant->kernel != KERNEL_GEMV && t->vec == SHARED_VEC)
        t->group = t->chunk / tile_rows * (t->block_v / tile_columns) * lanes;
    sound = t->chunk % tile_rows == 0 && t->block_v % tile_columns == 0 && t->group >= 1 &&
            (size_t)t->group <= device->info.max_work_group && t->rows * t->wide * SHARED_VEC <= 8 * MOST_LANE_FLOATS &&
            layout_fits(device, variant, variant->kernel == KERNEL_GEMM_MATRIX ? lay_out_matrix : lay_out);
    return sound ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

/* Fewer rows or columns, the longer of them first, until groups are enough for the device and local memory holds them.
 */
static clattn_status shrink(const struct device *device, struct variant *variant, int most_group, int least_rows,
                            int least_columns)
{
    const clattn_gemm_desc *d = &variant->gemm->desc;
    struct tiles *t = &variant->tiles;

    for (;;) {
        int64_t groups = divide_up(d->m, t->chunk) * divide_up(d->n, t->block_v) * d->batch;
        int sound = complete(device, variant) == CLATTN_SUCCESS && t->group <= most_group;
        if (sound && groups >= (int64_t)device->info.compute_units)
            return CLATTN_SUCCESS;
        if (t->chunk / 2 >= least_rows && (t->chunk >= t->block_v || t->block_v / 2 < least_columns))
            t->chunk /= 2;
        else if (t->block_v / 2 >= least_columns)
            t->block_v /= 2;
        else if (!sound && t->block_k > TILE)
            t->block_k /= 2;
        else
            return sound ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
    }
}

static clattn_status blocks_tiles(const struct device *device, struct variant *variant, int most_group)
{
    const clattn_gemm_desc *d = &variant->gemm->desc;
    struct tiles *t = &variant->tiles;
    int engine = variant->engine != NULL;

    *t = (struct tiles){.vec = SHARED_VEC,
                        .rows = 8,
                        .wide = 2,
                        .block_k = TILE,
                        .span = 8,
                        .stages = 2,
                        .sub_group = engine ? 0 : device->sub_group};
    if (engine && variant->engine->lanes > 32)
        t->rows = 4;
    if (!engine &&
        device->sub_group != 0) { /* registers of Intel's lanes: half as many sums, and numbers on their way */
        t->rows = 4;
        t->block_k = TILE / 2;
    }
    t->chunk = halved(128, d->m, 64);
    t->block_v = halved(128, d->n, 64);
    return shrink(device, variant, most_group, t->rows * (engine ? variant->engine->lanes / 4 : 4),
                  t->wide * SHARED_VEC * 4);
}

static clattn_status serial_tiles(const struct device *device, struct variant *variant)
{
    const clattn_gemm_desc *d = &variant->gemm->desc;

    variant->tiles = (struct tiles){.group = 1,
                                    .vec = SERIAL_VEC,
                                    .rows = 8,
                                    .wide = 2,
                                    .span = 8,
                                    .stages = 1,
                                    .chunk = halved(128, d->m, 16),
                                    .block_v = halved(128, d->n, 32),
                                    .block_k = halved(128, d->k, 16)};
    return shrink(device, variant, 1, 16, 32);
}

static clattn_status gemv_tiles(const struct device *device, struct variant *variant, int most_group)
{
    const int rows = gemm_few(variant->gemm), along = weights_turned(variant);
    struct tiles *t = &variant->tiles;

    *t = (struct tiles){.group = most_group,
                        .vec = SHARED_VEC,
                        .rows = rows,
                        .wide = along ? 2 : 1,
                        .span = 1,
                        .lanes_k = along || most_group < 64 ? 32 : 64,
                        .stages = 1,
                        .sub_group = device->sub_group};
    if (device->serial || most_group < t->lanes_k)
        *t = (struct tiles){.group = 1,
                            .vec = SERIAL_VEC,
                            .rows = rows,
                            .wide = along ? 4 : 16 / rows,
                            .span = 1,
                            .lanes_k = 1,
                            .stages = 1};
    if (device->serial && !along && t->wide > 8)
        t->wide = 8;
    return complete(device, variant);
}

static clattn_status heuristic(const struct device *device, struct variant *variant, int most_group)
{
    switch (variant->kernel) {
    case KERNEL_GEMM: return blocks_tiles(device, variant, most_group);
    case KERNEL_GEMM_SERIAL: return serial_tiles(device, variant);
    default: return gemv_tiles(device, variant, most_group);
    }
}

/* 64 x 64 of a sub-group of 32 lanes; half of it where lanes are few, or their registers for sums would be many. */
static clattn_status matrix_tiles(const struct device *device, struct variant *variant, int most_group)
{
    const clattn_gemm_desc *d = &variant->gemm->desc;
    const struct engine *engine = variant->engine;
    /* Intel's compiler leaves an array of more than 32 floats a lane in memory. */
    const int most_floats = device->sub_group != 0 ? 32 : MOST_LANE_FLOATS;
    struct tiles *t = &variant->tiles;

    *t = (struct tiles){.vec = SHARED_VEC,
                        .rows = 4,
                        .wide = 4,
                        .block_k = 2 * TILE,
                        .span = 8,
                        .stages = 2,
                        .sub_group = device->sub_group};
    while (t->rows * engine->rows * t->wide * TILE / engine->lanes > most_floats)
        *(t->wide < t->rows ? &t->rows : &t->wide) /= 2;
    t->chunk = halved(128, d->m, t->rows * engine->rows);
    t->block_v = halved(128, d->n, t->wide * TILE);
    if (complete(device, variant) != CLATTN_SUCCESS) { /* more places of shorter slices instead of longer ones */
        t->block_k = TILE;
        t->stages = 4;
    }
    TRY(shrink(device, variant, most_group, t->rows * engine->rows, t->wide * TILE));
    if (t->group < 4 * engine->lanes && t->rows > 1 && t->wide > 1 && 4 * t->group <= most_group) {
        t->rows /= 2; /* a small tile by four sub-groups and not by one */
        t->wide /= 2;
    }
    return complete(device, variant);
}

const struct family family_gemm = {heuristic, complete, lay_out, gemm_describe, 0, 0};
const struct family family_gemm_lanes = {heuristic, complete, lay_out, gemm_describe, 0, 1};
const struct family family_gemm_matrix = {matrix_tiles, complete, lay_out_matrix, gemm_describe, 1, 0};
