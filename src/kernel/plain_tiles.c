/* The read of a list on any device: tiles by heuristic, and those that were chosen. */
#include "kernel/plain.h"

enum { SERIAL_VEC = 16, SHARED_VEC = 4, MOST_COLUMNS = 256 };

/* ---- Tiles by heuristic -------------------------------------------------------------------------------------------
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

/* Whether queries have keys beside their own tokens'. */
static int has_cache(const clattn_plan_desc *desc)
{
    return desc->kv_len != 0 || (desc->flags & (CLATTN_CU_SEQLENS_KV | CLATTN_WITH_KV_LENS)) != 0;
}

/* Sums over keys are joined block by block, so that a block's length decides bits: it does not depend on lengths, for
 * packed sequences have the bits that they have alone, but where all keys are in one block. */
static void choose_block(const struct device *device, struct variant *variant)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    struct tiles *t = &variant->tiles;

    t->chunk = t->group > 1 ? 16 : 64;
    while (t->chunk > 8 && !layout_fits(device, variant, plain_lay_out))
        t->chunk /= 2;
    while (t->chunk > 8 && t->chunk / 2 >= desc->seq_len && !has_cache(desc))
        t->chunk /= 2;
}

/* Blocks of queries and keys: the rows of queries stay in local memory whole, with all value columns where they fit. A
 * tile belongs to one work-item with wide vectors, or a group shares it. */
static clattn_status heuristic(const struct device *device, struct variant *variant, int most_group)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    const int serial = device->serial || most_group < 4, vec = serial ? SERIAL_VEC : SHARED_VEC;
    struct tiles *t = &variant->tiles;

    *t = (struct tiles){.group = serial ? 1 : lower(64, most_group),
                        .vec = vec,
                        .chunk = desc->chunk,
                        .pad = serial ? 0 : SHARED_VEC,
                        .lanes_k = 1,
                        .block_k = plain_slice(desc->key_dim, serial ? 64 : 32, vec),
                        .block_v = lower(round_up(variant_values(variant), vec), MOST_COLUMNS),
                        .sub_group = serial ? 0 : device->sub_group};
    if (desc->chunk == 0)
        choose_block(device, variant);
    while (!layout_fits(device, variant, plain_lay_out)) {
        if (t->block_v > t->vec)
            t->block_v = round_up(t->block_v / 2, t->vec);
        else if (t->block_k > t->vec)
            t->block_k = round_up(t->block_k / 2, t->vec);
        else
            return CLATTN_UNSUPPORTED;
    }
    return CLATTN_SUCCESS;
}

/* ---- Tiles that were chosen ---------------------------------------------------------------------------------------
 */

static clattn_status complete(const struct device *device, struct variant *variant)
{
    struct tiles *t = &variant->tiles;
    int sound;

    t->block_v = lower(t->block_v, round_up(variant_values(variant), t->vec));
    t->block_k = lower(round_up(t->block_k, t->vec), round_up(variant->problem->desc.key_dim, t->vec));
    sound = t->block_v >= t->vec && t->block_v % t->vec == 0 && t->block_k >= t->vec && t->block_k % t->vec == 0 &&
            t->group >= 1 && (size_t)t->group <= device->info.max_work_group && (t->group == 1 || !device->serial) &&
            layout_fits(device, variant, plain_lay_out);
    return sound ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

const struct family family_plain = {heuristic, complete, plain_lay_out, plain_describe, 0, 0};
