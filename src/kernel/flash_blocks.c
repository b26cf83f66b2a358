/* A list read in register blocks, for devices whose work-items share a tile: by multiply-adds, or with an engine in the
 * variant by its products of floats. */
#include "kernel/plain.h"
#include "solve/blocks/blocks.h"

enum {
    VEC = 4,
    FLOAT = 4,
    ENGINE_TILE = 16,   /* rows, columns and depth of an engine's product, */
    ENGINE_COLUMNS = 4, /* and lanes of a sub-group along its columns */
    ENGINE_PAD = 8,     /* floats after a row that it reads by columns: its lanes meet all banks */
    LEAST_SLICE = 8,
    USUAL_SLICE = 16,
    MOST_COLUMN_LANES = 16,
    MOST_COLUMNS = 128,
    MOST_HELD = 160 /* floats of scores and outputs of a lane */
};

/* ---- Layout -------------------------------------------------------------------------------------------------------
 */

/* What follows from tiles. */
struct shape {
    int row_lanes, column_lanes;   /* the grid of lanes */
    int scores, columns;           /* vectors of queries, and of value columns, of a lane */
    int score_pitch, column_pitch; /* floats */
};

/* Lanes of a sub-group along an engine's rows */
static int least_rows(const struct variant *variant)
{
    return variant->engine != NULL ? variant->engine->lanes / ENGINE_COLUMNS : 1;
}

static struct shape shape_of(const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;
    struct shape s;

    s.column_lanes = higher(lower(t->chunk / VEC, MOST_COLUMN_LANES), 1);
    s.row_lanes = higher(t->group / s.column_lanes, least_rows(variant));
    s.column_lanes = higher(t->group / s.row_lanes, 1);
    s.scores = t->chunk / VEC / s.column_lanes;
    s.columns = t->block_v / VEC / s.column_lanes;
    s.score_pitch = t->chunk + (variant->engine != NULL ? ENGINE_PAD : VEC);
    s.column_pitch = t->block_v + (variant->engine != NULL ? ENGINE_PAD : 0);
    return s;
}

static void add_locals(const struct variant *variant, const struct shape *s, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    int slices = t->chunk * (t->block_k + t->pad) + t->block_k * s->score_pitch;
    int values = t->tokens * s->column_pitch, tops = s->row_lanes * t->chunk;

    if (variant->engine != NULL)
        layout_scratch(layout, variant, variant->engine->exact_scratch);
    layout_local(layout, "LOCAL_TILES", higher(higher(slices, values), tops), FLOAT);
    layout_local(layout, "LOCAL_SCORES", t->chunk * s->score_pitch, FLOAT);
    layout_local(layout, "LOCAL_KEPT", 2 * t->chunk, FLOAT);
    layout_local(layout, "LOCAL_NORMS", 2 * t->chunk, FLOAT);
    layout_local(layout, "LOCAL_BIAS", variant->problem->rule->decay == DECAY_NONE ? 1 : 3 * t->chunk, FLOAT);
}

static void add_constants(const struct variant *variant, const struct shape *s, struct layout *layout)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    const struct tiles *t = &variant->tiles;
    const struct number numbers[] = {
        {"BK", t->block_k},
        {"BT", t->tokens},
        {"BV", t->block_v},
        {"KP", round_up(desc->key_dim, t->block_k)},
        {"MADE", 0},
        {"RP", t->block_k + t->pad},
        {"CP", t->chunk},
        {"SCORE_PITCH", s->score_pitch},
        {"COLUMN_PITCH", s->column_pitch},
        {"KV_GROUP", desc->heads / desc->kv_heads},
        {"ROW_LANES", s->row_lanes},
        {"COL_LANES", s->column_lanes},
        {"KEY_ROWS", t->chunk / s->row_lanes},
        {"QUERY_ROWS", t->chunk / s->row_lanes},
        {"MOST_ROWS", t->chunk / s->row_lanes},
        {"SCORE_WIDE", s->scores},
        {"WIDE", s->columns},
        {"LONG_SUMS", 1},
        {"WIDEST", higher(s->scores, s->columns)},
        /* of words of blocks.clh that this kernel does not use */
        {"SPLIT", 1},
        {"STRETCH", 0},
        {"SEGMENTS", 1},
    };

    layout_constants(layout, numbers, sizeof numbers / sizeof *numbers);
}

static void lay_out(const struct variant *variant, struct layout *layout)
{
    const struct shape s = shape_of(variant);

    layout->step.options = PLAIN_OPTIONS;
    layout->value_groups = (int)divide_up(variant_values(variant), variant->tiles.block_v);
    add_constants(variant, &s, layout);
    add_locals(variant, &s, layout);
    add_block_products(&layout->step, variant->engine);
    plain_list_headers(variant, FILE_blocks_list, layout);
}

