/* Keys that turn on their way to a query, on a matrix engine: tiles by rule of thumb, and what follows from them. */
#include "kernel/flash.h"

/* Crossing a span costs a product with a matrix of key_dim rows, walking it two with each tile's. As the chunk it does
 * not depend on lengths: packed sequences have the bits that they have alone. */
enum {
    TILE = MATRIX_TILE,
    SPAN_TOKENS = 512,
    SPAN_CHUNKS = 4,    /* where the chunk is asked for */
    PAD = 8,            /* numbers after a staged row: eight rows meet all banks */
    X_PITCH = TILE + 8, /* of path_turn.clh */
    NUMBER = 2,
    FLOAT = 4,
    LEAST_LANES = 32, /* of a sub-group that has many rows */
    MOST_HELD = 192   /* registers of a lane for what it sums, the queries in floats, and as operands */
};

/* ---- Layout -------------------------------------------------------------------------------------------------------
 */

struct sizes {
    int channels, values;       /* tiles */
    int parts, walked;          /* of w and F, the second of what the first lacks; keys that are walked at once */
    int key_pitch, value_pitch; /* numbers */
    int64_t stage;              /* numbers */
};

static struct sizes sizes_of(const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;
    struct sizes s = {.channels = (int)divide_up(variant->problem->desc.key_dim, TILE), .values = t->block_v / TILE};

    s.parts = variant->problem->desc.dtype == CLATTN_BF16 ? 2 : 1;
    s.walked = s.parts > 1 ? TILE : t->keys;

    s.key_pitch = s.channels * TILE + PAD;
    s.value_pitch = t->block_v + PAD;
    s.stage = t->keys * (int64_t)(s.key_pitch + s.value_pitch);
    return s;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t walk_numbers(const struct sizes *s)
{
    return s->walked * (int64_t)(2 * s->parts * s->key_pitch + X_PITCH);
}

/* Numbers in local memory: blocks on their way, one that is walked, a span's matrix, queries and outputs in turn. */
static int64_t flash_numbers(const struct tiles *t, const struct sizes *s)
{
    int64_t whole = (int64_t)s->channels * TILE * s->key_pitch;
    int64_t rows = t->chunk * most(s->key_pitch, s->value_pitch);

    return most(most(t->stages * s->stage, s->stage + walk_numbers(s)), most(whole, rows));
}

static void path_locals(const struct variant *variant, const struct sizes *s, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    int64_t rows = (int64_t)t->chunk * s->key_pitch;

    if (variant->kernel == KERNEL_FLASH_PATH_MATRIX) {
        layout_local(layout, "LOCAL_TILES", flash_numbers(t, s), NUMBER);
        layout_local(layout, "LOCAL_NORMS", 1, FLOAT);
        if (problem_decay(variant->problem) != DECAY_NONE)
            flash_bias_locals(t, TILE, layout);
        return;
    }
    if (variant->kernel == KERNEL_CARRY_PATH_MATRIX)
        layout_local(layout, "LOCAL_TILES", most(rows, walk_numbers(s)), NUMBER);
    else {
        layout_local(layout, "LOCAL_TILES", 2 * rows, NUMBER);
        layout_local(layout, "LOCAL_SQUARES", 2 * t->chunk * TILE, FLOAT);
        layout_local(layout, "LOCAL_BETA", t->chunk, FLOAT);
    }
}

static void path_headers(const struct variant *variant, struct layout *layout)
{
    layout_header(layout, variant->engine->instructions);
    layout_header(layout, variant->engine->words);
    if (variant->kernel == KERNEL_FLASH_PATH_MATRIX) {
        layout_header(layout, variant_bias(variant));
        layout_header(layout, FILE_flash_queries_held);
        layout_header(layout, FILE_flash_products);
        layout_header(layout, FILE_path_flash);
    } else
        layout_header(layout, variant->kernel == KERNEL_CARRY_PATH_MATRIX ? FILE_path_carry : FILE_path_prepare);
}

/* The first two kernels have a group a block of keys; the second some more for the rows of the unit matrix. */
static void path_grid(const struct variant *variant, const struct sizes *s, struct layout *layout)
{
    if (variant->kernel == KERNEL_FLASH_PATH_MATRIX)
        layout->value_groups = (int)divide_up(variant_values(variant), variant->tiles.block_v);
    else
        layout->head_groups = (int)variant->problem->desc.kv_heads;
    if (variant->kernel == KERNEL_CARRY_PATH_MATRIX)
        layout->value_groups = 1 + (int)divide_up(s->channels * TILE, variant->tiles.chunk);
}

static void lay_out(const struct variant *variant, struct layout *layout)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    const struct tiles *t = &variant->tiles;
    const struct sizes s = sizes_of(variant);
    int64_t row = (int64_t)((2 * s.parts + 1) * s.channels + 1) * TILE;
    int64_t whole = (int64_t)s.channels * TILE * s.channels * TILE;
    const struct number numbers[] = {{"TURN_ROW", row},
                                     {"WHOLE", whole},
                                     {"KV_GROUP", desc->heads / desc->kv_heads},
                                     {"KV_HEADS", desc->kv_heads},
                                     {"SHARE", 1},
                                     {"QUERIES", t->chunk},
                                     {"SPAN", 1},
                                     {"SPAN_ROWS", t->tokens},
                                     {"KEYS", t->keys},
                                     {"STEP", 1},
                                     {"UNIT", TILE},
                                     {"UNITS", t->keys / TILE},
                                     {"STAGES", t->stages},
                                     {"STAGE", s.stage},
                                     {"PARTS", s.parts},
                                     {"WALK_KEYS", s.walked},
                                     {"BV", t->block_v},
                                     {"KT", s.channels},
                                     {"VT", s.values},
                                     {"QUERY_PITCH", s.key_pitch},
                                     {"OUTPUT_PITCH", s.value_pitch},
                                     {"LIST_LANES", t->group},
                                     {"KEY_PITCH", s.key_pitch},
                                     {"VALUE_PITCH", s.value_pitch},
                                     {"VALUES_AT", (int64_t)t->keys * s.key_pitch},
                                     {"QUERY_TILES", s.channels},
                                     {"READERS", 0},
                                     {"VALUE_TILES", t->value_tiles}};

    layout->step.options = variant->engine->options;
    layout->step.any_group = 1;
    layout_scratch(layout, variant, variant->engine->scratch);
    layout->rows = divide_up(t->chunk * row * NUMBER, FLOAT);
    layout->segment = divide_up(whole * NUMBER, FLOAT);
    path_locals(variant, &s, layout);
    path_grid(variant, &s, layout);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        layout_constant(layout, numbers[i].name, numbers[i].value);
    path_headers(variant, layout);
}

