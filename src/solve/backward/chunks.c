/* chunk_backward, matrix_backward: the backward pass in chunks, of rules whose states are matrices.
 *
 * The rows are copied with all maps applied, each sequence padded to whole chunks. Two walks over them are forward passes
 * of rules that other solvers of the list compute:
 *
 *     down   the rule itself, which is read by the next row's erase key: this gives what each row erases. It leaves the
 *            state S before each chunk
 *     up     S' <- e^(g_(i+1)) S' + f_(i+1) (n_(i+1)^T S') + q_i do_i^T, from the last row to the first, read by k: this
 *            gives the gradient of each row's written value. It leaves S' after each chunk
 *
 * Then the gradients of all chunks are independent of each other (chunk_gradients, on a matrix engine channel_gradients;
 * scalar_gradients or engine_gradients where a row has one log-decay or none), and the kernels of cl/backward take them
 * back to the operands. matrix_backward multiplies on a matrix engine. */
#include "solve/around.h"
#include "solve/backward/gradients.h"
#include "solve/backward/spans.h"
#include "solve/backward/walks.h"

#include <stddef.h>
#include <string.h>

enum { FLOAT = 4, MOST_COLUMNS = 1024 };

struct chunk_backward_tiles {
    int chunk, group, block_k, block_v;
};

enum chunk_kernel {
    KERNEL_CUTS,
    KERNEL_ROWS_IN,
    KERNEL_OPEN,
    KERNEL_KEEP,
    KERNEL_DIVIDE,
    KERNEL_WRITTEN,
    KERNEL_GRADIENTS,
    KERNEL_CLOSE,
    KERNEL_VALUES,
    KERNELS
};

struct chunk_backward_shape {
    struct chunk_backward_tiles tiles;
    struct kernel_step steps[KERNELS], rows, sums;
    int shares, streams, pitch;
    int leaves;                    /* the walks leave what rows erase */
    int narrow;                    /* the walks leave everything in dtype, for engine_gradients.cl */
    int direct;                    /* that kernel's rows are the operands' gradients */
    int64_t span;                  /* rows; 0: all at once */
    struct problem part, down, up; /* the problem of a span, and its walks */
};

static const struct parameter parameters[] = {
    PARAMETER_ROW("chunk", struct chunk_backward_tiles, chunk, 16, 32, 64),
    PARAMETER_ROW("group", struct chunk_backward_tiles, group, 1, 32, 64, 128, 256),
    PARAMETER_ROW("block_k", struct chunk_backward_tiles, block_k, 16, 32, 64, 128),
    PARAMETER_ROW("block_v", struct chunk_backward_tiles, block_v, 16, 32, 64, 128),
    PARAMETERS_END,
};

/* The engine that multiplies the tiles of chunks; NULL: multiply-adds do. */
static const struct engine *engine_for(const struct solver *solver, const struct device_facts *facts)
{
    return solver->space.engine ? facts->engine : NULL;
}

static int has_engine(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    const struct engine *engine = engine_for(solver, facts);

    return !solver->space.engine ||
           (engine != NULL && engine->rows == MATRIX_TILE && problem->desc.dtype != CLATTN_F32);
}

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    return has_engine(solver, facts, problem) && problem_is_backward(problem) && has_state_of_matrices(problem) &&
           !problem_reads_whole(problem) && !(problem->desc.flags & CLATTN_VALUE_GATE) &&
           walk_columns(problem) <= MOST_COLUMNS;
}

/* ---- Tiles and kernels --------------------------------------------------------------------------------------------
 */

static int pair_count(const struct problem *problem)
{
    return is_low_rank(problem) ? 4 : 1 + erases(problem);
}

static struct state_tile tile_of(const struct chunk_backward_tiles *t)
{
    return (struct state_tile){.group = t->group,
                               .vec = t->group == 1 ? 16 : 4,
                               .chunk = t->chunk,
                               .block_k = t->block_k,
                               .block_v = t->block_v,
                               .lanes_k = 1};
}

/* The tile of the kernels that take rows back to the operands: one row, all channels. Few lanes have a row, since they
 * wait for each other at every sum over its channels. */
enum { ROW_LANES = 32 };

static struct state_tile row_tile(const struct device_facts *facts, const struct problem *problem,
                                  const struct chunk_backward_tiles *t)
{
    const int group = t->group == 1 ? 1
                                    : lower(lower(power_of_two_from(problem->desc.key_dim), ROW_LANES),
                                            power_of_two_below(facts->most_group));
    const int vec = t->group == 1 ? 16 : 4;

    return (struct state_tile){.group = group,
                               .vec = vec,
                               .chunk = 1,
                               .block_k = round_up(problem->desc.key_dim, higher(vec, group)),
                               .block_v = round_up(gradient_columns(problem), vec), /* one tile */
                               .lanes_k = 1,
                               .sub_group = t->group == 1 ? 0 : facts->device->sub_group};
}

