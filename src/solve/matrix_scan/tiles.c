/* Tiles: by heuristic, or what follows from those that were chosen. */
#include "solve/matrix_scan/matrix_scan.h"
#include "solve/state_tile.h"

#include <string.h>

enum {
    TILE = MATRIX_TILE,
    SUB_GROUPS = 4,
    PREPARE_LANES = 128,
    MOST_STAGES = 2,
    SIDE_BY_SIDE = 4, /* sub-groups that a group has at least before they become wider */
    MOST_VALUES = 64,
    NARROW = 2,        /* groups that a compute unit has when only one sub-group of each computes */
    LEAST_SEGMENT = 8, /* chunks */
    FILLED = 9         /* tenths of the compute units that count as all of them */
};

static int is_scan(const struct part *part)
{
    return part->kind == PART_SCAN || part->kind == PART_GATHER;
}

static int fits(const struct part *part)
{
    const struct part_layout layout = part_layout(part);

    return step_fits(&layout.step, part->facts->device) == CLATTN_SUCCESS;
}

/* ---- A group ------------------------------------------------------------------------------------------------------
 */

/* Whether sub-groups of their own may make the output. Not one over denominators: these lie in the stage of the chunk,
 * which producers fill again before readers have the output. */
static int reads_apart(const struct part *part, const struct part_traits *traits)
{
    const struct part_tiles *t = &part->tiles;

    return part->kind == PART_SCAN && part->facts->engine->readers && t->loaders > 0 && t->stages == 2 &&
           t->key_split == 1 && traits->may_read > 0 && !traits->divided;
}

/* The work-items of a scan's group, and how its sub-groups stand. */
static void cut_scan_group(struct part *part)
{
    const struct engine *engine = part->facts->engine;
    const struct part_traits traits = part_traits(part);
    struct part_tiles *t = &part->tiles;

    t->readers = t->readers && reads_apart(part, &traits);
    t->span = traits.strips && t->block_v >= SIDE_BY_SIDE * engine->span * engine->rows ? engine->span : 1;
    t->value_tiles = t->block_v / (engine->rows * t->span);
    t->group = engine->lanes * ((t->key_split + t->readers) * t->value_tiles + t->loaders);
}

static void cut_prepare_group(struct part *part)
{
    const int lanes = part->facts->engine->lanes;
    const int few = part->kind == PART_FACTORS || lanes < PREPARE_LANES / SUB_GROUPS;

    part->tiles.group = few ? PREPARE_LANES : lanes * SUB_GROUPS;
    part->tiles.value_tiles = 1; /* words of matrix.clh that no such kernel uses divide by it */
}

/* ---- Segments -----------------------------------------------------------------------------------------------------
 */

/* Into how many segments a sequence is cut by heuristic: at least `least`, or none; at most `most`, of `chunks` or
 * more; and the most columns of a group. A rule that erases scans twice with a matrix beside, and each segment joins
 * those before it. */
struct cut {
    int least, most, chunks, columns;
};
static const struct cut plain_cut = {1, 32, LEAST_SEGMENT, 2 * MOST_VALUES}, erasing_cut = {4, 16, 16, 32},
                        wide_cut = {4, 8, 64, MOST_VALUES};

/* Whether a compute unit gains nothing by a second group: where producers keep it busy while consumers wait, and a
 * chain of products is all that takes time (rules that erase). Measured where an engine has teams, on Hopper. */
static int is_busy_alone(const struct part *part)
{
    const enum erase erase = part->problem->rule->erase;

    return part->facts->engine->team != FILE_nothing && part->facts->engine->loaders > 0 && erase != ERASE_NONE &&
           erase != ERASE_LOW_RANK;
}

/* Whether the words cover a sequence in segments: what one keeps of the state is a product of sub-groups that have all
 * channels. */
static int segments_possible(const struct part *part)
{
    const int whole = part->tiles.key_split == 1 && part->facts->engine->rows == TILE;

    return part->problem->desc.steps == 1 && (whole || part->problem->rule->erase == ERASE_NONE);
}

/* Whether twice as many segments of so many tokens would still have that many chunks each. */
static int long_enough(const struct part *part, int64_t tokens, int segments, int chunks)
{
    return tokens >= (int64_t)2 * segments * chunks * part->tiles.chunk;
}

/* Groups of a scan with that many value columns and segments. */
static int64_t groups_of(const struct part *part, int columns, int segments)
{
    return problem_heads(part->problem) * divide_up(problem_values(part->problem), columns) * segments;
}

static int64_t units_of(const struct part *part)
{
    return part->facts->device->info.compute_units;
}

