/* The kernel of states whose elements have a decay each: tiles by rule of thumb, and what follows from them. */
#include "kernel/plain.h"

#include "device/engine.h"

enum { FLOAT = 4, SERIAL_VEC = 16, SHARED_VEC = 4 };

/* ---- Layout -------------------------------------------------------------------------------------------------------
 */

static const enum embedded_file fade_headers[] = {
#define DECAY(value, name, dims, list_dims, plain, matrix, bias, blocks, storage, numbers, second, kind, header)       \
    FILE_##header,
#include "op/words.def"
};
static const int has_step[] = {
#define WRITE(value, row, role, strength, plain, matrix, made, step) step,
#include "op/words.def"
};

static int has(const struct variant *variant, uint64_t flag)
{
    return (variant->problem->desc.flags & flag) != 0;
}

/* Channels of all lanes: whole vectors of keys, and whole pairs in each lane. */
static int channels_of(const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;
    int unit = t->lanes_k * (1 + has(variant, CLATTN_COMPLEX));

    return round_up(variant->problem->desc.key_dim,
                    rule_has_keys(variant->problem->rule) ? higher(unit, t->vec) : unit);
}

/* Vectors of a token's factors that a lane has. */
static int fades_of(const struct variant *variant)
{
    return channels_of(variant) / variant->tiles.lanes_k * (1 + (variant->problem->rule->decay == DECAY_COMPLEX));
}

/* Tokens of a tile. */
static int tile_of(const struct variant *variant)
{
    return variant->tiles.spans * variant->tiles.tokens;
}

static void add_constants(const struct variant *variant, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    const struct number numbers[] = {
        {"BV", t->block_v},
        {"LANES_K", t->lanes_k},
        {"KP", channels_of(variant)},
        {"KL", channels_of(variant) / t->lanes_k},
        {"FADES", fades_of(variant)},
        {"SPANS", t->spans},
        {"TOKENS", t->tokens},
        {"TILE", tile_of(variant)},
        {"HELD", divide_up((int64_t)tile_of(variant) * channels_of(variant), (int64_t)t->vec * t->group)},
        {"OUTS", divide_up(t->tokens, t->lanes_k)},
        {"SPAN_LANES", t->block_v / t->vec * t->lanes_k},
        {"HAS_KEYS", rule_has_keys(variant->problem->rule)},
        {"HAS_STEP", has_step[variant->problem->rule->write]},
        {"HAS_BIAS", has(variant, CLATTN_WITH_DT_BIAS)},
        {"HAS_SOFTPLUS", has(variant, CLATTN_SOFTPLUS)},
        {"HAS_D", has(variant, CLATTN_WITH_D)},
        {"HAS_Z", has(variant, CLATTN_WITH_Z)},
        {"PAIRS", has(variant, CLATTN_COMPLEX)},
    };

    layout_constants(layout, numbers, sizeof numbers / sizeof *numbers);
}

static void lay_out(const struct variant *variant, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    const struct rule *rule = variant->problem->rule;
    int channels = channels_of(variant), tile = tile_of(variant);
    int rows = rule_has_keys(rule) ? tile * channels : 1, parts = t->lanes_k * tile * t->block_v;
    int joints = t->spans > 1 ? (fades_of(variant) + channels / t->lanes_k) * t->group * t->vec : 1;

    layout->step.options = PLAIN_OPTIONS;
    layout->value_groups = (int)divide_up(variant_values(variant), t->block_v);
    add_constants(variant, layout);
    layout_locals(layout, "LOCAL_ROWS", 2, rows, FLOAT);
    layout_local(layout, "LOCAL_JOINTS", higher(joints, parts), FLOAT);
    layout_header(layout, fade_headers[rule->decay]);
    layout_header(layout, FILE_output_plain);
}

static void describe(struct text *text, const struct variant *variant, const struct layout *layout)
{
    const struct tiles *t = &variant->tiles;

    text_format(text, "group %d, vec %d, %d spans of %d tokens, value tile %d, key lanes %d, local %zu bytes\n",
                t->group, t->vec, t->spans, t->tokens, t->block_v, t->lanes_k, layout->step.local_bytes);
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

static void follow(struct variant *variant)
{
    struct tiles *t = &variant->tiles;

    t->chunk = 1;
    t->group = t->block_v / t->vec * t->lanes_k * t->spans;
}

/* A lane for some columns and few channels; as few columns as leave every compute unit some groups, and as many
 * stretches as the group then has room for. Neither depends on lengths, but for a few tokens: packed sequences have the
 * bits that they have alone. */
static void shared_tiles(const struct device *device, struct variant *variant, int most_group)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    int keys = rule_has_keys(variant->problem->rule), few = desc->seq_len <= 8;
    int kept = !keys ? 1 : device->sub_group != 0 ? 2 : 4; /* channels of a lane */
    int least = keys ? 16 : 32;                            /* columns, however few groups that leaves */
    int64_t wanted = 2 * (int64_t)device->info.compute_units, heads = problem_heads(variant->problem);
    struct tiles *t = &variant->tiles;

    t->vec = SHARED_VEC;
    t->sub_group = device->sub_group;
    t->tokens = few ? 1 : (keys ? 4 : 8) / (device->sub_group != 0 ? 4 : 1);
    while (t->lanes_k * kept < desc->key_dim && 2 * t->lanes_k <= most_group)
        t->lanes_k *= 2;
    while (2 * t->block_v <= 64 && t->block_v < desc->value_dim && 2 * t->block_v / t->vec * t->lanes_k <= most_group &&
           (t->block_v < least || heads * divide_up(desc->value_dim, 2 * t->block_v) >= wanted))
        t->block_v *= 2;
    for (t->spans = 1; !few && 2 * t->spans <= 32 && 2 * t->spans * t->block_v / t->vec * t->lanes_k <= most_group;)
        t->spans *= 2;
}