static struct kernel_step chunk_step(const struct problem *problem, const struct chunk_backward_tiles *tiles,
                                     enum embedded_file file, int narrow)
{
    const struct state_tile t = tile_of(tiles);
    const struct state_sizes sizes = state_sizes(problem, &t);
    const enum decay decay = problem_decay(problem);
    struct kernel_step step = state_step(file, problem, &t, &sizes, OUTPUTS_NONE);
    const struct number numbers[] = {
        {"PADDED", t.chunk},
        {"DECAYS", decay == DECAY_NONE     ? 0
                   : decay == DECAY_SCALAR ? 1
                                           : 2},
        {"ERASE_STREAMS", erase_words(problem).streams},
        {"ERASE_IS_KEY", problem->rule->erase == ERASE_KEY},
        {"ERASE_IS_GATED", problem->rule->erase == ERASE_GATED},
        {"ERASE_IS_OPERAND", problem->rule->erase == ERASE_OPERAND},
        {"ADD_V", problem_adds(problem, CLATTN_V)},
        {"ADD_W", problem_adds(problem, CLATTN_W)},
        {"ADD_STATE", problem_adds(problem, CLATTN_STATE_IN)},
        {"ADD_NORMALIZER", problem_adds(problem, CLATTN_NORMALIZER_IN)},
        {"NORMALIZED", problem_normalized(problem)},
        {"STABLE", problem_stabilized(problem)},
        {"COLUMNS", walk_columns(problem)},
        {"READS", problem_reads(problem)},
        {"READ_TILED", (problem->desc.flags & CLATTN_HEADS_TILED) != 0},
        {"NARROW", narrow},
    };

    step.eps = problem_normalized(problem) ? problem_eps(problem) : 0;
    step.out = problem->desc.gate_dtype;
    step_constants(&step, numbers, sizeof numbers / sizeof *numbers);
    return step;
}

/* Local memory of the kernels that compute the gradients of a chunk: what the words of their products call tiles. */
struct gradients_sizes {
    int element, pad;             /* bytes of a number in a tile, and how many numbers separate rows */
    int64_t streams;              /* sums of rows by channels */
    int64_t value_rows, key_rows; /* numbers of a tile of rows */
    int64_t states;               /* of S and dS */
    int64_t pair;                 /* of what the rows read of each other in a pair of streams */
    int64_t sums;                 /* floats of the sums where they are in local memory */
};

static struct gradients_sizes gradients_sizes(const struct engine *engine, const struct problem *problem,
                                              const struct chunk_backward_tiles *t)
{
    enum { HALF = 2, PAD = 8 };
    const int pad = engine != NULL ? PAD : 0, vec = t->group == 1 ? 16 : 4, streams = 2 + erase_words(problem).streams;

    return (struct gradients_sizes){
        .element = engine != NULL ? HALF : FLOAT,
        .pad = pad,
        .streams = streams,
        .value_rows = (int64_t)t->chunk * (t->block_v + pad),
        .key_rows = (int64_t)t->chunk * (t->block_k + pad),
        .states = (int64_t)2 * t->block_v * (t->block_k + pad),
        .pair = (int64_t)t->chunk * (engine != NULL ? t->chunk + pad : round_up(t->chunk, vec)),
        .sums = engine != NULL ? 0 : (int64_t)streams * t->chunk * t->block_k,
    };
}

/* Sums and tiles of chunk_gradients */
static void add_channel_locals(struct kernel_step *step, const struct problem *problem,
                               const struct chunk_backward_tiles *t)
{
    const struct gradients_sizes s = gradients_sizes(NULL, problem, t);

    step_constant(step, "AT_TILES", s.sums);
    step_local(step, "LOCAL_PAIRS", pair_count(problem) * s.pair, FLOAT);
    step_local(step, "LOCAL_AREA", s.sums + s.streams * s.value_rows + s.states, FLOAT);
    step->local_bytes += (size_t)t->block_k * FLOAT;
}

/* The area of scalar_gradients: the square, scores and two tiles of rows; then sums and tiles of rows and states, or of
 * keys. */
static void add_scalar_locals(struct kernel_step *step, const struct engine *engine, const struct problem *problem,
                              const struct chunk_backward_tiles *t)
{
    enum { NUMBERS = 6, DOTS = 3, ALIGNED = 16 };
    const struct gradients_sizes s = gradients_sizes(engine, problem, t);
    const int flows = problem_decay(problem) != DECAY_NONE;
    const int64_t square = flows ? round_up((int64_t)t->chunk * (t->chunk + 1), ALIGNED) : 0;
    const int64_t scores = engine == NULL ? s.pair : 0;
    const int64_t pairs = square + scores + divide_up(2 * s.value_rows * s.element, FLOAT);
    const int64_t slices =
        s.sums + divide_up(higher(s.streams * s.value_rows + s.states, 2 * s.key_rows) * s.element, FLOAT);
    const int dots = engine != NULL ? t->group / engine->lanes : 1;

    step_constant(step, "AT_SCORES", square);
    step_constant(step, "AT_PAIRS", square + scores);
    step_constant(step, "AT_TILES", s.sums);
    step_local(step, "LOCAL_AREA", higher(higher(pairs, slices), t->group), FLOAT);
    step_local(step, "LOCAL_WEIGHTS", divide_up(pair_count(problem) * s.pair * s.element, FLOAT), FLOAT);
    step->local_bytes += (size_t)((NUMBERS + (DOTS - (problem->rule->order != ERASE_FIRST)) * dots) * t->chunk * FLOAT);
}

