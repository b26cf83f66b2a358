/* The kernels of any device: tiles by rule of thumb, and those that were chosen. */
#include "kernel/plain.h"

enum { SERIAL_VEC = 16, SHARED_VEC = 4, MOST_COLUMNS = 256, FEW_TOKENS = 8, WIDE_COLUMNS = 64 };

/* The largest power of two not above x. */
static int power_below(int64_t x)
{
    int power = 1;

    while (power * 2 <= x)
        power *= 2;
    return power;
}

/* ---- Tiles by rule of thumb ---------------------------------------------------------------------------------------
 */

int plain_slice(int64_t channels, int most, int unit)
{
    int64_t count = divide_up(channels, most);

    return round_up(divide_up(channels, count), unit);
}

clattn_status plain_cut_blocks(const struct device *device, struct variant *variant,
                               void (*lay)(const struct variant *variant, struct layout *layout))
{
    struct tiles *t = &variant->tiles;

    while (!layout_fits(device, variant, lay)) {
        if (t->block_v > 4 * t->vec)
            t->block_v = round_up(t->block_v / 2, t->vec);
        else if (variant->problem->desc.chunk == 0 && t->chunk > 8)
            t->chunk /= 2;
        else if (t->block_k > t->vec)
            t->block_k = round_up(t->block_k / 2, t->vec);
        else
            return CLATTN_UNSUPPORTED;
    }
    return CLATTN_SUCCESS;
}

/* Work-groups that the variant's value tiles of that width give. */
static int64_t groups(const struct variant *variant, int block_v)
{
    return problem_heads(variant->problem) * divide_up(variant_values(variant), block_v);
}

/* A tile belongs to one work-item: wide vectors, as many value columns as leave every core a few tiles. */
static void serial_tiles(const struct device *device, struct variant *variant)
{
    struct tiles *tiles = &variant->tiles;
    int64_t wanted = 4 * (int64_t)device->info.compute_units;

    tiles->group = 1;
    tiles->vec = SERIAL_VEC;
    tiles->pad = 0;
    tiles->lanes_k = 1;
    tiles->block_k = plain_slice(variant->problem->desc.key_dim, 64, SERIAL_VEC);
    tiles->block_v = round_up(variant_values(variant), SERIAL_VEC);
    if (tiles->block_v > 64)
        tiles->block_v = 64;
    while (tiles->block_v > SERIAL_VEC &&
           (tiles->block_v % (2 * SERIAL_VEC) != 0 || groups(variant, tiles->block_v) < wanted))
        tiles->block_v -= SERIAL_VEC;
}

/* Whether the recurrence is of a few rows: those of decoding. */
static int is_short(const struct variant *variant)
{
    return problem_rows(variant->problem) <= FEW_TOKENS;
}

/* Whether the recurrence's tiles are of many columns, of which a lane keeps many channels: those of decoding, and of
 * so many heads that every compute unit has a group of them still. What erases waits for the sums of fewer lanes then;
 * the others need more groups to be ahead. */
static int is_wide(const struct device *device, const struct variant *variant)
{
    int64_t units = device->info.compute_units;
    int64_t wanted = variant->problem->rule->erase != ERASE_NONE ? units * 9 / 10 : 2 * units;

    return device->sub_group == 0 && (is_short(variant) || groups(variant, WIDE_COLUMNS) >= wanted);
}

/* A group shares a tile. */
static void shared_tiles(const struct device *device, struct variant *variant, int most_group)
{
    struct tiles *tiles = &variant->tiles;
    int recurrent = variant->kernel == KERNEL_RECURRENT;
    /* Two groups a compute unit; but narrower groups of the recurrence cost more than some units that have one. */
    int64_t wanted = 2 * (int64_t)device->info.compute_units * (recurrent ? 9 : 10) / 10;
    int most_columns = !recurrent ? 16 : is_wide(device, variant) ? WIDE_COLUMNS : 32;
    /* Of more than a few tokens the recurrence is faster in wide groups, however few they are. */
    int least_columns = recurrent && !is_short(variant) ? most_columns : 2 * SHARED_VEC;
    int two_streams = variant->kernel == KERNEL_SCAN && plain_erase(variant).streams > 1;

    tiles->vec = SHARED_VEC;
    tiles->pad = SHARED_VEC;
    tiles->lanes_k = 1;
    tiles->block_k = plain_slice(variant->problem->desc.key_dim, two_streams ? 16 : 32, SHARED_VEC);
    tiles->block_v = lower(round_up(variant_values(variant), SHARED_VEC), most_columns);
    while (tiles->block_v > least_columns && groups(variant, tiles->block_v) < wanted)
        tiles->block_v = round_up(tiles->block_v / 2, SHARED_VEC);
    tiles->group = lower(64, most_group);
    tiles->sub_group = device->sub_group;
}

