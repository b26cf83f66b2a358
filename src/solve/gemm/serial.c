/* A product where a work-item is a thread with wide vectors, and local memory a cache. cl/gemm/gemm_serial.cl */
#include "solve/gemm/tiles.h"

static void derive_shape(const struct device_facts *facts, const struct gemm *gemm, const void *tiles,
                         struct gemm_shape *shape)
{
    const struct gemm_tiles *t = tiles;
    const int turned = gemm_turned(gemm, GEMM_A), pitch = turned ? t->rows : t->depth;
    struct kernel_step *step = &shape->step;

    (void)facts;
    tiles_shape(shape, FILE_gemm_serial, gemm, t, SERIAL_VEC, 0);
    step_constant(step, "ROWS", t->own_rows);
    step_constant(step, "WIDE", t->own_columns);
    step_constant(step, "TURNED_B", gemm_turned(gemm, GEMM_B));
    tiles_local(step, gemm, t, (struct tile_pads){0, 0, 0});
    step_local(step, "SUMS_TILE", (int64_t)t->rows * t->columns, sizeof(float));
    step_local(step, "LOCAL_LEFT", (int64_t)t->rows * t->depth, sizeof(float));
    step_local(step, "LOCAL_RIGHT", (int64_t)t->columns * t->depth, sizeof(float));
    step_constant(step, "LEFT_ROW", turned ? 1 : pitch);
    step_constant(step, "LEFT_DEPTH", turned ? pitch : 1);
}

static clattn_status complete(const struct device_facts *facts, const struct gemm *gemm, struct gemm_tiles *t)
{
    const int block_rows = gemm_turned(gemm, GEMM_A) ? SERIAL_VEC : t->own_rows;
    struct gemm_shape shape;

    if (t->rows % block_rows != 0 || t->columns % (t->own_columns * SERIAL_VEC) != 0 ||
        t->own_rows * t->own_columns * SHARED_VEC > 8 * MOST_LANE_SUMS)
        return CLATTN_UNSUPPORTED;
    derive_shape(facts, gemm, t, &shape);
    return step_fits(&shape.step, facts->device);
}

static clattn_status heuristic(const struct device_facts *facts, const struct gemm *gemm, struct gemm_tiles *t)
{
    const clattn_gemm_desc *d = &gemm->desc;

    *t = (struct gemm_tiles){.group = 1,
                             .rows = halved(128, d->m, 16),
                             .columns = halved(128, d->n, 32),
                             .depth = halved(128, d->k, 16),
                             .own_rows = 8,
                             .own_columns = 2,
                             .band = 8,
                             .stages = 1};
    return tiles_shrink(facts, gemm, t, complete, 16, 32);
}

static clattn_status choose_tiles(const struct device_facts *facts, const struct gemm *gemm, void *tiles)
{
    return tiles_choose(facts, gemm, tiles, heuristic, complete);
}

static int applies(clattn_context *context, const struct gemm *gemm)
{
    (void)gemm;
    return context->device.serial;
}

const struct gemm_way gemm_serial = {.provider = "plain",
                                     .space = &gemm_space_plain,
                                     .tiles_size = sizeof(struct gemm_tiles),
                                     .applies = applies,
                                     .choose_tiles = choose_tiles,
                                     .derive_shape = derive_shape,
                                     .add = tiles_add,
                                     .describe = tiles_describe};