/* The area of channel_gradients: tiles of rows and states, then rows that are decayed, then sums of the blocks that the
 * group goes through at once. */
static void add_block_locals(struct kernel_step *step, const struct engine *engine, const struct problem *problem,
                             const struct chunk_backward_tiles *t)
{
    enum { VEC = 4 };
    const struct gradients_sizes s = gradients_sizes(engine, problem, t);
    const int blocks = t->chunk / MATRIX_TILE, at_once = lower(higher(t->group / t->block_k, 1), blocks);
    const int64_t tiles = divide_up((s.streams * s.value_rows + s.states) * s.element, FLOAT);
    const int64_t rows = divide_up(s.streams * s.key_rows * s.element, FLOAT);
    const int64_t sums = s.streams * at_once * MATRIX_TILE * (t->block_k + s.pad);
    const int64_t pair = (int64_t)blocks * (blocks + 1) / 2 * MATRIX_TILE * (MATRIX_TILE + s.pad);

    step_local(step, "LOCAL_AREA", higher(higher(tiles, rows), higher(sums, (int64_t)t->group * VEC)), FLOAT);
    step_local(step, "LOCAL_WEIGHTS", divide_up(pair_count(problem) * pair * s.element, FLOAT), FLOAT);
    step_locals(step, "LOCAL_BLOCKS", 3, (int64_t)blocks * t->block_k, FLOAT);
}

static void add_products(struct kernel_step *step, const struct engine *engine)
{
    if (engine != NULL) {
        step->options = engine->options;
        step->any_group = 1;
        step_scratch(step, engine->scratch);
        step_header(step, engine->instructions);
        step_header(step, engine->words);
    }
    step_header(step, engine != NULL ? FILE_products_engine : FILE_products_lanes);
}

static struct kernel_step gradients_step(const struct engine *engine, const struct problem *problem,
                                         const struct chunk_backward_tiles *t, int pitch)
{
    const int channels = problem_decay(problem) == DECAY_CHANNEL;
    struct problem rows = *problem;
    struct kernel_step step;
    const struct number constants[] = {
        {"PAIRS", pair_count(problem)},
        {"STREAMS", stream_count(problem, 1)},
        {"PITCH", pitch},
        {"FLOWS", flows_apart(problem, 1) || stream_count(problem, 1) > 2 + erase_words(problem).streams},
    };

    rows.desc.value_dim = walk_columns(problem);
    step = chunk_step(&rows, t,
                      !channels        ? FILE_scalar_gradients
                      : engine != NULL ? FILE_channel_gradients
                                       : FILE_chunk_gradients,
                      0);
    step_replace(&step, "COLUMNS", rows.desc.value_dim);
    step_constants(&step, constants, sizeof constants / sizeof *constants);
    if (!channels)
        add_scalar_locals(&step, engine, problem, t);
    else if (engine != NULL)
        add_block_locals(&step, engine, problem, t);
    else
        add_channel_locals(&step, problem, t);
    add_products(&step, engine);
    return step;
}

/* ---- engine_gradients.cl ----------------------------------------------------------------------------------------- */

/* Whether the walks may leave everything in dtype for engine_gradients.cl. Its engines copy to local memory past
 * registers. */
static int can_be_narrow(const struct engine *engine, const struct problem *problem)
{
    enum { CHANNELS = 64, COLUMNS = 32 };
    const enum erase erase = problem->rule->erase;

    return engine != NULL && engine->words == FILE_engine_nvidia && problem_decay(problem) != DECAY_CHANNEL &&
           problem_reads(problem) == 1 && !problem_normalized(problem) && !problem_stabilized(problem) &&
           (erase == ERASE_NONE ||
            ((erase == ERASE_KEY || erase == ERASE_OPERAND) && problem->rule->order == DECAY_FIRST)) &&
           problem->desc.key_dim % CHANNELS == 0 && problem->desc.value_dim % COLUMNS == 0;
}

static int has_betas(const struct problem *problem)
{
    return problem->rule->write != WRITE_VALUE;
}