/* Whether the recurrence may work a sequence in parts: what a part keeps of the state before it is no matrix. */
static int has_parts(const struct variant *variant)
{
    return plain_erase(variant).streams == 0 && !variant->attn;
}

/* Parts, as many as most and as leave each a few tokens: of packed sequences an average one's. */
static int parts_up_to(const struct variant *variant, int64_t most)
{
    enum { LEAST_PART = 8 };
    const clattn_plan_desc *desc = &variant->problem->desc;
    int64_t tokens = desc->flags & CLATTN_CU_SEQLENS ? desc->seq_len / desc->sequences : desc->seq_len;

    return has_parts(variant) ? power_below(lower(tokens / LEAST_PART, most)) : 1;
}

/* Parts of a sequence, until every compute unit has four groups: of what is long enough to pay for a second launch of
 * each pass. */
static int segments_of(const struct device *device, const struct variant *variant)
{
    enum { MOST_SEGMENTS = 16, LEAST_SEGMENTS = 8, GROUPS = 4 };
    int64_t alone = groups(variant, variant->tiles.block_v), wanted = GROUPS * (int64_t)device->info.compute_units;

    if (parts_up_to(variant, MOST_SEGMENTS) < LEAST_SEGMENTS * (1 + problem_normalized(variant->problem)))
        return 1;
    return parts_up_to(variant, lower(MOST_SEGMENTS, wanted / alone));
}

/* Rows at once: a few, which decide no bits. */
static int rows_up_to(const struct variant *variant, int most)
{
    return power_below(lower(problem_rows(variant->problem), most));
}

/* The recurrence: lanes for the value columns, times lanes that share a column so that each keeps few channels. */
static void recurrent_tiles(const struct device *device, struct variant *variant, int most_group)
{
    enum { ROWS = 8, MOST_LANES = 128 };
    struct tiles *tiles = &variant->tiles;
    int64_t channels = variant->problem->desc.key_dim;
    int columns, kept; /* channels that a work-item keeps of its columns: what its registers hold */

    tiles->chunk = tiles->group == 1 ? 1 : rows_up_to(variant, ROWS);
    tiles->segments = 1;
    if (tiles->group == 1) {
        tiles->block_v = tiles->vec;
        tiles->block_k = round_up(channels, tiles->vec);
        return;
    }
    kept = tiles->sub_group != 0 ? 4 : is_wide(device, variant) ? 16 : 8;
    columns = power_below(tiles->block_v / tiles->vec);
    if (columns == 1 && tiles->sub_group == 0) /* what has one vector of columns has lanes for little else */
        kept = (int)divide_up(channels, MOST_LANES);
    while (tiles->lanes_k * kept < channels && 2 * tiles->lanes_k * columns <= most_group)
        tiles->lanes_k *= 2;
    while (tiles->lanes_k * kept < channels && columns > 1) {
        columns /= 2;
        tiles->lanes_k *= 2;
    }
    tiles->block_v = tiles->vec * columns;
    tiles->group = columns * tiles->lanes_k;
    tiles->block_k = round_up(channels, higher(tiles->lanes_k, tiles->vec));
    tiles->segments = segments_of(device, variant);
}

/* Whether queries have keys beside their own tokens'. */
static int has_cache(const clattn_plan_desc *desc)
{
    return desc->kv_len != 0 || (desc->flags & (CLATTN_CU_SEQLENS_KV | CLATTN_WITH_KV_LENS)) != 0;
}

/* Blocks of queries and keys: the rows of queries stay in local memory whole, with all value columns where they fit.
 * Sums over keys are joined block by block, so that a block's length decides bits: it does not depend on lengths, for
 * packed sequences have the bits that they have alone, but where all keys are in one block. */
