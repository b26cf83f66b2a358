/* The kernels of any device: tiles by rule of thumb, and what follows from them. */
#include "kernel/plain.h"

enum { SERIAL_VEC = 16, SHARED_VEC = 4, FLOAT = 4, MOST_COLUMNS = 256 };

/* The largest power of two not above x. */
static int power_below(int64_t x)
{
    int power = 1;

    while (power * 2 <= x)
        power *= 2;
    return power;
}

/* ---- Layout -------------------------------------------------------------------------------------------------------
 */

static const enum embedded_file decay_headers[] = {
#define DECAY(value, name, dims, list_dims, plain, ...) FILE_##plain,
#include "op/words.def"
};
static const enum embedded_file bias_headers[] = {
#define DECAY(value, name, dims, list_dims, plain, matrix, bias, ...) FILE_##bias,
#include "op/words.def"
};

#define PLAIN(header, ...)                                                                                             \
    {                                                                                                                  \
        FILE_##header, __VA_ARGS__                                                                                     \
    }
static const struct plain_erase erases[] = {
#define ERASE(value, name, p, e, draw, work, plain, matrix) plain,
#include "op/words.def"
};
static const struct {
    enum embedded_file strength, values;
} writes[] = {
#define WRITE(value, row, role, strength, plain, ...) {FILE_##strength, FILE_##plain},
#include "op/words.def"
};
static const struct {
    enum embedded_file header;
    int bonus;
} reads[] = {
#define READ(value, row, plain, matrix, before, bonus, ...) {FILE_##plain, bonus},
#include "op/words.def"
};

static enum embedded_file value_header(const struct variant *variant)
{
    if (variant->attn)
        return FILE_value_units;
    return variant->normalizer ? FILE_value_ones : writes[variant->problem->rule->write].values;
}

static enum embedded_file output_header(const struct variant *variant)
{
    if (problem_reads_whole(variant->problem) && variant->kernel != KERNEL_READ_STATE)
        return FILE_output_none;
    if (variant->normalizer)
        return problem_stabilized(variant->problem) ? FILE_output_stable : FILE_output_sum;
    return problem_normalized(variant->problem) ? FILE_output_divided : FILE_output_plain;
}

struct plain_erase plain_erase(const struct variant *variant)
{
    return erases[variant->problem->rule->erase];
}

int plain_bonus(const struct variant *variant)
{
    return reads[variant->problem->rule->read].bonus;
}

void plain_headers(const struct variant *variant, struct layout *layout)
{
    const struct rule *rule = variant->problem->rule;

    layout_header(layout, erases[rule->erase].header);
    layout_header(layout, writes[rule->write].strength);
    layout_header(layout, reads[rule->read].header);
    layout_header(layout, value_header(variant));
    layout_header(layout, output_header(variant));
}

static void add_headers(const struct variant *variant, struct layout *layout)
{
    layout_header(layout, decay_headers[problem_decay(variant->problem)]);
    plain_headers(variant, layout);
    layout_header(layout, variant->problem->desc.flags & CLATTN_VALUE_GATE ? FILE_mix_gated : FILE_mix_plain);
}

enum embedded_file plain_weights(clattn_weights weights)
{
    static const enum embedded_file headers[] = {
#define WEIGHTS(value, name, header) [CLATTN_WEIGHTS_##value] = FILE_##header,
#include "op/words.def"
    };
    return headers[weights];
}

void plain_list_headers(const struct variant *variant, enum embedded_file weights, struct layout *layout)
{
    layout_header(layout, bias_headers[problem_decay(variant->problem)]);
    layout_header(layout, weights);
    layout_header(layout, variant->attn ? FILE_list_units : FILE_list_values);
    layout_header(layout, output_header(variant));
}

void plain_product_headers(const struct variant *variant, struct layout *layout)
{
    const struct engine *engine = variant->engine;

    if (engine != NULL && engine->exact != FILE_nothing)
        layout_header(layout, engine->exact);
    layout_header(layout, FILE_blocks);
    layout_header(layout, engine != NULL ? FILE_blocks_engine : FILE_blocks_lanes);
}

/* Floats of the tiles that a kernel works with. */
struct sizes {
    int channels;     /* padded to whole slices */
    int pitch, slice; /* a row of a slice, and CHUNK of them */
    int matrix;       /* CHUNK x CHUNK, its rows whole vectors */
    int values;       /* CHUNK x BV */
    int factors;      /* of a chunk's rows, and one across it */
    int token_parts;  /* vectors of a token's channels */
};

