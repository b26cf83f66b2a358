/* Register blocks, for devices whose work-items share a tile. What does not depend on the state is prepared for all
 * chunks at once; then the state is carried over the chunks of a sequence and left before each; then the outputs of all
 * chunks are made at once:
 *     prepare, states, join where a stretch is cut into segments, outputs
 * in a loop over stretches of the sequences, which bounds the workspace. A normalised problem has the last three twice:
 * for the denominators, then for the outputs. chunk_blocks computes with multiply-adds, matrix_blocks on a matrix
 * engine that multiplies floats. */
#include "solve/blocks/blocks.h"
#include "solve/state_tile.h"

#include <string.h>

enum { MOST_LAUNCHES = 1 + BLOCKS_PASSES * (BLOCKS_PARTS - 1) };

/* A kernel of the recipe, in order. */
struct launch {
    struct kernel_step step;
    enum blocks_part part;
    enum pass pass;
    int64_t value_groups;
};

struct shape {
    struct blocks_tiles tiles;
    struct blocks_workspace workspace[BLOCKS_PASSES];
    struct launch launches[MOST_LAUNCHES];
    int launch_count;
};

#define PART_ROW(name, part, tile, ...)                                                                                \
    PARAMETER_ROW(name, struct blocks_tiles, of[PASS_OUTPUTS][BLOCKS_##part].tile, __VA_ARGS__)
#define SHARED_PARAMETERS                                                                                              \
    PART_ROW("states.tokens", STATES, tokens, 8, 16, 32, 64), PART_ROW("states.ahead", STATES, ahead, 1, 2, 4, 8),     \
        PART_ROW("states.block_v", STATES, block_v, 16, 32, 64, 128), PART_ROW("states.split", STATES, split, 1, 2),   \
        PARAMETER_ROW("segments", struct blocks_tiles, segments, 1, 2, 4, 8, 16)

static const struct parameter chunk_parameters[] = {
    PARAMETER_ROW("chunk", struct blocks_tiles, chunk, 16, 32, 64),
    PART_ROW("prepare.block_k", PREPARE, block_k, 8, 16, 32),
    PART_ROW("states.block_k", STATES, block_k, 8, 16, 32, 64),
    SHARED_PARAMETERS,
    PART_ROW("outputs.block_k", OUTPUTS, block_k, 8, 16, 32),
    PART_ROW("outputs.block_v", OUTPUTS, block_v, 32, 64, 128),
    PARAMETER_ROW("stretch", struct blocks_tiles, stretch, 4, 8, 16, 32, 64, 128),
    PARAMETERS_END,
};

static const struct parameter matrix_parameters[] = {
    PARAMETER_ROW("chunk", struct blocks_tiles, chunk, 16, 32, 64),
    PART_ROW("prepare.block_v", PREPARE, block_v, 32, 64),
    PART_ROW("states.block_k", STATES, block_k, 16, 32, 64),
    SHARED_PARAMETERS,
    PART_ROW("outputs.block_k", OUTPUTS, block_k, 16, 32),
    PART_ROW("outputs.block_v", OUTPUTS, block_v, 32, 64, 128),
    PARAMETER_ROW("stretch", struct blocks_tiles, stretch, 4, 8, 16, 32, 64, 128),
    PART_ROW("prepare.residents", PREPARE, residents, 1, 2, 3, 4),
    PART_ROW("outputs.residents", OUTPUTS, residents, 1, 2, 3),
    PARAMETERS_END,
};

/* ---- Problems -----------------------------------------------------------------------------------------------------
 */

static const struct engine *engine_of_solver(const struct solver *solver, const struct device_facts *facts)
{
    return solver->space.engine ? facts->engine : NULL;
}

static int has_engine(const struct device_facts *facts, const struct problem *problem)
{
    return facts->engine != NULL && facts->engine->exact != FILE_nothing && problem->desc.dtype == CLATTN_F32;
}

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    const clattn_plan_desc *desc = &problem->desc;

    return has_state_of_matrices(problem) && !(desc->flags & CLATTN_VALUE_GATE) && desc->state_window == 0 &&
           desc->state_every == 0 && (!solver->space.engine || has_engine(facts, problem));
}

/* The passes that the problem needs: the first of them, and so on down to the outputs'. */
static int first_pass(const struct problem *problem)
{
    return problem_normalized(problem) ? PASS_DENOMINATORS : PASS_OUTPUTS;
}

/* Whether the pass has the kernel, where a stretch is cut into so many segments. Where all tokens read the state after
 * the last, another solver makes the outputs. */
static int has_part(const struct problem *problem, enum pass pass, enum blocks_part part, int segments)
{
    switch (part) {
    case BLOCKS_PREPARE: return pass == PASS_OUTPUTS;
    case BLOCKS_STATES: return 1;
    case BLOCKS_JOIN: return segments > 1;
    case BLOCKS_OUTPUTS: return !problem_reads_whole(problem) && !problem_is_summary(problem);
    case BLOCKS_PARTS: break;
    }
    return 0;
}

/* ---- Tiles ---------------------------------------------------------------------------------------------------------
 */

static int segments_of(const struct blocks_tiles *t, enum pass pass)
{
    return pass == PASS_DENOMINATORS ? t->sum_segments : t->segments;
}

/* Sets what tuning chose of a kernel's tiles; whether that is anything. */
static int apply(const struct blocks_part_tiles *given, struct blocks_part_tiles *tiles)
{
    const int *from = (const int *)given;
    int *to = (int *)tiles, any = 0;

    for (size_t i = 0; i < sizeof *given / sizeof(int); i++)
        if (from[i] != TILE_OPEN) {
            to[i] = from[i];
            any = 1;
        }
    return any;
}

static void apply_number(int given, int *tile, int *any)
{
    if (given == TILE_OPEN)
        return;
    *tile = given;
    *any = 1;
}

/* One kernel: by heuristic, then with what tuning chose, of both passes alike. */
static clattn_status choose_part(const struct device_facts *facts, struct blocks_kernel *kernel,
                                 const struct blocks_tiles *given)
{
    int any;

    TRY(blocks_choose_tiles(facts, kernel));
    any = apply(&given->of[PASS_OUTPUTS][kernel->part], &kernel->tiles);
    apply_number(given->chunk, &kernel->chunk, &any);
    apply_number(given->stretch, &kernel->stretch, &any);
    apply_number(given->segments, &kernel->segments, &any);
    return any ? blocks_complete(facts, kernel) : CLATTN_SUCCESS;
}

/* The kernels of a pass. The kernel given has the heuristic's chunk and stretch. */
static clattn_status choose_pass(const struct device_facts *facts, const struct blocks_kernel *of, enum pass pass,
                                 const struct blocks_tiles *given, struct blocks_tiles *t)
{
    struct problem problem = *of->problem;
    struct blocks_kernel kernel = *of;

    problem.pass = pass;
    kernel.problem = &problem;
    kernel.segments = blocks_choose_segments(facts, &kernel);
    for (int part = 0; part < BLOCKS_PARTS; part++) {
        struct blocks_kernel one = kernel;
        one.part = (enum blocks_part)part;
        if (!has_part(&problem, pass, one.part, given->segments != TILE_OPEN ? given->segments : kernel.segments))
            continue;
        TRY(choose_part(facts, &one, given));
        t->of[pass][part] = one.tiles;
        t->chunk = one.chunk;
        t->stretch = one.stretch;
        *(pass == PASS_DENOMINATORS ? &t->sum_segments : &t->segments) = one.segments;
    }
    return CLATTN_SUCCESS;
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    struct blocks_tiles *t = tiles, given = *t;
    struct blocks_kernel kernel = {.problem = problem, .engine = engine_of_solver(solver, facts), .segments = 1};

    kernel.chunk = blocks_choose_chunk(facts, problem, kernel.engine);
    if (kernel.chunk == 0)
        return CLATTN_UNSUPPORTED;
    kernel.stretch = blocks_choose_stretch(facts, &kernel);
    if (kernel.stretch < 0)
        return CLATTN_UNSUPPORTED;
    memset(t, 0, sizeof *t);
    for (int pass = first_pass(problem); pass >= (int)PASS_OUTPUTS; pass--)
        TRY(choose_pass(facts, &kernel, (enum pass)pass, &given, t));
    return CLATTN_SUCCESS;
}

/* ---- Shape ---------------------------------------------------------------------------------------------------------
 */

/* Adds a kernel of the problem's pass. */
static clattn_status add_launch(struct shape *s, const struct device_facts *facts, const struct engine *engine,
                                const struct problem *problem, enum blocks_part part)
{
    const struct blocks_tiles *t = &s->tiles;
    const enum pass pass = problem->pass;
    const struct blocks_kernel kernel = {.part = part,
                                         .problem = problem,
                                         .engine = engine,
                                         .chunk = t->chunk,
                                         .stretch = t->stretch,
                                         .segments = segments_of(t, pass),
                                         .tiles = t->of[pass][part]};
    struct launch *launch = &s->launches[s->launch_count++];

    launch->step = blocks_step(&kernel);
    launch->part = part;
    launch->pass = pass;
    launch->value_groups = blocks_value_groups(&kernel);
    s->workspace[pass] = blocks_workspace(&kernel);
    return step_fits(&launch->step, facts->device);
}

/* The kernels of a pass but for the first, which both share: it must leave what this pass's look for. */
static clattn_status add_pass(struct shape *s, const struct device_facts *facts, const struct engine *engine,
                              const struct problem *of, enum pass pass)
{
    struct problem problem = *of;

    problem.pass = pass;
    for (int part = BLOCKS_STATES; part < BLOCKS_PARTS; part++)
        if (has_part(of, pass, (enum blocks_part)part, segments_of(&s->tiles, pass)))
            TRY(add_launch(s, facts, engine, &problem, (enum blocks_part)part));
    return s->workspace[pass].record == s->workspace[PASS_OUTPUTS].record &&
                   s->workspace[pass].rows == s->workspace[PASS_OUTPUTS].rows
               ? CLATTN_SUCCESS
               : CLATTN_UNSUPPORTED;
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    const struct engine *engine = engine_of_solver(solver, facts);
    struct shape *s = shape;

    memcpy(&s->tiles, tiles, sizeof s->tiles);
    TRY(add_launch(s, facts, engine, problem, BLOCKS_PREPARE));
    for (int pass = first_pass(problem); pass >= (int)PASS_OUTPUTS; pass--)
        TRY(add_pass(s, facts, engine, problem, (enum pass)pass));
    return CLATTN_SUCCESS;
}

/* The states go from chunk to chunk of a segment: a product of each with its keys, and one with the state. */
static int64_t turns(const struct problem *problem, const void *shape)
{
    enum { TURNS = 32 };
    const struct blocks_tiles *t = &((const struct shape *)shape)->tiles;
    const int64_t stretch = (int64_t)t->stretch * t->chunk, rows = problem_rows(problem);

    return (stretch == 0 ? rows : lower(rows, stretch)) * divide_up(problem->desc.key_dim, TURNS);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    const struct shape *s = shape;

    (void)problem;
    return (struct reach){.chunk = s->tiles.chunk, .parts = 1};
}

/* ---- Recipe --------------------------------------------------------------------------------------------------------
 */

/* Chunks that a turn of the loop works at most, of all heads. */
static int64_t chunks_at_once(const struct problem *problem, const struct blocks_tiles *t)
{
    const int64_t slots =
        t->stretch == 0 ? most_slots(problem, t->chunk) : problem_most(problem).sequences * t->stretch;

    return slots * problem_work_heads(problem);
}

/* The first row of a turn. */
static ir_expression first_row(const struct builder *b, const struct blocks_tiles *t)
{
    return t->stretch > 0 ? ir_loop_value(b->ir, IR_LOOP_FIRST, build_next_loop(b)) : build_constant(b, 0);
}

/* Slots of chunks of a turn. */
static ir_expression slots_at_once(const struct builder *b, const struct blocks_tiles *t)
{
    ir_expression left;

    if (t->stretch == 0)
        return build_slots(b, t->chunk);
    left = build_binary(b, IR_SUBTRACT, build_rows(b), first_row(b, t));
    left = build_binary(b, IR_DIVIDE_UP, left, build_constant(b, t->chunk));
    return build_binary(b, IR_MULTIPLY, build_length(b, IR_SEQUENCES),
                        build_binary(b, IR_LOWER, left, build_constant(b, t->stretch)));
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void bind_floats(struct builder *b, const char *name, const char *scratch, int64_t floats)
{
    build_bind(b, name, build_scratch(b, scratch, CLATTN_F32, floats));
}

/* What both passes use, one after the other. */
static void bind_workspace(struct builder *b, const struct problem *problem, const struct shape *s)
{
    const int64_t chunks = chunks_at_once(problem, &s->tiles), heads = problem_heads(problem);
    int64_t before = 0, segments = 0, kept = 0;

    for (int pass = first_pass(problem); pass >= (int)PASS_OUTPUTS; pass--) {
        const struct blocks_workspace *of = &s->workspace[pass];
        const int64_t count = segments_of(&s->tiles, (enum pass)pass);
        before = larger(before, chunks * of->state);
        segments = larger(segments, count > 1 ? heads * count * of->state : 0);
        kept = larger(kept, count > 1 ? heads * count * of->kept : 0);
    }
    bind_floats(b, "records", "records", chunks * s->workspace[PASS_OUTPUTS].record);
    bind_floats(b, "rows", "rows", chunks * s->workspace[PASS_OUTPUTS].rows);
    bind_floats(b, "before", "states", before);
    bind_floats(b, "segments", "segments", segments);
    bind_floats(b, "segment_decays", "decays of segments", kept);
}

/* The state from one stretch to the next. */
static void bind_carried(struct builder *b, const struct problem *problem, const struct shape *s)
{
    const int64_t floats = problem_heads(problem) * s->workspace[problem->pass].state;

    bind_floats(b, "carried", problem->pass == PASS_DENOMINATORS ? "carried sums" : "carried",
                s->tiles.stretch > 0 ? floats : 0);
}

static void add_kernel(struct builder *b, const struct problem *problem, const struct shape *s,
                       const struct launch *launch)
{
    const int in_slots = launch->part == BLOCKS_PREPARE || launch->part == BLOCKS_OUTPUTS;
    const ir_expression groups = in_slots ? slots_at_once(b, &s->tiles) : build_length(b, IR_SEQUENCES);

    build_kernel(b, &launch->step, (struct grid3){groups, problem_work_heads(problem), launch->value_groups});
}

/* The pass's kernels: all but the first, which is both passes'. */
static clattn_status add_pass_kernels(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct shape *s = shape;

    bind_carried(b, problem, s);
    for (int i = 1; i < s->launch_count; i++)
        if (s->launches[i].pass == problem->pass)
            add_kernel(b, problem, s, &s->launches[i]);
    return CLATTN_SUCCESS;
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct shape *s = shape;
    const int first = b->ir->step_count;

    build_number(b, "first_row", first_row(b, &s->tiles));
    bind_workspace(b, problem, s);
    add_kernel(b, problem, s, &s->launches[0]);
    TRY(build_passes(b, shape, add_pass_kernels));
    if (s->tiles.stretch > 0)
        build_loop(b, first, build_rows(b), (int64_t)s->tiles.stretch * s->tiles.chunk);
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct shape *s = shape;
    const struct launch *launch = &s->launches[step];
    const struct blocks_part_tiles *t = &s->tiles.of[launch->pass][launch->part];

    text_format(text, "group %d, chunk %d, slice %d, value tile %d, rows %d, stretch %d, local %zu bytes", t->group,
                s->tiles.chunk, t->block_k, t->block_v, t->rows, s->tiles.stretch, launch->step.local_bytes);
    if (t->registers > 0)
        text_format(text, ", %d registers", t->registers);
    text_format(text, "\n");
}

/* Whether register blocks beat the engine's products of floats, which on NVIDIA's are three each: where a record has the
 * most of them. bench/results has the figures. */
static enum preference prefers(const struct device_facts *facts, const struct problem *problem)
{
    enum { MOST_TOKENS = 128 };
    const int is_three = facts->engine != NULL && facts->engine->exact == FILE_exact_nvidia_ptx;

    return is_three && problem->desc.dtype == CLATTN_F32 && problem->rule->erase == ERASE_LOW_RANK &&
                   problem->rule->decay == DECAY_CHANNEL && problem_rows(problem) > MOST_TOKENS
               ? PREFERENCE_LOW
               : PREFERENCE_NONE;
}

#define BLOCKS_SOLVER                                                                                                  \
    .mode = CLATTN_MODE_CHUNK, .shared = 1, .tiles_size = sizeof(struct blocks_tiles),                                 \
    .shape_size = sizeof(struct shape), .applies = applies, .choose_tiles = choose_tiles,                              \
    .derive_shape = derive_shape, .turns = turns, .reach = reach, .recipe = recipe, .describe = describe

const struct solver solver_chunk_blocks = {
    .space = {"chunk_blocks", chunk_parameters, 1024, 0, 0, 1}, .rank = 980, .prefers = prefers, BLOCKS_SOLVER};
const struct solver solver_matrix_blocks = {
    .space = {"matrix_blocks", matrix_parameters, 1024, 0, 1, 1}, .rank = 990, BLOCKS_SOLVER};
