/* How delta_matrix and delta_team cut spans and keys: by heuristic, and as tuning has chosen. As the chunk, a span and
 * the parts of the keys before it do not depend on lengths: packed sequences have the bits that they have alone. */
#include "solve/deltaformer/matrix.h"

enum {
    TILE = MATRIX_TILE,
    SPAN_TOKENS = 512,
    SPAN_CHUNKS = 4, /* where the chunk is asked for */
    MOST_SPLITS = 8,
    MOST_SUBS = 8, /* that solve side by side */
    MOST_TEAMS = 2 /* of a group of rows */
};

/* Tiles on their way, of which those of write_before are cut by flash's functions, too. */
struct choice {
    const struct device_facts *facts;
    const struct problem *problem;
    struct deltaformer_matrix_tiles tiles;
};

static int group_is_allowed(const struct choice *c, int group)
{
    return (size_t)group <= c->facts->device->info.max_work_group;
}

/* ---- Sums over the keys before a span -----------------------------------------------------------------------------
 */

static void cut_values(struct choice *c)
{
    struct flash_read read = {c->facts, c->problem, c->tiles.before};

    flash_cut_values(&read);
    c->tiles.before = read.tiles;
}

static int cut_keys(struct choice *c)
{
    struct flash_read read = {c->facts, c->problem, c->tiles.before};
    const int fits = flash_cut_keys(&read);

    c->tiles.before = read.tiles;
    return fits;
}

/* Rows of a group, which a span has whole ones of: a team's follow from its sub-groups, those of others decide them. */
static void cut_rows(struct choice *c)
{
    struct flash_matrix_tiles *t = &c->tiles.before;
    const int rows = t->span * c->facts->engine->rows;

    if (t->team)
        t->chunk = t->subs * rows;
    t->subs = (int)divide_up(t->chunk, rows);
    t->group = (t->subs + t->loaders) * c->facts->engine->lanes;
}

static int column_groups(const struct choice *c)
{
    return (int)divide_up(c->problem->desc.value_dim, c->tiles.before.block_v);
}

/* Parts of the keys, such that all compute units are busy: with a group of teams, or two others. */
static int parts(const struct choice *c)
{
    const struct deltaformer_matrix_tiles *t = &c->tiles;
    const clattn_plan_desc *desc = &c->problem->desc;
    const int64_t groups = desc->batch * desc->kv_heads * (t->span / t->before.chunk) * column_groups(c);
    const int64_t most = (t->before.team ? 1 : 2) * (int64_t)c->facts->device->info.compute_units;
    int count = 1;

    while (count < MOST_SPLITS && 2 * count * groups <= most)
        count *= 2;
    return count;
}

/* The longest chunk that fits. */
static int cut_chunk(struct choice *c)
{
    enum { LEAST_LANES = 32 }; /* of a sub-group that has many rows */
    const struct engine *engine = c->facts->engine;
    const int asked = c->problem->desc.chunk, subs = engine->lanes < LEAST_LANES ? 8 : 4;
    struct flash_matrix_tiles *t = &c->tiles.before;

    for (t->chunk = asked != 0 ? asked : subs * t->span * engine->rows; t->chunk >= engine->rows; t->chunk /= 2) {
        cut_rows(c);
        if (c->tiles.span % t->chunk == 0 && group_is_allowed(c, t->group) && cut_keys(c))
            return 1;
        if (asked != 0)
            return 0;
    }
    return 0;
}

