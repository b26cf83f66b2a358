/* ttt_matrix: W^T x, which batches of a few tokens train, on a matrix engine.
 *
 * prepare: what the tokens of a batch see of each other's gradients, all batches at once
 * matrix:  from batch to batch, the weights in registers, and their momentum
 *
 * A batch is a chunk. LN needs whole rows of values, which a group then has; else groups have some columns each. */
#include "op/op.h"
#include "solve/ttt/ttt.h"

enum { FLOAT = 4, NUMBER = 2, PAD = 8, FACTORS = 4, ENDS = 4 };

struct ttt_matrix_tiles {
    int columns; /* value columns of a group */
    int chunks;  /* chunks that a group prepares */
};

struct ttt_matrix_shape {
    struct ttt_matrix_tiles tiles;
    struct kernel_step prepare, matrix;
    int chunk, column_groups;
    int64_t record; /* words of 32 bits */
};

static const struct parameter parameters[] = {
    PARAMETER_ROW("columns", struct ttt_matrix_tiles, columns, 16, 32, 64, 128),
    PARAMETER_ROW("chunks", struct ttt_matrix_tiles, chunks, 1, 2, 4),
    PARAMETERS_END,
};

/* Channels of 16 value columns that a sub-group's registers hold, with and without those of the momentum. */
static int channels_fit(const struct engine *engine, const struct problem *problem)
{
    enum { MOST = 128, MOST_OF_FEW = 64 };

    return problem->desc.key_dim <= (engine->key_split > 1 ? MOST_OF_FEW : MOST);
}

static int batches_fit(const struct problem *problem)
{
    enum { SHORT = MATRIX_TILE, LONG = 2 * MATRIX_TILE };

    return problem->desc.mini_batch == SHORT || problem->desc.mini_batch == LONG;
}

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    const clattn_plan_desc *desc = &problem->desc;

    (void)solver;
    return facts->engine != NULL && problem->rule->op == OP_LEARNER && problem->rule->model == MODEL_LINEAR &&
           desc->dtype != CLATTN_F32 && problem_out_type(problem) == desc->dtype && desc->omega == 1 &&
           desc->muon == CLATTN_MUON_NONE && desc->key_dim % MATRIX_TILE == 0 && desc->value_dim % MATRIX_TILE == 0 &&
           channels_fit(facts->engine, problem) && batches_fit(problem);
}

/* ---- Kernels ------------------------------------------------------------------------------------------------------
 */

static struct kernel_step engine_step(enum embedded_file file, const struct device_facts *facts,
                                      const struct problem *problem, int sub_groups)
{
    enum { VEC = 4 };
    const struct engine *engine = facts->engine;
    const clattn_plan_desc *desc = &problem->desc;
    struct kernel_step step = kernel_step(file, problem);

    step.options = engine->options;
    step.any_group = 1;
    step_tile(&step, sub_groups * engine->lanes, VEC, desc->mini_batch, facts->device->sub_group);
    step_scratch(&step, engine->scratch);
    step_constant(&step, "VALUE_TILES", sub_groups);
    step_constant(&step, "READERS", 0);
    step_constant(&step, "WIDTH", desc->key_dim);
    step_constant(&step, "MOMENTS", (desc->flags & CLATTN_WITH_MOMENTUM) != 0);
    step_constant(&step, "FORGETS", (desc->flags & CLATTN_WITH_ALPHA) != 0);
    ttt_add_kinds(&step, problem);
    step_header(&step, engine->instructions);
    step_header(&step, engine->words);
    return step;
}

static int64_t rows_numbers(int64_t chunk, int64_t columns)
{
    return chunk * (columns + PAD);
}

static int64_t record_words(int64_t chunk)
{
    return rows_numbers(chunk, chunk) / 2 + FACTORS * chunk + ENDS;
}

static struct kernel_step prepare_step(const struct device_facts *facts, const struct problem *problem, int chunks)
{
    enum { STREAMS = 2, RATES = 5 };
    const int64_t chunk = problem->desc.mini_batch;
    struct kernel_step step = engine_step(FILE_ttt_prepare, facts, problem, chunks);

    step_local(&step, "LOCAL_ROWS", chunks * STREAMS * rows_numbers(chunk, problem->desc.key_dim), NUMBER);
    step_local(&step, "LOCAL_SEEN", chunks * chunk * chunk, FLOAT);
    step_local(&step, "LOCAL_RATES", chunks * RATES * chunk, FLOAT);
    return step;
}