/* Whether the rows are the operands', without maps and each of one head, and so are their gradients. */
static int is_direct(const struct problem *problem)
{
    static const clattn_operand_id rows[] = {CLATTN_Q, CLATTN_K, CLATTN_P};
    const clattn_plan_desc *desc = &problem->desc;
    const uint64_t maps = CLATTN_QK_L2NORM | CLATTN_WITH_A_LOG | CLATTN_WITH_DT_BIAS | CLATTN_GATE_PER_HEAD;
    int adds =
        problem_adds(problem, problem->rule->gate) || problem_adds(problem, write_operand(problem->rule->write)->id);

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        adds |= problem_adds(problem, rows[i]);
    return !adds && desc->qk_heads == problem_work_heads(problem) && !(desc->flags & maps) && desc->feature_map == 0 &&
           desc->rope_dim == 0 && problem_gate_map(problem) == 0 && desc->beta_map == 0 &&
           problem->rule->write != WRITE_EXP;
}

/* Three units of rows and of states, weights, and numbers of rows. */
static struct kernel_step engine_step(const struct engine *engine, const struct problem *problem,
                                      const struct chunk_backward_tiles *t, int pitch)
{
    enum { HALF = 2, PAD = 8, STAGES = 3, ROW_NUMBERS = 6, DOTS = 2, REGISTERS = 128 };
    const struct gradients_sizes s = gradients_sizes(engine, problem, t);
    const int tiles = t->chunk / MATRIX_TILE;
    struct kernel_step step = chunk_step(problem, t, FILE_engine_gradients, 1);
    const struct number constants[] = {
        {"DIRECT", is_direct(problem)},
        {"FLOWS", flows_apart(problem, 1)},
        {"STREAMS", 2 + (problem->rule->erase == ERASE_OPERAND)},
        {"PITCH", pitch},
        {"STAGES", STAGES},
        {"HEADS", problem_work_heads(problem)},
    };

    step_constants(&step, constants, sizeof constants / sizeof *constants);
    step_local(&step, "LOCAL_WEIGHTS", s.pair, HALF);
    step.local_bytes += (size_t)(STAGES * (2 * s.value_rows + s.states) * HALF);
    step_local(&step, "LOCAL_ROW_NUMBERS",
               (ROW_NUMBERS + DOTS * t->group / engine->lanes) * t->chunk + problem->desc.value_dim + t->block_k +
                   tiles * tiles,
               FLOAT);
    if (engine->registers > 0) {
        step.registers = REGISTERS;
        step_constant(&step, "BOUND_REGISTERS", REGISTERS);
    }
    add_products(&step, engine);
    step_copies(&step, engine);
    return step;
}

/* A sub-group has a tile of channels. */
static int is_narrow(const struct device_facts *facts, const struct engine *engine, const struct problem *problem,
                     const struct chunk_backward_tiles *t)
{
    struct problem down, up;
    struct kernel_step step;

    if (!can_be_narrow(engine, problem) || t->group != t->block_k / MATRIX_TILE * engine->lanes ||
        problem->desc.key_dim % t->block_k != 0 || problem->desc.value_dim % t->block_v != 0 ||
        problem->desc.value_dim < 2 * t->block_v)
        return 0;
    down = walk_down_problem(problem, t->chunk, 1);
    up = walk_up_problem(problem, t->chunk);
    walk_is_narrow(&down, problem);
    walk_is_narrow(&up, problem);
    step = engine_step(engine, problem, t, 0);
    return step_fits(&step, facts->device) == CLATTN_SUCCESS && solver_can(&solver_matrix_scan, facts, &down) &&
           solver_can(&solver_matrix_scan, facts, &up);
}

/* Tiles for engine_gradients.cl, if what is open of them can be chosen so. */
static int choose_narrow(const struct device_facts *facts, const struct engine *engine, const struct problem *problem,
                         struct chunk_backward_tiles *t)
{
    struct chunk_backward_tiles narrow = *t;

    if (!can_be_narrow(engine, problem))
        return 0;
    default_to(&narrow.chunk, 64);
    default_to(&narrow.block_k, 64);
    default_to(&narrow.block_v, MATRIX_TILE);
    default_to(&narrow.group, narrow.block_k / MATRIX_TILE * engine->lanes);
    if (!is_narrow(facts, engine, problem, &narrow))
        return 0;
    *t = narrow;
    return 1;
}

static int gradients_fit(const struct device_facts *facts, const struct engine *engine, const struct problem *problem,
                         const struct chunk_backward_tiles *t)
{
    const struct kernel_step step = gradients_step(engine, problem, t, 0);

    return step_fits(&step, facts->device) == CLATTN_SUCCESS;
}

/* The tiles of an engine's sub-groups are whole, and a work-item loads the same channels of all value columns. */
static int engine_has(const struct engine *engine, const struct chunk_backward_tiles *t)
{
    enum { VEC = 4 };

    return engine == NULL ||
           (t->group % engine->lanes == 0 && t->block_v % MATRIX_TILE == 0 &&
            t->block_k % (t->group / engine->lanes * MATRIX_TILE) == 0 && t->group % (t->block_k / VEC) == 0);
}

