/* The ways to compute a recurrence: each turns a problem into a recipe. */
#include "plan/recipe.h"

#include <string.h>

/* What has an entry a token and head; and the gates that are made before anything else, where the rule wants them. */
static clattn_status begin(const struct recipe_maker *maker)
{
    const clattn_plan_desc *desc = &maker->problem->desc;
    const struct variant stabilize = maker_variant(maker, KERNEL_STABILIZE);
    int64_t rows = desc->batch * desc->seq_len * problem_work_heads(maker->problem);

    if (problem_normalized(maker->problem))
        maker_reserve(maker, TEMPORARY_DEN, rows);
    if (!problem_stabilized(maker->problem))
        return CLATTN_SUCCESS;
    maker_reserve(maker, TEMPORARY_DECAY, rows);
    maker_reserve(maker, TEMPORARY_STRENGTH, rows);
    maker_reserve(maker, TEMPORARY_M, rows);
    return maker_add(maker, &stabilize, GRID_SEQUENCES, NULL);
}

/* add for each pass that the problem needs: the one that leaves denominators, where there are any, then the one that
 * writes o. */
static clattn_status each_pass(const struct recipe_maker *maker, struct variant variant,
                               clattn_status (*add)(const struct recipe_maker *maker, const struct variant *variant))
{
    for (variant.normalizer = problem_normalized(maker->problem); variant.normalizer >= 0; variant.normalizer--)
        TRY(add(maker, &variant));
    return CLATTN_SUCCESS;
}

static clattn_status add_scan(const struct recipe_maker *maker, const struct variant *variant)
{
    return maker_add(maker, variant, GRID_SEQUENCES, NULL);
}

/* Whether one scan finds what the other left where it looks for it. */
static int same_cut(const struct tiles *a, const struct tiles *b)
{
    return a->chunk == b->chunk && a->block_v == b->block_v && a->segments == b->segments;
}

/* One pass over sequences: a scan; or over their segments a scan for what each adds to the state and keeps, and the
 * scan. */
static clattn_status add_in_segments(const struct recipe_maker *maker, const struct variant *variant)
{
    struct variant scan = *variant, gather = *variant;
    struct step *gathered;
    int64_t states;

    TRY(maker_tiles(maker, &scan));
    if (scan.tiles.segments > 1) {
        gather.gather = 1;
        TRY(maker_add(maker, &gather, GRID_SEQUENCES, &gathered));
        if (!same_cut(&gathered->variant.tiles, &scan.tiles))
            return CLATTN_UNSUPPORTED;
        states = problem_heads(maker->problem) * scan.tiles.segments;
        maker_reserve(maker, TEMPORARY_SEGMENTS, states * gathered->layout.segment);
        maker_reserve(maker, TEMPORARY_SEGMENT_KEPT, states * gathered->layout.segment_kept);
    }
    return maker_add(maker, &scan, GRID_SEQUENCES, NULL);
}

/* Where all tokens read the state after the last: what it is read from, unless that is an operand; and the reads. */
static clattn_status add_whole_read(const struct recipe_maker *maker, const struct variant *variant)
{
    const clattn_plan_desc *desc = &maker->problem->desc;
    const int64_t heads = problem_work_heads(maker->problem), K = desc->key_dim, V = desc->value_dim;
    const int64_t columns = variant->normalizer ? 1 : V;

    if (!(desc->flags & CLATTN_FINAL_STATE))
        maker_lay(maker, variant->normalizer ? TEMPORARY_WHOLE_SUMS : TEMPORARY_WHOLE, CLATTN_F32,
                  problem_most(maker->problem).sequences, (struct view){0, heads * K * columns, K, K * columns});
    return maker_add(maker, variant, GRID_SLOTS, NULL);
}

static clattn_status end(const struct recipe_maker *maker)
{
    const struct variant read = maker_variant(maker, KERNEL_READ_STATE);

    if (!problem_reads_whole(maker->problem))
        return CLATTN_SUCCESS;
    return problem_state_type(maker->problem) == CLATTN_F32 ? each_pass(maker, read, add_whole_read)
                                                            : CLATTN_UNSUPPORTED;
}

/* ---- Token by token, the state in registers: short sequences and decoding ------------------------------------------
 */

static clattn_status make_recurrent(const struct recipe_maker *maker)
{
    TRY(begin(maker));
    TRY(each_pass(maker, maker_variant(maker, KERNEL_RECURRENT), add_in_segments));
    return end(maker);
}

const struct old_solver old_recurrent = {"recurrent", make_recurrent};

/* ---- Elements of the state by themselves, stretches of tokens at once ----------------------------------------------
 */

static clattn_status make_of_channels(const struct recipe_maker *maker, enum kernel_id kernel)
{
    const struct variant channels = maker_variant(maker, kernel);

    if (maker->problem->desc.state_window != 0 || maker->problem->desc.state_every != 0)
        return CLATTN_UNSUPPORTED;
    return add_scan(maker, &channels);
}

