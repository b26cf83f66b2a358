/* chunk_scan: chunks of tokens, on any device.
 *
 * prepare: the matrices of each chunk, in parallel over all chunks: A = tril(Q K^T o decay), and T if the rule erases
 * scan:    D = T (X - P S);  O = Q S + A D;  S = decay(S) + K^T D, from chunk to chunk of a sequence
 *
 * A group of prepare computes one chunk of one head. A group of scan computes block_v value columns of one head of one
 * sequence, and keeps that state in local memory. What prepare stores for a chunk is its record. */
#include "solve/chunk_scan.h"

#include <stddef.h>

enum { FLOAT = 4, OUTPUTS = 0, DENOMINATORS = 1, PASSES = 2 };

struct chunk_scan_tiles {
    struct state_tile prepare, scan[PASSES];
};

struct chunk_scan_shape {
    struct chunk_scan_tiles tiles;
    struct kernel_step prepare, scan[PASSES];
    int value_groups[PASSES];
};

#define SCAN scan[OUTPUTS]
static const struct parameter parameters[] = {
    PARAMETER_ROW("chunk", struct chunk_scan_tiles, SCAN.chunk, 8, 16, 32, 64),
    PARAMETER_ROW("vec", struct chunk_scan_tiles, SCAN.vec, 4, 16),
    PARAMETER_ROW("prepare.group", struct chunk_scan_tiles, prepare.group, 1, 16, 32, 64, 128, 256),
    PARAMETER_ROW("prepare.block_k", struct chunk_scan_tiles, prepare.block_k, 16, 32, 64, 128, 256),
    PARAMETER_ROW("prepare.pad", struct chunk_scan_tiles, prepare.pad, 0, 4, 16),
    PARAMETER_ROW("scan.group", struct chunk_scan_tiles, SCAN.group, 1, 16, 32, 64, 128, 256),
    PARAMETER_ROW("scan.block_k", struct chunk_scan_tiles, SCAN.block_k, 16, 32, 64, 128, 256),
    PARAMETER_ROW("scan.block_v", struct chunk_scan_tiles, SCAN.block_v, 4, 8, 16, 32, 64, 128),
    PARAMETER_ROW("scan.pad", struct chunk_scan_tiles, SCAN.pad, 0, 4, 16),
    PARAMETERS_END,
};

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts;
    return has_state_of_matrices(problem);
}

/* ---- Kernels ------------------------------------------------------------------------------------------------------
 */

static const char *const erase_rows[] = {"LOCAL_ERASE_P", "LOCAL_ERASE_B"},
                         *const erase_columns[] = {"LOCAL_ERASE_U", "LOCAL_ERASE_W"},
                         *const erase_norms[] = {"LOCAL_ERASE_NORMS"},
                         *const erase_solved[] = {"LOCAL_ERASE_M", "LOCAL_ERASE_T", "LOCAL_ERASE_AK", "LOCAL_ERASE_QB"};

struct kernel_step chunk_scan_prepare(const struct problem *problem, const struct state_tile *t)
{
    const struct erase_words erase = erase_words(problem);
    const struct state_sizes s = state_sizes(problem, t);
    struct kernel_step step = state_step(FILE_prepare, problem, t, &s, OUTPUTS_WRITTEN);

    step_constant(&step, "LEAVES_ERASED", problem->leaves_erased);
    step_local(&step, "LOCAL_ROWS_Q", s.slice, FLOAT);
    step_local(&step, "LOCAL_ROWS_K", s.slice, FLOAT);
    step_local(&step, "LOCAL_SCORES", s.matrix, FLOAT);
    step_local(&step, "FACTORS", s.factors, FLOAT);
    add_decay_locals(&step, problem, t, &s);
    add_some_locals(&step, erase_rows, erase.streams, s.slice);
    add_some_locals(&step, erase_norms, erase.norms, t->chunk);
    add_some_locals(&step, erase_solved, erase.solved, s.matrix);
    return step;
}

static struct kernel_step scan_step(const struct problem *problem, const struct state_tile *t)
{
    const struct state_sizes s = state_sizes(problem, t);
    struct kernel_step step = state_step(FILE_scan, problem, t, &s, OUTPUTS_WRITTEN);