/* An engine's group has a sub-group for each tile of channels, whose sums of rows of 64 stay in registers. */
static int default_group(const struct device_facts *facts, const struct engine *engine,
                         const struct chunk_backward_tiles *t)
{
    enum { LANES = 64, MOST_SUB_GROUPS = 4 };

    if (engine != NULL)
        return engine->lanes * lower(MOST_SUB_GROUPS, t->block_k / MATRIX_TILE);
    return is_serial(facts) ? 1 : lower(LANES, power_of_two_below(facts->most_group));
}

/* The rows of a chunk. A work-item of chunk_gradients has all rows in registers; so have sub-groups of channel_gradients
 * the sums of all rows, which of low rank are four. */
static int default_chunk(const struct device_facts *facts, const struct engine *engine, const struct problem *problem)
{
    const int by_channels = problem_decay(problem) == DECAY_CHANNEL, four_sums = by_channels && is_low_rank(problem);

    if (engine != NULL)
        return four_sums ? 32 : 64;
    return four_sums && !is_serial(facts) ? 16 : 32;
}

/* The width of slices of columns: at most `most`, and as even as units let them be. */
static int even_slices(int64_t columns, int most, int unit)
{
    return round_up(divide_up(columns, divide_up(columns, most)), unit);
}

/* Narrows the slices, then the chunk, until local memory holds them. */
static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    const struct engine *engine = engine_for(solver, facts);
    struct chunk_backward_tiles *t = tiles;
    const int serial = is_serial(facts) && engine == NULL, vec = serial ? 16 : 4;
    const int unit_k = engine != NULL ? 2 * MATRIX_TILE : vec, unit_v = engine != NULL ? MATRIX_TILE : vec;
    const int given_group = t->group, scalar = problem_decay(problem) != DECAY_CHANNEL;
    const int64_t columns = walk_columns(problem);

    if (choose_narrow(facts, engine, problem, t))
        return CLATTN_SUCCESS;
    default_to(&t->chunk, default_chunk(facts, engine, problem));
    default_to(&t->block_k, scalar && !serial && engine == NULL ? 32 : 64); /* local memory has the sums */
    default_to(&t->block_v, even_slices(columns, serial ? 144 : engine != NULL ? 64 : 16, unit_v));
    t->block_k = lower(t->block_k, round_up(problem->desc.key_dim, unit_k));
    t->block_v = lower(t->block_v, round_up(columns, unit_v));
    default_to(&t->group, default_group(facts, engine, t));
    while (!gradients_fit(facts, engine, problem, t)) {
        if (t->block_v > 2 * unit_v)
            t->block_v = round_up(t->block_v / 2, unit_v);
        else if (t->chunk > 16)
            t->chunk /= 2;
        else if (t->block_k > unit_k)
            t->block_k = round_up(t->block_k / 2, unit_k);
        else
            return CLATTN_UNSUPPORTED;
        if (given_group == 0)
            t->group = default_group(facts, engine, t);
    }
    return engine_has(engine, t) && (t->group == 1) == serial && (size_t)t->group <= facts->device->info.max_work_group
               ? CLATTN_SUCCESS
               : CLATTN_UNSUPPORTED;
}

/* Rows of a span: whole chunks of whole tokens. 0: the workspace has room for all rows. */
static int64_t span_of(const struct problem *problem, int chunk)
{
    const int64_t unit = (int64_t)chunk * problem->desc.steps, span = round_up(problem->span, (int)unit);

    return span < problem_rows(problem) ? span : 0;
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    static const enum embedded_file files[KERNELS] = {FILE_pad_cuts,        FILE_pad_rows,    FILE_pad_states,
                                                      FILE_pad_states,      FILE_divide_rows, FILE_write_rows,
                                                      FILE_chunk_gradients, FILE_pad_states,  FILE_close_values};
    /* Nothing reads the walk down of a rule that does not erase. Kernels of matrix engines write outputs all the same. */
    const int is_read = erases(problem) || facts->engine != NULL;
    struct chunk_backward_shape *s = shape;
    struct kernel_step counted = {0};
    struct chunk_backward_tiles others; /* of kernels without products: on a CPU an engine is emulated in these alone */
    struct state_tile row;

    s->tiles = *(const struct chunk_backward_tiles *)tiles;
    s->narrow = is_narrow(facts, engine_for(solver, facts), problem, &s->tiles);
    s->direct = s->narrow && is_direct(problem);
    s->leaves = is_serial(facts) && facts->engine == NULL && erases(problem);
    others = s->tiles;
    if (is_serial(facts))
        others.group = 1;
    row = row_tile(facts, problem, &others);
    s->pitch = row.block_k;
    s->streams = s->narrow ? 2 + (problem->rule->erase == ERASE_OPERAND) : stream_count(problem, 1);
    s->shares = add_shares(problem, &counted);
    for (int kernel = 0; kernel < KERNELS; kernel++)
        if (kernel != KERNEL_GRADIENTS)
            s->steps[kernel] = chunk_step(problem, &others, files[kernel], s->narrow);
    step_constant(&s->steps[KERNEL_ROWS_IN], "LEAVES_ERASED", s->leaves);
    step_constant(&s->steps[KERNEL_OPEN], "MODE", 0);
    step_constant(&s->steps[KERNEL_KEEP], "MODE", 1);
    step_constant(&s->steps[KERNEL_CLOSE], "MODE", 2);
    s->steps[KERNEL_GRADIENTS] =
        (s->narrow ? engine_step : gradients_step)(engine_for(solver, facts), problem, &s->tiles, s->pitch);
    step_constant(&s->steps[KERNEL_VALUES], "DIRECT", s->direct);
    step_constant(&s->steps[KERNEL_VALUES], "NUMBER_PARTS", problem->desc.key_dim / s->tiles.block_k);
    s->rows = gradient_step(FILE_backward_rows, problem, &row, s->tiles.chunk);
    if (s->narrow) {
        step_replace(&s->rows, "NARROW", 1);
        step_replace(&s->rows, "NUMBER_PARTS", problem->desc.key_dim / s->tiles.block_k);
        step_replace(&s->rows, "STREAMS", s->streams);
    }
    s->sums = gradient_step(FILE_backward_sums, problem, &row, s->tiles.chunk);
    s->part = *problem;
    s->span = span_of(problem, s->tiles.chunk);
    if (s->span != 0)
        s->part.desc.seq_len = s->span / problem->desc.steps;
    s->down = walk_down_problem(&s->part, s->tiles.chunk, is_read);
    s->up = walk_up_problem(&s->part, s->tiles.chunk);
    if (s->narrow) {
        walk_is_narrow(&s->down, problem);
        walk_is_narrow(&s->up, problem);
    }
    if (s->leaves) {
        walk_leaves_erased(&s->down, problem);
        walk_leaves_erased(&s->up, problem);
    }
    TRY(step_fits(&s->rows, facts->device));
    return step_fits(&s->steps[KERNEL_GRADIENTS], facts->device);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    (void)problem;
    return (struct reach){.chunk = ((const struct chunk_backward_shape *)shape)->tiles.chunk, .parts = 1};
}

