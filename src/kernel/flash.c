/* A list read on a matrix engine: tiles by rule of thumb, and what follows from them. */
#include "kernel/flash.h"

enum {
    TILE = MATRIX_TILE,
    PAD = 8,         /* numbers after a staged row: eight rows meet all banks */
    MOST_TEAMS = 2,  /* of a group */
    PIECES = 2,      /* of eight numbers, of a row of a tile */
    MOST_PIECES = 4, /* that a lane copies of the keys of a block */
    NUMBER = 2,
    FLOAT = 4,
    LEAST_LANES = 32,   /* of a sub-group that has many rows: where there are fewer a group has more sub-groups */
    MOST_SUMS = 128,    /* registers of a lane for what it sums, */
    MOST_HELD = 192,    /* and with the queries, where there are many, */
    MOST_FEW_HELD = 128 /* and where there are few */
};

#define FILE_flash_nothing FILE_nothing
static const enum embedded_file bias_headers[] = {
#define DECAY(value, name, dims, list_dims, plain, matrix, bias, ...) FILE_flash_##bias,
#include "op/words.def"
};

static int in_teams(const struct variant *variant)
{
    return variant->kernel == KERNEL_FLASH_TEAM || variant->kernel == KERNEL_FLASH_PATH_TEAM;
}

enum embedded_file variant_bias(const struct variant *variant)
{
    const struct problem *problem = variant->problem;

    if (problem->rule->head_decay != NULL)
        return FILE_flash_bias_fixed;
    return in_teams(variant) && problem_tokens_decay(problem) ? FILE_flash_bias_summed
                                                              : bias_headers[problem_decay(problem)];
}

/* ---- Layout -------------------------------------------------------------------------------------------------------
 */

/* Sub-groups that multiply together */
static int team_of(const struct variant *variant)
{
    return in_teams(variant) ? TEAM : 1;
}

struct shape {
    int channels, values;          /* tiles of channels, and of a group's value columns */
    int rows;                      /* of a group */
    int unit;                      /* keys */
    int query_pitch, output_pitch; /* numbers: of rows, */
    int key_pitch, value_pitch;    /* and of what a block has: of rows or panels */
    int64_t queries;               /* numbers of local memory; a team has none of it */
    int64_t values_at, stage;      /* numbers; a stage is a team's slot, of keys or values */
    int held;                      /* whether queries are in registers */
    int biased;                    /* whether what tokens decay by is summed in local memory */
};

/* Registers of a lane for a tile of sums */
static int tile_registers(const struct variant *variant)
{
    return TILE * variant->engine->rows / variant->engine->lanes;
}

static int sums(const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;

    return t->span * t->block_v / TILE * tile_registers(variant);
}

/* Of so many tiles */
static int panels(int tiles)
{
    return (int)divide_up((int64_t)tiles * TILE, PANEL);
}

/* Rows of what stands in local memory, and the places of keys and values */
static void place_blocks(const struct variant *variant, struct shape *s)
{
    const struct tiles *t = &variant->tiles;

    s->query_pitch = s->channels * TILE + PAD;
    s->output_pitch = t->block_v + PAD;
    s->key_pitch = in_teams(variant) ? t->keys * PANEL : s->query_pitch;
    s->value_pitch = in_teams(variant) ? t->keys * PANEL : s->output_pitch;
    s->values_at = (int64_t)s->key_pitch * t->keys;
    s->stage = s->values_at + (int64_t)s->value_pitch * t->keys;
    if (in_teams(variant))
        s->stage = s->values_at = (int64_t)s->key_pitch * higher(panels(s->channels), panels(s->values));
}