static void describe(struct text *text, const struct variant *variant, const struct layout *layout)
{
    const struct tiles *t = &variant->tiles;

    text_format(text, "group %d, chunk %d, span of %d keys", t->group, t->chunk, t->tokens);
    if (variant->kernel == KERNEL_FLASH_PATH_MATRIX)
        text_format(text, ", keys %d, value tile %d, stages %d", t->keys, t->block_v, t->stages);
    text_format(text, ", local %zu bytes\n", layout->step.local_bytes);
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

static int held(const struct variant *variant)
{
    const struct sizes s = sizes_of(variant);
    int tile = TILE * variant->engine->rows / variant->engine->lanes;

    return (s.values + s.channels) * tile + s.channels * tile / 2;
}

/* Sub-groups for the chunk; whether all kernels fit with it. */
static int fits(const struct device *device, struct variant *variant)
{
    const enum kernel_id kernel = variant->kernel;
    struct tiles *t = &variant->tiles;
    int fit;

    t->value_tiles = t->chunk / variant->engine->rows;
    t->group = t->value_tiles * variant->engine->lanes;
    fit = t->chunk % TILE == 0 && t->tokens % t->chunk == 0 && t->chunk % t->keys == 0 && t->keys % TILE == 0 &&
          (size_t)t->group <= device->info.max_work_group;
    for (enum kernel_id id = KERNEL_PREPARE_PATH_MATRIX; fit && id <= KERNEL_FLASH_PATH_MATRIX; id++) {
        variant->kernel = id;
        fit = layout_fits(device, variant, lay_out);
    }
    variant->kernel = kernel;
    return fit;
}

/* Fewer keys and stages, then shorter chunks, until local memory holds them. */
static clattn_status cut(const struct device *device, struct variant *variant)
{
    static const struct {
        int keys, stages;
    } ways[] = {{32, 2}, {16, 2}, {16, 1}};
    struct tiles *t = &variant->tiles;

    for (;; t->chunk /= 2) {
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            t->keys = ways[i].keys;
            t->stages = ways[i].stages;
            if (fits(device, variant))
                return CLATTN_SUCCESS;
        }
        if (variant->problem->desc.chunk != 0 || t->chunk <= TILE)
            return CLATTN_UNSUPPORTED;
    }
}

static clattn_status heuristic(const struct device *device, struct variant *variant, int most_group)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    struct tiles *t = &variant->tiles;
    int subs = variant->engine->lanes < LEAST_LANES ? 8 : 4;

    (void)most_group; /* the words decide it */
    *t = (struct tiles){.vec = 4, .sub_group = device->sub_group, .span = 1, .step = 1, .share = 1};
    if (desc->dtype == CLATTN_F32 || desc->kernel != CLATTN_WEIGHTS_SOFTMAX ||
        desc->flags & (CLATTN_WITH_KV_LENS | CLATTN_CU_SEQLENS_KV | CLATTN_QK_L2NORM))
        return CLATTN_UNSUPPORTED;
    t->chunk = desc->chunk != 0 ? desc->chunk : subs * variant->engine->rows;
    t->tokens = desc->chunk != 0 ? SPAN_CHUNKS * desc->chunk : SPAN_TOKENS;
    t->block_v = round_up(desc->value_dim, TILE);
    while (t->block_v > TILE && held(variant) > MOST_HELD)
        t->block_v = round_up(divide_up(t->block_v, 2), TILE);
    return held(variant) <= MOST_HELD ? cut(device, variant) : CLATTN_UNSUPPORTED;
}

static clattn_status complete(const struct device *device, struct variant *variant)
{
    struct tiles *t = &variant->tiles;
    int values = round_up(variant->problem->desc.value_dim, TILE);

    t->block_v = t->block_v < values ? t->block_v : values;
    return fits(device, variant) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

const struct family family_path_matrix = {heuristic, complete, lay_out, describe, 1, 0};
