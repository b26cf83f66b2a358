/* Keys that turn on their way to a query, by teams of sub-groups (cl/matrix/path_team.clh): tiles, and what follows
 * from them. */
#include "kernel/flash.h"

/* Blocks of BLOCK keys, a unit of a team. */
enum {
    TILE = MATRIX_TILE,
    BLOCK = 64,
    MOST_TEAMS = 2, /* of a group of queries, or of keys that are carried */
    SPAN_TOKENS = 512,
    SLOTS = 3,      /* of local memory, of path_team_flash.clh and path_team_carry.clh */
    MOST_TILES = 8, /* of channels, and of value columns: what a lane's registers hold */
    PAD = 8,        /* numbers after a staged row: eight rows meet all banks */
    ALIGNED = 8,    /* numbers for a float: rows are whole pieces */
    NUMBER = 2,
    FLOAT = 4
};

/* ---- Layout -------------------------------------------------------------------------------------------------------
 */

struct sizes {
    int channels, values;           /* tiles */
    int query_pitch, output_pitch;  /* numbers */
    int64_t slot, row, whole, tile; /* numbers: of a part of a block; left of a key; of a span; of prepare's tile */
};

/* A single one where it moves its blocks itself: its lanes have enough to hold. */
static int teams_of(const struct variant *variant)
{
    return variant->engine->loaders > 0 ? MOST_TEAMS : 1;
}

static int panels(int tiles)
{
    return (int)divide_up((int64_t)tiles * TILE, PANEL);
}

static struct sizes sizes_of(const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;
    struct sizes s = {.channels = (int)divide_up(variant->problem->desc.key_dim, TILE), .values = t->block_v / TILE};
    int wide = panels(s.channels) > panels(s.values) ? panels(s.channels) : panels(s.values);

    s.query_pitch = s.channels * TILE + PAD;
    s.output_pitch = t->block_v + PAD;
    s.slot = (int64_t)BLOCK * PANEL * wide;
    s.row = 4 * s.channels * TILE + BLOCK + ALIGNED;
    s.whole = (int64_t)round_up(s.channels * TILE, BLOCK) * s.channels * TILE;
    s.tile = (int64_t)TILE * s.query_pitch;
    return s;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* prepare's keys and their w, and F of all tiles but the last, which takes the place of products; X where the last w
 * have been, or after all of it. */
static void prepare_locals(const struct sizes *s, struct layout *layout)
{
    int64_t tiles = BLOCK / TILE, more = most((tiles - 1) * s->tile, 2 * tiles * TILE * TILE * FLOAT / NUMBER);
    int64_t numbers = 2 * tiles * s->tile + more, squares = (tiles - 1) * TILE * (TILE + PAD);
    int within = squares <= s->tile;

    layout_constant(layout, "SQUARE_PITCH", TILE + PAD);
    layout_constant(layout, "SQUARES_AT", within ? (tiles - 1) * s->tile : numbers);
    layout_local(layout, "LOCAL_TILES", within ? numbers : numbers + squares, NUMBER);
    layout_local(layout, "LOCAL_BETA", BLOCK, FLOAT);
    layout_local(layout, "LOCAL_UNITS", 2 * BLOCK, FLOAT);
}

static void path_locals(const struct variant *variant, const struct sizes *s, struct layout *layout)
{
    int64_t outputs = (int64_t)variant->tiles.chunk * s->output_pitch;

    if (variant->kernel == KERNEL_PREPARE_PATH_TEAM)
        prepare_locals(s, layout);
    else if (variant->kernel == KERNEL_CARRY_PATH_TEAM) {
        int64_t last = most((SLOTS - 1) * s->slot, variant->tiles.chunk * (int64_t)(BLOCK + PAD));
        layout_constant(layout, "SQUARE_PITCH", BLOCK + PAD);
        layout_constant(layout, "LAST_SLOT", last);
        layout_local(layout, "LOCAL_TILES", last + s->slot, NUMBER);
    } else
        layout_local(layout, "LOCAL_TILES", most(SLOTS * s->slot, outputs), NUMBER);
}

static void path_headers(const struct variant *variant, struct layout *layout)
{
    layout_header(layout, variant->engine->instructions);
    layout_header(layout, variant->engine->words);
    layout_team(layout, variant, variant->kernel == KERNEL_PREPARE_PATH_TEAM ? 1 : teams_of(variant));
    if (variant->kernel == KERNEL_FLASH_PATH_TEAM) {
        layout_header(layout, variant_bias(variant));
        layout_header(layout, variant->tiles.loaders > 0 ? FILE_path_parts_apart : FILE_path_parts);
        return;
    }
    if (variant->kernel == KERNEL_CARRY_PATH_TEAM)
        layout_copies(layout, variant->engine);
    layout_header(layout, variant->kernel == KERNEL_CARRY_PATH_TEAM ? FILE_path_team_carry : FILE_path_team_prepare);
}

/* The first kernel has a group a block of keys; the second one a chunk's, and some more for the rows of the unit
 * matrix. */
static void path_grid(const struct variant *variant, const struct sizes *s, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    int reading = variant->kernel == KERNEL_FLASH_PATH_TEAM;

    layout->head_groups = (int)(reading ? variant->problem->desc.heads : variant->problem->desc.kv_heads);
    layout->value_groups = reading ? (int)divide_up(variant_values(variant), t->block_v) : t->chunk / BLOCK;
    if (variant->kernel == KERNEL_CARRY_PATH_TEAM)
        layout->value_groups = 1 + (int)divide_up(s->channels * TILE, t->chunk);
}

static void lay_out(const struct variant *variant, struct layout *layout)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    const struct tiles *t = &variant->tiles;
    const struct sizes s = sizes_of(variant);
    const struct number numbers[] = {
        {"TURN_ROW", s.row},
        {"WHOLE", s.whole},
        {"GATES_ARE_DATA", variant_gate(variant) == desc->dtype},
        {"KV_GROUP", desc->heads / desc->kv_heads},
        {"KV_HEADS", desc->kv_heads},
        {"SHARE", 1},
        {"QUERIES", t->chunk},
        {"SPAN", 1},
        {"SPAN_ROWS", t->tokens},
        {"KEYS", BLOCK},
        {"STEP", BLOCK / TILE},
        {"UNIT", BLOCK},
        {"UNITS", 1},
        {"STAGES", SLOTS},
        {"SLOT", s.slot},
        {"BV", t->block_v},
        {"KT", s.channels},
        {"VT", s.values},
        {"QUERY_PITCH", s.query_pitch},
        {"OUTPUT_PITCH", s.output_pitch},
        {"KEY_PITCH", BLOCK * PANEL},
        {"VALUE_PITCH", BLOCK * PANEL},
        {"VALUES_AT", 0},
        {"LIST_LANES", t->loaders > 0 ? t->loaders / 2 * variant->engine->lanes : t->group},
        {"TEAM_ROWS", TEAM * variant->engine->rows},
        {"READERS", 0},
        {"VALUE_TILES", t->value_tiles}};

    layout->step.options = variant->engine->options;
    layout->step.any_group = 1;
    layout_scratch(layout, variant, variant->engine->scratch);
    layout->rows = divide_up(t->chunk * s.row * NUMBER, FLOAT);
    layout->segment = divide_up(s.whole * NUMBER, FLOAT);
    path_locals(variant, &s, layout);
    path_grid(variant, &s, layout);
    layout_constants(layout, numbers, sizeof numbers / sizeof *numbers);
    flash_lay_out_sums(variant, layout);
    path_headers(variant, layout);
}

