/* backward: the backward pass of every rule of a state, token by token.
 *
 * The forward pass leaves the states before every span of rows. Then the spans are worked from the last to the first:
 * the states before each of its rows are made again, the adjoint recurrence goes down over the rows, and the gradients
 * of the rows' operands are put together. Scratch memory grows with the root of the length. */
#include "solve/backward/gradients.h"

#include <stddef.h>

struct backward_tiles {
    struct state_tile tile;
    int span; /* rows */
};

enum backward_kernel { KERNEL_KEEP, KERNEL_STATES, KERNEL_DIVISORS, KERNEL_ADJOINT, KERNEL_ROWS, KERNEL_SUMS, KERNELS };

struct backward_shape {
    struct kernel_step steps[KERNELS];
    struct backward_tiles tiles;
    int value_tiles, streams, shares;
    int64_t state; /* floats of a tile of a state */
};

static const struct parameter parameters[] = {
    PARAMETER_ROW("vec", struct backward_tiles, tile.vec, 4, 16),
    PARAMETER_ROW("block_v", struct backward_tiles, tile.block_v, 4, 8, 16, 32, 64),
    PARAMETER_ROW("span", struct backward_tiles, span, 8, 16, 32, 64, 128, 256, 512),
    PARAMETERS_END,
};

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts;
    return problem_is_backward(problem) && problem->rule->op == OP_MIXER;
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

