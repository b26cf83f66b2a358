/* The ways to compute a rule whose state is a list. */
#include "plan/probe.h"
#include "plan/recipe.h"

/* ---- Values that depend on those before: a span of every sequence at a time, what the keys before it make of its
 * rows, then block by block within it; at last the read
 */

static int same_blocks(const struct step *a, const struct step *b)
{
    return a->variant.tiles.chunk == b->variant.tiles.chunk && a->variant.tiles.span == b->variant.tiles.span &&
           a->layout.rows == b->layout.rows && a->layout.record == b->layout.record;
}

/* Room for what is written, and for so many floats of a span on their way. */
static void reserve_written(const struct recipe_maker *maker, int64_t floats)
{
    const clattn_plan_desc *desc = &maker->problem->desc;
    const struct extent most = problem_most(maker->problem);
    int64_t keys = desc->flags & CLATTN_CU_SEQLENS ? most.kv_len : most.kv_len * most.batch;

    maker_reserve(maker, TEMPORARY_PARTS, most.sequences * desc->kv_heads * floats);
    if (!(desc->flags & CLATTN_WITH_WRITTEN))
        maker_reserve(maker, TEMPORARY_WRITTEN, keys * desc->kv_heads * desc->value_dim);
}

/* The solver's first two steps are run for every span. */
static void loop_spans(struct recipe *recipe, int rows)
{
    recipe->loop_first = (int)(recipe_first(recipe) - recipe->steps);
    recipe->loop_last = recipe->loop_first + 1;
    recipe->loop_rows = rows;
    recipe->loop_keys = 1;
}

static clattn_status make_delta(const struct recipe_maker *maker)
{
    const struct variant before = maker_variant(maker, KERNEL_WRITE_BEFORE);
    const struct variant solve = maker_variant(maker, KERNEL_WRITE_SOLVE), flash = maker_variant(maker, KERNEL_FLASH);
    struct step *seen, *solved;

    TRY(maker_add(maker, &before, GRID_SEQUENCES, &seen));
    TRY(maker_add(maker, &solve, GRID_SEQUENCES, &solved));
    TRY(maker_add(maker, &flash, GRID_SLOTS, NULL));
    if (!same_blocks(seen, solved))
        return CLATTN_UNSUPPORTED;
    reserve_written(maker, seen->variant.tiles.span * seen->layout.record);
    loop_spans(maker->recipe, seen->variant.tiles.span * seen->variant.tiles.chunk);
    return CLATTN_SUCCESS;
}

const struct old_solver old_delta = {"delta", make_delta};

/* ---- A list on a matrix engine ------------------------------------------------------------------------------------
 */

/* Whether an engine, or a team of its sub-groups, has the kernel for the problem, and computes it. */
static clattn_status list_engine(const struct recipe_maker *maker, enum kernel_id kernel)
{
    int team = kernel == KERNEL_FLASH_TEAM || kernel == KERNEL_WRITE_BEFORE_TEAM;

    if (maker->context->engine == NULL || maker->problem->desc.dtype == CLATTN_F32 ||
        !kernel_takes(kernel, maker->problem->rule))
        return CLATTN_UNSUPPORTED;
    if (team && maker->context->engine->team == FILE_nothing)
        return CLATTN_UNSUPPORTED;
    return maker->dry ? CLATTN_SUCCESS : probe_engine(maker->context, maker->problem, team);
}

/* What a team adds to scores, where tokens decay, and the team's kernel */
static clattn_status add_summed(const struct recipe_maker *maker, const struct variant *flash, struct step **read)
{
    const struct variant sums = maker_variant(maker, KERNEL_FLASH_SUMS);
    const struct extent most = problem_most(maker->problem);
    struct step *summed;

    if (!problem_tokens_decay(maker->problem))
        return maker_add(maker, flash, GRID_SLOTS, read);
    TRY(maker_add(maker, &sums, GRID_KEY_SLOTS, &summed));
    TRY(maker_add(maker, flash, GRID_SLOTS, read));
    maker_reserve(maker, TEMPORARY_AFTER,
                  recipe_key_slots(maker->problem, &most, summed->variant.tiles.chunk) * maker->problem->desc.heads *
                      summed->layout.record);
    return (*read)->variant.tiles.keys == summed->variant.tiles.keys ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

static clattn_status add_reading(const struct recipe_maker *maker, enum kernel_id kernel)
{
    const struct variant flash = maker_variant(maker, kernel);
    int before = maker->recipe->step_count;
    struct step *read;
    clattn_status status;

    TRY(list_engine(maker, kernel));
    status =
        kernel == KERNEL_FLASH_TEAM ? add_summed(maker, &flash, &read) : maker_add(maker, &flash, GRID_SLOTS, &read);
    if (status != CLATTN_SUCCESS)
        maker->recipe->step_count = before; /* another kernel may take its place */
    return status;
}

/* The read behind what turns or writes: by teams, where they have it. */
static clattn_status add_last_reading(const struct recipe_maker *maker)
{
    clattn_status status = add_reading(maker, KERNEL_FLASH_TEAM);

    return status == CLATTN_UNSUPPORTED ? add_reading(maker, KERNEL_FLASH_MATRIX) : status;
}

/* ---- Values that depend on those before, on a matrix engine -------------------------------------------------------
 */

static clattn_status make_delta_by(const struct recipe_maker *maker, enum kernel_id before, enum kernel_id solve)
{
    enum { ALIGNED = 16 }; /* floats that the first span's own may begin later */
    const struct variant seeing = maker_variant(maker, before), solving = maker_variant(maker, solve);
    struct step *seen, *solved;

    TRY(list_engine(maker, before));
    TRY(maker_add(maker, &seeing, GRID_SEQUENCES, &seen));
    TRY(maker_add(maker, &solving, GRID_SEQUENCES, &solved));
    TRY(add_last_reading(maker));
    if (seen->layout.record != solved->layout.record || seen->variant.tiles.tokens != solved->variant.tiles.tokens)
        return CLATTN_UNSUPPORTED;
    reserve_written(maker, seen->layout.record + ALIGNED);
    loop_spans(maker->recipe, seen->variant.tiles.tokens);
    return CLATTN_SUCCESS;
}

static clattn_status make_delta_matrix(const struct recipe_maker *maker)
{
    return make_delta_by(maker, KERNEL_WRITE_BEFORE_MATRIX, KERNEL_WRITE_SOLVE_MATRIX);
}

static clattn_status make_delta_team(const struct recipe_maker *maker)
{
    return make_delta_by(maker, KERNEL_WRITE_BEFORE_TEAM, KERNEL_WRITE_SOLVE_TEAM);
}

const struct old_solver old_delta_team = {"delta_team", make_delta_team};

const struct old_solver old_delta_matrix = {"delta_matrix", make_delta_matrix};