/* ---- Recipe -------------------------------------------------------------------------------------------------------
 */

static int has_gradient(struct builder *b, clattn_operand_id id)
{
    return build_operand(b, gradient_of(id)) != IR_NONE;
}

/* The type of what the walks leave but for the states of whole sequences. */
static clattn_dtype left_type(const struct problem *problem, const struct chunk_backward_shape *s)
{
    return s->narrow ? problem->desc.dtype : CLATTN_F32;
}

/* The rows that the walks read. */
static void add_rows_in(const struct walks *w, const struct chunk_backward_shape *s)
{
    const struct problem *problem = w->problem;
    const clattn_plan_desc *desc = &problem->desc;
    const enum decay decay = problem_decay(problem);
    const int64_t K = desc->key_dim, V = walk_columns(problem);
    const int erase = erases(problem);
    const int own = erase && problem->rule->erase != ERASE_KEY && problem->rule->order == DECAY_FIRST;

    add_rows(w, "rows_q", desc->dtype, K, 1);
    add_rows(w, "rows_k", desc->dtype, K, 1);
    add_rows(w, "rows_x", desc->dtype, V, 1);
    add_rows(w, "rows_d", desc->dtype, V, 1);
    add_rows(w, "rows_p", desc->dtype, K, own);
    add_rows(w, "rows_f", desc->dtype, K, erase);
    add_rows(w, "rows_n", desc->dtype, K, erase);
    add_rows(w, "logs", CLATTN_F32, decay == DECAY_CHANNEL ? K : 1, decay != DECAY_NONE);
    add_rows(w, "strengths", CLATTN_F32, 1, has_strength(problem));
    add_rows(w, s->leaves ? "erased" : "read", left_type(w->problem, s), V,
             erase || !(s->down.desc.flags & CLATTN_NONCAUSAL));
    if (s->leaves)
        bind_rows(w, "read", "erased", 1);
}

/* What the walk up leaves. */
static void add_rows_written(const struct walks *w, const struct chunk_backward_shape *s)
{
    const int64_t V = walk_columns(w->problem);

    add_rows(w, "written", left_type(w->problem, s), V, 1);
    add_rows(w, "low", CLATTN_F32, V, is_low_rank(w->problem));
}

/* What the walks and chunk_gradients leave. */
static void add_rows_out(const struct walks *w, const struct chunk_backward_shape *s)
{
    const ir_expression chunks = build_binary(w->b, IR_DIVIDE, w->rows, build_constant(w->b, w->chunk));
    const int64_t parts = s->narrow ? w->problem->desc.key_dim / s->tiles.block_k : 1; /* of numbers of rows */

    if (!s->leaves)
        add_rows_written(w, s);
    add_rows(w, "parts", CLATTN_F32, (int64_t)s->streams * s->pitch, !s->direct);
    add_rows(w, "flows", CLATTN_F32, parts, flows_apart(w->problem, 1));
    add_rows(w, "betas", CLATTN_F32, parts, s->narrow && has_betas(w->problem));
    add_rows(w, "shares", CLATTN_F32, s->shares, s->shares > 0);
    add_state_rows(w, "down", left_type(w->problem, s), w->most_slots, chunks, 1);
    add_state_rows(w, "up", left_type(w->problem, s), w->most_slots, chunks, 1);
}

