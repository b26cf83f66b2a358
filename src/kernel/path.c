/* The kernels of keys that turn on their way to a query: tiles by rule of thumb, and what follows from them. */
#include "kernel/plain.h"

/* Crossing a span costs a product with a matrix of key_dim rows, walking it two with each chunk's. As the chunk it does
 * not depend on lengths: packed sequences have the bits that they have alone. */
enum { FLOAT = 4, SERIAL_VEC = 16, SHARED_VEC = 4, SPAN_TOKENS = 512, FEW_TOKENS = 16 };

/* ---- Layout -------------------------------------------------------------------------------------------------------
 */

/* Floats of the tiles that a kernel works with. */
struct sizes {
    int channels;        /* padded to whole slices */
    int whole;           /* rows of a span's matrix, whole chunks of them */
    int columns, matrix; /* CHUNK in whole vectors, and CHUNK rows of them */
    int slice, values;
};

static struct sizes sizes_of(const struct variant *variant)
{
    const struct tiles *t = &variant->tiles;
    struct sizes s;

    s.channels = round_up(variant->problem->desc.key_dim, t->block_k);
    s.whole = round_up(s.channels, t->chunk);
    s.columns = round_up(t->chunk, t->vec);
    s.matrix = t->chunk * s.columns;
    s.slice = t->chunk * t->block_k;
    s.values = t->chunk * t->block_v;
    return s;
}

static void flash_locals(const struct variant *variant, const struct sizes *s, struct layout *layout)
{
    int chunk = variant->tiles.chunk, gated = problem_decay(variant->problem) != DECAY_NONE;

    layout_local(layout, "LOCAL_QUERIES", s->channels * s->columns, FLOAT);
    layout_local(layout, "LOCAL_CROSSED", s->whole * s->columns, FLOAT);
    layout_local(layout, "LOCAL_ROWS", higher(higher(s->slice, s->values), s->matrix), FLOAT);
    layout_locals(layout, "LOCAL_SCORES", 2, s->matrix, FLOAT);
    layout_local(layout, "LOCAL_OUTPUT", s->values, FLOAT);
    layout_local(layout, "LOCAL_WEIGHTS", 4 * s->columns, FLOAT);
    layout_local(layout, "LOCAL_NORMS", chunk, FLOAT);
    layout_local(layout, "LOCAL_BIAS", gated ? 2 * chunk + s->columns : 1, FLOAT);
}

static void path_locals(const struct variant *variant, const struct sizes *s, struct layout *layout)
{
    int prepares = variant->kernel == KERNEL_PREPARE_PATH;

    if (variant->kernel == KERNEL_FLASH_PATH) {
        flash_locals(variant, s, layout);
        return;
    }
    if (!prepares)
        layout_local(layout, "LOCAL_QUERIES", s->channels * s->columns, FLOAT);
    layout_locals(layout, "LOCAL_SLICE", prepares ? 3 : 1, s->slice, FLOAT);
    layout_locals(layout, "LOCAL_SCORES", prepares ? 4 : variant->kernel == KERNEL_FOLD_PATH ? 2 : 1, s->matrix, FLOAT);
    if (variant->kernel == KERNEL_TURN_PATH)
        layout_local(layout, "LOCAL_CROSSED", s->whole * s->columns, FLOAT);
    if (prepares || variant->kernel == KERNEL_FOLD_PATH)
        layout_locals(layout, "LOCAL_NORMS", prepares ? 2 : 1, variant->tiles.chunk, FLOAT);
}

/* All but flash have a group a block of keys; carry_path some more for the rows of the unit matrix, turn_path one for
 * the queries of every head. */
static void path_grid(const struct variant *variant, const struct sizes *s, struct layout *layout)
{
    if (variant->kernel == KERNEL_FLASH_PATH)
        layout->value_groups = (int)divide_up(variant_values(variant), variant->tiles.block_v);
    else
        layout->head_groups = (int)variant->problem->desc.kv_heads;
    if (variant->kernel == KERNEL_TURN_PATH)
        layout->head_groups += (int)variant->problem->desc.heads;
    if (variant->kernel == KERNEL_CARRY_PATH)
        layout->value_groups = 1 + s->whole / variant->tiles.chunk;
}

