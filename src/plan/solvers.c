/* The ways to compute a recurrence: each turns a problem into a recipe. */
#include "plan/recipe.h"

#include "kernel/matrix.h"
#include "plan/probe.h"

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

/* ---- Token by token, the state in registers: short sequences and decoding ------------------------------------------
 */

static clattn_status make_recurrent(const struct recipe_maker *maker)
{
    TRY(begin(maker));
    return each_pass(maker, maker_variant(maker, KERNEL_RECURRENT), add_scan);
}

const struct solver solver_recurrent = {"recurrent", CLATTN_MODE_RECURRENT, make_recurrent};

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

const struct solver solver_channels_lanes = {"channels_lanes", CLATTN_MODE_RECURRENT, make_channels_lanes};
const struct solver solver_channels = {"channels", CLATTN_MODE_RECURRENT, make_channels};

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
    return each_pass(maker, maker_variant(maker, KERNEL_SCAN), add_scan);
}

const struct solver solver_chunk_scan = {"chunk_scan", CLATTN_MODE_CHUNK, make_chunk_scan};

/* ---- Chunks in register blocks: what does not depend on the state, then the state before every chunk, then all
 * outputs; a stretch of every sequence at a time, so that the workspace is bounded
 * ------------------------------------------------------------ */

/* Chunks that a launch works at most, of all heads. */
static int64_t stretch_chunks(const struct recipe_maker *maker, const struct step *step)
{
    const struct extent most = problem_most(maker->problem);

    if (step->layout.stretch == 0)
        return chunks_of(maker, step);
    return most.sequences * step->layout.stretch * problem_work_heads(maker->problem);
}

/* Whether the kernels of a stretch work the same rows. */
static int same_stretch(const struct step *a, const struct step *b)
{
    return a->variant.tiles.chunk == b->variant.tiles.chunk && a->layout.stretch == b->layout.stretch &&
           a->layout.record == b->layout.record && a->layout.rows == b->layout.rows;
}

static clattn_status add_blocks_pass(const struct recipe_maker *maker, const struct variant *variant)
{
    const struct step *prepared = &maker->recipe->steps[maker->recipe->loop_first];
    int64_t heads = problem_heads(maker->problem);
    struct variant outputs = *variant, join = *variant;
    struct step *states, *joined, *read;
    int segments;

    outputs.kernel = KERNEL_OUTPUTS;
    join.kernel = KERNEL_JOIN;
    TRY(maker_add(maker, variant, GRID_SEQUENCES, &states));
    segments = states->variant.tiles.segments;
    if (segments > 1) {
        TRY(maker_add(maker, &join, GRID_SEQUENCES, &joined));
        if (joined->variant.tiles.segments != segments)
            return CLATTN_UNSUPPORTED;
        maker_reserve(maker, TEMPORARY_SEGMENTS, heads * segments * states->layout.segment);
        maker_reserve(maker, TEMPORARY_SEGMENT_KEPT, heads * segments * states->layout.segment_kept);
    }
    TRY(maker_add(maker, &outputs, GRID_SLOTS, &read));
    maker_reserve(maker, TEMPORARY_BEFORE, stretch_chunks(maker, states) * states->layout.states);
    if (states->layout.stretch > 0)
        maker_reserve(maker, variant->normalizer ? TEMPORARY_CARRIED_SUMS : TEMPORARY_CARRIED,
                      heads * states->layout.states);
    return same_stretch(states, prepared) && same_stretch(read, prepared) && read->variant.tiles.segments == segments
               ? CLATTN_SUCCESS
               : CLATTN_UNSUPPORTED;
}

static clattn_status make_blocks(const struct recipe_maker *maker, const struct engine *engine)
{
    struct variant prepare = maker_variant(maker, KERNEL_PREPARE_BLOCKS), states = prepare;
    struct step *prepared;

    if (maker->problem->desc.state_window != 0 || maker->problem->desc.state_every != 0)
        return CLATTN_UNSUPPORTED;
    prepare.engine = states.engine = engine;
    states.kernel = KERNEL_STATES;
    TRY(begin(maker));
    maker->recipe->loop_first = maker->recipe->step_count;
    TRY(maker_add(maker, &prepare, GRID_SLOTS, &prepared));
    maker_reserve(maker, TEMPORARY_RECORDS, stretch_chunks(maker, prepared) * prepared->layout.record);
    maker_reserve(maker, TEMPORARY_ROWS, stretch_chunks(maker, prepared) * prepared->layout.rows);
    TRY(each_pass(maker, states, add_blocks_pass));
    maker->recipe->loop_last = maker->recipe->step_count - 1;
    maker->recipe->loop_rows = prepared->layout.stretch * prepared->variant.tiles.chunk;
    return CLATTN_SUCCESS;
}

