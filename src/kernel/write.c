/* The kernels of what is written of a list where that depends on what was: tiles by rule of thumb, and what follows. */
#include "kernel/plain.h"

/* As the chunk, a span does not depend on lengths: packed sequences have the bits that they have alone. It is short
 * where a CPU stands in for a GPU: llvmpipe leaves a loop when a work-item has had 65535 turns of all its loops
 * (LP_MAX_TGSI_LOOP_ITERATIONS), which are as many as the square of a span's chunks. */
enum { FLOAT = 4, SERIAL_VEC = 16, SHARED_VEC = 4, SPAN_TOKENS = 512, SHORT_SPAN_TOKENS = 128 };

/* ---- Layout -------------------------------------------------------------------------------------------------------
 */

static void write_locals(const struct tiles *t, int channels, int columns, int solves, struct layout *layout)
{
    layout_local(layout, "LOCAL_QUERIES", channels * columns, FLOAT);
    layout_local(layout, "LOCAL_ROWS", t->chunk * higher(t->block_k, t->block_v), FLOAT);
    layout_locals(layout, "LOCAL_SCORES", solves ? 3 : 1, t->chunk * columns, FLOAT);
    layout_local(layout, "LOCAL_OUTPUT", t->chunk * t->block_v, FLOAT);
    layout_locals(layout, "LOCAL_NORMS", solves ? 2 : 1, t->chunk, FLOAT);
    layout_local(layout, "LOCAL_WEIGHTS", 4 * columns, FLOAT);
}

static void lay_out(const struct variant *variant, struct layout *layout)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    const struct tiles *t = &variant->tiles;
    int channels = round_up(desc->key_dim, t->block_k), columns = round_up(t->chunk, t->vec);
    int values = round_up(desc->value_dim, t->vec), solves = variant->kernel == KERNEL_WRITE_SOLVE;

    layout->step.options = PLAIN_OPTIONS;
    layout->record = (int64_t)t->chunk * values + 2 * (int64_t)columns;
    layout->head_groups = (int)desc->kv_heads;
    layout->value_groups = (int)divide_up(desc->value_dim, t->block_v) * (solves ? 1 : t->span);
    write_locals(t, channels, columns, solves, layout);
    layout_constant(layout, "BK", t->block_k);
    layout_constant(layout, "BV", t->block_v);
    layout_constant(layout, "KP", channels);
    layout_constant(layout, "VP", values);
    layout_constant(layout, "RP", t->block_k);
    layout_constant(layout, "CP", columns);
    layout_constant(layout, "SPAN", t->span);
    layout_constant(layout, "PART", layout->record);
    layout_constant(layout, "KV_GROUP", desc->heads / desc->kv_heads);
    layout_constant(layout, "KV_HEADS", desc->kv_heads);
    layout_header(layout, FILE_output_plain);
    layout_header(layout, plain_weights(desc->write_kernel));
    layout_header(layout, plain_erase_header(variant));
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

static clattn_status heuristic(const struct device *device, struct variant *variant, int most_group)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    int serial = device->serial || most_group < SHARED_VEC, vec = serial ? SERIAL_VEC : SHARED_VEC;
    int chunk = serial ? 32 : 16, slices = (int)divide_up(desc->key_dim, serial ? 64 : 32);
    enum kernel_id kernel = variant->kernel;
    clattn_status status;

    variant->tiles = (struct tiles){.group = serial ? 1 : lower(64, most_group),
                                    .vec = vec,
                                    .chunk = desc->chunk != 0 ? desc->chunk : chunk,
                                    .block_k = round_up(divide_up(desc->key_dim, slices), vec),
                                    .block_v = lower(round_up(desc->value_dim, vec), serial ? 64 : 32),
                                    .span = 1,
                                    .sub_group = serial ? 0 : device->sub_group};
    variant->kernel = KERNEL_WRITE_SOLVE; /* both have the tiles that it fits */
    status = plain_cut_blocks(device, variant, lay_out);
    variant->tiles.span = (device->info.gpu || device->serial ? SPAN_TOKENS : SHORT_SPAN_TOKENS) / variant->tiles.chunk;
    variant->kernel = kernel;
    return status;
}

static clattn_status complete(const struct device *device, struct variant *variant)
{
    struct tiles *t = &variant->tiles;
    int sound;

    t->block_v = lower(round_up(t->block_v, t->vec), round_up(variant->problem->desc.value_dim, t->vec));
    t->block_k = lower(round_up(t->block_k, t->vec), round_up(variant->problem->desc.key_dim, t->vec));
    sound = t->group >= 1 && (size_t)t->group <= device->info.max_work_group && (t->group == 1 || !device->serial) &&
            layout_fits(device, variant, lay_out);
    return sound ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

const struct family family_write = {heuristic, complete, lay_out, plain_describe_spans, 0, 0};