static struct sizes sizes_of(const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;
    struct sizes s;

    s.channels = round_up(variant->problem->desc.key_dim, t->block_k);
    s.pitch = t->block_k + t->pad;
    s.slice = t->chunk * s.pitch;
    s.matrix = t->chunk * round_up(t->chunk, t->vec);
    s.values = t->chunk * t->block_v;
    s.factors = 6 * t->chunk + t->vec;
    s.token_parts = (int)divide_up(variant->problem->desc.key_dim, t->vec);
    return s;
}

static void decay_locals(const struct variant *variant, const struct sizes *s, struct layout *layout)
{
    switch (problem_decay(variant->problem)) {
    case DECAY_VALUE: /* channels.c */
    case DECAY_COMPLEX:
    case DECAY_PRODUCT:
    case DECAY_FULL:
    case DECAY_NONE: break;
    case DECAY_SCALAR: layout_local(layout, "LOCAL_DECAY_LOG", variant->tiles.chunk, FLOAT); break;
    case DECAY_CHANNEL:
        layout_local(layout, "LOCAL_DECAY_LOG", s->slice, FLOAT);
        layout_local(layout, "LOCAL_DECAY_TOTAL", variant->tiles.block_k, FLOAT);
        break;
    }
}

/* As many of the names as are asked for. */
static void some_locals(struct layout *layout, const char *const *names, int count, int64_t floats)
{
    for (int i = 0; i < count; i++)
        layout_local(layout, names[i], floats, FLOAT);
}

static const char *const erase_rows[] = {"LOCAL_ERASE_P", "LOCAL_ERASE_B"},
                         *const erase_columns[] = {"LOCAL_ERASE_U", "LOCAL_ERASE_W"},
                         *const erase_norms[] = {"LOCAL_ERASE_NORMS"}, *const erase_squares[] = {"LOCAL_ERASE_SQUARES"},
                         *const erase_solved[] = {"LOCAL_ERASE_M", "LOCAL_ERASE_T", "LOCAL_ERASE_AK", "LOCAL_ERASE_QB"};

static void prepare_locals(const struct variant *variant, const struct sizes *s, struct layout *layout)
{
    enum erase erase = variant->problem->rule->erase;

    layout_local(layout, "LOCAL_ROWS_Q", s->slice, FLOAT);
    layout_local(layout, "LOCAL_ROWS_K", s->slice, FLOAT);
    layout_local(layout, "LOCAL_SCORES", s->matrix, FLOAT);
    layout_local(layout, "FACTORS", s->factors, FLOAT);
    decay_locals(variant, s, layout);
    some_locals(layout, erase_rows, erases[erase].streams, s->slice);
    some_locals(layout, erase_norms, erases[erase].norms, variant->tiles.chunk);
    some_locals(layout, erase_solved, erases[erase].solved, s->matrix);
}

static void scan_locals(const struct variant *variant, const struct sizes *s, struct layout *layout)
{
    layout_local(layout, "LOCAL_STATE", s->channels * variant->tiles.block_v, FLOAT);
    layout_local(layout, "LOCAL_ROWS", higher(s->slice, s->matrix), FLOAT);
    layout_local(layout, "LOCAL_WRITTEN", s->values, FLOAT);
    layout_local(layout, "LOCAL_OUTPUT", s->values, FLOAT);
    layout_local(layout, "FACTORS", s->factors, FLOAT);
    decay_locals(variant, s, layout);
    some_locals(layout, erase_columns, erases[variant->problem->rule->erase].streams, s->values);
    if (variant->problem->desc.flags & CLATTN_VALUE_GATE)
        layout_local(layout, "LOCAL_MIX_FACTOR", s->values, FLOAT);
}

static void recurrent_locals(const struct variant *variant, const struct sizes *s, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    int norms = (variant->problem->desc.flags & CLATTN_QK_L2NORM) != 0;

    layout_local(layout, "LOCAL_ROW_Q", s->pitch, FLOAT);
    layout_local(layout, "LOCAL_ROW_K", s->pitch, FLOAT);
    layout_local(layout, "LOCAL_ROW_X", t->block_v, FLOAT);
    layout_local(layout, "LOCAL_LANES_PART", t->group * t->vec, FLOAT);
    layout_local(layout, "FACTORS", s->factors, FLOAT);
    layout_local(layout, "LOCAL_SQUARES", 1 + norms * 2 * s->token_parts, FLOAT);
    decay_locals(variant, s, layout);
    some_locals(layout, erase_rows, erases[variant->problem->rule->erase].streams, s->pitch);
    some_locals(layout, erase_squares, erases[variant->problem->rule->erase].norms, 1 + norms * s->token_parts);
    if (reads[variant->problem->rule->read].bonus)
        layout_local(layout, "LOCAL_BONUS_PARTS", s->token_parts, FLOAT);
}