/* The states of sequences at the ends of the span. Where sequences are cut into spans all of them are needed. */
static void add_states(const struct walks *w, const struct chunk_backward_shape *s)
{
    const struct extent most = problem_most(w->problem);
    const int64_t sequences = is_packed(w->problem) ? most.sequences : most.batch;
    const ir_expression one = build_constant(w->b, 1);
    const int cut = s->span != 0;

    add_state_rows(w, "begins", CLATTN_F32, sequences, one,
                   cut || build_bound(w->b, "initial") != IR_NONE || build_bound(w->b, "initial_z") != IR_NONE);
    add_state_rows(w, "ends", CLATTN_F32, sequences, one,
                   cut || has_gradient(w->b, CLATTN_STATE_OUT) || has_gradient(w->b, CLATTN_NORMALIZER_OUT));
    add_state_rows(w, "ended", CLATTN_F32, sequences, one,
                   cut || has_gradient(w->b, CLATTN_STATE_IN) || has_gradient(w->b, CLATTN_NORMALIZER_IN));
}

/* Where the span's sequences begin, in tokens and among the rows, and at which positions. Returns those among the rows. */
static int add_cuts(const struct walks *w, const struct span *span, const struct chunk_backward_shape *s)
{
    struct builder *b = w->b;
    const int64_t sequences = problem_most(w->problem).sequences;
    const int packed = is_packed(w->problem), turned = (w->problem->desc.flags & CLATTN_WITH_ROPE) != 0;
    const int wide = (w->problem->desc.flags & CLATTN_CU_SEQLENS_INT64) != 0, cut = span->rows != 0;
    const int padded = packed ? build_scratch(b, "padded cuts", CLATTN_F32, sequences + 1) : IR_NONE;
    const int cuts = packed && cut ? span_indices(b, "cuts", sequences + 1, wide) : IR_NONE;
    const int positions = turned && cut ? build_scratch(b, "positions", CLATTN_F32, sequences) : IR_NONE;

    build_bind(b, "padded_cuts", padded);
    build_bind(b, "cuts", cuts);
    build_bind(b, "positions", positions);
    if (padded != IR_NONE || positions != IR_NONE)
        span_outer_kernel(span, b, &s->steps[KERNEL_CUTS], (struct grid3){build_constant(b, 1), 1, 1});
    if (cuts != IR_NONE)
        build_bind(b, "cu", cuts);
    if (positions != IR_NONE)
        build_bind(b, "position", positions);
    return padded;
}

/* Adds the steps up to the rows and states that the walks read. */
static int add_begin(const struct walks *w, const struct span *span, const struct chunk_backward_shape *s)
{
    struct builder *b = w->b;
    const int64_t heads = walk_heads(w->problem);
    const struct grid3 with_zeros = {build_binary(b, IR_ADD, w->slots, build_constant(b, 1)), heads, 1};
    int cuts;

    add_rows_in(w, s);
    add_states(w, s);
    cuts = add_cuts(w, span, s);
    build_kernel(b, &s->steps[KERNEL_ROWS_IN], with_zeros);
    if (build_bound(b, "begins") != IR_NONE || build_bound(b, "ends") != IR_NONE)
        span_outer_kernel(span, b, &s->steps[KERNEL_OPEN], (struct grid3){build_length(b, IR_SEQUENCES), heads, 1});
    return cuts;
}

/* 1 where other spans have left sums, and 2 where more are to come (backward_sums.cl). */
static ir_expression partial_of(struct builder *b, const struct span *span)
{
    const ir_expression zero = build_constant(b, 0);
    const ir_expression after = build_binary(b, IR_ADD, span->first_token, span->tokens);

    return build_binary(b, IR_ADD, build_binary(b, IR_LESS, after, span->call_tokens),
                        build_times(b, build_binary(b, IR_LESS, zero, span->first_token), 2));
}