static void lay_out(const struct variant *variant, struct layout *layout)
{
    enum { TURN_ROWS = 3 }; /* of path.clh */
    const clattn_plan_desc *desc = &variant->problem->desc;
    const struct tiles *t = &variant->tiles;
    const struct sizes s = sizes_of(variant);

    layout->step.options = PLAIN_OPTIONS;
    layout->record = s.matrix;
    layout->rows = (int64_t)TURN_ROWS * t->chunk * s.channels;
    layout->segment = (int64_t)s.whole * s.channels;
    path_locals(variant, &s, layout);
    path_grid(variant, &s, layout);
    layout_constant(layout, "BK", t->block_k);
    layout_constant(layout, "BV", t->block_v);
    layout_constant(layout, "KP", s.channels);
    layout_constant(layout, "HP", s.whole);
    layout_constant(layout, "RP", t->block_k);
    layout_constant(layout, "CP", s.columns);
    layout_constant(layout, "SPAN", t->span);
    layout_constant(layout, "KV_GROUP", desc->heads / desc->kv_heads);
    layout_constant(layout, "KV_HEADS", desc->kv_heads);
    if (variant->kernel == KERNEL_FLASH_PATH)
        plain_list_headers(variant, plain_weights(variant->problem->desc.kernel), layout);
    layout_header(layout, plain_erase_header(variant));
}

void plain_describe_spans(struct text *text, const struct variant *variant, const struct layout *layout)
{
    const struct tiles *t = &variant->tiles;

    text_format(text, "group %d, vec %d, chunk %d, span of %d chunks, key slice %d, value tile %d, local %zu bytes\n",
                t->group, t->vec, t->chunk, t->span, t->block_k, t->block_v, layout->step.local_bytes);
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

static clattn_status heuristic(const struct device *device, struct variant *variant, int most_group)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    int serial = device->serial || most_group < SHARED_VEC, vec = serial ? SERIAL_VEC : SHARED_VEC;
    enum kernel_id kernel = variant->kernel;
    clattn_status status;

    variant->tiles = (struct tiles){.group = serial ? 1 : lower(64, most_group),
                                    .vec = vec,
                                    .chunk = desc->chunk != 0 ? desc->chunk
                                             : serial         ? 32
                                                              : 16,
                                    .block_k = plain_slice(desc->key_dim, serial ? 64 : 32, vec),
                                    .block_v = round_up(desc->value_dim, vec),
                                    .sub_group = serial ? 0 : device->sub_group};
    variant->tiles.span = 1;
    variant->kernel = KERNEL_FLASH_PATH; /* all have the tiles that it fits */
    status = plain_cut_blocks(device, variant, lay_out);
    variant->kernel = kernel;
    if (kernel == KERNEL_FOLD_PATH && desc->tail != 0 && desc->tail <= FEW_TOKENS)
        variant->tiles.chunk = lower(variant->tiles.chunk, FEW_TOKENS); /* rows of w past the tail are zero */
    variant->tiles.span = SPAN_TOKENS / variant->tiles.chunk;
    return status;
}

static clattn_status complete(const struct device *device, struct variant *variant)
{
    struct tiles *t = &variant->tiles;
    int sound;

    t->block_v = lower(round_up(t->block_v, t->vec), round_up(variant_values(variant), t->vec));
    t->block_k = lower(round_up(t->block_k, t->vec), round_up(variant->problem->desc.key_dim, t->vec));
    sound = t->block_v >= t->vec && t->block_v % t->vec == 0 && t->group >= 1 &&
            (size_t)t->group <= device->info.max_work_group && (t->group == 1 || !device->serial) &&
            layout_fits(device, variant, lay_out);
    return sound ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

const struct family family_path = {heuristic, complete, lay_out, plain_describe_spans, 0, 0};