static void flash_tiles(const struct device *device, struct variant *variant)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    struct tiles *tiles = &variant->tiles;

    tiles->block_v = lower(round_up(variant_values(variant), tiles->vec), MOST_COLUMNS);
    if (desc->chunk != 0)
        return;
    tiles->chunk = tiles->group > 1 ? 16 : 64;
    while (tiles->chunk > 8 && !layout_fits(device, variant, plain_lay_out))
        tiles->chunk /= 2;
    while (tiles->chunk > 8 && tiles->chunk / 2 >= desc->seq_len && !has_cache(desc))
        tiles->chunk /= 2;
}

/* Narrower value tiles, then narrower slices, until local memory holds the variant. */
static clattn_status cut_to_fit(const struct device *device, struct variant *variant)
{
    struct tiles *tiles = &variant->tiles;

    while (!layout_fits(device, variant, plain_lay_out)) {
        int narrows =
            variant->kernel == KERNEL_SCAN || variant->kernel == KERNEL_FLASH || variant->kernel == KERNEL_READ_STATE;
        if (narrows && tiles->block_v > tiles->vec)
            tiles->block_v = round_up(tiles->block_v / 2, tiles->vec);
        else if (variant->kernel != KERNEL_RECURRENT && tiles->block_k > tiles->vec)
            tiles->block_k = round_up(tiles->block_k / 2, tiles->vec);
        else if (variant->kernel == KERNEL_RECURRENT && tiles->chunk > 1)
            tiles->chunk /= 2;
        else
            return CLATTN_UNSUPPORTED;
    }
    return CLATTN_SUCCESS;
}

static clattn_status heuristic(const struct device *device, struct variant *variant, int most_group)
{
    int asked = variant->problem->desc.chunk;

    variant->tiles = (struct tiles){.chunk = asked != 0 ? asked : 16};
    if (device->serial || most_group < 4)
        serial_tiles(device, variant);
    else
        shared_tiles(device, variant, most_group);
    if (variant->kernel == KERNEL_RECURRENT)
        recurrent_tiles(device, variant, most_group);
    if (variant->kernel == KERNEL_FLASH)
        flash_tiles(device, variant);
    return cut_to_fit(device, variant);
}

/* ---- Tiles that were chosen ---------------------------------------------------------------------------------------
 */

/* No tile wider than the problem, nor longer; the recurrence's group. */
static void follow(struct variant *variant)
{
    struct tiles *tiles = &variant->tiles;
    int64_t channels = variant->problem->desc.key_dim;

    tiles->block_v = lower(tiles->block_v, round_up(variant_values(variant), tiles->vec));
    tiles->block_k = lower(round_up(tiles->block_k, tiles->vec), round_up(channels, tiles->vec));
    if (variant->kernel != KERNEL_RECURRENT)
        return;
    tiles->group = tiles->block_v / tiles->vec * tiles->lanes_k;
    tiles->block_k = round_up(channels, higher(tiles->lanes_k, tiles->vec));
    tiles->chunk = rows_up_to(variant, tiles->chunk);
    if (tiles->segments > 1 && has_parts(variant))
        tiles->segments = parts_up_to(variant, tiles->segments);
    if (variant->attn)
        tiles->segments = 1;
}

/* Whether registers can hold what a lane of the recurrence has of the state: more is left in memory. */
static int state_fits(const struct tiles *t)
{
    enum { MOST_FLOATS = 128 };

    return t->group == 1 || t->block_k / t->lanes_k * t->vec <= MOST_FLOATS;
}

static clattn_status complete(const struct device *device, struct variant *variant)
{
    const struct tiles *t = &variant->tiles;
    int sound;

    follow(variant);
    sound = t->block_v >= t->vec && t->block_v % t->vec == 0 && t->block_k >= t->vec && t->block_k % t->vec == 0 &&
            (variant->kernel != KERNEL_RECURRENT || (state_fits(t) && (t->segments == 1 || has_parts(variant)))) &&
            t->group >= 1 && (size_t)t->group <= device->info.max_work_group && (t->group == 1 || !device->serial) &&
            layout_fits(device, variant, plain_lay_out);
    return sound ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

const struct family family_plain = {heuristic, complete, plain_lay_out, plain_describe, 0, 0};
