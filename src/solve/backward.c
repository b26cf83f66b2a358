/* backward: the backward pass of every rule of a state, token by token.
 *
 * The forward pass leaves the states before every span of rows. Then the spans are worked from the last to the first:
 * the states before each of its rows are made again, the adjoint recurrence goes down over the rows, and the gradients
 * of the rows' operands are put together. Scratch memory grows with the root of the length. */
#include "solve/around.h"
#include "solve/state_tile.h"

#include <stddef.h>
#include <string.h>

enum { FLOAT = 4 };

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

static int power_of_two_from(int64_t x)
{
    const int below = power_of_two_below(x);

    return below < x ? 2 * below : below;
}

/* Value columns, and the one of a normalizer. */
static int64_t columns_of(const struct problem *problem)
{
    return problem->desc.value_dim + problem_normalized(problem);
}

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
    const int serial = is_serial(facts), columns = power_of_two_from(columns_of(problem));

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

static int has_operand(const struct problem *problem, clattn_operand_id id)
{
    for (int i = 0; i < problem->operand_count; i++)
        if (id != NO_OPERAND && problem->operands[i].id == id)
            return 1;
    return 0;
}

static int64_t gate_width(const struct problem *problem)
{
    return problem_decay(problem) == DECAY_CHANNEL ? problem->desc.key_dim : 1;
}

/* The gradients that tokens share, one after the other in `shares`: where each begins, -1 for those that are not. */
static int add_shares(const struct problem *problem, struct kernel_step *step)
{
    const clattn_plan_desc *desc = &problem->desc;
    const struct {
        const char *name;
        int has;
        int64_t width;
    } shares[] = {
        {"AT_GATE", (desc->flags & CLATTN_GATE_PER_HEAD) != 0, gate_width(problem)},
        {"AT_BONUS", reads_bonus(problem), desc->key_dim},
        {"AT_RATE", has_operand(problem, CLATTN_A_LOG), 1},
        {"AT_BIAS", has_operand(problem, CLATTN_DT_BIAS), gate_width(problem)},
    };
    int64_t count = 0;

    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        step_constant(step, shares[i].name, shares[i].has ? count : -1);
        count += shares[i].has ? shares[i].width : 0;
    }
    step_constant(step, "SHARES", count);
    step_constant(step, "GATE_SHARES", gate_width(problem));
    return (int)count;
}

static int has_flow(const struct problem *problem)
{
    return has_operand(problem, problem->rule->gate);
}

static int stream_count(const struct problem *problem)
{
    const int erases = erase_words(problem).streams;

    return (int)problem_reads(problem) + 1 + erases + has_flow(problem);
}

/* Which gradients are added to what is there. */
static void add_additions(struct kernel_step *step, const struct problem *problem)
{
    const struct rule *rule = problem->rule;
    const struct {
        const char *name;
        clattn_operand_id id;
    } additions[] = {
        {"ADD_Q", CLATTN_Q},
        {"ADD_K", CLATTN_K},
        {"ADD_V", CLATTN_V},
        {"ADD_W", CLATTN_W},
        {"ADD_GV", CLATTN_GV},
        {"ADD_G", rule->gate},
        {"ADD_BETA", write_operand(rule->write)->id},
        {"ADD_P", erase_operands(rule->erase)[0].id},
        {"ADD_B", erase_operands(rule->erase)[0].id},
        {"ADD_E", erase_operands(rule->erase)[1].id},
        {"ADD_U", CLATTN_U},
        {"ADD_A_LOG", CLATTN_A_LOG},
        {"ADD_BIAS", CLATTN_DT_BIAS},
        {"ADD_STATE", CLATTN_STATE_IN},
        {"ADD_NORMALIZER", CLATTN_NORMALIZER_IN},
    };

    for (size_t i = 0; i < sizeof additions / sizeof *additions; i++)
        step_constant(step, additions[i].name, problem_adds(problem, additions[i].id));
}

static void add_constants(struct kernel_step *step, const struct problem *problem, const struct state_tile *t)
{
    const clattn_plan_desc *desc = &problem->desc;
    const struct rule *rule = problem->rule;
    const struct erase_words erase = erase_words(problem);
    const struct number numbers[] = {
        {"HEADS", problem_work_heads(problem)},
        {"READS", problem_reads(problem)},
        {"READ_TILED", (desc->flags & CLATTN_HEADS_TILED) != 0},
        {"TILES", divide_up(columns_of(problem), t->block_v)},
        {"STREAMS", stream_count(problem)},
        {"NORMALIZED", problem_normalized(problem)},
        {"STABLE", problem_stabilized(problem)},
        {"NONCAUSAL", problem_reads_whole(problem)},
        {"BONUS", reads_bonus(problem)},
        {"FLOWS", has_flow(problem)},
        {"FLOW_OF_CHANNELS", problem_decay(problem) == DECAY_CHANNEL},
        {"ERASE_STREAMS", erase.streams},
        {"ERASE_NORMED", erase.norms > 0 && (desc->flags & CLATTN_QK_L2NORM) != 0},
        {"ERASE_IS_KEY", rule->erase == ERASE_KEY},
        {"ERASE_IS_GATED", rule->erase == ERASE_GATED},
        {"ERASE_IS_OPERAND", rule->erase == ERASE_OPERAND},
        {"EXP_STRENGTH", rule->write == WRITE_EXP},
        {"ROPE", desc->rope_dim != 0},
    };

    step_constants(step, numbers, sizeof numbers / sizeof *numbers);
    add_additions(step, problem);
    if (desc->rope_dim != 0)
        add_rope_angles(step, desc);
}

