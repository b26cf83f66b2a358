/* levels_scan: chunks of tokens, with a state for each bucket of earlier tokens (cl/levels/README.md).
 *
 * prepare: the matrices of each chunk, in parallel over all chunks (chunk_scan's)
 * scan:    chunk by chunk, every bucket is read, decayed and erased from; those that the chunk completes become one
 *
 * A group of the scan has block_v value columns of one head of one sequence. The buckets are in the workspace. */
#include "solve/chunk_scan.h"
#include "solve/levels/levels.h"

#include <stddef.h>

enum { FLOAT = 4 };

struct scan_tiles {
    struct state_tile prepare, scan;
};

struct scan_shape {
    struct scan_tiles tiles;
    struct kernel_step prepare, scan, position;
    int value_groups;
};

static const struct parameter parameters[] = {
    PARAMETER_ROW("chunk", struct scan_tiles, scan.chunk, 8, 16, 32, 64),
    PARAMETER_ROW("vec", struct scan_tiles, scan.vec, 4, 16),
    PARAMETER_ROW("group", struct scan_tiles, scan.group, 1, 16, 32, 64, 128, 256),
    PARAMETER_ROW("block_k", struct scan_tiles, scan.block_k, 16, 32, 64, 128),
    PARAMETER_ROW("block_v", struct scan_tiles, scan.block_v, 4, 8, 16, 32, 64, 128),
    PARAMETERS_END,
};

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts;
    return levels_apply(problem);
}

static struct kernel_step step_of(const struct problem *problem, const struct state_tile *t)
{
    const struct state_sizes s = state_sizes(problem, t);
    const int erases = problem->rule->erase != ERASE_NONE, slices = s.channels / t->block_k;
    struct kernel_step step = levels_step(FILE_levels_scan, problem, t);

    step_local(&step, "LOCAL_READING", (int64_t)(1 + erases) * slices * s.slice, FLOAT);
    step_local(&step, "LOCAL_WRITING", (int64_t)slices * s.slice, FLOAT);
    step_local(&step, "LOCAL_STATE", (int64_t)t->block_k * t->block_v, FLOAT);
    step_local(&step, "LOCAL_READ", (int64_t)(1 + erases) * s.values, FLOAT);
    step_local(&step, "LOCAL_VALUES", s.values, FLOAT);
    step_local(&step, "LOCAL_WRITTEN", s.values, FLOAT);
    step_local(&step, "LOCAL_MERGED", s.values, FLOAT);
    step_local(&step, "LOCAL_OUTPUT", s.values, FLOAT);
    step_local(&step, "LOCAL_SCORES", s.matrix, FLOAT);
    step_local(&step, "LOCAL_SOLVED", s.matrix, FLOAT);
    step_local(&step, "LOCAL_OWN", s.matrix, FLOAT);
    step_local(&step, "LOCAL_WEIGHTS", t->chunk * problem->desc.levels, FLOAT);
    step_local(&step, "FACTORS", s.factors, FLOAT);
    return step;
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

static int fits(const struct device_facts *facts, const struct problem *problem, const struct state_tile *t)
{
    const struct kernel_step step = step_of(problem, t);

    return step_fits(&step, facts->device) == CLATTN_SUCCESS;
}

/* Narrows the value tiles, then the chunk, then the slices of channels, until local memory holds the kernel. */
static clattn_status scan_by_heuristic(const struct device_facts *facts, const struct problem *problem,
                                       struct state_tile *t)
{
    const struct shared_wish wish = {16, 8, 2 * (int64_t)facts->device->info.compute_units, 32};

    *t = state_tile(facts, problem, &wish);
    while (!fits(facts, problem, t)) {
        if (t->block_v > t->vec)
            t->block_v = round_up(t->block_v / 2, t->vec);
        else if (t->chunk > 8)
            t->chunk /= 2;
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

/* Copies the tiles that tuning chose. Returns whether it chose any. */
static int copy_tuned(struct state_tile *t, const struct state_tile *tuned)
{
    return copy_if_chosen(&t->chunk, tuned->chunk) + copy_if_chosen(&t->vec, tuned->vec) +
               copy_if_chosen(&t->group, tuned->group) + copy_if_chosen(&t->block_k, tuned->block_k) +
               copy_if_chosen(&t->block_v, tuned->block_v) >
           0;
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    struct scan_tiles *t = tiles;
    const struct scan_tiles tuned = *t;

    (void)solver;
    *t = (struct scan_tiles){.prepare = {0}};
    TRY(scan_by_heuristic(facts, problem, &t->scan));
    if (copy_tuned(&t->scan, &tuned.scan)) {
        state_tile_follow(&t->scan, problem);
        if (!state_tile_is_sound(&t->scan, facts) || !fits(facts, problem, &t->scan))
            return CLATTN_UNSUPPORTED;
    }
    TRY(chunk_scan_prepare_tile(facts, problem, &t->prepare));
    t->prepare.chunk = t->scan.chunk;
    t->prepare.vec = t->scan.vec;
    state_tile_follow(&t->prepare, problem);
    return state_tile_is_sound(&t->prepare, facts) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

/* ---- Shape and recipe ---------------------------------------------------------------------------------------------
 */

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    struct scan_shape *s = shape;

    (void)solver;
    s->tiles = *(const struct scan_tiles *)tiles;
    s->prepare = chunk_scan_prepare(problem, &s->tiles.prepare);
    s->scan = step_of(problem, &s->tiles.scan);
    s->position = levels_position_step(problem);
    s->value_groups = value_groups(problem, s->tiles.scan.block_v);
    TRY(step_fits(&s->prepare, facts->device));
    return step_fits(&s->scan, facts->device);
}

/* A chunk reads and writes a state of each level that there is: of those that its sequence fills, half on average, and
 * all that an initial state may have filled. */
static int64_t turns(const struct problem *problem, const void *shape)
{
    enum { OWN = 2 };
    const struct state_tile *t = &((const struct scan_shape *)shape)->tiles.scan;
    const int64_t chunks = divide_up(problem_rows(problem), t->chunk);
    int64_t filled = 0, levels;

    for (int64_t n = 1; n < chunks; n *= 2)
        filled++;
    levels = OWN + filled / 2;
    if (problem->desc.flags & CLATTN_INITIAL_STATE)
        levels += higher(problem->desc.levels - filled, 0);
    return chunks * levels * state_chunk_turns(problem, t);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    (void)problem;
    return (struct reach){.chunk = ((const struct scan_shape *)shape)->tiles.scan.chunk, .parts = 1};
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct scan_shape *s = shape;

    levels_bind_buckets(b, problem, &s->tiles.scan);
    chunk_scan_add_prepare(b, problem, &s->prepare, &s->tiles.prepare);
    build_kernel(b, &s->scan,
                 (struct grid3){build_length(b, IR_SEQUENCES), problem_work_heads(problem), s->value_groups});
    levels_add_position(b, &s->position);
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct scan_shape *s = shape;

    if (step == 2) {
        text_format(text, "group 1\n");
        return;
    }
    state_tile_describe(text, step == 0 ? &s->tiles.prepare : &s->tiles.scan, "chunk");
    text_format(text, "local %zu bytes\n", step == 0 ? s->prepare.local_bytes : s->scan.local_bytes);
}

const struct solver solver_levels_scan = {
    .space = {"levels_scan", parameters, 1024, 0, 0, 1},
    .mode = CLATTN_MODE_CHUNK,
    .rank = 970,
    .tiles_size = sizeof(struct scan_tiles),
    .shape_size = sizeof(struct scan_shape),
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .turns = turns,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
