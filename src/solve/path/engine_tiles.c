/* How the kernels on a matrix engine cut queries and keys: by heuristic, and as tuning has chosen. As the blocks and the
 * span do not depend on lengths, packed sequences have the bits that they have alone. */
#include "solve/path/engine.h"

enum {
    TILE = MATRIX_TILE,
    BLOCK = 64,             /* keys that a team walks at once */
    SLOTS = 3,              /* of a team's local memory */
    MOST_TEAMS = 2,         /* of a group */
    MOST_TILES = 8,         /* of a team's channels and value columns: what a lane's registers hold */
    SPAN_CHUNKS = 4,        /* where the chunk is asked for */
    LEAST_LANES = 32,       /* of a sub-group that has many rows: where there are fewer a group has more sub-groups */
    MOST_HELD = 192,        /* registers of a lane, */
    MOST_HELD_OF_WIDE = 128 /* and where a block has more keys than a tile */
};

/* Whether local memory holds all kernels. */
static int all_fit(const struct device_facts *facts, const struct problem *problem, const struct path_engine_tiles *t)
{
    for (int i = 0; i < PATH_ENGINE_KERNELS; i++) {
        const struct kernel_step step = path_engine_step((enum path_engine_kernel)i, facts->engine, problem, t);
        if (step_fits(&step, facts->device) != CLATTN_SUCCESS)
            return 0;
    }
    return 1;
}

static int is_group(const struct device_facts *facts, const struct path_engine_tiles *t)
{
    return (size_t)((t->subs + t->loaders) * facts->engine->lanes) <= facts->device->info.max_work_group;
}

/* ---- Sub-groups by themselves -------------------------------------------------------------------------------------
 */

/* Registers of a lane: outputs, and queries as sums and as operands. */
static int held(const struct device_facts *facts, const struct problem *problem, const struct path_engine_tiles *t)
{
    const int tile = TILE * facts->engine->rows / facts->engine->lanes;
    const int channels = (int)divide_up(problem->desc.key_dim, TILE);

    return (t->block_v / TILE + channels) * tile + channels * tile / 2;
}

/* Sub-groups for the chunk, and a span that has as many keys as there are channels; whether all kernels fit with it. */
static int fits(const struct device_facts *facts, const struct problem *problem, struct path_engine_tiles *t)
{
    const int channels = round_up(problem->desc.key_dim, TILE);

    t->subs = t->chunk / facts->engine->rows;
    t->span = t->chunk > 0 ? higher(t->span, round_up(channels, t->chunk)) : t->span;
    return t->chunk % TILE == 0 && t->span % t->chunk == 0 && t->chunk % t->keys == 0 && t->keys % TILE == 0 &&
           is_group(facts, t) && all_fit(facts, problem, t);
}

/* Fewer keys and stages, then shorter chunks, until local memory holds them. */
static clattn_status cut_to_fit(const struct device_facts *facts, const struct problem *problem,
                                struct path_engine_tiles *t)
{
    static const struct {
        int keys, stages;
    } ways[] = {{32, 2}, {16, 2}, {16, 1}};
    const int few = held(facts, problem, t) <= MOST_HELD_OF_WIDE;

    for (;; t->chunk /= 2) {
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            t->keys = ways[i].keys;
            t->stages = ways[i].stages;
            if ((t->keys == TILE || few) && fits(facts, problem, t))
                return CLATTN_SUCCESS;
        }
        if (problem->desc.chunk != 0 || t->chunk <= TILE)
            return CLATTN_UNSUPPORTED;
    }
}

static clattn_status by_heuristic(const struct device_facts *facts, const struct problem *problem,
                                  struct path_engine_tiles *t)
{
    const int subs = facts->engine->lanes < LEAST_LANES ? 8 : 4, chunk = problem->desc.chunk;

    *t = (struct path_engine_tiles){.chunk = chunk != 0 ? chunk : subs * facts->engine->rows,
                                    .span = chunk != 0 ? SPAN_CHUNKS * chunk : PATH_SPAN_TOKENS,
                                    .block_v = round_up(problem->desc.value_dim, TILE),
                                    .sub_group = facts->device->sub_group};
    while (t->block_v > TILE && held(facts, problem, t) > MOST_HELD)
        t->block_v = round_up(divide_up(t->block_v, 2), TILE);
    return held(facts, problem, t) <= MOST_HELD ? cut_to_fit(facts, problem, t) : CLATTN_UNSUPPORTED;
}

static clattn_status choose_own_tiles(const struct device_facts *facts, const struct problem *problem,
                                      struct path_engine_tiles *t)
{
    const struct path_engine_tiles chosen = *t;

    TRY(by_heuristic(facts, problem, t));
    if (take_tiles(t, &chosen, sizeof chosen) == 0)
        return CLATTN_SUCCESS;
    t->block_v = lower(t->block_v, round_up(problem->desc.value_dim, TILE));
    return fits(facts, problem, t) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

/* ---- Teams --------------------------------------------------------------------------------------------------------
 */

/* A group has one team where it moves its blocks itself: its lanes have enough to hold. */
static clattn_status choose_team_tiles(const struct device_facts *facts, const struct problem *problem,
                                       struct path_engine_tiles *t)
{
    const int teams = facts->engine->loaders > 0 ? MOST_TEAMS : 1, chunk = teams * BLOCK;
    const int channels = (int)divide_up(problem->desc.key_dim, TILE) * TILE;

    default_to(&t->span, PATH_SPAN_TOKENS);
    *t = (struct path_engine_tiles){
        .chunk = chunk,
        .span = t->span,
        .keys = BLOCK,
        .stages = 1,
        .block_v = lower(MOST_TILES * TILE, round_up(problem->desc.value_dim, TILE)),
        .subs = teams * TEAM,
        .loaders = facts->engine->loaders > 0 ? MOVERS : 0,
        .team = 1,
        .sub_group = facts->device->sub_group,
    };
    return channels <= MOST_TILES * TILE && t->span >= higher(chunk, channels) && t->span % chunk == 0 &&
                   is_group(facts, t) && all_fit(facts, problem, t)
               ? CLATTN_SUCCESS
               : CLATTN_UNSUPPORTED;
}

clattn_status path_engine_choose_tiles(const struct device_facts *facts, const struct problem *problem, int team,
                                       struct path_engine_tiles *tiles)
{
    return team ? choose_team_tiles(facts, problem, tiles) : choose_own_tiles(facts, problem, tiles);
}