static clattn_status choose_before(struct choice *c)
{
    const int asked = c->problem->desc.chunk;
    struct flash_matrix_tiles *t = &c->tiles.before;

    if (asked % c->facts->engine->rows != 0)
        return CLATTN_UNSUPPORTED;
    if (asked % (t->span * c->facts->engine->rows) != 0)
        t->span = 1;
    cut_values(c);
    c->tiles.span = asked != 0 ? SPAN_CHUNKS * asked : SPAN_TOKENS;
    if (!cut_chunk(c))
        return CLATTN_UNSUPPORTED;
    c->tiles.splits = parts(c);
    if (t->span > 1 && t->keys % (2 * TILE) == 0)
        t->step = 2; /* a seventh less time on an H100 */
    return c->tiles.span % t->keys == 0 ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

/* Two teams' rows a group, or one's where they move blocks themselves: their lanes have enough to hold. All columns. */
static clattn_status choose_before_team(struct choice *c)
{
    struct flash_matrix_tiles *t = &c->tiles.before;

    t->team = t->span = 1;
    t->loaders = c->facts->engine->loaders > 0 ? MOVERS : 0;
    c->tiles.span = SPAN_TOKENS;
    t->subs = (t->loaders > 0 ? MOST_TEAMS : 1) * TEAM;
    cut_rows(c);
    cut_values(c);
    c->tiles.splits = parts(c);
    return column_groups(c) == 1 && group_is_allowed(c, t->group) && cut_keys(c) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

/* ---- What is written of a span ------------------------------------------------------------------------------------
 */

static int solve_fits(const struct choice *c)
{
    const struct kernel_step step = deltaformer_solve_step(c->facts->engine, c->problem, &c->tiles);

    return group_is_allowed(c, c->tiles.solve.group) && step_fits(&step, c->facts->device) == CLATTN_SUCCESS;
}

/* The widest group of few columns that local memory holds. */
static clattn_status choose_solve(struct choice *c)
{
    const struct engine *engine = c->facts->engine;
    struct deltaformer_matrix_tiles *t = &c->tiles;

    for (int subs = MOST_SUBS; subs * engine->rows >= TILE; subs /= 2)
        for (int tiles = 2; tiles >= 1; tiles--) {
            t->solve.subs = subs;
            t->solve.group = subs * engine->lanes;
            t->solve.block_v = lower(tiles * TILE, round_up(c->problem->desc.value_dim, TILE));
            if (t->span % (subs * engine->rows) == 0 && solve_fits(c))
                return CLATTN_SUCCESS;
        }
    return CLATTN_UNSUPPORTED;
}

/* ---- Both ---------------------------------------------------------------------------------------------------------
 */

static clattn_status by_heuristic(struct choice *c, int team)
{
    c->tiles = (struct deltaformer_matrix_tiles){.before = {.sub_group = c->facts->device->sub_group,
                                                            .span = c->facts->engine->span,
                                                            .step = 1,
                                                            .share = 1,
                                                            .keys = TILE}};
    TRY(team ? choose_before_team(c) : choose_before(c));
    return choose_solve(c);
}

static int before_is_sound(const struct choice *c)
{
    const struct flash_matrix_tiles *t = &c->tiles.before;
    const struct kernel_step step = deltaformer_before_step(c->facts->engine, c->problem, &c->tiles);

    return c->tiles.span % t->keys == 0 && t->keys % (t->step * TILE) == 0 && t->chunk % c->facts->engine->rows == 0 &&
           c->tiles.span % t->chunk == 0 && group_is_allowed(c, t->group) &&
           step_fits(&step, c->facts->device) == CLATTN_SUCCESS;
}

static clattn_status correct(struct choice *c)
{
    const struct engine *engine = c->facts->engine;
    const int values = round_up(c->problem->desc.value_dim, TILE);
    struct deltaformer_matrix_tiles *t = &c->tiles;

    t->before.block_v = lower(t->before.block_v, values);
    cut_rows(c);
    t->solve.block_v = lower(t->solve.block_v, values);
    t->solve.group = t->solve.subs * engine->lanes;
    return before_is_sound(c) && t->span % (t->solve.subs * engine->rows) == 0 && solve_fits(c) ? CLATTN_SUCCESS
                                                                                                : CLATTN_UNSUPPORTED;
}

clattn_status deltaformer_choose_tiles(const struct device_facts *facts, const struct problem *problem, int team,
                                       struct deltaformer_matrix_tiles *tiles)
{
    struct choice choice = {.facts = facts, .problem = problem};

    TRY(by_heuristic(&choice, team));
    if (take_tiles(&choice.tiles, tiles, offsetof(struct deltaformer_matrix_tiles, read)) > 0)
        TRY(correct(&choice));
    choice.tiles.read = tiles->read;
    TRY(flash_matrix_choose_best(facts, problem, &choice.tiles.read));
    *tiles = choice.tiles;
    return CLATTN_SUCCESS;
}
