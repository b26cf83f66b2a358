/* A product of numbers of 16 bits by teams of a matrix engine's sub-groups, which multiply B where it lies in local
 * memory. All columns of a group's tile are a team's. cl/gemm/gemm_team.cl */
#include "solve/gemm/tiles.h"

enum { RUN = 32, SIGNALS = 13 }; /* of the depth at once (cl/gemm/gemm_rows.clh); that there are for slices */

/* clang-format off */
static const struct parameter parameters[] = {
    PARAMETER_ROW("chunk",   struct gemm_tiles, rows,     64, 128, 256),
    PARAMETER_ROW("block_v", struct gemm_tiles, columns,  64, 128, 256),
    PARAMETER_ROW("block_k", struct gemm_tiles, depth,    32, 64, 128),
    PARAMETER_ROW("rows",    struct gemm_tiles, own_rows, 1, 2),
    PARAMETER_ROW("stages",  struct gemm_tiles, stages,   2, 3, 4),
    PARAMETER_ROW("span",    struct gemm_tiles, band,     1, 4, 8, 16),
    PARAMETERS_END,
};
/* clang-format on */
static const struct space team_space = {"gemm_team", parameters, 0, 0, 1, 1};

static int teams_of(const struct gemm_tiles *t)
{
    return t->rows / (TEAM * t->own_rows * TILE);
}

/* Slices of B in panels, in whose place D's rows leave. */
static void derive_shape(const struct device_facts *facts, const struct gemm *gemm, const void *tiles,
                         struct gemm_shape *shape)
{
    const struct gemm_tiles *t = tiles;
    const int slices = t->stages * t->depth * t->columns;
    const int rows = t->rows / t->own_rows * (PANEL + TILE_PAD) * (int)(sizeof(float) / sizeof(uint16_t));
    struct kernel_step *step = &shape->step;

    tiles_shape(shape, FILE_gemm_team, gemm, t, SHARED_VEC, facts->device->sub_group);
    step_constant(step, "TEAMS", teams_of(t));
    step_constant(step, "RIGHT_TILE", t->depth * t->columns);
    step_local(step, "LOCAL_TILES", higher(slices, rows), sizeof(uint16_t));
    tiles_engine(step, gemm, facts->engine, t);
    step_team(step, facts->engine, teams_of(t), t->movers > 0);
    step_header(step, gemm_turned(gemm, GEMM_A) ? FILE_gemm_rows_turned : FILE_gemm_rows);
    step_header(step, t->movers > 0 ? FILE_gemm_moved_apart : FILE_gemm_moved);
}

static int is_sound(const struct device_facts *facts, const struct gemm *gemm, const struct gemm_tiles *t)
{
    const int unit = gemm_turned(gemm, GEMM_B) ? PANEL : RUN;

    return t->rows % (TEAM * t->own_rows * TILE) == 0 && t->columns % PANEL == 0 && t->depth % unit == 0 &&
           t->group >= 1 && (size_t)t->group <= facts->device->info.max_work_group &&
           t->own_rows * t->columns * TILE / facts->engine->lanes <= MOST_LANE_SUMS &&
           (t->own_rows == 2 || !gemm_turned(gemm, GEMM_A)) && t->stages * (1 + teams_of(t)) <= SIGNALS;
}

static clattn_status complete(const struct device_facts *facts, const struct gemm *gemm, struct gemm_tiles *t)
{
    struct gemm_shape shape;

    t->own_columns = t->columns / TILE;
    t->group = (t->rows / (t->own_rows * TILE) + t->movers) * facts->engine->lanes;
    if (!is_sound(facts, gemm, t))
        return CLATTN_UNSUPPORTED;
    derive_shape(facts, gemm, t, &shape);
    return step_fits(&shape.step, facts->device);
}

/* A lane has as many sums as its registers hold; fewer rows, and then a single team, where groups would be few. */
static clattn_status heuristic(const struct device_facts *facts, const struct gemm *gemm, struct gemm_tiles *t)
{
    const int turned = gemm_turned(gemm, GEMM_A), unit = TEAM * TILE;
    const int least = turned ? 2 * unit : unit; /* where A is turned sub-groups have two tiles */

    *t = (struct gemm_tiles){.rows = 4 * unit,
                             .columns = 2 * PANEL,
                             .depth = PANEL,
                             .own_rows = 2,
                             .band = 8,
                             .stages = 3,
                             .movers = facts->engine->loaders > 0 ? MOVERS : 0};
    if (complete(facts, gemm, t) != CLATTN_SUCCESS) /* emulations have less local memory */
        t->stages = 2;
    for (; t->rows > least; t->rows /= 2) {
        if (complete(facts, gemm, t) == CLATTN_SUCCESS && t->group <= 2 * facts->most_group &&
            tiles_count(gemm, t) >= facts->device->info.compute_units / 2)
            return CLATTN_SUCCESS;
        if (!turned)
            t->own_rows = 1;
    }
    return complete(facts, gemm, t);
}

static clattn_status choose_tiles(const struct device_facts *facts, const struct gemm *gemm, void *tiles)
{
    return tiles_choose(facts, gemm, tiles, heuristic, complete);
}

/* Where nobody asks for it by name, of products with tiles enough for the device. */
static int applies(clattn_context *context, const struct gemm *gemm)
{
    const struct gemm_tiles usual = {.rows = TEAM * TILE, .columns = 2 * PANEL};

    return tiles_are_for_engine(context, gemm) && context->engine->team != FILE_nothing &&
           (gemm->desc.provider != NULL || tiles_count(gemm, &usual) >= context->device.info.compute_units / 2);
}

const struct gemm_way gemm_team = {.provider = "team",
                                   .space = &team_space,
                                   .teams = 1,
                                   .tiles_size = sizeof(struct gemm_tiles),
                                   .applies = applies,
                                   .choose_tiles = choose_tiles,
                                   .derive_shape = derive_shape,
                                   .add = tiles_add,
                                   .describe = tiles_describe};
