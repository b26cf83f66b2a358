/* A product of numbers of 16 bits on a matrix engine, whose sub-groups share tiles in local memory.
 * cl/gemm/gemm_matrix.cl */
#include "solve/gemm/tiles.h"

static void derive_shape(const struct device_facts *facts, const struct gemm *gemm, const void *tiles,
                         struct gemm_shape *shape)
{
    const struct gemm_tiles *t = tiles;
    struct kernel_step *step = &shape->step;

    tiles_shape(shape, FILE_gemm_matrix, gemm, t, SHARED_VEC, facts->device->sub_group);
    step_constant(step, "COLUMN_TILES", t->own_columns);
    step_constant(step, "SUB_COLUMNS", t->columns / (t->own_columns * TILE));
    step_local(step, "LOCAL_TILES", t->stages * tiles_local(step, gemm, t, (struct tile_pads){TILE_PAD, TILE_PAD, 1}),
               sizeof(uint16_t));
    tiles_engine(step, gemm, facts->engine, t);
}

static clattn_status complete(const struct device_facts *facts, const struct gemm *gemm, struct gemm_tiles *t)
{
    const int rows = t->own_rows * facts->engine->rows, columns = t->own_columns * TILE;
    struct gemm_shape shape;

    if (t->rows % rows != 0 || t->columns % columns != 0)
        return CLATTN_UNSUPPORTED;
    t->group = t->rows / rows * (t->columns / columns) * facts->engine->lanes;
    if (t->group < 1 || (size_t)t->group > facts->device->info.max_work_group ||
        t->own_rows * t->own_columns * SHARED_VEC > 8 * MOST_LANE_SUMS)
        return CLATTN_UNSUPPORTED;
    derive_shape(facts, gemm, t, &shape);
    return step_fits(&shape.step, facts->device);
}

/* 64 x 64 of a sub-group of 32 lanes; half of it where lanes are few, or their registers for sums would be many. */
static clattn_status heuristic(const struct device_facts *facts, const struct gemm *gemm, struct gemm_tiles *t)
{
    const struct engine *engine = facts->engine;
    /* Intel's compiler leaves an array of more than 32 floats a lane in memory. */
    const int most_sums = facts->device->sub_group != 0 ? 32 : MOST_LANE_SUMS;

    *t = (struct gemm_tiles){.depth = 2 * TILE, .own_rows = 4, .own_columns = 4, .band = 8, .stages = 2};
    while (t->own_rows * engine->rows * t->own_columns * TILE / engine->lanes > most_sums)
        *(t->own_columns < t->own_rows ? &t->own_rows : &t->own_columns) /= 2;
    t->rows = halved(128, gemm->desc.m, t->own_rows * engine->rows);
    t->columns = halved(128, gemm->desc.n, t->own_columns * TILE);
    if (complete(facts, gemm, t) != CLATTN_SUCCESS) { /* more places of shorter slices instead of longer ones */
        t->depth = TILE;
        t->stages = 4;
    }
    TRY(tiles_shrink(facts, gemm, t, complete, t->own_rows * engine->rows, t->own_columns * TILE));
    if (t->group < 4 * engine->lanes && t->own_rows > 1 && t->own_columns > 1 && 4 * t->group <= facts->most_group) {
        t->own_rows /= 2; /* a small tile by four sub-groups and not by one */
        t->own_columns /= 2;
    }
    return complete(facts, gemm, t);
}

static clattn_status choose_tiles(const struct device_facts *facts, const struct gemm *gemm, void *tiles)
{
    return tiles_choose(facts, gemm, tiles, heuristic, complete);
}

static int applies(clattn_context *context, const struct gemm *gemm)
{
    return tiles_are_for_engine(context, gemm);
}

const struct gemm_way gemm_matrix = {.provider = "engine",
                                     .space = &gemm_space_engine,
                                     .tiles_size = sizeof(struct gemm_tiles),
                                     .applies = applies,
                                     .choose_tiles = choose_tiles,
                                     .derive_shape = derive_shape,
                                     .add = tiles_add,
                                     .describe = tiles_describe};