static clattn_status make_chunk_blocks(const struct recipe_maker *maker)
{
    return make_blocks(maker, NULL);
}

const struct solver solver_chunk_blocks = {"chunk_blocks", CLATTN_MODE_CHUNK, make_chunk_blocks};

/* The same on an engine that multiplies floats. */
static clattn_status make_matrix_blocks(const struct recipe_maker *maker)
{
    const struct engine *engine = maker->context->engine;

    if (engine == NULL || engine->exact == FILE_nothing || maker->problem->desc.dtype != CLATTN_F32)
        return CLATTN_UNSUPPORTED;
    return make_blocks(maker, engine);
}

const struct solver solver_matrix_blocks = {"matrix_blocks", CLATTN_MODE_CHUNK, make_matrix_blocks};

/* ---- Chunks on a matrix engine: prepare_matrix or prepare_factors, then scan_matrix with the state in registers
 * ------ */

/* Whether one scan finds what the other left where it looks for it. */
static int same_cut(const struct tiles *a, const struct tiles *b)
{
    return a->chunk == b->chunk && a->block_v == b->block_v && a->segments == b->segments &&
           a->key_split == b->key_split;
}

/* One pass over all chunks: a scan; or over segments a scan for what each adds to the state and keeps of it, and the
 * scan. */
static clattn_status add_matrix_scan(const struct recipe_maker *maker, const struct variant *variant)
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

/* What does not depend on the state, chunk by chunk. */
static clattn_status add_matrix_prepare(const struct recipe_maker *maker)
{
    enum {
        MOST_BEYOND = 64
    }; /* scan fetches a chunk past a segment's last, and empty segments may lie past the last chunk */
    struct variant prepare = maker_variant(maker, KERNEL_PREPARE_MATRIX);
    struct step *prepared;
    int64_t chunks;

    TRY(maker_tiles(maker, &prepare));
    if (!matrix_shape(&prepare).reads_rows)
        prepare.kernel = KERNEL_PREPARE_FACTORS;
    TRY(maker_add(maker, &prepare, GRID_SLOTS, &prepared));
    if (!are_at_chunks(maker->problem, &prepared->variant.tiles))
        return CLATTN_UNSUPPORTED;
    chunks = chunks_of(maker, prepared);
    maker_reserve(maker, TEMPORARY_RECORDS,
                  (chunks + MOST_BEYOND * problem_work_heads(maker->problem)) * prepared->layout.record);
    maker_reserve(maker, TEMPORARY_ROWS, chunks * prepared->layout.rows);
    return CLATTN_SUCCESS;
}

static clattn_status make_matrix_scan(const struct recipe_maker *maker)
{
    if (maker->context->engine == NULL || maker->problem->desc.dtype == CLATTN_F32 ||
        !kernel_takes(KERNEL_SCAN_MATRIX, maker->problem->rule))
        return CLATTN_UNSUPPORTED;
    if (!maker->dry)
        TRY(probe_engine(maker->context, maker->problem));
    TRY(begin(maker));
    TRY(add_matrix_prepare(maker));
    return each_pass(maker, maker_variant(maker, KERNEL_SCAN_MATRIX), add_matrix_scan);
}

const struct solver solver_matrix_scan = {"matrix_scan", CLATTN_MODE_CHUNK, make_matrix_scan};

/* ---- A list of keys and values, read by blocks of queries: one kernel, parallel over blocks and heads
 * ------------------------------------------------------------------------------------------------------ */

/* The call's own keys and values go into the cache first, where that is asked for. */
static clattn_status begin_list(const struct recipe_maker *maker)
{
    const struct variant append = maker_variant(maker, KERNEL_APPEND);

    return maker->problem->desc.flags & CLATTN_APPEND ? maker_add(maker, &append, GRID_SLOTS, NULL) : CLATTN_SUCCESS;
}

static clattn_status make_flash(const struct recipe_maker *maker)
{
    const struct variant flash = maker_variant(maker, KERNEL_FLASH);

    if (maker->problem->rule->erase != ERASE_NONE) /* its values are made first */
        return CLATTN_UNSUPPORTED;
    TRY(begin_list(maker));
    return maker_add(maker, &flash, GRID_SLOTS, NULL);
}

