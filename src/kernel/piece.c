/* Pieces: tiles by rule of thumb, and what follows from them. A group works `chunk` tokens of a head, a work-item VEC
 * columns of `tokens` of them. */
#include "kernel/plain.h"

#include <math.h>

enum { SERIAL_VEC = 16, WIDE_VEC = 8, SHARED_VEC = 4, MOST_HELD = 4 };

static int columns_of(const struct tiles *t)
{
    return t->block_v / t->vec;
}

/* ---- Layout -------------------------------------------------------------------------------------------------------
 */

static void lay_out_conv(const struct variant *variant, struct layout *layout)
{
    const clattn_plan_desc *desc = &variant->problem->desc;

    layout_constant(layout, "TAPS", desc->taps);
    layout_constant(layout, "RUN", variant->tiles.tokens);
    layout_constant(layout, "AHEAD", desc->taps > 4 ? 2 : 4); /* with more, taps and tokens fill a lane's registers */
    layout_constant(layout, "HAS_BIAS", (desc->flags & CLATTN_WITH_BIAS) != 0);
    layout_constant(layout, "HAS_SILU", desc->activation == CLATTN_ACTIVATION_SILU);
    layout_constant(layout, "HAS_RESIDUAL", (desc->flags & CLATTN_RESIDUAL) != 0);
}

/* Vectors of a row that a work-item keeps between its sum and its output; 0 where they are too many, or near anyway. */
static int held_of(const struct tiles *t, int values)
{
    int vectors = (int)divide_up(values, (int64_t)t->lanes_k * t->vec);

    return t->group > 1 && vectors <= MOST_HELD ? vectors : 0;
}

static void lay_out_norm(const struct variant *variant, struct layout *layout)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    int gated = (desc->flags & CLATTN_WITH_Z) != 0;

    layout_constant(layout, "LANES", variant->tiles.lanes_k);
    layout_constant(layout, "ROWS", variant->tiles.tokens);
    layout_constant(layout, "HELD", held_of(&variant->tiles, variant_values(variant)));
    layout_constant(layout, "HAS_WEIGHTS", desc->weighting != CLATTN_WEIGHTING_NONE);
    layout_constant(layout, "CENTERED", (desc->flags & CLATTN_CENTERED) != 0);
    layout_constant(layout, "EPS_OUTSIDE", (desc->flags & CLATTN_EPS_OUTSIDE) != 0);
    layout_constant(layout, "HAS_D", (desc->flags & CLATTN_WITH_D) != 0);
    layout_constant(layout, "GATED_BEFORE", gated && desc->gating == CLATTN_GATING_BEFORE);
    layout_constant(layout, "GATED_AFTER", gated && desc->gating == CLATTN_GATING_AFTER);
    layout_constant(layout, "GATED_SIGMOID", gated && desc->gating == CLATTN_GATING_SIGMOID);
    layout_local(layout, "LOCAL_SUMS", (int64_t)variant->tiles.group * variant->tiles.tokens, sizeof(float));
    layout->value_groups = 1;
}

static void lay_out_gates(const struct variant *variant, struct layout *layout)
{
    const clattn_plan_desc *desc = &variant->problem->desc;

    layout_constant(layout, "HEADS", desc->heads);
    layout_constant(layout, "RUN", variant->tiles.tokens);
    layout_constant(layout, "VECTORS", divide_up(desc->heads * desc->value_dim, variant->tiles.vec));
    layout->value_groups = layout->head_groups = 1;
}

