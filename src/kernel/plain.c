/* The kernels of any device: what follows from their tiles. */
#include "kernel/plain.h"

enum { FLOAT = 4 };

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
    if (variant->gather || (problem_reads_whole(variant->problem) && variant->kernel != KERNEL_READ_STATE))
        return FILE_output_none;
    if (variant->normalizer)
        return problem_stabilized(variant->problem) ? FILE_output_stable : FILE_output_sum;
    return problem_normalized(variant->problem) ? FILE_output_divided : FILE_output_plain;
}

struct plain_erase plain_erase(const struct variant *variant)
{
    return erases[variant->problem->rule->erase];
}

/* The headers of every word but the decay and what mixes within a chunk. */
static void plain_headers(const struct variant *variant, struct layout *layout)
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
    const struct plain_erase *erase = &erases[variant->problem->rule->erase];
    int norms = (variant->problem->desc.flags & CLATTN_QK_L2NORM) != 0, parts = t->chunk * s->token_parts;

    layout_local(layout, "LOCAL_ROWS_Q", s->slice, FLOAT);
    layout_local(layout, "LOCAL_ROWS_K", s->slice, FLOAT);
    layout_local(layout, "LOCAL_ROWS_X", s->values, FLOAT);
    layout_local(layout, "LOCAL_PREDICTED_PARTS", erase->streams > 0 && t->lanes_k > 1 ? 2 * t->group * t->vec : 1,
                 FLOAT);
    layout_local(layout, "LOCAL_OUT_PARTS", t->chunk * t->group * t->vec, FLOAT);
    layout_local(layout, "FACTORS", s->factors, FLOAT);
    layout_local(layout, "LOCAL_SQUARES", 1 + norms * 2 * parts, FLOAT);
    decay_locals(variant, s, layout);
    some_locals(layout, erase_rows, erase->streams, s->slice);
    some_locals(layout, erase_squares, erase->norms, 1 + norms * parts);
    if (reads[variant->problem->rule->read].bonus)
        layout_local(layout, "LOCAL_BONUS_PARTS", parts, FLOAT);
    if (variant->problem->desc.flags & CLATTN_VALUE_GATE)
        layout_local(layout, "LOCAL_MIX_FACTOR", s->values, FLOAT);
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

/* Of each part of a sequence, where the recurrence works parts; the last is not gathered, its place has the initial
 * state. */
static void lay_out_course(const struct variant *variant, const struct sizes *s, struct layout *layout)
{
    int segments = variant->tiles.segments, columns = layout->value_groups * variant->tiles.block_v;

    layout_constant(layout, "SEGMENTS", segments);
    layout_constant(layout, "GATHER", variant->gather);
    layout_constant(layout, "VALUE_GROUPS", layout->value_groups);
    layout_constant(layout, "VP", columns);
    layout->value_groups *= segments - variant->gather;
    layout->segment = (int64_t)s->channels * columns;
    layout->segment_kept = s->channels + columns;
}

void plain_lay_out(const struct variant *variant, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    const struct sizes s = sizes_of(variant);

    layout->step.options = PLAIN_OPTIONS;
    plain_locals(variant, &s, layout);
    if (variant->kernel == KERNEL_STABILIZE)
        return;
    if (variant->kernel == KERNEL_FLASH) {
        lay_out_flash(variant, &s, layout);
        return;
    }
    layout->record = (1 + erases[variant->problem->rule->erase].recorded) * s.matrix + s.factors;
    if (variant->kernel != KERNEL_PREPARE)
        layout->value_groups = (int)divide_up(variant_values(variant), t->block_v);
    if (variant->kernel == KERNEL_RECURRENT)
        lay_out_course(variant, &s, layout);
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

void plain_describe(struct text *text, const struct variant *variant, const struct layout *layout)
{
    const struct tiles *t = &variant->tiles;

    text_format(text, "group %d, vec %d, %s %d, key slice %d, value tile %d, key lanes %d, ", t->group, t->vec,
                variant->kernel == KERNEL_RECURRENT ? "rows" : "chunk", t->chunk, t->block_k, t->block_v, t->lanes_k);
    if (t->segments > 1)
        text_format(text, "%d segments%s, ", t->segments, variant->gather ? " gathered" : "");
    text_format(text, "local %zu bytes\n", layout->step.local_bytes);
}
