/* Matrix products by teams of sub-groups (cl/kernels/gemm_team.cl): tiles by rule of thumb, and what follows from them.
 * Of struct tiles what gemm.c says. */
#include "kernel/gemm.h"

enum { SHARED_VEC = 4, FLOAT = 4, NUMBER = 2, TILE = 16, PAD = 8, MOST_LANE_FLOATS = 128 };
enum { RUN = 32, SIGNALS = 13 }; /* of the depth at once (cl/gemm/gemm_rows.clh); that there are for slices */

static int teams_of(const struct tiles *t)
{
    return t->chunk / (TEAM * t->rows * TILE);
}

/* Slices of B in panels, in whose place D's rows leave. */
static void lay_out(const struct variant *variant, struct layout *layout)
{
    const struct tiles *t = &variant->tiles;
    int slices = t->stages * t->block_k * t->block_v, rows = t->chunk / t->rows * (PANEL + PAD) * FLOAT / NUMBER;
    const struct number numbers[] = {
        {"BM", t->chunk},
        {"BN", t->block_v},
        {"BK", t->block_k},
        {"BAND", t->span},
        {"TEAMS", teams_of(t)},
        {"TURNED_A", gemm_turned(variant->gemm, GEMM_A)},
        {"RIGHT_TILE", t->block_k * t->block_v},
    };

    layout_constants(layout, numbers, sizeof numbers / sizeof *numbers);
    layout_local(layout, "LOCAL_TILES", slices > rows ? slices : rows, NUMBER);
    gemm_lay_out_engine(variant, layout);
    layout_team(layout, variant, teams_of(t));
    layout_header(layout, gemm_turned(variant->gemm, GEMM_A) ? FILE_gemm_rows_turned : FILE_gemm_rows);
    layout_header(layout, t->loaders > 0 ? FILE_gemm_moved_apart : FILE_gemm_moved);
}

/* All columns of the group's tile are a team's. */
static clattn_status complete(const struct device *device, struct variant *variant)
{
    struct tiles *t = &variant->tiles;
    int unit = gemm_turned(variant->gemm, GEMM_B) ? PANEL : RUN, sound;

    t->wide = t->block_v / TILE;
    t->group = (t->chunk / (t->rows * TILE) + t->loaders) * variant->engine->lanes;
    sound = t->chunk % (TEAM * t->rows * TILE) == 0 && t->block_v % PANEL == 0 && t->block_k % unit == 0 &&
            t->group >= 1 && (size_t)t->group <= device->info.max_work_group &&
            t->rows * t->block_v * TILE / variant->engine->lanes <= MOST_LANE_FLOATS &&
            (t->rows == 2 || !gemm_turned(variant->gemm, GEMM_A)) && t->stages * (1 + teams_of(t)) <= SIGNALS &&
            layout_fits(device, variant, lay_out);
    return sound ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

/* A lane has as many sums as its registers hold; fewer rows, and then a single team, where groups would be few. */
static clattn_status heuristic(const struct device *device, struct variant *variant, int most_group)
{
    const clattn_gemm_desc *d = &variant->gemm->desc;
    struct tiles *t = &variant->tiles;
    /* where A is turned sub-groups have two tiles */
    int unit = TEAM * TILE, least = gemm_turned(variant->gemm, GEMM_A) ? 2 * unit : unit;

    *t = (struct tiles){.vec = SHARED_VEC,
                        .rows = 2,
                        .chunk = 4 * unit,
                        .block_v = 2 * PANEL,
                        .block_k = PANEL,
                        .span = 8,
                        .stages = 3,
                        .loaders = variant->engine->loaders > 0 ? MOVERS : 0,
                        .sub_group = device->sub_group};
    if (complete(device, variant) != CLATTN_SUCCESS) /* emulations have less local memory */
        t->stages = 2;
    for (; t->chunk > least; t->chunk /= 2) {
        if (complete(device, variant) == CLATTN_SUCCESS && t->group <= 2 * most_group &&
            divide_up(d->m, t->chunk) * divide_up(d->n, t->block_v) * d->batch >= device->info.compute_units / 2)
            return CLATTN_SUCCESS;
        if (!gemm_turned(variant->gemm, GEMM_A))
            t->rows = 1;
    }
    return complete(device, variant);
}

const struct family family_gemm_team = {heuristic, complete, lay_out, gemm_describe, 1, 0};