static void flash_locals(const struct variant *variant, const struct sizes *s, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    int columns = round_up(t->chunk, t->vec);

    layout_local(layout, "LOCAL_QUERIES", s->channels * columns, FLOAT);
    layout_local(layout, "LOCAL_ROWS", higher(s->slice, s->values), FLOAT);
    layout_local(layout, "LOCAL_SCORES", s->matrix, FLOAT);
    layout_local(layout, "LOCAL_OUTPUT", s->values, FLOAT);
    layout_local(layout, "LOCAL_WEIGHTS", 4 * columns, FLOAT);
    layout_local(layout, "LOCAL_NORMS", t->chunk, FLOAT);
    layout_local(layout, "LOCAL_BIAS", variant->problem->rule->decay == DECAY_NONE ? 1 : 2 * t->chunk + columns, FLOAT);
}

static void read_state_locals(const struct variant *variant, const struct sizes *s, struct layout *layout)
{
    layout_local(layout, "LOCAL_STATE", s->channels * variant->tiles.block_v, FLOAT);
    layout_local(layout, "LOCAL_ROWS", s->slice, FLOAT);
    layout_local(layout, "LOCAL_OUTPUT", s->values, FLOAT);
    layout_local(layout, "LOCAL_NORMS", variant->tiles.chunk, FLOAT);
}

static void plain_locals(const struct variant *variant, const struct sizes *s, struct layout *layout)
{
    switch (variant->kernel) {
    case KERNEL_PREPARE: prepare_locals(variant, s, layout); break;
    case KERNEL_SCAN: scan_locals(variant, s, layout); break;
    case KERNEL_RECURRENT: recurrent_locals(variant, s, layout); break;
    case KERNEL_STABILIZE: layout_local(layout, "LOCAL_PLACES", 2 * variant->tiles.group, 2 * FLOAT); break;
    case KERNEL_FLASH: flash_locals(variant, s, layout); break;
    case KERNEL_READ_STATE: read_state_locals(variant, s, layout); break;
    default: break; /* of other families */
    }
}

static void lay_out_flash(const struct variant *variant, const struct sizes *s, struct layout *layout)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    const struct tiles *t = &variant->tiles;

    layout->value_groups = (int)divide_up(variant_values(variant), t->block_v);
    layout_constant(layout, "BK", t->block_k);
    layout_constant(layout, "BV", t->block_v);
    layout_constant(layout, "KP", s->channels);
    layout_constant(layout, "RP", s->pitch);
    layout_constant(layout, "CP", round_up(t->chunk, t->vec));
    layout_constant(layout, "KV_GROUP", desc->heads / desc->kv_heads);
    plain_list_headers(variant, plain_weights(variant->problem->desc.kernel), layout);
}

static void lay_out_append(const struct variant *variant, struct layout *layout)
{
    const clattn_plan_desc *desc = &variant->problem->desc;

    layout->head_groups = (int)desc->kv_heads;
    layout_constant(layout, "KV_GROUP", desc->heads / desc->kv_heads);
}

static void lay_out(const struct variant *variant, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    const struct sizes s = sizes_of(variant);

    layout->options = PLAIN_OPTIONS;
    plain_locals(variant, &s, layout);
    if (variant->kernel == KERNEL_STABILIZE)
        return;
    if (variant->kernel == KERNEL_FLASH) {
        lay_out_flash(variant, &s, layout);
        return;
    }
    if (variant->kernel == KERNEL_APPEND) {
        lay_out_append(variant, layout);
        return;
    }
    layout->record = (1 + erases[variant->problem->rule->erase].recorded) * s.matrix + s.factors;
    if (variant->kernel != KERNEL_PREPARE)
        layout->value_groups = (int)divide_up(variant_values(variant), t->block_v);
    layout_constant(layout, "BK", t->block_k);
    layout_constant(layout, "BV", t->block_v);
    layout_constant(layout, "LANES_K", t->lanes_k);
    layout_constant(layout, "KP", s.channels);
    layout_constant(layout, "PAD", t->pad);
    layout_constant(layout, "RP", s.pitch);
    layout_constant(layout, "CP", round_up(t->chunk, t->vec));
    layout_constant(layout, "MATRIX", s.matrix);
    layout_constant(layout, "RECORD", layout->record);
    layout_constant(layout, "ERASE_MATRICES", erases[variant->problem->rule->erase].recorded);
    layout_constant(layout, "TOKEN_PARTS", s.token_parts);
    add_headers(variant, layout);
}