static void add_locals(struct kernel_step *step, const struct problem *problem, const struct state_tile *t,
                       const struct state_sizes *sizes)
{
    const struct erase_words erase = erase_words(problem);
    static const char *const erase_rows[] = {"LOCAL_ERASE_P", "LOCAL_ERASE_B"}, *const erase_squares[] = {
                                                                                    "LOCAL_ERASE_SQUARES"};

    step_locals(step, "LOCAL_ROWS", 2, sizes->channels, FLOAT);
    step_local(step, "LOCAL_VALUES", t->block_v, FLOAT);
    step_local(step, "LOCAL_SUMS", 2 * (int64_t)t->group * t->block_v, FLOAT);
    step_local(step, "LOCAL_SQUARES", sizes->token_parts, FLOAT);
    step_local(step, "FACTORS", sizes->factors, FLOAT);
    add_decay_locals(step, problem, t, sizes);
    add_some_locals(step, erase_rows, erase.streams, sizes->slice);
    add_some_locals(step, erase_squares, erase.norms, sizes->token_parts);
    if (reads_bonus(problem))
        step_local(step, "LOCAL_BONUS_PARTS", sizes->token_parts, FLOAT);
    if (problem->desc.flags & CLATTN_VALUE_GATE)
        step_local(step, "LOCAL_MIX_FACTOR", t->block_v, FLOAT);
}

/* One kernel. Gradients of gates have the type of the caller's gates, which of mLSTM are not those that the recurrence
 * reads. */
static struct kernel_step step_of(const struct problem *problem, const struct state_tile *t,
                                  enum backward_kernel kernel)
{
    const struct state_sizes sizes = state_sizes(problem, t);
    struct kernel_step step = state_step(files[kernel], problem, t, &sizes, OUTPUTS_NONE);

    step.out = problem->desc.gate_dtype;
    step.eps = problem_normalized(problem) ? problem_eps(problem) : 0;
    add_constants(&step, problem, t);
    add_shares(problem, &step);
    add_locals(&step, problem, t, &sizes);
    step_constant(&step, "KEEP", kernel == KERNEL_KEEP);
    if (kernel == KERNEL_ROWS)
        step_replace(&step, "GATE_MAP", problem->desc.gate_map);
    return step;
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    struct backward_shape *s = shape;
    struct kernel_step counted = {0};

    (void)solver;
    s->tiles = *(const struct backward_tiles *)tiles;
    s->value_tiles = (int)divide_up(columns_of(problem), s->tiles.tile.block_v);
    s->streams = stream_count(problem);
    s->shares = add_shares(problem, &counted);
    s->state = (int64_t)s->tiles.tile.block_k * s->tiles.tile.block_v;
    for (enum backward_kernel kernel = 0; kernel < KERNELS; kernel++)
        s->steps[kernel] = step_of(problem, &s->tiles.tile, kernel);
    return step_fits(&s->steps[KERNEL_ADJOINT], facts->device);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    (void)problem;
    return (struct reach){.chunk = ((const struct backward_shape *)shape)->tiles.span, .parts = 1, .reported = 1};
}

/* ---- Recipe -------------------------------------------------------------------------------------------------------
 */

static void bind_gradients(struct builder *b, const struct problem *problem)
{
    const struct rule *rule = problem->rule;
    const clattn_operand_id *const erase[] = {&erase_operands(rule->erase)[0].id, &erase_operands(rule->erase)[1].id};
    const struct {
        const char *name;
        clattn_operand_id id;
    } gradients[] = {
        {"d_q", CLATTN_Q},
        {"d_k", CLATTN_K},
        {"d_v", CLATTN_V},
        {"d_o", CLATTN_O},
        {"d_gv", CLATTN_GV},
        {"d_w", rule->write == WRITE_GATED ? CLATTN_W : NO_OPERAND},
        {"d_g", rule->gate},
        {"d_shared", rule->gate},
        {"d_beta", write_operand(rule->write)->id},
        {"d_p", rule->erase == ERASE_GATED ? NO_OPERAND : *erase[0]},
        {"d_b", rule->erase == ERASE_GATED ? *erase[0] : NO_OPERAND},
        {"d_e", *erase[1]},
        {"d_u", CLATTN_U},
        {"d_a_log", CLATTN_A_LOG},
        {"d_bias", CLATTN_DT_BIAS},
        {"d_final", CLATTN_STATE_OUT},
        {"d_final_z", CLATTN_NORMALIZER_OUT},
        {"d_initial", CLATTN_STATE_IN},
        {"d_initial_z", CLATTN_NORMALIZER_IN},
    };

    for (size_t i = 0; i < sizeof gradients / sizeof *gradients; i++)
        build_bind(b, gradients[i].name,
                   gradients[i].id != NO_OPERAND ? build_operand(b, gradient_of(gradients[i].id)) : IR_NONE);
    build_bind(b, "raw", build_operand(b, rule->gate));
    build_bind(b, "initial_z", build_operand(b, CLATTN_NORMALIZER_IN));
}

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
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