static struct kernel_step matrix_step(const struct device_facts *facts, const struct problem *problem, int columns)
{
    enum { SLOTS = 3, STREAMS = 2, SUMS = 6, OWN = 6 };
    const int64_t chunk = problem->desc.mini_batch;
    const int sub_groups = columns / facts->engine->rows;
    const int64_t rows = STREAMS * rows_numbers(chunk, problem->desc.key_dim) + rows_numbers(chunk, columns);
    struct kernel_step step = engine_step(FILE_ttt_matrix, facts, problem, sub_groups);

    step_constant(&step, "VALUES", columns);
    step_constant(&step, "SLOTS", SLOTS);
    step_local(&step, "LOCAL_SLOTS", SLOTS * (rows + 2 * record_words(chunk)), NUMBER);
    step_local(&step, "LOCAL_SUMS", (SUMS + OWN) * sub_groups * chunk, FLOAT);
    return step;
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

static int step_runs(const struct device_facts *facts, const struct kernel_step *step)
{
    return (size_t)step->group <= facts->device->info.max_work_group &&
           step_fits(step, facts->device) == CLATTN_SUCCESS;
}

/* Whole rows, where they are normalised; else fewer columns while compute units would be idle. */
static int usual_columns(const struct device_facts *facts, const struct problem *problem)
{
    enum { MOST = 128, LEAST = 32 };
    const int64_t heads = problem->desc.batch * problem->desc.heads, values = problem->desc.value_dim;
    int columns = (int)values;

    if (learner_has_norm(&problem->desc))
        return columns;
    while (columns % (2 * MATRIX_TILE) == 0 &&
           (columns > MOST || (columns > LEAST && heads * values / columns < facts->device->info.compute_units)))
        columns /= 2;
    return columns;
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    enum { MOST = 128, CHUNKS = 4 };
    struct ttt_matrix_tiles *t = tiles;
    struct kernel_step prepare, matrix;

    (void)solver;
    default_to(&t->columns, usual_columns(facts, problem));
    default_to(&t->chunks, CHUNKS);
    if (learner_has_norm(&problem->desc))
        t->columns = (int)problem->desc.value_dim;
    prepare = prepare_step(facts, problem, t->chunks);
    while (t->chunks > 1 && !step_runs(facts, &prepare)) {
        t->chunks /= 2;
        prepare = prepare_step(facts, problem, t->chunks);
    }
    matrix = matrix_step(facts, problem, t->columns);
    return t->columns <= MOST && problem->desc.value_dim % t->columns == 0 && step_runs(facts, &prepare) &&
                   step_runs(facts, &matrix)
               ? CLATTN_SUCCESS
               : CLATTN_UNSUPPORTED;
}

/* ---- Shape and recipe ---------------------------------------------------------------------------------------------
 */

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    struct ttt_matrix_shape *s = shape;

    (void)solver;
    s->tiles = *(const struct ttt_matrix_tiles *)tiles;
    s->prepare = prepare_step(facts, problem, s->tiles.chunks);
    s->matrix = matrix_step(facts, problem, s->tiles.columns);
    s->chunk = problem->desc.mini_batch;
    s->record = record_words(s->chunk);
    s->column_groups = (int)(problem->desc.value_dim / s->tiles.columns);
    TRY(step_fits(&s->prepare, facts->device));
    return step_fits(&s->matrix, facts->device);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    const struct ttt_matrix_shape *s = shape;

    (void)problem;
    return (struct reach){.chunk = s->chunk, .parts = 1, .reported = s->chunk};
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct ttt_matrix_shape *s = shape;
    const int64_t heads = problem->desc.heads, records = most_slots(problem, s->chunk) * heads * s->record;
    const ir_expression groups =
        build_binary(b, IR_DIVIDE_UP, build_slots(b, s->chunk), build_constant(b, s->tiles.chunks));

    ttt_bind_state(b);
    build_bind(b, "records", build_scratch(b, "records", CLATTN_F32, records));
    build_kernel(b, &s->prepare, (struct grid3){groups, heads, 1});
    build_kernel(b, &s->matrix, (struct grid3){build_length(b, IR_SEQUENCES), heads, s->column_groups});
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct ttt_matrix_shape *s = shape;

    if (step == 0)
        text_format(text, "group %d, chunk %d, %d chunks, local %zu bytes\n", s->prepare.group, s->chunk,
                    s->tiles.chunks, s->prepare.local_bytes);
    else
        text_format(text, "group %d, chunk %d, %d value columns, local %zu bytes\n", s->matrix.group, s->chunk,
                    s->tiles.columns, s->matrix.local_bytes);
}

const struct solver solver_ttt_matrix = {
    .space = {"ttt_matrix", parameters, 1024, 0, 1, 1},
    .mode = CLATTN_MODE_CHUNK,
    .rank = 900,
    .shared = 1,
    .tiles_size = sizeof(struct ttt_matrix_tiles),
    .shape_size = sizeof(struct ttt_matrix_shape),
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
