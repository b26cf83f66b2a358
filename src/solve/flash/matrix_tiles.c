/* How a list that is read on a matrix engine is cut: by heuristic, and as tuning has chosen. */
#include "solve/flash/flash.h"

enum {
    TILE = MATRIX_TILE,
    MOST_TEAMS = 2,   /* of a group */
    PIECES = 2,       /* of eight numbers, of a row of a tile */
    MOST_PIECES = 4,  /* that a lane copies of the keys of a block */
    LEAST_LANES = 32, /* of a sub-group that has many rows: where there are fewer a group has more sub-groups */
    MOST_SUMS = 128   /* registers of a lane for what it sums */
};

/* ---- What the engine reads ----------------------------------------------------------------------------------------
 */

/* Teams do not read biases of distances: on an H200 (driver 580.159) the self-test finds them wrong, though they are right
 * on the emulated engine. */
int flash_matrix_applies(const struct device_facts *facts, const struct problem *problem, int team)
{
    const int possible = team ? has_teams(facts) && !problem_has_distances(problem) : facts->engine != NULL;

    return possible && rule_has_list(problem->rule) && problem->desc.dtype != CLATTN_F32 &&
           problem->desc.kernel == CLATTN_WEIGHTS_SOFTMAX;
}

/* ---- Rows ---------------------------------------------------------------------------------------------------------
 */

/* Sub-groups that multiply together, and rows of a sub-group. */
static int team_of(const struct flash_read *read)
{
    return read->tiles.team ? TEAM : 1;
}

static int rows_of(const struct flash_read *read)
{
    return read->tiles.span * read->facts->engine->rows;
}

/* Tokens of a sequence; of packed ones the usual length is what there is to go by. */
static int64_t tokens_of(const struct problem *problem)
{
    const clattn_plan_desc *desc = &problem->desc;

    return desc->flags & CLATTN_CU_SEQLENS ? divide_up(desc->seq_len, desc->sequences) : desc->seq_len;
}

/* Heads of a key head that share a group where the tokens are too few for one: their number divides that of all. A gate
 * is each head's own. */
static int share_of(const struct problem *problem, int rows)
{
    const clattn_plan_desc *desc = &problem->desc;
    const int heads = (int)(desc->heads / desc->kv_heads);
    int share = 1;

    if (problem_decay(problem) != DECAY_NONE || desc->chunk != 0)
        return 1;
    for (int n = 2; n <= heads && n * tokens_of(problem) <= rows; n++)
        if (heads % n == 0)
            share = n;
    return share;
}

/* Sub-groups for the chunk, or the chunk of the sub-groups. */
static void cut_rows(struct flash_read *read)
{
    struct flash_matrix_tiles *t = &read->tiles;
    const int asked = read->problem->desc.chunk;

    t->chunk = asked != 0 ? asked : t->chunk;
    if (t->chunk != 0)
        t->subs = round_up(divide_up((int64_t)t->chunk * t->share, rows_of(read)), team_of(read));
    else
        t->chunk = t->subs * rows_of(read) / t->share;
    t->group = read->facts->engine->lanes * (t->subs + t->loaders);
}

/* As many rows as the tokens want; fewer where groups would be too few for the device. */
static void choose_rows(struct flash_read *read)
{
    struct flash_matrix_tiles *t = &read->tiles;
    const int64_t tokens = tokens_of(read->problem), heads = problem_heads(read->problem);

    t->subs = t->team ? MOST_TEAMS * TEAM : read->facts->engine->lanes < LEAST_LANES ? 8 : 4;
    t->share = share_of(read->problem, t->subs * rows_of(read));
    while (t->subs > team_of(read) && t->subs / 2 * rows_of(read) >= tokens * t->share)
        t->subs /= 2;
    while (t->subs > higher(2, team_of(read)) && t->subs / 2 * rows_of(read) >= t->share &&
           heads / t->share * divide_up(tokens * t->share, t->subs * rows_of(read)) <
               (int64_t)read->facts->device->info.compute_units)
        t->subs /= 2;
    t->chunk = 0;
    cut_rows(read);
}

/* ---- Keys and values ----------------------------------------------------------------------------------------------
 */

static int fits(const struct flash_read *read)
{
    const struct kernel_step step = flash_matrix_step(read->tiles.team ? FILE_flash_team : FILE_flash_matrix,
                                                      read->facts->engine, read->problem, &read->tiles);

    return step_fits(&step, read->facts->device) == CLATTN_SUCCESS;
}

/* Whether a lane copies few pieces of a block, which it holds in registers on their way, where those are few. */
static int few_pieces(const struct flash_read *read)
{
    const struct flash_matrix_tiles *t = &read->tiles;
    const int channels = (int)divide_up(read->problem->desc.key_dim, TILE);

    return read->facts->engine->chunk > TILE || t->keys == TILE ||
           t->keys * channels * PIECES <= MOST_PIECES * t->group;
}