    step_local(&step, "LOCAL_STATE", (int64_t)s.channels * t->block_v, FLOAT);
    step_local(&step, "LOCAL_ROWS", higher(s.slice, s.matrix), FLOAT);
    step_local(&step, "LOCAL_WRITTEN", s.values, FLOAT);
    step_local(&step, "LOCAL_OUTPUT", s.values, FLOAT);
    step_local(&step, "FACTORS", s.factors, FLOAT);
    add_decay_locals(&step, problem, t, &s);
    add_some_locals(&step, erase_columns, erase_words(problem).streams, s.values);
    if (problem->desc.flags & CLATTN_VALUE_GATE)
        step_local(&step, "LOCAL_MIX_FACTOR", s.values, FLOAT);
    return step;
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

/* Whether local memory holds the kernel with these tiles. */
static int fits(const struct device_facts *facts, const struct problem *problem, const struct state_tile *t,
                struct kernel_step (*step_of)(const struct problem *problem, const struct state_tile *t))
{
    const struct kernel_step step = step_of(problem, t);

    return step_fits(&step, facts->device) == CLATTN_SUCCESS;
}

clattn_status chunk_scan_prepare_tile(const struct device_facts *facts, const struct problem *problem,
                                      struct state_tile *t)
{
    const struct shared_wish wish = {16, 8, 2 * (int64_t)facts->device->info.compute_units, 32};

    *t = state_tile(facts, problem, &wish);
    while (!fits(facts, problem, t, chunk_scan_prepare)) {
        if (t->block_k <= t->vec)
            return CLATTN_UNSUPPORTED;
        t->block_k = round_up(t->block_k / 2, t->vec);
    }
    return CLATTN_SUCCESS;
}

/* Narrows the value tiles, then the slices of channels, until local memory holds the kernel. */
static clattn_status scan_by_heuristic(const struct device_facts *facts, const struct problem *problem,
                                       struct state_tile *t)
{
    const int slice = erase_words(problem).streams > 1 ? 16 : 32;
    const struct shared_wish wish = {16, 8, 2 * (int64_t)facts->device->info.compute_units, slice};