/* A span of about the root of the rows: as many states are kept for a sequence as are made again for a span. */
static int span_of(const struct problem *problem)
{
    const clattn_plan_desc *desc = &problem->desc;
    const int64_t sequences = desc->flags & CLATTN_CU_SEQLENS ? desc->sequences : 1;
    const int64_t rows = divide_up(problem_rows(problem), sequences);
    int span = 8;

    while (span < 512 && (int64_t)span * span < rows)
        span *= 2;
    return span;
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    enum { SERIAL_COLUMNS = 32, SHARED_COLUMNS = 16 };
    struct backward_tiles *t = tiles;
    struct state_tile *tile = &t->tile;
    const int serial = is_serial(facts), columns = power_of_two_from(gradient_columns(problem));

    (void)solver;
    default_to(&tile->vec, serial ? 16 : 4);
    default_to(&tile->block_v, serial ? SERIAL_COLUMNS : SHARED_COLUMNS);
    tile->block_v = higher(lower(tile->block_v, columns), tile->vec);
    tile->group = serial ? 1 : lower(power_of_two_from(problem->desc.key_dim), power_of_two_below(facts->most_group));
    tile->chunk = tile->lanes_k = 1;
    tile->pad = 0;
    tile->sub_group = serial ? 0 : facts->device->sub_group;
    tile->block_k = round_up(problem->desc.key_dim, higher(tile->vec, tile->group));
    default_to(&t->span, span_of(problem));
    return state_tile_is_sound(tile, facts) ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

/* ---- Kernels ------------------------------------------------------------------------------------------------------
 */

static const enum embedded_file files[KERNELS] = {FILE_backward_states,  FILE_backward_states, FILE_backward_divisors,
                                                  FILE_backward_adjoint, FILE_backward_rows,   FILE_backward_sums};

static struct kernel_step step_of(const struct problem *problem, const struct state_tile *t,
                                  enum backward_kernel kernel)
{
    struct kernel_step step = gradient_step(files[kernel], problem, t, 0);

    step_constant(&step, "KEEP", kernel == KERNEL_KEEP);
    return step;
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    struct backward_shape *s = shape;
    struct kernel_step counted = {0};

    (void)solver;
    s->tiles = *(const struct backward_tiles *)tiles;
    s->value_tiles = (int)divide_up(gradient_columns(problem), s->tiles.tile.block_v);
    s->streams = stream_count(problem, 0);
    s->shares = add_shares(problem, &counted);
    s->state = (int64_t)s->tiles.tile.block_k * s->tiles.tile.block_v;
    for (enum backward_kernel kernel = 0; kernel < KERNELS; kernel++)
        s->steps[kernel] = step_of(problem, &s->tiles.tile, kernel);
    return step_fits(&s->steps[KERNEL_ADJOINT], facts->device);
}

/* The states before spans are left by a walk over the whole sequence; within a span a row has up to four sums over the
 * lanes of its columns (cl/backward, columns_total), in the walk one where something is erased. */
static int64_t turns(const struct problem *problem, const void *shape)
{
    enum { LOADS = 8, SUMS = 4 };
    const struct backward_tiles *t = &((const struct backward_shape *)shape)->tiles;
    const struct state_tile *s = &t->tile;
    const int64_t sum = s->block_v + s->group / s->block_v + 2, rows = problem_rows(problem);

    return higher(rows * (LOADS + (erase_words(problem).streams > 0 ? sum : 0)),
                  lower(rows, t->span) * (LOADS + SUMS * sum));
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    (void)problem;
    return (struct reach){.chunk = ((const struct backward_shape *)shape)->tiles.span, .parts = 1, .reported = 1};
}

/* ---- Recipe -------------------------------------------------------------------------------------------------------
 */

static void bind_scratch(struct builder *b, const struct problem *problem, const struct backward_shape *s)
{
    const struct extent most = problem_most(problem);
    const int64_t span = s->tiles.span, heads = problem_heads(problem), tiles = heads * s->value_tiles;
    const int64_t numbers = most.batch * most.seq_len * problem_work_heads(problem) * problem_reads(problem);
    const struct {
        const char *name;
        int64_t floats;
    } scratch[] = {
        {"kept", most_slots(problem, (int)span) * problem_work_heads(problem) * s->value_tiles * s->state},
        {"between", tiles * (span + 1) * s->state},
        {"erased", erase_words(problem).streams > 0 ? tiles * span * s->tiles.tile.block_v : 0},
        {"whole", problem_reads_whole(problem) ? tiles * s->state : 0},
        {"divisors", problem_normalized(problem) ? 2 * numbers : 0},
        {"carried", tiles * s->state},
        {"parts", tiles * span * s->streams * s->tiles.tile.block_k},
        {"shares", heads * span * s->shares},
        {"totals", problem_work_heads(problem) * s->shares},
    };

    for (size_t i = 0; i < sizeof scratch / sizeof *scratch; i++)
        build_bind(b, scratch[i].name, build_scratch(b, scratch[i].name, CLATTN_F32, scratch[i].floats));
}

/* Of outputs that were divided. All reads of the state after the last token come before the first span. */
static void add_divisors(struct builder *b, const struct backward_shape *s, struct grid3 grid)
{
    grid.z = s->tiles.span;
    if (problem_normalized(b->problem))
        build_kernel(b, &s->steps[KERNEL_DIVISORS], grid);
}

static void add_span(struct builder *b, const struct problem *problem, const struct backward_shape *s)
{
    const struct grid3 tiles = {build_length(b, IR_SEQUENCES), problem_work_heads(problem), s->value_tiles};
    const struct grid3 rows = {tiles.x, lower(problem_work_heads(problem), problem->desc.qk_heads), s->tiles.span};

    build_kernel(b, &s->steps[KERNEL_STATES], tiles);
    if (!problem_reads_whole(problem))
        add_divisors(b, s, tiles);
    build_kernel(b, &s->steps[KERNEL_ADJOINT], tiles);
    build_kernel(b, &s->steps[KERNEL_ROWS], rows);
    if (s->shares > 0)
        build_kernel(b, &s->steps[KERNEL_SUMS], (struct grid3){build_constant(b, problem_work_heads(problem)), 1, 1});
}

/* 1 where other spans have left sums, and 2 where more are to come (backward_sums.cl). */
static ir_expression partial_of(struct builder *b, int loop)
{
    const ir_expression zero = build_constant(b, 0);

    return build_binary(b, IR_ADD, build_binary(b, IR_LESS, zero, ir_loop_value(b->ir, IR_LOOP_TURN, loop)),
                        build_times(b, build_binary(b, IR_LESS, zero, ir_loop_value(b->ir, IR_LOOP_FIRST, loop)), 2));
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct backward_shape *s = shape;
    const struct grid3 grid = {build_length(b, IR_SEQUENCES), problem_work_heads(problem), s->value_tiles};
    const int loop = build_next_loop(b);
    int first;

    bind_gradients(b, problem);
    bind_scratch(b, problem, s);
    build_number(b, "span", build_constant(b, s->tiles.span));
    build_number(b, "count", build_constant(b, INT32_MAX));
    build_number(b, "first_row", build_constant(b, 0));
    first = build_kernel(b, &s->steps[KERNEL_KEEP], grid) + 1;
    if (problem_reads_whole(problem) && problem_normalized(problem)) {
        add_divisors(b, s, grid);
        first++;
    }
    build_number(b, "count", build_constant(b, s->tiles.span));
    build_number(b, "first_row", ir_loop_value(b->ir, IR_LOOP_FIRST, loop));
    build_number(b, "partial", partial_of(b, loop));
    add_span(b, problem, s);
    build_loop_down(b, first, build_rows(b), s->tiles.span);
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct backward_shape *s = shape;

    (void)step;
    state_tile_describe(text, &s->tiles.tile, "rows");
    text_format(text, "spans of %d, local %zu bytes\n", s->tiles.span, s->steps[KERNEL_ADJOINT].local_bytes);
}

const struct solver solver_backward = {
    .space = {"backward", parameters, 1024, 0, 0, 1},
    .mode = CLATTN_MODE_RECURRENT,
    .backward = 1,
    .rank = 900,
    .tiles_size = sizeof(struct backward_tiles),
    .shape_size = sizeof(struct backward_shape),
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .turns = turns,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