const struct solver solver_flash = {"flash", CLATTN_MODE_CHUNK, make_flash};

/* ---- The same of a few queries and many keys: parts of the keys at once, which are joined -------------------------
 */

/* Steps that leave parts of the keys of the same rows in the same places; room for them. */
static clattn_status reserve_parts(const struct recipe_maker *maker, const struct step *decoded,
                                   const struct step *joined, int more)
{
    const struct extent most = problem_most(maker->problem);
    int64_t tiles = recipe_slots(maker->problem, &most, decoded->variant.tiles.chunk) * decoded->layout.head_groups;
    int splits = decoded->variant.tiles.splits;

    if (joined->layout.record != decoded->layout.record || joined->variant.tiles.splits != splits)
        return CLATTN_UNSUPPORTED;
    maker_reserve(maker, TEMPORARY_PARTS, tiles * (splits + more) * decoded->layout.record);
    return CLATTN_SUCCESS;
}

static clattn_status make_decode(const struct recipe_maker *maker)
{
    const struct variant decode = maker_variant(maker, KERNEL_DECODE), join = maker_variant(maker, KERNEL_JOIN_PARTS);
    struct step *decoded, *joined;

    if (maker->problem->rule->erase != ERASE_NONE)
        return CLATTN_UNSUPPORTED;
    TRY(begin_list(maker));
    TRY(maker_add(maker, &decode, GRID_SLOTS, &decoded));
    TRY(maker_add(maker, &join, GRID_SLOTS, &joined));
    return reserve_parts(maker, decoded, joined, 0);
}

const struct solver solver_decode = {"decode", CLATTN_MODE_CHUNK, make_decode};

/* ---- The same of keys that turn, and are carried but for the last few: queries walk over these first, which are one
 * part more
 */

static clattn_status make_path_decode(const struct recipe_maker *maker)
{
    const struct variant walk = maker_variant(maker, KERNEL_WALK_PATH), decode = maker_variant(maker, KERNEL_DECODE);
    const struct variant join = maker_variant(maker, KERNEL_JOIN_PARTS);
    const struct extent most = problem_most(maker->problem);
    struct step *walked, *decoded, *joined;

    if (maker->problem->desc.tail == 0)
        return CLATTN_UNSUPPORTED;
    TRY(maker_add(maker, &walk, GRID_SLOTS, &walked));
    TRY(maker_add(maker, &decode, GRID_SLOTS, &decoded));
    TRY(maker_add(maker, &join, GRID_SLOTS, &joined));
    if (walked->layout.record != decoded->layout.record || walked->layout.rows != decoded->layout.rows ||
        walked->layout.head_groups != decoded->layout.head_groups ||
        walked->variant.tiles.splits != decoded->variant.tiles.splits)
        return CLATTN_UNSUPPORTED;
    maker_reserve(maker, TEMPORARY_ROWS,
                  recipe_slots(maker->problem, &most, walked->variant.tiles.chunk) * walked->layout.head_groups *
                      walked->layout.rows);
    return reserve_parts(maker, decoded, joined, 1);
}

const struct solver solver_path_decode = {"path_decode", CLATTN_MODE_CHUNK, make_path_decode};

/* ---- Keys that turn: blocks of keys prepared, carried to the ends of their spans, then read back over by the queries
 */

static int same_blocks(const struct step *a, const struct step *b)
{
    return a->variant.tiles.chunk == b->variant.tiles.chunk && a->variant.tiles.span == b->variant.tiles.span &&
           a->layout.rows == b->layout.rows && a->layout.record == b->layout.record;
}

