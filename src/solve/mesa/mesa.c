/* mesa: mesa_net in chunks of tokens.
 *
 * gram:  the gram matrix before each chunk of a window, from chunk to chunk of a sequence
 * solve: (e^G R + diag(ridge)) X = Q with what the chunk's own keys add to R, all chunks of the window at once
 *
 * Windows follow each other, so that memory for gram matrices is bounded. Then the solved queries read the state. */
#include "solve/mesa/mesa.h"

#include <stddef.h>

enum { FLOAT = 4 };

struct mesa_tiles {
    struct state_tile gram, solve;
    int rows; /* rows of a chunk that a group solves for */
};

struct mesa_shape {
    struct mesa_tiles tiles;
    struct kernel_step gram, solve;
    int column_groups;
    int64_t window; /* tokens of a window at most */
};

static const struct parameter parameters[] = {
    PARAMETER_ROW("chunk", struct mesa_tiles, solve.chunk, 8, 16, 32, 64),
    PARAMETER_ROW("vec", struct mesa_tiles, solve.vec, 4, 16),
    PARAMETER_ROW("group", struct mesa_tiles, solve.group, 1, 32, 64, 128, 256),
    PARAMETER_ROW("rows", struct mesa_tiles, rows, 4, 8, 16, 32, 64),
    PARAMETERS_END,
};

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts;
    return rule_is_solved(problem->rule) && problem->desc.state_window == 0 && problem->desc.state_every == 0;
}

/* ---- Kernels ------------------------------------------------------------------------------------------------------
 */

/* A row of a gram matrix in the workspace, in floats. */
static int pitch_of(const struct problem *problem, const struct state_tile *t)
{
    return round_up(problem->desc.key_dim, t->vec);
}

static struct kernel_step gram_step(const struct problem *problem, const struct state_tile *t)
{
    const struct problem rows = mesa_rows(problem);
    const struct state_sizes s = state_sizes(&rows, t);
    struct kernel_step step = mesa_step_of(FILE_mesa_gram, problem, t);

    step_constant(&step, "PITCH", pitch_of(problem, t));
    step_local(&step, "LOCAL_STATE", (int64_t)s.channels * t->block_v, FLOAT);
    step_local(&step, "LOCAL_ROWS", s.slice, FLOAT);
    step_local(&step, "LOCAL_WRITTEN", s.values, FLOAT);
    step_local(&step, "FACTORS", s.factors, FLOAT);
    return step;
}

/* Rows that a work-item multiplies at once. */
static int rows_at_once(const struct mesa_tiles *t)
{
    enum { SERIAL = 8, SHARED = 4 };

    return lower(t->rows, t->solve.group == 1 ? SERIAL : SHARED);
}

static struct kernel_step solve_step(const struct problem *problem, const struct mesa_tiles *t)
{
    const struct problem rows = mesa_rows(problem);
    const struct state_sizes s = state_sizes(&rows, &t->solve);
    const int64_t scores = (int64_t)t->rows * t->solve.chunk;
    struct kernel_step step = mesa_step_of(FILE_mesa_solve, problem, &t->solve);