static struct shape shape_of(const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;
    int few = variant->engine->chunk == TILE;
    struct shape s = {.channels = (int)divide_up(variant->problem->desc.key_dim, TILE),
                      .values = t->block_v / TILE,
                      .rows = t->value_tiles * t->span * variant->engine->rows,
                      .unit = t->step * TILE,
                      .biased = variant_bias(variant) == FILE_flash_bias_scalar};

    place_blocks(variant, &s);
    s.queries = in_teams(variant) ? 0 : (int64_t)s.rows * s.query_pitch;
    s.held = in_teams(variant) ||
             sums(variant) + t->span * s.channels * tile_registers(variant) / 2 <= (few ? MOST_FEW_HELD : MOST_HELD);
    return s;
}

void flash_bias_locals(const struct tiles *t, int unit, struct layout *layout)
{
    layout_local(layout, "LOCAL_BIAS_LOGS", 3 * t->keys, FLOAT);
    layout_local(layout, "LOCAL_BIAS_SUMS", 2 * (t->keys + 4 * t->keys / unit), FLOAT);
}

/* Floats of the norms of a group's queries and of so many blocks of keys; 0 where there are none */
static int norms(const struct variant *variant, const struct shape *s, int blocks)
{
    return variant->problem->desc.flags & CLATTN_QK_L2NORM ? s->rows + blocks * variant->tiles.keys : 0;
}

/* Queries, where they come by way of local memory, and outputs stand in the place of blocks, but for queries that are
 * not in registers. */
static int64_t most_tiles(const struct tiles *t, const struct shape *s)
{
    int64_t outputs = (int64_t)s->rows * s->output_pitch, tiles = t->stages * s->stage + (s->held ? 0 : s->queries);

    if (s->held && tiles < s->queries)
        tiles = s->queries;
    return tiles < outputs ? outputs : tiles;
}

static void flash_locals(const struct variant *variant, const struct shape *s, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    int64_t tiles = most_tiles(t, s);

    if (in_teams(variant)) { /* which may want all that there is */
        int after = norms(variant, s, 2);
        layout_constant(layout, "SLOT", s->stage);
        layout_constant(layout, "NORMS_AT", after > 0 ? tiles : 0);
        layout_local(layout, "LOCAL_TILES", tiles + after * FLOAT / NUMBER, NUMBER);
    } else {
        layout_constant(layout, "QUERIES_AT", s->held ? 0 : t->stages * s->stage);
        layout_local(layout, "LOCAL_TILES", tiles, NUMBER);
        layout_local(layout, "LOCAL_NORMS", higher(norms(variant, s, 1), 1), FLOAT);
    }
    if (s->biased)
        flash_bias_locals(t, s->unit, layout);
}

/* What may be given of where keys lie, as cl/words/cache.clh has it: of nothing else the kernel keeps registers. */
static int cached(const clattn_plan_desc *desc)
{
    enum { GIVEN_CU_KV = 4, GIVEN_LENS = 8 };

    return (desc->flags & CLATTN_CU_SEQLENS_KV ? GIVEN_CU_KV : 0) |
           (desc->flags & CLATTN_WITH_KV_LENS ? GIVEN_LENS : 0);
}

/* What flash_sums leaves of a unit: sums, sums in tiles and logs of its keys, and one sum of all. Pairs are aligned. */
void flash_lay_out_sums(const struct variant *variant, struct layout *layout)
{
    enum { ALIGNED = 4 };
    int keys = variant->tiles.keys;

    layout->record = 3 * keys + ALIGNED;
    layout_constant(layout, "UNIT_IN_TILES", keys);
    layout_constant(layout, "UNIT_LOGS", 2 * keys);
    layout_constant(layout, "UNIT_TOTAL", 3 * keys);
    layout_constant(layout, "UNIT_FLOATS", layout->record);
    layout_constant(layout, "HEADS", variant->problem->desc.heads);
}