static clattn_status make_path(const struct recipe_maker *maker)
{
    const struct variant prepare = maker_variant(maker, KERNEL_PREPARE_PATH);
    const struct variant carry = maker_variant(maker, KERNEL_CARRY_PATH),
                         flash = maker_variant(maker, KERNEL_FLASH_PATH);
    const struct extent most = problem_most(maker->problem);
    struct step *prepared, *carried, *read;
    int64_t heads = maker->problem->desc.kv_heads, slots, spans;

    TRY(maker_add(maker, &prepare, GRID_KEY_SLOTS, &prepared));
    TRY(maker_add(maker, &carry, GRID_KEY_SLOTS, &carried));
    TRY(maker_add(maker, &flash, GRID_SLOTS, &read));
    if (!same_blocks(prepared, carried) || !same_blocks(prepared, read))
        return CLATTN_UNSUPPORTED;
    slots = recipe_key_slots(maker->problem, &most, prepared->variant.tiles.chunk);
    spans = slots / prepared->variant.tiles.span + most.sequences;
    maker_reserve(maker, TEMPORARY_ROWS, slots * heads * prepared->layout.rows);
    maker_reserve(maker, TEMPORARY_RECORDS, slots * heads * prepared->layout.record);
    maker_reserve(maker, TEMPORARY_SEGMENTS, spans * heads * carried->layout.segment);
    return CLATTN_SUCCESS;
}

const struct solver solver_path = {"path", CLATTN_MODE_CHUNK, make_path};

/* ---- Values that depend on those before: a span of every sequence at a time, what the keys before it make of its
 * rows, then block by block within it; at last the read
 */

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

