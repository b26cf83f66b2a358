/* The kernels of a few queries and many keys, which are worked in parts: tiles by rule of thumb, and what follows. */
#include "kernel/plain.h"

#define FILE_parts_nothing FILE_COUNT
static const enum embedded_file bias_headers[] = {
#define DECAY(value, name, dims, list_dims, plain, matrix, bias, ...) FILE_parts_##bias,
#include "op/words.def"
};

enum { FLOAT = 4, MOST_ROWS = 8, SERIAL_VEC = 16, SHARED_VEC = 4 };

static int64_t query_heads(const struct variant *variant)
{
    return variant->problem->desc.heads / variant->problem->desc.kv_heads;
}

/* Whether queries have walked over the tail of the keys, which is one part more. */
static int is_walked(const struct variant *variant)
{
    return variant->problem->rule->erase == ERASE_POSITION;
}

/* ---- Layout -------------------------------------------------------------------------------------------------------
 */

/* Lanes beyond those that a row's values need work other keys of the block, or other parts. */
static int shares(const struct tiles *t, int columns, int count)
{
    int share = 1;

    while (2 * share * columns <= t->group && count % (2 * share) == 0)
        share *= 2;
    return share;
}

/* Whether registers can hold a lane's part of a block, of one column at most: Intel's, of which sub-groups are asked
 * for, cannot. */
static int is_ahead(const struct variant *variant, int share, int channels, int values)
{
    enum { MOST_BYTES = 512 };
    const struct tiles *t = &variant->tiles;
    int64_t turns = divide_up((int64_t)t->keys * t->lanes_k, t->group) * divide_up(channels, t->lanes_k * t->vec);
    int64_t bytes = (turns + t->keys / share) * t->vec * (int64_t)dtype_size(variant->problem->desc.dtype);

    return t->group > 1 && t->sub_group == 0 && share * (values / t->vec) <= t->group && bytes <= MOST_BYTES;
}

static void decode_locals(const struct variant *variant, int rows, int channels, int values, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    int norms = (variant->problem->desc.flags & CLATTN_QK_L2NORM) != 0, share = shares(t, values / t->vec, t->keys);
    int products = (rows + norms) * t->keys;

    layout_constant(layout, "SHARES", share);
    layout_header(layout, bias_headers[problem_decay(variant->problem)]);
    layout_header(layout, FILE_parts_weigh);
    if (variant->kernel == KERNEL_WALK_PATH)
        layout_header(layout, FILE_parts_walk);
    else {
        layout_header(layout, is_ahead(variant, share, channels, values) ? FILE_parts_ahead : FILE_parts_direct);
        layout_header(layout, is_walked(variant) ? FILE_parts_queries_walked : FILE_parts_queries_given);
    }
    layout_local(layout, "LOCAL_QUERIES", rows * channels, FLOAT);
    layout_local(layout, "LOCAL_PRODUCTS", t->lanes_k * (variant->kernel == KERNEL_WALK_PATH ? 2 * rows : products),
                 FLOAT);
    layout_local(layout, "LOCAL_SCORES", rows * t->keys, FLOAT);
    layout_local(layout, "LOCAL_OUTPUT", share * rows * values, FLOAT);
    layout_local(layout, "LOCAL_DECAYS", problem_decay(variant->problem) == DECAY_NONE ? 1 : rows * t->keys, FLOAT);
    layout_locals(layout, "LOCAL_MOST", 4, rows * t->keys / t->vec, FLOAT);
    layout_local(layout, "LOCAL_KEPT", rows, FLOAT);
}

static void join_locals(const struct tiles *t, int values, int parts, struct layout *layout)
{
    int share = shares(t, values / t->vec, t->splits);

    layout_constant(layout, "SHARES", share);
    layout_locals(layout, "LOCAL_PARTS", 3, parts, FLOAT);
    layout_local(layout, "LOCAL_SHARES", share * values, FLOAT);
}

static void lay_out(const struct variant *variant, struct layout *layout)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    const struct tiles *t = &variant->tiles;
    int rows = t->chunk * t->heads, values = round_up(desc->value_dim, t->vec);
    int channels = round_up(desc->key_dim, t->vec), parts = t->splits + is_walked(variant);

    layout->step.options = PLAIN_OPTIONS;
    layout->record = round_up((int64_t)rows * (values + 3), SERIAL_VEC);
    layout_constant(layout, "KV_GROUP", query_heads(variant));
    layout_constant(layout, "HEADS", t->heads);
    layout_constant(layout, "ROWS", rows);
    layout_constant(layout, "KEYS", t->keys);
    layout_constant(layout, "SPLITS", t->splits);
    layout_constant(layout, "PARTS", parts);
    layout_constant(layout, "WALKED", is_walked(variant));
    layout_constant(layout, "LANES_K", t->lanes_k);
    layout_constant(layout, "KP", channels);
    layout_constant(layout, "VP", values);
    layout_constant(layout, "PART", layout->record);
    layout_constant(layout, "BK", t->vec);
    layout_constant(layout, "BV", t->vec);
    layout_constant(layout, "RP", t->vec);
    layout_constant(layout, "CP", round_up(t->chunk, t->vec));
    if (variant->kernel != KERNEL_JOIN_PARTS) {
        layout->head_groups = (int)(desc->kv_heads * divide_up(query_heads(variant), t->heads));
        layout->value_groups = variant->kernel == KERNEL_DECODE ? t->splits : 1;
        layout->rows = (int64_t)rows * channels;
        decode_locals(variant, rows, channels, values, layout);
    } else {
        join_locals(t, values, parts, layout);
        layout_header(layout, FILE_list);
    }
    layout_header(layout, FILE_output_plain);
}