static void describe(struct text *text, const struct variant *variant, const struct layout *layout)
{
    const struct tiles *t = &variant->tiles;

    text_format(text, "group %d, vec %d, chunk %d, key slice %d, value tile %d, key lanes %d, local %zu bytes\n",
                t->group, t->vec, t->chunk, t->block_k, t->block_v, t->lanes_k, layout->local_bytes);
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

/* A group shares a tile. */
static void shared_tiles(const struct device *device, struct variant *variant, int most_group)
{
    struct tiles *tiles = &variant->tiles;
    int recurrent = variant->kernel == KERNEL_RECURRENT;
    /* Two groups a compute unit; but narrower groups of the recurrence cost more than some units that have one. */
    int64_t wanted = 2 * (int64_t)device->info.compute_units * (recurrent ? 9 : 10) / 10;
    int most_columns = !recurrent ? 16 : device->sub_group != 0 ? 32 : 64;
    int two_streams = variant->kernel == KERNEL_SCAN && erases[variant->problem->rule->erase].streams > 1;

    tiles->vec = SHARED_VEC;
    tiles->pad = SHARED_VEC;
    tiles->lanes_k = 1;
    tiles->block_k = plain_slice(variant->problem->desc.key_dim, two_streams ? 16 : 32, SHARED_VEC);
    tiles->block_v = lower(round_up(variant_values(variant), SHARED_VEC), most_columns);
    while (tiles->block_v > 2 * SHARED_VEC && groups(variant, tiles->block_v) < wanted)
        tiles->block_v = round_up(tiles->block_v / 2, SHARED_VEC);
    tiles->group = lower(64, most_group);
    tiles->sub_group = device->sub_group;
}

/* The recurrence: lanes for the value columns, times lanes that share a column so that each keeps few channels. */
static void recurrent_tiles(struct variant *variant, int most_group)
{
    struct tiles *tiles = &variant->tiles;
    int64_t channels = variant->problem->desc.key_dim;
    int columns, kept; /* channels that a work-item keeps of its columns: what its registers hold */

    tiles->chunk = 1;
    if (tiles->group == 1) {
        tiles->block_v = tiles->vec;
        tiles->block_k = round_up(channels, tiles->vec);
        return;
    }
    kept = tiles->sub_group != 0 ? 4 : 16;
    columns = power_below(tiles->block_v / tiles->vec);
    while (tiles->lanes_k * kept < channels && 2 * tiles->lanes_k * columns <= most_group)
        tiles->lanes_k *= 2;
    while (tiles->lanes_k * kept < channels && columns > 1) {
        columns /= 2;
        tiles->lanes_k *= 2;
    }
    tiles->block_v = tiles->vec * columns;
    tiles->group = columns * tiles->lanes_k;
    tiles->block_k = round_up(channels, higher(tiles->lanes_k, tiles->vec));
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
    while (tiles->chunk > 8 && !layout_fits(device, variant, lay_out))
        tiles->chunk /= 2;
    while (tiles->chunk > 8 && tiles->chunk / 2 >= desc->seq_len && !has_cache(desc))
        tiles->chunk /= 2;
}

/* Narrower value tiles, then narrower slices, until local memory holds the variant. */
static clattn_status cut_to_fit(const struct device *device, struct variant *variant)
{
    struct tiles *tiles = &variant->tiles;

    while (!layout_fits(device, variant, lay_out)) {
        int narrows =
            variant->kernel == KERNEL_SCAN || variant->kernel == KERNEL_FLASH || variant->kernel == KERNEL_READ_STATE;
        if (narrows && tiles->block_v > tiles->vec)
            tiles->block_v = round_up(tiles->block_v / 2, tiles->vec);
        else if (variant->kernel != KERNEL_RECURRENT && tiles->block_k > tiles->vec)
            tiles->block_k = round_up(tiles->block_k / 2, tiles->vec);
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
        recurrent_tiles(variant, most_group);
    if (variant->kernel == KERNEL_FLASH)
        flash_tiles(device, variant);
    return cut_to_fit(device, variant);
}

/* ---- Tiles that were chosen ---------------------------------------------------------------------------------------
 */

/* No tile wider than the problem; the recurrence's group. */
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
            (variant->kernel != KERNEL_RECURRENT || state_fits(t)) && t->group >= 1 &&
            (size_t)t->group <= device->info.max_work_group && (t->group == 1 || !device->serial) &&
            layout_fits(device, variant, lay_out);
    return sound ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

const struct family family_plain = {heuristic, complete, lay_out, describe, 0, 0};