void flash_lay_out(const struct variant *variant, struct layout *layout)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    const struct tiles *t = &variant->tiles;
    const struct shape s = shape_of(variant);

    layout->step.options = variant->engine->options;
    layout->step.any_group = 1; /* as for the other kernels on matrix engines */
    layout_scratch(layout, variant, variant->engine->scratch);
    layout->value_groups = (int)divide_up(variant_values(variant), t->block_v);
    layout->head_groups = (int)desc->heads / t->share;
    flash_locals(variant, &s, layout);
    layout_constant(layout, "KV_GROUP", desc->heads / desc->kv_heads);
    layout_constant(layout, "CACHED", cached(desc));
    layout_constant(layout, "SHARE", t->share);
    layout_constant(layout, "QUERIES", s.rows);
    layout_constant(layout, "SPAN", t->span);
    layout_constant(layout, "KEYS", t->keys);
    layout_constant(layout, "STEP", t->step);
    layout_constant(layout, "UNIT", s.unit);
    layout_constant(layout, "UNITS", t->keys / s.unit);
    layout_constant(layout, "STAGES", t->stages);
    layout_constant(layout, "STAGE", s.stage);
    layout_constant(layout, "BV", t->block_v);
    layout_constant(layout, "KT", s.channels);
    layout_constant(layout, "VT", s.values);
    layout_constant(layout, "QUERY_PITCH", s.query_pitch);
    layout_constant(layout, "OUTPUT_PITCH", s.output_pitch);
    layout_constant(layout, "KEY_PITCH", s.key_pitch);
    layout_constant(layout, "VALUE_PITCH", s.value_pitch);
    layout_constant(layout, "VALUES_AT", s.values_at);
    layout_constant(layout, "LIST_LANES", t->loaders > 0 ? t->loaders / 2 * variant->engine->lanes : t->group);
    layout_constant(layout, "TEAM_ROWS", team_of(variant) * t->span * variant->engine->rows);
    layout_constant(layout, "QUERY_TILES", s.held ? t->span * s.channels : 1);
    layout_constant(layout, "READERS", 0);
    layout_constant(layout, "VALUE_TILES", t->value_tiles);
    layout_header(layout, variant->engine->instructions);
    layout_header(layout, variant->engine->words);
    if (in_teams(variant)) {
        flash_lay_out_sums(variant, layout);
        layout_team(layout, variant, t->value_tiles / TEAM);
    }
    layout_header(layout, variant_bias(variant));
    if (in_teams(variant)) {
        layout_header(layout, FILE_flash_queries_far);
        layout_header(layout, FILE_flash_products_team);
        layout_header(layout, t->loaders > 0 ? FILE_flash_moved_apart : FILE_flash_moved);
    } else {
        layout_header(layout, s.held ? FILE_flash_queries_held : FILE_flash_queries_staged);
        layout_header(layout, FILE_flash_products);
    }
    layout_header(layout, FILE_flash_softmax);
}

static void describe(struct text *text, const struct variant *variant, const struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    const struct shape s = shape_of(variant);

    text_format(text,
                "group %d, %d rows: chunk %d, heads %d, by %d sub-groups, queries %s, keys %d in steps of %d, "
                "value tile %d, stages %d, local %zu bytes\n",
                t->group, s.rows, t->chunk, t->share, t->value_tiles, s.held ? "held" : "staged", t->keys, s.unit,
                t->block_v, t->stages, layout->step.local_bytes);
}

/* ---- Tiles by rule of thumb ---------------------------------------------------------------------------------------
 */

static int fits(const struct device *device, const struct variant *variant)
{
    return layout_fits(device, variant, flash_lay_out);
}

/* Tokens of a sequence; of packed ones the usual length is what there is to go by. */
static int64_t tokens_of(const struct variant *variant)
{
    const clattn_plan_desc *desc = &variant->problem->desc;

    return desc->flags & CLATTN_CU_SEQLENS ? divide_up(desc->seq_len, desc->sequences) : desc->seq_len;
}

/* Heads of a key head that share a group where the tokens are too few for one: their number divides that of all. A gate
 * is each head's own. */