/* The first two steps are run for every span. */
static void loop_spans(struct recipe *recipe, int rows)
{
    recipe->loop_last = 1;
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

const struct solver solver_delta = {"delta", CLATTN_MODE_CHUNK, make_delta};

/* ---- A list on a matrix engine ------------------------------------------------------------------------------------
 */

/* Whether an engine has the kernel for the problem, and computes it. */
static clattn_status list_engine(const struct recipe_maker *maker, enum kernel_id kernel)
{
    if (maker->context->engine == NULL || maker->problem->desc.dtype == CLATTN_F32 ||
        !kernel_takes(kernel, maker->problem->rule))
        return CLATTN_UNSUPPORTED;
    return maker->dry ? CLATTN_SUCCESS : probe_engine(maker->context, maker->problem);
}

static clattn_status make_flash_matrix(const struct recipe_maker *maker)
{
    const struct variant flash = maker_variant(maker, KERNEL_FLASH_MATRIX);

    if (maker->problem->rule->erase != ERASE_NONE) /* its values are made first */
        return CLATTN_UNSUPPORTED;
    TRY(list_engine(maker, KERNEL_FLASH_MATRIX));
    TRY(begin_list(maker));
    return maker_add(maker, &flash, GRID_SLOTS, NULL);
}

const struct solver solver_flash_matrix = {"flash_matrix", CLATTN_MODE_CHUNK, make_flash_matrix};

/* ---- A list in register blocks: by multiply-adds, or on an engine that multiplies floats ---------------------------
 */

static clattn_status make_list_blocks(const struct recipe_maker *maker, const struct engine *engine)
{
    struct variant flash = maker_variant(maker, KERNEL_FLASH_BLOCKS);

    flash.engine = engine;
    TRY(begin_list(maker));
    return maker_add(maker, &flash, GRID_SLOTS, NULL);
}

static clattn_status make_flash_blocks(const struct recipe_maker *maker)
{
    return make_list_blocks(maker, NULL);
}

const struct solver solver_flash_blocks = {"flash_blocks", CLATTN_MODE_CHUNK, make_flash_blocks};

static clattn_status make_flash_matrix_blocks(const struct recipe_maker *maker)
{
    return maker->context->engine != NULL ? make_list_blocks(maker, maker->context->engine) : CLATTN_UNSUPPORTED;
}

const struct solver solver_flash_matrix_blocks = {"flash_matrix_blocks", CLATTN_MODE_CHUNK, make_flash_matrix_blocks};

/* ---- Values that depend on those before, on a matrix engine -------------------------------------------------------
 */

static clattn_status make_delta_matrix(const struct recipe_maker *maker)
{
    enum { ALIGNED = 16 }; /* floats that the first span's own may begin later */
    const struct variant before = maker_variant(maker, KERNEL_WRITE_BEFORE_MATRIX);
    const struct variant solve = maker_variant(maker, KERNEL_WRITE_SOLVE_MATRIX);
    const struct variant flash = maker_variant(maker, KERNEL_FLASH_MATRIX);
    struct step *seen, *solved;

    TRY(list_engine(maker, KERNEL_WRITE_BEFORE_MATRIX));
    TRY(maker_add(maker, &before, GRID_SEQUENCES, &seen));
    TRY(maker_add(maker, &solve, GRID_SEQUENCES, &solved));
    TRY(maker_add(maker, &flash, GRID_SLOTS, NULL));
    if (seen->layout.record != solved->layout.record || seen->variant.tiles.tokens != solved->variant.tiles.tokens)
        return CLATTN_UNSUPPORTED;
    reserve_written(maker, seen->layout.record + ALIGNED);
    loop_spans(maker->recipe, seen->variant.tiles.tokens);
    return CLATTN_SUCCESS;
}

const struct solver solver_delta_matrix = {"delta_matrix", CLATTN_MODE_CHUNK, make_delta_matrix};

/* ---- Keys that turn, on a matrix engine ---------------------------------------------------------------------------
 */

static clattn_status make_path_matrix(const struct recipe_maker *maker)
{
    const struct variant prepare = maker_variant(maker, KERNEL_PREPARE_PATH_MATRIX);
    const struct variant carry = maker_variant(maker, KERNEL_CARRY_PATH_MATRIX);
    const struct variant flash = maker_variant(maker, KERNEL_FLASH_PATH_MATRIX);
    const struct extent most = problem_most(maker->problem);
    int64_t heads = maker->problem->desc.kv_heads, slots, spans;
    struct step *prepared, *carried, *read;

    TRY(list_engine(maker, KERNEL_FLASH_PATH_MATRIX));
    TRY(maker_add(maker, &prepare, GRID_KEY_SLOTS, &prepared));
    TRY(maker_add(maker, &carry, GRID_KEY_SLOTS, &carried));
    TRY(maker_add(maker, &flash, GRID_SLOTS, &read));
    if (!same_blocks(prepared, carried) || !same_blocks(prepared, read) ||
        carried->variant.tiles.tokens != read->variant.tiles.tokens)
        return CLATTN_UNSUPPORTED;
    slots = recipe_key_slots(maker->problem, &most, read->variant.tiles.chunk);
    spans = slots * read->variant.tiles.chunk / read->variant.tiles.tokens + most.sequences;
    maker_reserve(maker, TEMPORARY_ROWS, slots * heads * read->layout.rows);
    maker_reserve(maker, TEMPORARY_SEGMENTS, spans * heads * read->layout.segment);
    return CLATTN_SUCCESS;
}

const struct solver solver_path_matrix = {"path_matrix", CLATTN_MODE_CHUNK, make_path_matrix};

/* ---- Pieces: a kernel each, of chunks of tokens
 * -------------------------------------------------------------------------------------------------- */

static clattn_status make_piece(const struct recipe_maker *maker, enum kernel_id kernel)
{
    const struct variant variant = maker_variant(maker, kernel);
    int leaves_state = (maker->problem->desc.flags & CLATTN_FINAL_STATE) != 0;

    return maker_add(maker, &variant, leaves_state ? GRID_SLOTS_OR_SEQUENCES : GRID_SLOTS, NULL);
}

#define PIECE(value, name)                                                                                             \
    static clattn_status make_##name(const struct recipe_maker *maker)                                                 \
    {                                                                                                                  \
        return make_piece(maker, KERNEL_##value);                                                                      \
    }                                                                                                                  \
    const struct solver solver_##name = {#name, CLATTN_MODE_RECURRENT, make_##name};
#include "op/words.def"

/* ---- The attention matrix beside the outputs: what unit vectors become --------------------------------------------
 */

/* KERNEL_COUNT: the rule's values are made by others, launch by launch. */
static enum kernel_id attn_kernel(const struct rule *rule)
{
    if (!rule_has_list(rule))
        return KERNEL_RECURRENT;
    return rule->erase == ERASE_NONE ? KERNEL_FLASH : rule->erase == ERASE_POSITION ? KERNEL_FLASH_PATH : KERNEL_COUNT;
}

static clattn_status add_attn(const struct recipe_maker *maker)
{
    enum kernel_id kernel = attn_kernel(maker->problem->rule);
    struct variant variant = maker_variant(maker, kernel);
    int turned = kernel == KERNEL_FLASH_PATH;

    variant.attn = 1;
    if (kernel == KERNEL_COUNT || (turned && maker->recipe->steps[0].variant.kernel != KERNEL_PREPARE_PATH))
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

clattn_status solver_make(const struct solver *solver, const struct recipe_maker *maker)
{
    TRY(solver->make(maker));
    if (maker->problem->desc.flags & CLATTN_WITH_ATTN)
        TRY(add_attn(maker));
    return maker->problem->desc.flags & CLATTN_CARRY ? add_fold(maker) : CLATTN_SUCCESS;
}