static void describe(struct text *text, const struct variant *variant, const struct layout *layout)
{
    const struct tiles *t = &variant->tiles;

    text_format(text, "group %d, chunk %d, key slice %d, value slice %d, value tile %d, local %zu bytes\n", t->group,
                t->chunk, t->block_k, t->tokens, t->block_v, layout->step.local_bytes);
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

/* Whether lanes have whole vectors and rows of everything, and an engine whole tiles. */
static int is_whole(const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;
    const struct shape s = shape_of(variant);
    int slice = variant->engine != NULL ? ENGINE_TILE : LEAST_SLICE;

    return t->group == s.row_lanes * s.column_lanes && t->chunk % (VEC * s.row_lanes) == 0 &&
           t->chunk % (VEC * s.column_lanes) == 0 && t->block_v % (VEC * s.column_lanes) == 0 &&
           s.column_lanes % ENGINE_COLUMNS == 0 && s.row_lanes % least_rows(variant) == 0 && t->block_k % slice == 0 &&
           t->tokens % slice == 0 && t->chunk % t->tokens == 0 &&
           t->chunk * (t->chunk + t->block_v) <= MOST_HELD * t->group;
}

/* As many as a result has blocks of VEC x VEC; usually half of them where a lane holds two: its products then read
 * less. */
static int most_lanes(int chunk)
{
    return lower(chunk / VEC, MOST_COLUMN_LANES) * (chunk / VEC);
}
static int usual_lanes(int chunk)
{
    return lower(most_lanes(chunk), 2 * chunk);
}

static int fits(const struct device *device, const struct variant *variant)
{
    return is_whole(variant) && layout_fits(device, variant, lay_out);
}

/* As many lanes as groups may have; slices that local memory has room for. */
static int cut_chunk(const struct device *device, struct variant *variant, int most_group, int chunk)
{
    struct tiles *t = &variant->tiles;
    *t = (struct tiles){.vec = VEC, .pad = VEC, .lanes_k = 1, .chunk = chunk, .sub_group = device->sub_group};
    t->group = lower(usual_lanes(chunk), most_group);
    t->block_v = lower(round_up(variant_values(variant), VEC * shape_of(variant).column_lanes), MOST_COLUMNS);
    for (t->block_k = t->tokens = USUAL_SLICE; t->tokens >= LEAST_SLICE; t->block_k = t->tokens /= 2)
        if (fits(device, variant))
            return 1;
    return 0;
}

/* Whether fewer queries a group leave fewer compute units idle, or fewer rows of a tile. */
static int is_short(const struct device *device, const struct variant *variant, int chunk)
{
    const clattn_plan_desc *desc = &variant->problem->desc;

    return desc->seq_len <= chunk / 2 ||
           problem_heads(variant->problem) * divide_up(desc->seq_len, chunk) < (int64_t)device->info.compute_units;
}

static clattn_status heuristic(const struct device *device, struct variant *variant, int most_group)
{
    enum { USUAL_CHUNK = 64, LEAST_CHUNK = 32 };
    const clattn_plan_desc *desc = &variant->problem->desc;
    const struct engine *engine = variant->engine;
    int chunk = desc->chunk != 0 ? desc->chunk : USUAL_CHUNK;

    if (chunk < LEAST_CHUNK || desc->kernel != CLATTN_WEIGHTS_SOFTMAX ||
        (engine != NULL && (engine->exact == FILE_nothing || desc->dtype != CLATTN_F32)))
        return CLATTN_UNSUPPORTED;
    if (desc->chunk == 0 && is_short(device, variant, chunk) && cut_chunk(device, variant, most_group, LEAST_CHUNK))
        return CLATTN_SUCCESS;
    while (!cut_chunk(device, variant, most_group, chunk)) {
        if (desc->chunk != 0 || chunk == LEAST_CHUNK)
            return CLATTN_UNSUPPORTED;
        chunk /= 2;
    }
    return CLATTN_SUCCESS;
}

static clattn_status complete(const struct device *device, struct variant *variant)
{
    struct tiles *t = &variant->tiles;
    int columns;

    t->group = lower(t->group, most_lanes(t->chunk));
    columns = VEC * shape_of(variant).column_lanes;
    t->block_v = lower(t->block_v, round_up(variant_values(variant), columns));
    return (size_t)t->group <= device->info.max_work_group && fits(device, variant) ? CLATTN_SUCCESS
                                                                                    : CLATTN_UNSUPPORTED;
}

const struct family family_flash_blocks = {heuristic, complete, lay_out, describe, 0, 1};