static int share_of(const struct variant *variant, int rows)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    int heads = (int)(desc->heads / desc->kv_heads), share = 1;

    if (problem_decay(variant->problem) != DECAY_NONE || desc->chunk != 0)
        return 1;
    for (int n = 2; n <= heads && n * tokens_of(variant) <= rows; n++)
        if (heads % n == 0)
            share = n;
    return share;
}

static int rows_of(const struct variant *variant)
{
    return variant->tiles.span * variant->engine->rows;
}

/* Sub-groups for the chunk, or the chunk of the sub-groups */
static void cut_rows(struct variant *variant)
{
    struct tiles *t = &variant->tiles;
    int asked = variant->problem->desc.chunk;

    t->chunk = asked != 0 ? asked : t->chunk;
    if (t->chunk != 0)
        t->value_tiles = round_up(divide_up((int64_t)t->chunk * t->share, rows_of(variant)), team_of(variant));
    else
        t->chunk = t->value_tiles * rows_of(variant) / t->share;
    t->group = variant->engine->lanes * (t->value_tiles + t->loaders);
}

/* As many rows as the tokens want; fewer where groups would be too few for the device. */
static void choose_rows(const struct device *device, struct variant *variant)
{
    struct tiles *t = &variant->tiles;
    int64_t tokens = tokens_of(variant);

    t->value_tiles = in_teams(variant) ? MOST_TEAMS * TEAM : variant->engine->lanes < LEAST_LANES ? 8 : 4;
    t->share = share_of(variant, t->value_tiles * rows_of(variant));
    while (t->value_tiles > team_of(variant) && t->value_tiles / 2 * rows_of(variant) >= tokens * t->share)
        t->value_tiles /= 2;
    while (t->value_tiles > higher(2, team_of(variant)) && t->value_tiles / 2 * rows_of(variant) >= t->share &&
           problem_heads(variant->problem) / t->share *
                   divide_up(tokens * t->share, t->value_tiles * rows_of(variant)) <
               (int64_t)device->info.compute_units)
        t->value_tiles /= 2;
    t->chunk = 0;
    cut_rows(variant);
}

/* Whether a lane copies few pieces of a block, which it holds in registers on their way, where those are few. */
static int few_pieces(const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;

    return variant->engine->chunk > TILE || t->keys == TILE ||
           t->keys * shape_of(variant).channels * PIECES <= MOST_PIECES * t->group;
}

int variant_cut_keys(const struct device *device, struct variant *variant)
{
    static const struct way {
        int keys, stages;
    } ways[] = {{64, 2}, {32, 2}, {16, 2}, {32, 1}, {16, 1}, {0, 0}},
      of_teams[] = {{64, 3}, {64, 2}, {32, 3}, {32, 2}, {0, 0}};
    struct tiles *t = &variant->tiles;

    for (const struct way *way = in_teams(variant) ? of_teams : ways; way->keys != 0; way++) {
        t->keys = way->keys;
        t->stages = way->stages;
        if (in_teams(variant)) /* a block is a unit */
            t->step = t->keys / TILE;
        if (few_pieces(variant) && fits(device, variant))
            return 1;
    }
    return 0;
}

void variant_cut_values(struct variant *variant)
{
    struct tiles *t = &variant->tiles;

    t->block_v = round_up(variant_values(variant), TILE);
    while (t->span > 1 && sums(variant) > MOST_SUMS)
        t->span /= 2;
    while (sums(variant) > MOST_SUMS)
        t->block_v = round_up(divide_up(t->block_v, 2), TILE);
}

/* A team's unit of keys is of one chunk, where that is asked for. */
static int whole_units(const struct variant *variant)
{
    return !in_teams(variant) || variant->problem->desc.chunk % variant->tiles.keys == 0;
}