    step_constant(&step, "PITCH", pitch_of(problem, &t->solve));
    step_constant(&step, "ROWS", t->rows);
    step_constant(&step, "AT_ONCE", rows_at_once(t));
    step_local(&step, "LOCAL_KEYS", s.slice, FLOAT);
    step_local(&step, "LOCAL_DIRECTIONS", (int64_t)t->rows * s.channels, FLOAT);
    step_local(&step, "LOCAL_WEIGHTS", s.channels, FLOAT);
    step_locals(&step, "LOCAL_SCORES", 2, scores, FLOAT);
    step_local(&step, "LOCAL_SUMS", (int64_t)t->rows * s.channels / t->solve.vec, FLOAT);
    step_locals(&step, "LOCAL_STEPS", 5, t->rows, FLOAT);
    step_local(&step, "FACTORS", s.factors, FLOAT);
    return step;
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

static int gram_fits(const struct device_facts *facts, const struct problem *problem, const struct state_tile *t)
{
    const struct kernel_step step = gram_step(problem, t);

    return step_fits(&step, facts->device) == CLATTN_SUCCESS;
}

/* Turns of loops that a work-item has, at most: of each step a product with R and with the chunk's keys, and their
 * scores. */
static int64_t solve_turns(const struct problem *problem, const struct mesa_tiles *t)
{
    const struct state_tile *s = &t->solve;
    const int64_t columns = s->block_k / s->vec, tasks = divide_up(t->rows / rows_at_once(t) * columns, s->group);
    const int64_t scores = divide_up(t->rows * s->chunk, s->group) * (columns + 1);

    return mesa_steps(problem) * (tasks * (problem->desc.key_dim + s->chunk) + scores + 2 * columns + t->rows);
}

static int solve_fits(const struct device_facts *facts, const struct problem *problem, const struct mesa_tiles *t)
{
    const struct kernel_step step = solve_step(problem, t);

    if (facts->device->loop_turns != 0 && solve_turns(problem, t) > facts->device->loop_turns)
        return 0;
    return step_fits(&step, facts->device) == CLATTN_SUCCESS;
}

/* Narrows the tiles of columns, then the slices of channels, until local memory holds the kernel. */
static clattn_status choose_gram(const struct device_facts *facts, const struct problem *problem, struct mesa_tiles *t)
{
    const struct shared_wish wish = {32, 8, 2 * (int64_t)facts->device->info.compute_units, 32};
    const struct problem rows = mesa_rows(problem);

    t->gram = state_tile(facts, &rows, &wish);
    t->gram.chunk = t->solve.chunk;
    while (!gram_fits(facts, problem, &t->gram)) {
        if (t->gram.block_v > t->gram.vec)
            t->gram.block_v = round_up(t->gram.block_v / 2, t->gram.vec);
        else if (t->gram.block_k > t->gram.vec)
            t->gram.block_k = round_up(t->gram.block_k / 2, t->gram.vec);
        else
            return CLATTN_UNSUPPORTED;
    }
    return CLATTN_SUCCESS;
}

/* Solves for fewer rows, then in shorter chunks, until local memory holds the kernel and the device does not leave its
 * loops. */
static clattn_status cut_rows(const struct device_facts *facts, const struct problem *problem, struct mesa_tiles *t)
{
    enum { LEAST = 4 };

    while (!solve_fits(facts, problem, t)) {
        if (t->rows > LEAST)
            t->rows /= 2;
        else if (t->solve.chunk > LEAST)
            t->solve.chunk /= 2;
        else
            return CLATTN_UNSUPPORTED;
    }
    return CLATTN_SUCCESS;
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    enum { CHUNK = 16, GROUP = 64, GROUP_OF_FEW_TURNS = 256, SERIAL_VEC = 16, SHARED_VEC = 4 };
    struct mesa_tiles *t = tiles;
    struct state_tile *s = &t->solve;
    const int serial = is_serial(facts), group = facts->device->loop_turns != 0 ? GROUP_OF_FEW_TURNS : GROUP;

    (void)solver;
    default_to(&s->chunk, problem->desc.chunk != 0 ? problem->desc.chunk : CHUNK);
    default_to(&s->vec, serial ? SERIAL_VEC : SHARED_VEC);
    default_to(&s->group, serial ? 1 : lower(group, facts->most_group));
    default_to(&t->rows, CHUNK);
    t->rows = lower(t->rows, s->chunk);
    s->block_k = round_up(problem->desc.key_dim, s->vec);
    s->block_v = s->vec;
    s->pad = serial ? 0 : s->vec;
    s->lanes_k = 1;
    s->sub_group = serial ? 0 : facts->device->sub_group;
    if (!state_tile_is_sound(s, facts))
        return CLATTN_UNSUPPORTED;
    TRY(cut_rows(facts, problem, t));
    TRY(choose_gram(facts, problem, t));
    return t->gram.vec == s->vec ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

/* ---- Shape and recipe ---------------------------------------------------------------------------------------------
 */

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    enum { WINDOW = 2048, SHORT_WINDOW = 256 };
    struct mesa_shape *s = shape;

    (void)solver;
    s->window = facts->device->loop_turns == 0 ? WINDOW : SHORT_WINDOW;
    s->tiles = *(const struct mesa_tiles *)tiles;
    s->gram = gram_step(problem, &s->tiles.gram);
    s->solve = solve_step(problem, &s->tiles);
    s->column_groups = (int)divide_up(problem->desc.key_dim, s->tiles.gram.block_v);
    TRY(step_fits(&s->gram, facts->device));
    return solve_fits(facts, problem, &s->tiles) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    const struct mesa_shape *s = shape;

    (void)problem;
    return (struct reach){.chunk = s->tiles.solve.chunk, .parts = 1};
}

/* Chunks of a window: as many as keep the gram matrices of all sequences and heads within that many floats. */
static int64_t window_chunks(const struct problem *problem, const struct mesa_shape *s)
{
    enum { MOST_FLOATS = 1 << 24 };
    const int chunk = s->tiles.solve.chunk;
    const int64_t matrix = problem->desc.key_dim * pitch_of(problem, &s->tiles.solve);
    const int64_t fit = MOST_FLOATS / (matrix * problem_heads(problem));

    return power_of_two_below(lower(lower(fit, s->window / chunk), divide_up(problem_rows(problem), chunk)));
}

static void add_window(struct builder *b, const struct problem *problem, const struct mesa_shape *s, int64_t chunks)
{
    const int64_t heads = problem_work_heads(problem);
    const ir_expression sequences = build_length(b, IR_SEQUENCES);

    build_kernel(b, &s->gram, (struct grid3){sequences, heads, s->column_groups});
    build_kernel(b, &s->solve,
                 (struct grid3){build_times(b, sequences, chunks), heads, s->tiles.solve.chunk / s->tiles.rows});
}

static void add_windows(struct builder *b, const struct problem *problem, const struct mesa_shape *s)
{
    const int64_t K = problem->desc.key_dim, heads = problem_heads(problem), chunks = window_chunks(problem, s);
    const int64_t matrix = K * pitch_of(problem, &s->tiles.solve), window = chunks * s->tiles.solve.chunk;
    const int first = b->ir->step_count, loop = build_next_loop(b);

    build_bind(b, "gram", build_carried(b, "gram matrices", CLATTN_F32, heads * K * K));
    build_bind(b, "grams", build_scratch(b, "gram matrices before chunks", CLATTN_F32, heads * chunks * matrix));
    build_number(b, "stretch_rows", build_constant(b, window));
    build_number(b, "first_row", ir_loop_value(b->ir, IR_LOOP_FIRST, loop));
    add_window(b, problem, s, chunks);
    build_loop(b, first, build_rows(b), window);
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const int names = b->name_count;

    if (problem->pass == PASS_OUTPUTS) {
        mesa_bind(b, problem);
        add_windows(b, problem, shape);
    }
    return mesa_read(b, problem, CLATTN_MODE_CHUNK, names);
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct mesa_shape *s = shape;

    state_tile_describe(text, step == 0 ? &s->tiles.gram : &s->tiles.solve, "chunk");
    if (step > 0)
        text_format(text, "%d rows, ", s->tiles.rows);
    text_format(text, "local %zu bytes\n", step == 0 ? s->gram.local_bytes : s->solve.local_bytes);
}

const struct solver solver_mesa = {
    .space = {"mesa", parameters, 1024, 0, 0, 1},
    .mode = CLATTN_MODE_CHUNK,
    .rank = 970,
    .units = 1,
    .tiles_size = sizeof(struct mesa_tiles),
    .shape_size = sizeof(struct mesa_shape),
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