static clattn_status make_channels_lanes(const struct recipe_maker *maker)
{
    return make_of_channels(maker, KERNEL_CHANNELS_LANES);
}

static clattn_status make_channels(const struct recipe_maker *maker)
{
    return make_of_channels(maker, KERNEL_CHANNELS);
}

const struct old_solver old_channels_lanes = {"channels_lanes", make_channels_lanes};
const struct old_solver old_channels = {"channels", make_channels};

/* Whether the states that are asked for are those at a chunk's end. */
static int are_at_chunks(const struct problem *problem, const struct tiles *tiles)
{
    const clattn_plan_desc *desc = &problem->desc;

    return desc->state_window == 0 && desc->state_every * desc->steps % tiles->chunk == 0;
}

/* ---- Chunks of tokens: prepare, parallel over all chunks, leaves each chunk's matrices; scan carries the state over
 * the chunks of a sequence, parallel over sequences, heads and value tiles
 * -------------------------------------------------------- */

/* Chunks of all heads together. */
static int64_t chunks_of(const struct recipe_maker *maker, const struct step *prepare)
{
    struct extent most = problem_most(maker->problem);

    return recipe_slots(maker->problem, &most, prepare->variant.tiles.chunk) * problem_work_heads(maker->problem);
}

static clattn_status make_chunk_scan(const struct recipe_maker *maker)
{
    const struct variant prepare = maker_variant(maker, KERNEL_PREPARE);
    struct step *prepared;

    TRY(begin(maker));
    TRY(maker_add(maker, &prepare, GRID_SLOTS, &prepared));
    if (!are_at_chunks(maker->problem, &prepared->variant.tiles))
        return CLATTN_UNSUPPORTED;
    maker_reserve(maker, TEMPORARY_RECORDS, chunks_of(maker, prepared) * prepared->layout.record);
    TRY(each_pass(maker, maker_variant(maker, KERNEL_SCAN), add_scan));
    return end(maker);
}

const struct old_solver old_chunk_scan = {"chunk_scan", make_chunk_scan};

/* ---- The attention matrix beside the outputs: what unit vectors become --------------------------------------------
 */

/* KERNEL_COUNT: the rule's values are made by others, launch by launch. */
static enum kernel_id attn_kernel(const struct problem *problem)
{
    enum erase erase = problem->rule->erase;

    if (!rule_has_list(problem->rule))
        return KERNEL_RECURRENT;
    if (erase == ERASE_NONE || (problem->desc.flags & CLATTN_ABSOLUTE))
        return KERNEL_FLASH;
    return erase == ERASE_POSITION ? KERNEL_FLASH_PATH : KERNEL_COUNT;
}

static clattn_status add_attn(const struct recipe_maker *maker)
{
    enum kernel_id kernel = attn_kernel(maker->problem);
    struct variant variant = maker_variant(maker, kernel);
    int turned = kernel == KERNEL_FLASH_PATH;

    variant.attn = 1;
    if (kernel == KERNEL_COUNT || (turned && recipe_first(maker->recipe)->variant.kernel != KERNEL_PREPARE_PATH))
        return CLATTN_UNSUPPORTED;
    return maker_add(maker, &variant, rule_has_list(maker->problem->rule) ? GRID_SLOTS : GRID_SEQUENCES, NULL);
}

/* ---- Keys that are carried to the end when all has been read ------------------------------------------------------
 */

static clattn_status add_fold(const struct recipe_maker *maker)
{
    const struct variant fold = maker_variant(maker, KERNEL_FOLD_PATH);

    return maker_add(maker, &fold, GRID_KEY_SLOTS, NULL);
}

static const struct old_solver *old_find(const struct solver *solver)
{
    static const struct old_solver *const all[] = {
        &old_recurrent,  &old_channels_lanes,      &old_channels,     &old_chunk_scan, &old_flash, &old_flash_matrix,
        &old_flash_team, &old_flash_matrix_blocks, &old_flash_blocks, &old_path,       &old_delta, &old_delta_matrix,
        &old_delta_team, &old_path_matrix,         &old_path_team};
    int i = 0;

    if (solver->variant != NULL)
        return solver->variant;
    while (strcmp(all[i]->name, solver->space.name) != 0)
        i++;
    return all[i];
}

clattn_status solver_make(const struct solver *solver, const struct recipe_maker *maker)
{
    TRY(old_find(solver)->make(maker));
    return solver_make_behind(maker);
}

int solver_has_behind(const struct problem *problem)
{
    return rule_has_list(problem->rule) && (problem->desc.flags & (CLATTN_WITH_ATTN | CLATTN_CARRY)) != 0;
}

clattn_status solver_make_behind(const struct recipe_maker *maker)
{
    if (maker->problem->desc.flags & CLATTN_WITH_ATTN)
        TRY(add_attn(maker));
    return maker->problem->desc.flags & CLATTN_CARRY ? add_fold(maker) : CLATTN_SUCCESS;
}