static clattn_status heuristic(const struct device *device, struct variant *variant, int most_group)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    struct tiles *t = &variant->tiles;

    (void)most_group; /* the words decide it */
    *t = (struct tiles){
        .vec = 4, .sub_group = device->sub_group, .span = variant->engine->span, .step = 1, .share = 1, .keys = TILE};
    if (in_teams(variant)) {
        t->span = 1;
        t->loaders = variant->engine->loaders > 0 ? MOVERS : 0;
    }
    if (desc->dtype == CLATTN_F32 || desc->kernel != CLATTN_WEIGHTS_SOFTMAX)
        return CLATTN_UNSUPPORTED;
    if (desc->chunk != 0 && desc->chunk % (t->span * variant->engine->rows) != 0)
        t->span = 1;
    variant_cut_values(variant);
    choose_rows(device, variant);
    if (desc->chunk % variant->engine->rows != 0 || (size_t)t->group > device->info.max_work_group)
        return CLATTN_UNSUPPORTED;
    while (!variant_cut_keys(device, variant)) {
        if (desc->chunk != 0 || t->value_tiles == team_of(variant))
            return CLATTN_UNSUPPORTED;
        t->value_tiles /= 2;
        t->chunk = 0;
        cut_rows(variant);
    }
    return whole_units(variant) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

/* ---- Tiles that were chosen ---------------------------------------------------------------------------------------
 */

static clattn_status complete(const struct device *device, struct variant *variant)
{
    struct tiles *t = &variant->tiles;

    t->block_v =
        t->block_v < round_up(variant_values(variant), TILE) ? t->block_v : round_up(variant_values(variant), TILE);
    cut_rows(variant);
    if (in_teams(variant))
        t->keys = t->step * TILE;
    if (in_teams(variant) && t->value_tiles > MOST_TEAMS * TEAM) /* signals are few */
        return CLATTN_UNSUPPORTED;
    return whole_units(variant) && t->keys % (t->step * TILE) == 0 &&
                   (t->chunk * t->share) % variant->engine->rows == 0 &&
                   (size_t)t->group <= device->info.max_work_group && fits(device, variant)
               ? CLATTN_SUCCESS
               : CLATTN_UNSUPPORTED;
}

const struct family family_flash = {heuristic, complete, flash_lay_out, describe, 1, 0};

/* ---- Sums of decays, ahead of a team's kernel: the units that it has ------------------------------------------------
 */

static void sums_lay_out(const struct variant *variant, struct layout *layout)
{
    const clattn_plan_desc *desc = &variant->problem->desc;

    layout->step.options = variant->engine->options;
    layout->head_groups = (int)desc->heads;
    flash_lay_out_sums(variant, layout);
    layout_local(layout, "LOCAL_LOGS", variant->tiles.keys, FLOAT);
    layout_constant(layout, "UNIT", variant->tiles.keys);
    layout_constant(layout, "KV_GROUP", desc->heads / desc->kv_heads);
    layout_constant(layout, "CACHED", cached(desc));
}

static void sums_describe(struct text *text, const struct variant *variant, const struct layout *layout)
{
    text_format(text, "group %d, units of %d keys, local %zu bytes\n", variant->tiles.group, variant->tiles.keys,
                layout->step.local_bytes);
}

static clattn_status sums_complete(const struct device *device, struct variant *variant)
{
    struct tiles *t = &variant->tiles;

    t->keys = t->chunk = t->step * TILE;
    t->group = lower(t->keys, (int)device->info.max_work_group);
    return CLATTN_SUCCESS;
}

static clattn_status sums_heuristic(const struct device *device, struct variant *variant, int most_group)
{
    clattn_status status;

    variant->kernel = KERNEL_FLASH_TEAM;
    status = heuristic(device, variant, most_group);
    variant->kernel = KERNEL_FLASH_SUMS;
    return status == CLATTN_SUCCESS ? sums_complete(device, variant) : status;
}

const struct family family_flash_sums = {sums_heuristic, sums_complete, sums_lay_out, sums_describe, 1, 0};