/* Whether these value columns and segments leave too many compute units idle. */
static int leaves_idle(const struct part *part, int columns, int segments)
{
    const int64_t groups = groups_of(part, columns, segments);

    return is_busy_alone(part) ? 2 * groups <= units_of(part) : groups * 10 < units_of(part) * FILLED;
}

/* Whether groups of twice as many columns, which take half as long again for a chunk where channels have decays, come
 * to half as many turns of the compute units. */
static int gains_by_width(const struct part *part, int columns)
{
    const int64_t turns = divide_up(groups_of(part, columns, 1), units_of(part)),
                  of_wide = divide_up(groups_of(part, 2 * columns, 1), units_of(part));

    return is_busy_alone(part) && part_traits(part).decayed && columns == MOST_VALUES &&
           problem_values(part->problem) >= 2 * columns && 2 * of_wide <= turns;
}

/* Cuts the sequence into as many segments as fill the device. Of packed ones the usual length is what there is to go
 * by. */
static void cut_sequence(struct part *part, const struct cut *cut, int columns)
{
    const clattn_plan_desc *desc = &part->problem->desc;
    const int64_t tokens = desc->flags & CLATTN_CU_SEQLENS ? desc->seq_len / desc->sequences : desc->seq_len;
    const int side_by_side = columns == TILE ? NARROW : 1;
    struct part_tiles *t = &part->tiles;

    while (leaves_idle(part, columns, t->segments / side_by_side) && t->segments < cut->most &&
           long_enough(part, tokens, t->segments, cut->chunks))
        t->segments *= 2;
    if (t->segments < cut->least)
        t->segments = 1;
}

/* ---- Value columns ------------------------------------------------------------------------------------------------
 */

/* Whether registers are so few that a chunk has the fewest tokens. Groups are wide there, so that each lane moves
 * little. */
static int few_registers(const struct part *part)
{
    return part->facts->engine->chunk == TILE;
}

/* The columns of a group whose sequences are cut into segments, and the segments; 0 where they are better left whole:
 * where one is a matrix larger than the state, for one. */
static int segment_columns(struct part *part, int columns)
{
    const struct part_traits traits = part_traits(part);
    const int values = problem_values(part->problem);
    const struct cut *cut = traits.erasing ? &erasing_cut : &plain_cut;
    const int most = few_registers(part) ? MOST_VALUES : cut->columns;

    if (!segments_possible(part) || (traits.erasing && 2 * values < traits.width))
        return 0;
    if (is_busy_alone(part) && columns == MOST_VALUES && columns < values) {
        cut_sequence(part, &wide_cut, columns);
        if (!leaves_idle(part, columns, part->tiles.segments))
            return columns;
        part->tiles.segments = 1;
    }
    if (columns < values)
        columns *= 2;
    columns = lower(columns, most);
    cut_sequence(part, cut, columns);
    return traits.erasing && part->tiles.segments == 1 ? 0 : columns;
}

/* As many value columns a group as leave nearly every compute unit one, for its chunks are then fetched the fewest
 * times. Where that would be few, the sequence is cut instead. */
static int value_columns(struct part *part)
{
    const int least = few_registers(part) ? 2 * TILE : TILE;
    int columns = MOST_VALUES, cut;

    while (columns > TILE && columns / 2 >= problem_values(part->problem))
        columns /= 2;
    if (!leaves_idle(part, columns, 1))
        return gains_by_width(part, columns) ? 2 * columns : columns;
    cut = segment_columns(part, columns);
    if (cut > 0)
        return cut;
    while (columns > least && leaves_idle(part, columns, 1))
        columns /= 2;
    return columns;
}

/* ---- By heuristic -------------------------------------------------------------------------------------------------
 */

/* Sub-groups that share value columns: no more than there are tiles of channels. */
static int key_split(const struct part *part)
{
    int split = part->facts->engine->key_split;

    while (split > 1 && TILE * split / 2 >= part->problem->desc.key_dim)
        split /= 2;
    return split;
}

/* Without readers, then fewer stages, then fewer columns, until a chunk fits local memory. */
static clattn_status cut_to_fit(struct part *part)
{
    static const struct {
        int stages, readers;
    } ways[] = {{MOST_STAGES, 1}, {MOST_STAGES, 0}, {1, 0}};
    struct part_tiles *t = &part->tiles;

    t->loaders = part->facts->engine->loaders;
    for (int columns = value_columns(part); columns >= TILE; columns /= 2)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            if (columns > MOST_VALUES && ways[i].stages == 1 && is_busy_alone(part))
                continue;
            t->block_v = columns;
            t->stages = ways[i].stages;
            t->readers = ways[i].readers && part_traits(part).may_read > 1;
            cut_scan_group(part);
            if (fits(part))
                return CLATTN_SUCCESS;
        }
    return CLATTN_UNSUPPORTED;
}