static clattn_status heuristic(const struct device *device, struct variant *variant, int most_group)
{
    struct tiles *t = &variant->tiles;

    *t = (struct tiles){.vec = SERIAL_VEC, .lanes_k = 1, .block_v = SHARED_VEC, .spans = 1, .tokens = 1};
    if (device->serial || most_group < SHARED_VEC)
        t->block_v = SERIAL_VEC;
    else
        shared_tiles(device, variant, most_group);
    for (follow(variant); !layout_fits(device, variant, lay_out); follow(variant)) {
        if (t->spans > 1)
            t->spans /= 2;
        else if (t->block_v > t->vec)
            t->block_v /= 2;
        else if (t->tokens > 1)
            t->tokens /= 2;
        else
            return CLATTN_UNSUPPORTED;
    }
    return CLATTN_SUCCESS;
}

/* Whether registers can hold what a lane has of the state, and factors of its tokens: more is left in memory. */
static int held(const struct variant *variant)
{
    enum { MOST_FLOATS = 128 };
    const struct tiles *t = &variant->tiles;

    return t->group == 1 || fades_of(variant) * t->tokens * t->vec <= MOST_FLOATS;
}

static clattn_status complete(const struct device *device, struct variant *variant)
{
    const struct tiles *t = &variant->tiles;
    int sound;

    follow(variant);
    sound = (rule_has_keys(variant->problem->rule) || t->lanes_k == 1) && t->block_v >= t->vec &&
            t->block_v % t->vec == 0 && held(variant) && t->group >= 1 &&
            (size_t)t->group <= device->info.max_work_group && (t->group == 1 || !device->serial) &&
            layout_fits(device, variant, lay_out);
    return sound ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

const struct family family_channels = {heuristic, complete, lay_out, describe, 0, 0};

/* ---- A lane for one column and a vector of its channels -----------------------------------------------------------
 */

/* The tile is what the lanes bring: `tokens` tokens of a vector of columns each, one such span after the other. */
static void follow_lanes(struct variant *variant)
{
    struct tiles *t = &variant->tiles;

    t->chunk = 1;
    t->vec = SHARED_VEC;
    t->lanes_k = (int)divide_up(variant->problem->desc.key_dim, t->vec);
    t->spans = t->vec * t->lanes_k;
    t->group = t->block_v * t->lanes_k;
}

static void lay_out_lanes(const struct variant *variant, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    int tile = tile_of(variant);

    layout->step.options = PLAIN_OPTIONS " -cl-denorms-are-zero"; /* else an exponential takes four instructions */
    layout->value_groups = (int)divide_up(variant_values(variant), t->block_v);
    add_constants(variant, layout);
    layout_locals(layout, "LOCAL_ROWS", 2, tile * channels_of(variant), FLOAT);
    layout_locals(layout, "LOCAL_TILE", 2, tile * t->block_v, FLOAT);
    layout_local(layout, "LOCAL_PARTS", (tile + 1) * t->block_v * t->lanes_k, FLOAT);
    layout_header(layout, FILE_output_plain);
}

static clattn_status complete_lanes(const struct device *device, struct variant *variant)
{
    const struct tiles *t = &variant->tiles;

    if (variant->problem->rule->decay != DECAY_PRODUCT || has(variant, CLATTN_COMPLEX) || device->serial)
        return CLATTN_UNSUPPORTED;
    follow_lanes(variant);
    return t->tokens >= 1 && t->block_v >= t->vec && t->block_v % t->vec == 0 &&
                   (size_t)t->group <= device->info.max_work_group && layout_fits(device, variant, lay_out_lanes)
               ? CLATTN_SUCCESS
               : CLATTN_UNSUPPORTED;
}

/* A tile of 32 tokens, or of 48 where a compute unit has one group only, and nothing else to do at a tile's ends; whole
 * lines of memory as wide as leave three of four compute units a group. */
static clattn_status heuristic_lanes(const struct device *device, struct variant *variant, int most_group)
{
    enum { TILE = 32, LONG_TILE = 48, LINE = 32 };
    const clattn_plan_desc *desc = &variant->problem->desc;
    int lanes = (int)divide_up(desc->key_dim, SHARED_VEC);
    int64_t heads = problem_heads(variant->problem), wanted = 3 * (int64_t)device->info.compute_units / 4;
    struct tiles *t = &variant->tiles;

    *t = (struct tiles){.block_v = LINE, .tokens = higher(LONG_TILE / (SHARED_VEC * lanes), 1)};
    if (heads * divide_up(desc->value_dim, LINE) > device->info.compute_units ||
        complete_lanes(device, variant) != CLATTN_SUCCESS)
        t->tokens = higher(TILE / (SHARED_VEC * lanes), 1);
    while (t->block_v > SHARED_VEC &&
           (t->block_v * lanes > most_group || t->block_v >= 2 * desc->value_dim ||
            (t->block_v > 2 * SHARED_VEC && heads * divide_up(desc->value_dim, t->block_v) < wanted) ||
            complete_lanes(device, variant) != CLATTN_SUCCESS))
        t->block_v /= 2;
    return t->block_v * lanes <= most_group ? complete_lanes(device, variant) : CLATTN_UNSUPPORTED;
}

const struct family family_channels_lanes = {heuristic_lanes, complete_lanes, lay_out_lanes, describe, 0, 1};
