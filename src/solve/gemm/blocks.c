/* Products of register blocks: by multiply-adds of lanes that share a tile (the way `lanes`), or of floats on an engine
 * that multiplies these (`exact`). cl/gemm/gemm.cl */
#include "solve/gemm/tiles.h"
#include "solve/register_blocks.h"

static void derive(const struct device_facts *facts, const struct engine *engine, const struct gemm *gemm,
                   const struct gemm_tiles *t, struct gemm_shape *shape)
{
    struct kernel_step *step = &shape->step;
    const int pad = engine != NULL ? TILE_PAD : SHARED_VEC;
    const struct tile_pads pads = {gemm_turned(gemm, GEMM_A) ? pad : SHARED_VEC, pad, 0};

    tiles_shape(shape, FILE_gemm, gemm, t, SHARED_VEC, engine != NULL ? 0 : facts->device->sub_group);
    step->shared = 1;
    step_constant(step, "ROWS", t->own_rows);
    step_constant(step, "WIDE", t->own_columns);
    step_constant(step, "TURNED_B", gemm_turned(gemm, GEMM_B));
    step_local(step, "LOCAL_TILES", 2 * tiles_local(step, gemm, t, pads), sizeof(float));
    step_constant(step, "ROW_LANES", t->rows / t->own_rows);
    step_constant(step, "COL_LANES", t->columns / (t->own_columns * SHARED_VEC));
    step_constant(step, "SPLIT", 1);
    step_constant(step, "MOST_ROWS", t->own_rows);
    step_constant(step, "WIDEST", t->own_columns);
    step_constant(step, "LONG_SUMS", 1);
    if (engine != NULL) {
        step->options = engine->options;
        step_scratch(step, engine->exact_scratch);
    }
    add_block_products(step, engine);
}

static void derive_lanes(const struct device_facts *facts, const struct gemm *gemm, const void *tiles,
                         struct gemm_shape *shape)
{
    derive(facts, NULL, gemm, tiles, shape);
}

static void derive_exact(const struct device_facts *facts, const struct gemm *gemm, const void *tiles,
                         struct gemm_shape *shape)
{
    derive(facts, facts->engine, gemm, tiles, shape);
}

/* Whether blocks of that many rows and columns, by so many lanes, cut the tile; and the group. */
static int cut(const struct device_facts *facts, struct gemm_tiles *t, int rows, int columns, int lanes)
{
    if (t->rows % rows != 0 || t->columns % columns != 0)
        return 0;
    t->group = t->rows / rows * (t->columns / columns) * lanes;
    return t->group >= 1 && (size_t)t->group <= facts->device->info.max_work_group &&
           t->own_rows * t->own_columns * SHARED_VEC <= 8 * MOST_LANE_SUMS;
}

static clattn_status complete_lanes(const struct device_facts *facts, const struct gemm *gemm, struct gemm_tiles *t)
{
    struct gemm_shape shape;

    if (!cut(facts, t, t->own_rows, t->own_columns * SHARED_VEC, 1))
        return CLATTN_UNSUPPORTED;
    derive_lanes(facts, gemm, t, &shape);
    return step_fits(&shape.step, facts->device);
}

/* A sub-group has 4 columns of lanes. */
static clattn_status complete_exact(const struct device_facts *facts, const struct gemm *gemm, struct gemm_tiles *t)
{
    const int lanes = facts->engine->lanes;
    struct gemm_shape shape;

    if (!cut(facts, t, t->own_rows * (lanes / 4), t->own_columns * SHARED_VEC * 4, lanes))
        return CLATTN_UNSUPPORTED;
    derive_exact(facts, gemm, t, &shape);
    return step_fits(&shape.step, facts->device);
}

static struct gemm_tiles usual(const struct gemm *gemm)
{
    return (struct gemm_tiles){.rows = halved(128, gemm->desc.m, 64),
                               .columns = halved(128, gemm->desc.n, 64),
                               .depth = TILE,
                               .own_rows = 8,
                               .own_columns = 2,
                               .band = 8,
                               .stages = 2};
}

/* Intel's lanes have few registers: half as many sums, and numbers on their way. */
static clattn_status heuristic_lanes(const struct device_facts *facts, const struct gemm *gemm, struct gemm_tiles *t)
{
    *t = usual(gemm);
    if (facts->device->sub_group != 0) {
        t->own_rows /= 2;
        t->depth /= 2;
    }
    return tiles_shrink(facts, gemm, t, complete_lanes, t->own_rows * 4, t->own_columns * SHARED_VEC * 4);
}

static clattn_status heuristic_exact(const struct device_facts *facts, const struct gemm *gemm, struct gemm_tiles *t)
{
    *t = usual(gemm);
    if (facts->engine->lanes > 32)
        t->own_rows /= 2;
    return tiles_shrink(facts, gemm, t, complete_exact, t->own_rows * (facts->engine->lanes / 4),
                        t->own_columns * SHARED_VEC * 4);
}

static clattn_status choose_lanes(const struct device_facts *facts, const struct gemm *gemm, void *tiles)
{
    return tiles_choose(facts, gemm, tiles, heuristic_lanes, complete_lanes);
}

static clattn_status choose_exact(const struct device_facts *facts, const struct gemm *gemm, void *tiles)
{
    return tiles_choose(facts, gemm, tiles, heuristic_exact, complete_exact);
}

static int lanes_apply(clattn_context *context, const struct gemm *gemm)
{
    (void)gemm;
    return !context->device.serial;
}

static int exact_applies(clattn_context *context, const struct gemm *gemm)
{
    return context->engine != NULL && gemm->desc.dtype == CLATTN_F32 && context->engine->exact != FILE_nothing;
}

const struct gemm_way gemm_lanes = {.provider = "plain",
                                    .space = &gemm_space_plain,
                                    .tiles_size = sizeof(struct gemm_tiles),
                                    .applies = lanes_apply,
                                    .choose_tiles = choose_lanes,
                                    .derive_shape = derive_lanes,
                                    .add = tiles_add,
                                    .describe = tiles_describe};
const struct gemm_way gemm_exact = {.provider = "engine",
                                    .space = &gemm_space_engine,
                                    .tiles_size = sizeof(struct gemm_tiles),
                                    .applies = exact_applies,
                                    .choose_tiles = choose_exact,
                                    .derive_shape = derive_exact,
                                    .add = tiles_add,
                                    .describe = tiles_describe};