    *t = state_tile(facts, problem, &wish);
    while (!fits(facts, problem, t, scan_step)) {
        if (t->block_v > t->vec)
            t->block_v = round_up(t->block_v / 2, t->vec);
        else if (t->block_k > t->vec)
            t->block_k = round_up(t->block_k / 2, t->vec);
        else
            return CLATTN_UNSUPPORTED;
    }
    return CLATTN_SUCCESS;
}

static int copy_if_chosen(int *tile, int tuned)
{
    if (tuned != TILE_OPEN)
        *tile = tuned;
    return tuned != TILE_OPEN;
}

/* Copies the tiles that tuning chose. Returns whether it chose any of this kernel. */
static int copy_tuned(struct state_tile *t, const struct state_tile *tuned, const struct state_tile *both)
{
    int any = copy_if_chosen(&t->chunk, both->chunk) + copy_if_chosen(&t->vec, both->vec);

    any += copy_if_chosen(&t->group, tuned->group) + copy_if_chosen(&t->block_k, tuned->block_k) +
           copy_if_chosen(&t->block_v, tuned->block_v) + copy_if_chosen(&t->pad, tuned->pad);
    return any > 0;
}

/* Completes and corrects the tiles of a kernel of which tuning chose some. */
static clattn_status complete(const struct device_facts *facts, const struct problem *problem, struct state_tile *t,
                              struct kernel_step (*step_of)(const struct problem *problem, const struct state_tile *t))
{
    state_tile_follow(t, problem);
    return state_tile_is_sound(t, facts) && fits(facts, problem, t, step_of) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

static clattn_status choose_scan(const struct device_facts *facts, const struct problem *problem,
                                 const struct state_tile *tuned, struct state_tile *t)
{
    TRY(scan_by_heuristic(facts, problem, t));
    return copy_tuned(t, tuned, tuned) ? complete(facts, problem, t, scan_step) : CLATTN_SUCCESS;
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    struct chunk_scan_tiles *t = tiles;
    const struct chunk_scan_tiles tuned = *t;
    struct problem sums = *problem;

    (void)solver;
    *t = (struct chunk_scan_tiles){.prepare = {0}};
    sums.pass = PASS_DENOMINATORS;
    TRY(chunk_scan_prepare_tile(facts, problem, &t->prepare));
    if (copy_tuned(&t->prepare, &tuned.prepare, &tuned.SCAN))
        TRY(complete(facts, problem, &t->prepare, chunk_scan_prepare));
    if (problem_normalized(problem))
        TRY(choose_scan(facts, &sums, &tuned.SCAN, &t->scan[DENOMINATORS]));
    TRY(choose_scan(facts, problem, &tuned.SCAN, &t->SCAN));
    return states_are_at_chunks(problem, t->prepare.chunk) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

/* ---- Shape and recipe ---------------------------------------------------------------------------------------------
 */

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    const struct chunk_scan_tiles *t = tiles;
    struct chunk_scan_shape *s = shape;
    struct problem sums = *problem;

    (void)solver;
    sums.pass = PASS_DENOMINATORS;
    s->tiles = *t;
    s->prepare = chunk_scan_prepare(problem, &t->prepare);
    s->SCAN = scan_step(problem, &t->SCAN);
    s->value_groups[OUTPUTS] = value_groups(problem, t->SCAN.block_v);
    if (problem_normalized(problem)) {
        s->scan[DENOMINATORS] = scan_step(&sums, &t->scan[DENOMINATORS]);
        s->value_groups[DENOMINATORS] = value_groups(&sums, t->scan[DENOMINATORS].block_v);
        TRY(step_fits(&s->scan[DENOMINATORS], facts->device));
    }
    TRY(step_fits(&s->prepare, facts->device));
    return step_fits(&s->SCAN, facts->device);
}

static int64_t turns(const struct problem *problem, const void *shape)
{
    const struct state_tile *t = &((const struct chunk_scan_shape *)shape)->tiles.scan[OUTPUTS];

    return divide_up(problem_rows(problem), t->chunk) * state_chunk_turns(problem, t);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    const struct chunk_scan_shape *s = shape;

    (void)problem;
    return (struct reach){.chunk = s->tiles.SCAN.chunk, .parts = 1};
}

static clattn_status add_scan(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct chunk_scan_shape *s = shape;
    const int pass = problem->pass == PASS_DENOMINATORS ? DENOMINATORS : OUTPUTS;

    build_kernel(b, &s->scan[pass],
                 (struct grid3){build_length(b, IR_SEQUENCES), problem_work_heads(problem), s->value_groups[pass]});
    return CLATTN_SUCCESS;
}

void chunk_scan_add_prepare(struct builder *b, const struct problem *problem, const struct kernel_step *step,
                            const struct state_tile *tile)
{
    const int64_t heads = problem_work_heads(problem), chunks = most_slots(problem, tile->chunk) * heads;
    const int64_t record = state_sizes(problem, tile).record;

    build_bind(b, "records", build_scratch(b, "records", CLATTN_F32, chunks * record));
    build_kernel(b, step, (struct grid3){build_slots(b, tile->chunk), heads, 1});
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct chunk_scan_shape *s = shape;

    chunk_scan_add_prepare(b, problem, &s->prepare, &s->tiles.prepare);
    return problem->pass == PASS_TRANSITION ? add_scan(b, problem, shape) : build_passes(b, shape, add_scan);
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct chunk_scan_shape *s = shape;
    const int sums = s->value_groups[DENOMINATORS] > 0 && step == 1;
    const struct state_tile *tile = step == 0 ? &s->tiles.prepare : &s->tiles.scan[sums ? DENOMINATORS : OUTPUTS];
    const struct kernel_step *kernel = step == 0 ? &s->prepare : &s->scan[sums ? DENOMINATORS : OUTPUTS];

    state_tile_describe(text, tile, "chunk");
    text_format(text, "local %zu bytes\n", kernel->local_bytes);
}

const struct solver solver_chunk_scan = {
    .space = {"chunk_scan", parameters, 1024, 0, 0, 1},
    .mode = CLATTN_MODE_CHUNK,
    .rank = 970,
    .transitions = 1,
    .leaves_erased = 1,
    .tiles_size = sizeof(struct chunk_scan_tiles),
    .shape_size = sizeof(struct chunk_scan_shape),
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .turns = turns,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