/* Adds the steps from the walks to the gradients of the operands. */
static clattn_status add_gradients(const struct walks *w, const struct span *span, const struct chunk_backward_shape *s)
{
    struct builder *b = w->b;
    const int64_t heads = problem_work_heads(w->problem);
    const struct grid3 chunks = {w->slots, walk_heads(w->problem), 1};
    int cuts;

    if (s->leaves)
        add_rows_written(w, s);
    cuts = add_begin(w, span, s);
    add_rows_out(w, s);
    build_number(b, "span", w->rows);
    build_number(b, "first_row", build_constant(b, 0));
    build_number(b, "partial", partial_of(b, span));
    TRY(walk_down(w, cuts, 0));
    if (problem_normalized(w->problem))
        build_kernel(b, &s->steps[KERNEL_DIVIDE], chunks);
    TRY(walk_up(w, cuts, "rows_k", "written", 1));
    if (is_low_rank(w->problem) && !s->leaves)
        TRY(walk_up(w, cuts, "rows_n", "low", 0));
    if (s->narrow && erases(w->problem))
        build_kernel(b, &s->steps[KERNEL_WRITTEN], chunks);
    if (s->narrow)
        build_kernel(
            b, &s->steps[KERNEL_GRADIENTS],
            (struct grid3){build_times(b, w->slots, heads * (w->problem->desc.key_dim / s->tiles.block_k)), 1, 1});
    else
        build_kernel(b, &s->steps[KERNEL_GRADIENTS], chunks);
    if (build_bound(b, "ended") != IR_NONE)
        span_outer_kernel(span, b, &s->steps[KERNEL_CLOSE], (struct grid3){build_length(b, IR_SEQUENCES), chunks.y, 1});
    build_kernel(b, &s->steps[KERNEL_VALUES], (struct grid3){w->slots, heads, 1});
    if (!s->direct)
        build_kernel(b, &s->rows, (struct grid3){w->slots, lower(heads, w->problem->desc.qk_heads), s->tiles.chunk});
    if (s->shares > 0)
        build_kernel(b, &s->sums, (struct grid3){build_constant(b, heads), 1, 1});
    return CLATTN_SUCCESS;
}

/* Walks forward to keep the states at the ends of spans but for the last one. `kept` has a state of each batch row and
 * head for each span: that with which it begins. */
static clattn_status keep_states(struct builder *b, const struct chunk_backward_shape *s, int kept, int64_t numbers)
{
    const struct grid3 states = {build_length(b, IR_SEQUENCES), walk_heads(&s->part), 1};
    struct span span;
    struct walks w;
    int cuts;

    span_begin(&span, b, s->span, 0);
    w = walks_of(b, &s->part, s->tiles.chunk, &s->down, &s->up);
    build_bind(b, "kept", span_state(b, kept, span.number, numbers));
    build_bind(b, "carried", IR_NONE);
    cuts = add_begin(&w, &span, s);
    TRY(walk_down(&w, cuts, 1));
    build_bind(b, "kept", span_state(b, kept, build_binary(b, IR_ADD, span.number, build_constant(b, 1)), numbers));
    span_outer_kernel(&span, b, &s->steps[KERNEL_KEEP], states);
    span_end(&span, b);
    return CLATTN_SUCCESS;
}

/* The recipe of spans: one of all rows, or from the last to the first. */
static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct chunk_backward_shape *s = shape;
    const clattn_plan_desc *desc = &problem->desc;
    const int64_t heads = problem_work_heads(problem), batch = is_packed(problem) ? 1 : problem_most(problem).batch;
    const int64_t numbers = batch * walk_heads(problem) * desc->key_dim * walk_columns(problem);
    int kept = IR_NONE, carried = IR_NONE;
    struct span span;
    struct walks w;

    bind_gradients(b, problem);
    build_bind(b, "totals", build_carried(b, "totals", CLATTN_F32, heads * s->shares));
    if (s->span != 0) {
        kept = build_carried(b, "kept", CLATTN_F32, divide_up(problem_rows(problem), s->span) * numbers);
        carried = build_carried(b, "carried", CLATTN_F32, numbers);
        TRY(keep_states(b, s, kept, numbers));
    }
    span_begin(&span, b, s->span, 1);
    w = walks_of(b, &s->part, s->tiles.chunk, &s->down, &s->up);
    build_bind(b, "kept", kept != IR_NONE ? span_state(b, kept, span.number, numbers) : IR_NONE);
    build_bind(b, "carried", carried);
    TRY(add_gradients(&w, &span, s));
    span_end(&span, b);
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct chunk_backward_shape *s = shape;

    (void)step;
    text_format(text, "group %d, chunk %d, key slice %d, value tile %d, local %zu bytes", s->tiles.group,
                s->tiles.chunk, s->tiles.block_k, s->tiles.block_v, s->steps[KERNEL_GRADIENTS].local_bytes);
    if (s->span != 0)
        text_format(text, ", spans of %lld rows", (long long)s->span);
    text_format(text, "\n");
}

#define CHUNK_BACKWARD(space_name, engine, own_rank)                                                                   \
    {                                                                                                                  \
        .space = {space_name, parameters, 1024, 0, engine, 1}, .mode = CLATTN_MODE_CHUNK, .backward = 1,               \
        .rank = own_rank, .tiles_size = sizeof(struct chunk_backward_tiles),                                           \
        .shape_size = sizeof(struct chunk_backward_shape), .applies = applies, .choose_tiles = choose_tiles,           \
        .derive_shape = derive_shape, .reach = reach, .recipe = recipe, .describe = describe                           \
    }

const struct solver solver_chunk_backward = CHUNK_BACKWARD("chunk_backward", 0, 950);
/* Numbers of 16 bits on a matrix engine. */
const struct solver solver_matrix_backward = CHUNK_BACKWARD("matrix_backward", 1, 960);
