/* The ways to compute a rule whose state is a list. */
#include "plan/probe.h"
#include "plan/recipe.h"

/* ---- Keys that turn: blocks of keys prepared, carried to the ends of their spans, then read back over by the queries
 */

static int same_blocks(const struct step *a, const struct step *b)
{
    return a->variant.tiles.chunk == b->variant.tiles.chunk && a->variant.tiles.span == b->variant.tiles.span &&
           a->layout.rows == b->layout.rows && a->layout.record == b->layout.record;
}

/* What prepares, carries and reads. */
struct path_steps {
    struct step *prepared, *carried, *read;
};

static clattn_status add_path(const struct recipe_maker *maker, const enum kernel_id kernels[3],
                              struct path_steps *steps)
{
    const struct variant prepare = maker_variant(maker, kernels[0]), carry = maker_variant(maker, kernels[1]);
    const struct variant flash = maker_variant(maker, kernels[2]);

    TRY(maker_add(maker, &prepare, GRID_KEY_SLOTS, &steps->prepared));
    TRY(maker_add(maker, &carry, GRID_KEY_SLOTS, &steps->carried));
    TRY(maker_add(maker, &flash, GRID_SLOTS, &steps->read));
    return same_blocks(steps->prepared, steps->carried) && same_blocks(steps->prepared, steps->read)
               ? CLATTN_SUCCESS
               : CLATTN_UNSUPPORTED;
}

static clattn_status make_plain_path(const struct recipe_maker *maker, enum kernel_id last)
{
    const enum kernel_id kernels[] = {KERNEL_PREPARE_PATH, KERNEL_CARRY_PATH, last};
    const struct extent most = problem_most(maker->problem);
    int64_t heads = maker->problem->desc.kv_heads, slots, spans;
    struct path_steps steps;
    const struct step *prepared;

    TRY(add_path(maker, kernels, &steps));
    prepared = steps.prepared;
    slots = recipe_key_slots(maker->problem, &most, prepared->variant.tiles.chunk);
    spans = slots / prepared->variant.tiles.span + most.sequences;
    maker_reserve(maker, TEMPORARY_ROWS, slots * heads * prepared->layout.rows);
    maker_reserve(maker, TEMPORARY_RECORDS, slots * heads * prepared->layout.record);
    maker_reserve(maker, TEMPORARY_SEGMENTS, spans * heads * steps.carried->layout.segment);
    return CLATTN_SUCCESS;
}

/* Rows of every head, which lie side by side; from one sequence to the next so many. */
static void lay_turned(const struct recipe_maker *maker, enum temporary_id id, int64_t heads, int64_t rows)
{
    const clattn_plan_desc *desc = &maker->problem->desc;
    int64_t row = heads * desc->key_dim;

    maker_lay(maker, id, desc->dtype, desc->batch,
              (struct view){.batch = rows * row, .token = row, .head = desc->key_dim});
}

/* Queries and keys that are turned each by itself, to be read as if nothing turned. */
static clattn_status make_turned(const struct recipe_maker *maker)
{
    const struct extent most = problem_most(maker->problem);

    TRY(make_plain_path(maker, KERNEL_TURN_PATH));
    maker->recipe->steps[maker->recipe->step_count - 1].grid = GRID_KEY_SLOTS;
    lay_turned(maker, TEMPORARY_TURNED_Q, maker->problem->desc.heads, most.seq_len);
    lay_turned(maker, TEMPORARY_TURNED_K, maker->problem->desc.kv_heads, most.kv_len);
    return CLATTN_SUCCESS;
}

static clattn_status make_path(const struct recipe_maker *maker)
{
    const struct variant flash = maker_variant(maker, KERNEL_FLASH);

    if (!(maker->problem->desc.flags & CLATTN_ABSOLUTE))
        return make_plain_path(maker, KERNEL_FLASH_PATH);
    TRY(make_turned(maker));
    return maker_add(maker, &flash, GRID_SLOTS, NULL);
}

const struct old_solver old_path = {"path", make_path};

/* ---- A list on a matrix engine ------------------------------------------------------------------------------------
 */

/* Whether an engine, or a team of its sub-groups, has the kernel for the problem, and computes it. */
static clattn_status list_engine(const struct recipe_maker *maker, enum kernel_id kernel)
{
    int team = kernel == KERNEL_FLASH_TEAM || kernel == KERNEL_FLASH_PATH_TEAM;

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

/* ---- Keys that turn, on a matrix engine ---------------------------------------------------------------------------
 */

/* What is left of every block of keys and of every span, for who reads them */
static clattn_status reserve_path(const struct recipe_maker *maker, const struct path_steps *steps)
{
    const struct extent most = problem_most(maker->problem);
    const struct step *read = steps->read;
    int64_t slots = recipe_key_slots(maker->problem, &most, read->variant.tiles.chunk);
    int64_t spans = slots * read->variant.tiles.chunk / read->variant.tiles.tokens + most.sequences;
    int64_t heads = maker->problem->desc.kv_heads;

    if (steps->carried->variant.tiles.tokens != read->variant.tiles.tokens)
        return CLATTN_UNSUPPORTED;
    maker_reserve(maker, TEMPORARY_ROWS, slots * heads * read->layout.rows);
    maker_reserve(maker, TEMPORARY_SEGMENTS, spans * heads * read->layout.segment);
    return CLATTN_SUCCESS;
}

static clattn_status make_path_matrix(const struct recipe_maker *maker)
{
    static const enum kernel_id kernels[] = {KERNEL_PREPARE_PATH_MATRIX, KERNEL_CARRY_PATH_MATRIX,
                                             KERNEL_FLASH_PATH_MATRIX};
    struct path_steps steps;

    TRY(list_engine(maker, KERNEL_FLASH_PATH_MATRIX));
    if (maker->problem->desc.flags & CLATTN_ABSOLUTE) {
        TRY(make_turned(maker));
        return add_last_reading(maker);
    }
    TRY(add_path(maker, kernels, &steps));
    return reserve_path(maker, &steps);
}

const struct old_solver old_path_matrix = {"path_matrix", make_path_matrix};

static clattn_status make_path_team(const struct recipe_maker *maker)
{
    const struct variant prepare = maker_variant(maker, KERNEL_PREPARE_PATH_TEAM);
    const struct variant carry = maker_variant(maker, KERNEL_CARRY_PATH_TEAM);
    const struct variant flash = maker_variant(maker, KERNEL_FLASH_PATH_TEAM);
    struct path_steps steps;

    TRY(list_engine(maker, KERNEL_FLASH_PATH_TEAM));
    if (maker->problem->desc.flags & CLATTN_ABSOLUTE) /* the last read is by teams */
        return CLATTN_UNSUPPORTED;
    TRY(maker_add(maker, &prepare, GRID_KEY_SLOTS, &steps.prepared));
    TRY(maker_add(maker, &carry, GRID_KEY_SLOTS, &steps.carried));
    TRY(add_summed(maker, &flash, &steps.read));
    if (!same_blocks(steps.prepared, steps.carried) || !same_blocks(steps.prepared, steps.read))
        return CLATTN_UNSUPPORTED;
    return reserve_path(maker, &steps);
}

const struct old_solver old_path_team = {"path_team", make_path_team};