static clattn_status by_heuristic(struct part *part)
{
    const int asked = part->problem->desc.chunk, most = part_traits(part).most_chunk;
    struct part_tiles *t = &part->tiles;

    *t = (struct part_tiles){.chunk = asked != 0 ? asked : lower(most, part->facts->engine->chunk),
                             .key_split = key_split(part),
                             .sub_group = part->facts->device->sub_group,
                             .segments = 1};
    if ((t->chunk != TILE && t->chunk != 2 * TILE) || t->chunk > most)
        return CLATTN_UNSUPPORTED;
    if (is_scan(part))
        return cut_to_fit(part);
    cut_prepare_group(part);
    return fits(part) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

/* ---- What was chosen ----------------------------------------------------------------------------------------------
 */

static int take(int *tile, int chosen)
{
    if (chosen == TILE_OPEN)
        return 0;
    *tile = chosen;
    return 1;
}

/* Puts the kernel's tiles that tuning chose in their places; how many there are. */
static int take_chosen(struct part *part, const struct part_tiles *chosen)
{
    struct part_tiles *t = &part->tiles;
    int count = take(&t->chunk, chosen->chunk) + take(&t->key_split, chosen->key_split);

    if (is_scan(part))
        count += take(&t->block_v, chosen->block_v) + take(&t->loaders, chosen->loaders) +
                 take(&t->readers, chosen->readers) + take(&t->depth, chosen->depth) +
                 take(&t->segments, chosen->segments) + take(&t->stages, chosen->stages);
    return count;
}

static void correct_scan(struct part *part)
{
    struct part_tiles *t = &part->tiles;

    t->block_v = lower(t->block_v, round_up(problem_values(part->problem), TILE));
    while (t->segments > 1 && (!segments_possible(part) ||
                               !long_enough(part, part->problem->desc.seq_len, t->segments / 2, LEAST_SEGMENT)))
        t->segments /= 2;
    cut_scan_group(part);
    if (!fits(part)) {
        t->readers = 0;
        cut_scan_group(part);
    }
}

static clattn_status correct(struct part *part)
{
    const struct part_tiles *t = &part->tiles;

    if (is_scan(part))
        correct_scan(part);
    else
        cut_prepare_group(part);
    return t->chunk <= part_traits(part).most_chunk && (size_t)t->group <= part->facts->device->info.max_work_group &&
                   fits(part)
               ? CLATTN_SUCCESS
               : CLATTN_UNSUPPORTED;
}

static clattn_status choose(struct part *part, const struct part_tiles *chosen)
{
    TRY(by_heuristic(part));
    return take_chosen(part, chosen) > 0 ? correct(part) : CLATTN_SUCCESS;
}

/* ---- All kernels --------------------------------------------------------------------------------------------------
 */

static clattn_status choose_prepare(struct part part, const struct part_tiles *chosen, struct part_tiles *tiles)
{
    part.kind = PART_PREPARE;
    TRY(choose(&part, chosen));
    if (!part_traits(&part).reads_rows) {
        part.kind = PART_FACTORS;
        TRY(choose(&part, chosen));
    }
    *tiles = part.tiles;
    return states_are_at_chunks(part.problem, tiles->chunk) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

/* Whether one scan finds what the other left where it looks for it. */
static int same_cut(const struct part_tiles *a, const struct part_tiles *b)
{
    return a->chunk == b->chunk && a->block_v == b->block_v && a->segments == b->segments &&
           a->key_split == b->key_split;
}

static clattn_status choose_scans(struct part part, const struct part_tiles *chosen, struct part_tiles *scan,
                                  struct part_tiles *gather)
{
    part.kind = PART_SCAN;
    TRY(choose(&part, chosen));
    *scan = part.tiles;
    if (scan->segments == 1)
        return CLATTN_SUCCESS;
    part.kind = PART_GATHER;
    TRY(choose(&part, chosen));
    *gather = part.tiles;
    return same_cut(scan, gather) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

clattn_status matrix_scan_choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                       const struct problem *problem, void *tiles)
{
    struct matrix_scan_tiles *t = tiles;
    const struct part_tiles chosen = t->scan[PASS_OUTPUTS];
    struct problem of_pass = *problem;
    const struct part part = {.problem = &of_pass, .facts = facts};

    (void)solver;
    memset(t, 0, sizeof *t);
    TRY(choose_prepare(part, &chosen, &t->prepare));
    for (int pass = problem_normalized(problem) ? PASS_DENOMINATORS : PASS_OUTPUTS; pass >= 0; pass--) {
        of_pass.pass = (enum pass)pass;
        TRY(choose_scans(part, &chosen, &t->scan[pass], &t->gather[pass]));
    }
    return CLATTN_SUCCESS;
}