static void describe(struct text *text, const struct variant *variant, const struct layout *layout)
{
    const struct tiles *t = &variant->tiles;

    text_format(text, "group %d, blocks of %d keys, span of %d keys", t->group, BLOCK, t->tokens);
    if (variant->kernel == KERNEL_FLASH_PATH_TEAM)
        text_format(text, ", chunk %d, value tile %d", t->chunk, t->block_v);
    text_format(text, ", local %zu bytes\n", layout->step.local_bytes);
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

/* As the chunk and the span do not depend on lengths, packed sequences have the bits that they have alone. */
static clattn_status complete(const struct device *device, struct variant *variant)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    int reading = variant->kernel == KERNEL_FLASH_PATH_TEAM, values = round_up(desc->value_dim, TILE);
    const struct sizes s = sizes_of(variant);
    struct tiles *t = &variant->tiles;
    int sound;

    t->chunk = teams_of(variant) * BLOCK;
    t->keys = BLOCK;
    t->block_v = t->block_v < values ? t->block_v : values;
    t->loaders = reading && variant->engine->loaders > 0 ? MOVERS : 0;
    t->value_tiles = (variant->kernel == KERNEL_PREPARE_PATH_TEAM ? 1 : teams_of(variant)) * TEAM;
    t->group = (t->value_tiles + t->loaders) * variant->engine->lanes;
    sound = desc->key_dim <= MOST_TILES * TILE && t->block_v <= MOST_TILES * TILE &&
            t->tokens >= most(t->chunk, s.channels * TILE) && t->tokens % t->chunk == 0 &&
            (size_t)t->group <= device->info.max_work_group && layout_fits(device, variant, lay_out);
    return sound ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

static clattn_status heuristic(const struct device *device, struct variant *variant, int most_group)
{
    const clattn_plan_desc *desc = &variant->problem->desc;

    (void)most_group; /* the words decide it */
    variant->tiles = (struct tiles){.vec = 4,
                                    .sub_group = device->sub_group,
                                    .span = 1,
                                    .step = BLOCK / TILE,
                                    .share = 1,
                                    .tokens = SPAN_TOKENS,
                                    .block_v = MOST_TILES * TILE};
    if (desc->dtype == CLATTN_F32 || desc->kernel != CLATTN_WEIGHTS_SOFTMAX || desc->chunk != 0 ||
        variant->engine->rows != TILE || desc->flags & (CLATTN_WITH_KV_LENS | CLATTN_CU_SEQLENS_KV | CLATTN_QK_L2NORM))
        return CLATTN_UNSUPPORTED;
    return complete(device, variant);
}

const struct family family_path_team = {heuristic, complete, lay_out, describe, 1, 0};