/* What pair 1, 2, 4 … turns by, over what pair 0 does, in 2^-63; and pair 0, in 2^-64 of a turn. */
static void lay_out_rope(const struct variant *variant, struct layout *layout)
{
    static const char *const names[] = {"ROPE_POWER_0", "ROPE_POWER_1", "ROPE_POWER_2", "ROPE_POWER_3", "ROPE_POWER_4",
                                        "ROPE_POWER_5", "ROPE_POWER_6", "ROPE_POWER_7", "ROPE_POWER_8"};
    const clattn_plan_desc *desc = &variant->problem->desc;
    const struct tiles *t = &variant->tiles;

    for (int bit = 0; bit < (int)(sizeof names / sizeof *names); bit++) {
        double power = pow(desc->rope_base, -2 * ldexp(1, bit) / desc->rope_dim);
        layout_constant(layout, names[bit], (int64_t)fmin(ldexp(power, 63), 0x1p63 - 1024));
    }
    layout_constant(layout, "ROPE_FIRST", 2935890503282001226); /* 2^64 / 2 pi */
    layout_constant(layout, "ROPE_DIM", desc->rope_dim);
    layout_constant(layout, "HALF", desc->rope_dim / 2);
    layout_constant(layout, "INTERLEAVED", (desc->flags & CLATTN_INTERLEAVED) != 0);
    layout_constant(layout, "ROPE_INVERSE", (desc->flags & CLATTN_TURNED_BACK) != 0);
    layout_constant(layout, "HAS_POSITION", (desc->flags & CLATTN_WITH_POSITION) != 0);
    layout_constant(layout, "HEADS", desc->heads);
    layout_constant(layout, "SHARE", t->share);
    layout_constant(layout, "RUN", t->tokens);
    layout_constant(layout, "TURNS", divide_up(desc->rope_dim / 2, t->vec));
    layout_constant(layout, "RESTS", divide_up(desc->value_dim - desc->rope_dim, t->vec));
    layout->value_groups = 1;
    layout->head_groups = (int)divide_up(desc->heads, t->share);
}

static void lay_out_features(const struct variant *variant, struct layout *layout)
{
    enum { STATS = 3 };
    const clattn_plan_desc *desc = &variant->problem->desc;
    const struct tiles *t = &variant->tiles;
    int64_t m = desc->features == CLATTN_FEATURES_FAVOR ? desc->key_dim : desc->key_dim / 2;

    layout_constant(layout, "M", m);
    layout_constant(layout, "RUN", t->tokens);
    layout_constant(layout, "IS_FAVOR", desc->features == CLATTN_FEATURES_FAVOR);
    layout_constant(layout, "IS_RFA", desc->features == CLATTN_FEATURES_RFA);
    layout_constant(layout, "IS_HEDGEHOG", desc->features == CLATTN_FEATURES_HEDGEHOG);
    layout_constant(layout, "OF_QUERIES", (desc->flags & CLATTN_OF_QUERIES) != 0);
    layout_local(layout, "LOCAL_PROJECTIONS", t->chunk * m, sizeof(float));
    layout_local(layout, "LOCAL_STATS", (int64_t)t->chunk * STATS, sizeof(float));
    layout->value_groups = 1;
}

static void lay_out(const struct variant *variant, struct layout *layout)
{
    static void (*const own[])(const struct variant *variant,
                               struct layout *layout) = {[PIECE_SHORT_CONV] = lay_out_conv,
                                                         [PIECE_RMS_NORM] = lay_out_norm,
                                                         [PIECE_GATES] = lay_out_gates,
                                                         [PIECE_ROPE] = lay_out_rope,
                                                         [PIECE_FEATURES] = lay_out_features};
    const struct tiles *t = &variant->tiles;

    layout->options = PLAIN_OPTIONS;
    layout->value_groups = (int)divide_up(variant_values(variant), t->block_v);
    layout_constant(layout, "BV", t->block_v);
    own[variant->problem->rule->piece](variant, layout);
}