static void describe(struct text *text, const struct variant *variant, const struct layout *layout)
{
    const struct tiles *t = &variant->tiles;

    text_format(text, "group %d, vec %d, %d tokens of %d heads, %d keys at once in %d parts, local %zu bytes\n",
                t->group, t->vec, t->chunk, t->heads, t->keys, t->splits, layout->step.local_bytes);
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

/* Tokens of a tile: as many as a sequence has on average, of those that there are rows for. */
static int tokens(const struct variant *variant)
{
    const struct extent most = problem_most(variant->problem);
    int64_t packed = variant->problem->desc.flags & CLATTN_CU_SEQLENS ? most.sequences : 1;
    int64_t queries = divide_up(most.seq_len, packed);
    int count = 1;

    while (count < queries && 2 * count * variant->tiles.heads <= MOST_ROWS)
        count *= 2;
    return count;
}

/* Parts such that all compute units are busy, each with keys enough to be worth its own softmax. */
static int parts(const struct device *device, const struct variant *variant)
{
    enum { MOST = 512, LEAST_KEYS = 128 };
    const clattn_plan_desc *desc = &variant->problem->desc;
    const struct extent most = problem_most(variant->problem);
    const struct tiles *t = &variant->tiles;
    int64_t packed = desc->flags & CLATTN_CU_SEQLENS ? most.sequences : 1, keys = divide_up(most.kv_len, packed);
    int64_t tiles = divide_up(most.seq_len, packed * t->chunk) * most.sequences * desc->kv_heads *
                    divide_up(query_heads(variant), t->heads);
    int64_t wanted = (t->group == 1 ? 1 : 16) * (int64_t)device->info.compute_units;
    int count = 1;

    if (desc->window != 0)
        keys = lower(keys, desc->window + t->chunk);
    while (count < MOST && count * tiles < wanted && keys >= 2 * count * LEAST_KEYS)
        count *= 2;
    return count;
}

/* Fewer lanes a key, then fewer heads, until local memory holds the variant. */
static clattn_status cut_to_fit(const struct device *device, struct variant *variant)
{
    struct tiles *t = &variant->tiles;

    while (!layout_fits(device, variant, lay_out)) {
        if (t->lanes_k > 1)
            t->lanes_k /= 2;
        else if (t->keys > SERIAL_VEC)
            t->keys /= 2;
        else if (t->heads > 1)
            t->heads = (t->heads + 1) / 2;
        else
            return CLATTN_UNSUPPORTED;
    }
    return CLATTN_SUCCESS;
}

static clattn_status heuristic(const struct device *device, struct variant *variant, int most_group)
{
    int serial = device->serial || most_group < 4;
    int64_t heads = query_heads(variant), tiles = divide_up(heads, MOST_ROWS);
    enum kernel_id kernel = variant->kernel;
    clattn_status status;

    if (variant->problem->desc.chunk != 0 || variant->problem->desc.kernel != CLATTN_WEIGHTS_SOFTMAX)
        return CLATTN_UNSUPPORTED;
    variant->tiles = (struct tiles){.group = serial ? 1 : lower(128, most_group),
                                    .vec = serial ? SERIAL_VEC : SHARED_VEC,
                                    .heads = (int)divide_up(heads, tiles),
                                    .keys = 64,
                                    .lanes_k = serial ? 1 : 8,
                                    .sub_group = serial ? 0 : device->sub_group};
    variant->tiles.chunk = tokens(variant);
    variant->kernel = KERNEL_DECODE; /* both have the tiles that it fits */
    status = cut_to_fit(device, variant);
    variant->tiles.splits = parts(device, variant);
    variant->kernel = kernel;
    return status;
}

static clattn_status complete(const struct device *device, struct variant *variant)
{
    struct tiles *t = &variant->tiles;
    int sound;

    t->heads = lower(t->heads, query_heads(variant));
    t->chunk = tokens(variant);
    sound = t->group >= 1 && (size_t)t->group <= device->info.max_work_group && (t->group == 1 || !device->serial) &&
            t->keys % t->vec == 0 && layout_fits(device, variant, lay_out);
    return sound ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

const struct family family_decode = {heuristic, complete, lay_out, describe, 0, 0};