int flash_cut_keys(struct flash_read *read)
{
    static const struct way {
        int keys, stages;
    } ways[] = {{64, 2}, {32, 2}, {16, 2}, {32, 1}, {16, 1}, {0, 0}},
      of_teams[] = {{64, 3}, {64, 2}, {32, 3}, {32, 2}, {0, 0}};
    struct flash_matrix_tiles *t = &read->tiles;

    for (const struct way *way = t->team ? of_teams : ways; way->keys != 0; way++) {
        t->keys = way->keys;
        t->stages = way->stages;
        if (t->team) /* a block is a unit */
            t->step = t->keys / TILE;
        if (few_pieces(read) && fits(read))
            return 1;
    }
    return 0;
}

static int sums(const struct flash_read *read)
{
    return flash_sum_registers(read->facts->engine, &read->tiles);
}

void flash_cut_values(struct flash_read *read)
{
    struct flash_matrix_tiles *t = &read->tiles;

    t->block_v = round_up(read->problem->desc.value_dim, TILE);
    while (t->span > 1 && sums(read) > MOST_SUMS)
        t->span /= 2;
    while (sums(read) > MOST_SUMS)
        t->block_v = round_up(divide_up(t->block_v, 2), TILE);
}

/* A team's unit of keys is of one chunk, where that is asked for. */
static int has_whole_units(const struct flash_read *read)
{
    return !read->tiles.team || read->problem->desc.chunk % read->tiles.keys == 0;
}

/* ---- Both ---------------------------------------------------------------------------------------------------------
 */

static int group_is_allowed(const struct flash_read *read)
{
    return (size_t)read->tiles.group <= read->facts->device->info.max_work_group;
}

static struct flash_matrix_tiles first_tiles(const struct device_facts *facts, int asked, int team)
{
    const struct engine *engine = facts->engine;
    struct flash_matrix_tiles t = {.sub_group = facts->device->sub_group,
                                   .span = team ? 1 : engine->span,
                                   .step = 1,
                                   .share = 1,
                                   .keys = TILE,
                                   .team = team,
                                   .loaders = team && engine->loaders > 0 ? MOVERS : 0};

    if (asked % (t.span * engine->rows) != 0)
        t.span = 1;
    return t;
}

static clattn_status by_heuristic(struct flash_read *read, int team)
{
    const int asked = read->problem->desc.chunk;
    struct flash_matrix_tiles *t = &read->tiles;

    *t = first_tiles(read->facts, asked, team);
    flash_cut_values(read);
    choose_rows(read);
    if (asked % read->facts->engine->rows != 0 || !group_is_allowed(read))
        return CLATTN_UNSUPPORTED;
    while (!flash_cut_keys(read)) {
        if (asked != 0 || t->subs == team_of(read))
            return CLATTN_UNSUPPORTED;
        t->subs /= 2;
        t->chunk = 0;
        cut_rows(read);
    }
    return has_whole_units(read) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

static clattn_status correct(struct flash_read *read)
{
    struct flash_matrix_tiles *t = &read->tiles;

    t->block_v = lower(t->block_v, round_up(read->problem->desc.value_dim, TILE));
    cut_rows(read);
    if (t->team)
        t->keys = t->step * TILE;
    if (t->team && t->subs > MOST_TEAMS * TEAM) /* signals are few */
        return CLATTN_UNSUPPORTED;
    return has_whole_units(read) && t->keys % (t->step * TILE) == 0 &&
                   (t->chunk * t->share) % read->facts->engine->rows == 0 && group_is_allowed(read) && fits(read)
               ? CLATTN_SUCCESS
               : CLATTN_UNSUPPORTED;
}

clattn_status flash_matrix_choose_tiles(const struct device_facts *facts, const struct problem *problem, int team,
                                        struct flash_matrix_tiles *tiles)
{
    struct flash_read read = {.facts = facts, .problem = problem};

    TRY(by_heuristic(&read, team));
    if (take_tiles(&read.tiles, tiles, sizeof *tiles) > 0)
        TRY(correct(&read));
    *tiles = read.tiles;
    return CLATTN_SUCCESS;
}

clattn_status flash_matrix_choose_best(const struct device_facts *facts, const struct problem *problem,
                                       struct flash_matrix_tiles *tiles)
{
    struct flash_read read = {.facts = facts, .problem = problem};

    if (!flash_matrix_applies(facts, problem, 1) || by_heuristic(&read, 1) != CLATTN_SUCCESS)
        return flash_matrix_choose_tiles(facts, problem, 0, tiles);
    *tiles = read.tiles;
    return CLATTN_SUCCESS;
}