static void describe(struct text *text, const struct variant *variant, const struct layout *layout)
{
    const struct tiles *t = &variant->tiles;

    text_format(text, "group %d, vec %d, chunk %d, %d tokens of %d columns, local %zu bytes\n", t->group, t->vec,
                t->chunk, t->tokens, t->block_v, layout->local_bytes);
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

/* Tokens of a work-item: as many as share the loads of weights and of the tokens before. */
static void conv_tiles(const struct variant *variant, int serial, struct tiles *t)
{
    enum { FEW = 8, RUN = 16, SERIAL_RUN = 128 };
    int few = variant->problem->desc.seq_len <= FEW;

    t->tokens = few ? FEW : serial ? SERIAL_RUN : RUN;
    t->chunk = few ? FEW : t->tokens * (serial ? 1 : (int)divide_up(t->group, columns_of(t)));
}

/* Work-items of a row: as many as read a line of memory together, and more where these could not keep it. Rows of a
 * work-item: as many as it keeps. */
static void norm_tiles(const struct variant *variant, int serial, struct tiles *t)
{
    enum { SERIAL_ROWS = 64, LINE = 8 };
    int values = variant_values(variant), held;

    for (t->lanes_k = 1; 2 * t->lanes_k <= t->group; t->lanes_k *= 2) {
        int wide = t->lanes_k * t->vec;
        if ((t->lanes_k >= LINE || 2 * wide > values) && values <= MOST_HELD * wide)
            break;
    }
    held = held_of(t, values);
    for (t->tokens = 1; held > 0 && 2 * t->tokens * held <= MOST_HELD;)
        t->tokens *= 2;
    t->chunk = serial ? SERIAL_ROWS : t->tokens * t->group / t->lanes_k;
}

/* Tokens of a work-item, whose loads are under way together. */
static void gates_tiles(const struct variant *variant, int serial, struct tiles *t)
{
    enum { RUN = 4, SERIAL_NUMBERS = 4096 };
    int64_t numbers = variant->problem->desc.heads * variant->problem->desc.value_dim;
    int64_t wanted = serial ? SERIAL_NUMBERS : (int64_t)RUN * t->group * t->vec;

    t->tokens = RUN;
    for (t->chunk = RUN; t->chunk < 64 * RUN && 2 * t->chunk * numbers <= wanted;)
        t->chunk *= 2;
}

/* Heads share the angles; tokens, what these are multiples of. */
static void rope_tiles(const struct variant *variant, int serial, struct tiles *t)
{
    enum { FEW = 8, RUN = 4, HEADS = 8, SERIAL_RUN = 32 };
    const clattn_plan_desc *desc = &variant->problem->desc;
    int64_t tasks = divide_up(desc->rope_dim / 2, t->vec) + divide_up(desc->value_dim - desc->rope_dim, t->vec);

    t->tokens = desc->seq_len <= FEW ? 1 : serial ? SERIAL_RUN : RUN;
    t->share = lower(desc->heads, HEADS);
    t->chunk = t->tokens * (serial ? 1 : (int)divide_up(t->group, tasks));
}

/* Rows of a task share what it reads of omega. */
static void features_tiles(const struct variant *variant, int serial, struct tiles *t)
{
    enum { RUN = 4, ROWS = 16 };
    int few = variant->problem->desc.seq_len < RUN;

    (void)serial;
    t->tokens = few ? 1 : RUN;
    t->chunk = few ? 1 : ROWS;
}

static clattn_status heuristic(const struct device *device, struct variant *variant, int most_group)
{
    static void (*const own[])(const struct variant *variant, int serial,
                               struct tiles *tiles) = {[PIECE_SHORT_CONV] = conv_tiles,
                                                       [PIECE_RMS_NORM] = norm_tiles,
                                                       [PIECE_GATES] = gates_tiles,
                                                       [PIECE_ROPE] = rope_tiles,
                                                       [PIECE_FEATURES] = features_tiles};
    enum { GROUP = 128, SERIAL_COLUMNS = 256 };
    int serial = device->serial || most_group < SHARED_VEC, values = variant_values(variant);
    int narrow = variant->problem->desc.dtype != CLATTN_F32 && variant->problem->desc.taps <= 4;
    int room = device->sub_group == 0; /* Intel's work-items have too few registers for vectors of 8 */
    struct tiles *t = &variant->tiles;

    *t = (struct tiles){.group = serial ? 1 : lower(GROUP, most_group), .vec = SHARED_VEC};
    t->sub_group = serial ? 0 : device->sub_group;
    if (serial && values >= SERIAL_VEC)
        t->vec = SERIAL_VEC;
    if (!serial && narrow && room && values >= WIDE_VEC)
        t->vec = WIDE_VEC;
    t->block_v = lower(round_up(values, t->vec), serial ? SERIAL_COLUMNS : t->group * t->vec);
    own[variant->problem->rule->piece](variant, serial, t);
    return CLATTN_SUCCESS;
}

static clattn_status complete(const struct device *device, struct variant *variant)
{
    struct tiles *t = &variant->tiles;
    int sound;

    t->block_v = round_up(t->block_v, t->vec);
    t->tokens = lower(t->tokens, t->chunk);
    t->lanes_k = lower(t->lanes_k, t->group);
    t->share = t->share < 1 ? 1 : t->share;
    sound = t->chunk % t->tokens == 0 && t->tokens >= variant->problem->desc.taps && t->group >= 1 &&
            (t->lanes_k == 0 || (t->group % t->lanes_k == 0 && t->chunk * t->lanes_k % t->group == 0)) &&
            (size_t)t->group <= device->info.max_work_group && (t->group == 1 || !device->serial) &&
            layout_fits(device, variant, lay_out);
    return sound ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

const struct family family_piece = {heuristic, complete, lay_out, describe, 0, 0};
