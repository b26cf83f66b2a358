/* ttt: learners that batches of a few tokens train, W^T x or an MLP.
 *
 * A group computes a head of a sequence: `chunk` tokens of a batch at a time, as products of their rows (cl/ttt). All
 * that it keeps lies in the workspace: the weights, what a chunk computes, and rows for the tokens of a batch. */
#include "solve/ttt/ttt.h"

#include "op/op.h"

#include <math.h>

struct ttt_tiles {
    int group, vec, sub_group;
    int chunk;     /* tokens that are computed together */
    int row_block; /* rows of a work-item's block of a product */
    int row_lanes; /* work-items that share a row of LN */
};

/* Places in a head's memory, and pitches of its rows, in floats. */
struct ttt_sizes {
    int64_t inputs[2], outputs[2], pitch_x[2], pitch_y[2];
    int64_t row;          /* of a token: inputs and gradients of each layer */
    int64_t window, rows; /* numbers of a row of scores; rows of a chunk */
    int64_t few, many;    /* Muon's matrices; 0 without */
    int64_t w[2], m[2], queries, hidden, z, seen, scores, last, kept, moment, muon, tokens; /* where they begin */
};

struct ttt_shape {
    struct ttt_tiles tiles;
    struct kernel_step step;
    int64_t fixed, row; /* floats of a head without tokens, and of a token */
    int64_t tokens;     /* of a sequence that a launch goes through; 0: all */
};

static const struct parameter parameters[] = {
    PARAMETER_ROW("chunk", struct ttt_tiles, chunk, 8, 16, 32, 64),
    PARAMETER_ROW("vec", struct ttt_tiles, vec, 4, 16),
    PARAMETER_ROW("group", struct ttt_tiles, group, 1, 32, 64, 128, 256),
    PARAMETER_ROW("row_block", struct ttt_tiles, row_block, 1, 2, 4, 8),
    PARAMETERS_END,
};

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts;
    return problem->rule->op == OP_LEARNER && problem->rule->model != MODEL_GATED;
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    enum { GROUP = 256, SERIAL_VEC = 16, SHARED_VEC = 4, SERIAL_BLOCK = 8, SHARED_BLOCK = 2, FEW = 8, USUAL = 16 };
    const int serial = is_serial(facts), steps = problem->desc.muon != CLATTN_MUON_NONE;
    struct ttt_tiles *t = tiles;

    (void)solver;
    default_to(&t->group, serial ? 1 : lower(GROUP, facts->most_group));
    default_to(&t->vec, t->group == 1 ? SERIAL_VEC : SHARED_VEC);
    default_to(&t->row_block, t->group == 1 ? SERIAL_BLOCK : SHARED_BLOCK);
    default_to(&t->chunk, problem->desc.mini_batch <= FEW ? FEW : USUAL);
    if (steps) /* every token has steps of its own */
        t->chunk = t->row_block = 1;
    t->sub_group = t->group == 1 ? 0 : facts->device->sub_group;
    t->row_lanes = 1;
    while (2 * t->row_lanes * t->chunk <= t->group && t->row_lanes * t->vec < problem->desc.value_dim &&
           t->group % (2 * t->row_lanes) == 0)
        t->row_lanes *= 2;
    return group_fits(facts, t->group) && t->chunk % t->row_block == 0 ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

/* ---- Sizes --------------------------------------------------------------------------------------------------------
 */

static int64_t take(int64_t *used, int64_t count)
{
    const int64_t at = *used;

    *used += (count + 15) / 16 * 16; /* all begin at 64 bytes */
    return at;
}

static int layers_of(const struct problem *problem)
{
    return problem->rule->model == MODEL_MLP ? 2 : 1;
}

static void size_layers(const struct problem *problem, const struct ttt_tiles *t, struct ttt_sizes *s)
{
    const clattn_plan_desc *desc = &problem->desc;
    const int unit = higher(t->vec, t->row_block), layers = layers_of(problem);

    for (int i = 0; i < layers; i++) {
        s->inputs[i] = (i == 0 ? desc->key_dim : desc->hidden_dim) + problem->rule->bias;
        s->outputs[i] = i == layers - 1 ? desc->value_dim : desc->hidden_dim;
        s->pitch_x[i] = round_up(s->inputs[i], unit);
        s->pitch_y[i] = round_up(s->outputs[i], unit);
        s->row += s->pitch_x[i] + s->pitch_y[i];
    }
    s->row = round_up(s->row, t->vec);
}

static void size_muon(const struct problem *problem, const struct ttt_tiles *t, struct ttt_sizes *s)
{
    const clattn_plan_desc *desc = &problem->desc;
    int64_t few = 0, many = 0;

    for (int i = 0; i < layers_of(problem) && desc->muon != CLATTN_MUON_NONE; i++) {
        const int64_t rows = s->inputs[i] - problem->rule->bias;
        few = higher(few, lower(rows, s->outputs[i]));
        many = higher(many, higher(rows, s->outputs[i]));
    }
    s->few = round_up(few, t->vec);
    s->many = round_up(many, t->vec);
}

/* The number of floats without the tokens' rows is where those begin. */
static struct ttt_sizes sizes_of(const struct problem *problem, const struct ttt_tiles *t)
{
    struct ttt_sizes s = {.row = 0};
    int64_t used = 0;

    size_layers(problem, t, &s);
    size_muon(problem, t, &s);
    s.rows = t->chunk;
    s.window = round_up(t->chunk + problem->desc.omega - 1, 4);
    for (int i = 0; i < layers_of(problem); i++) {
        s.w[i] = take(&used, s.pitch_x[i] * s.pitch_y[i]);
        s.m[i] = take(&used, s.pitch_x[i] * s.pitch_y[i]);
    }
    s.queries = take(&used, s.rows * s.pitch_x[0]);
    s.hidden = take(&used, s.rows * s.pitch_x[1]);
    s.z = take(&used, s.rows * s.pitch_y[layers_of(problem) - 1]);
    s.seen = take(&used, s.rows * s.window);
    s.scores = take(&used, s.rows * s.window);
    s.last = take(&used, 2 * s.window);
    s.kept = take(&used, 2 * s.rows);
    s.moment = take(&used, 1);
    s.muon = take(&used, 2 * (s.few * s.many + s.few * s.few));
    s.tokens = used;
    return s;
}

/* ---- The kernel ---------------------------------------------------------------------------------------------------
 */

static void add_places(struct kernel_step *step, const struct ttt_sizes *s, int layers)
{
    const struct number numbers[] = {
        {"AT_W1", s->w[0]},
        {"AT_M1", s->m[0]},
        {"AT_W2", s->w[1]},
        {"AT_M2", s->m[1]},
        {"AT_QUERIES", s->queries},
        {"AT_HIDDEN", s->hidden},
        {"AT_Z", s->z},
        {"AT_SEEN", s->seen},
        {"AT_SCORES", s->scores},
        {"AT_LAST", s->last},
        {"AT_KEPT", s->kept},
        {"AT_MOMENT", s->moment},
        {"AT_MUON", s->muon},
        {"AT_ROWS", s->tokens},
        {"INPUTS_1", s->inputs[0]},
        {"OUTPUTS_1", s->outputs[0]},
        {"PITCH_X1", s->pitch_x[0]},
        {"PITCH_Y1", s->pitch_y[0]},
        {"INPUTS_2", s->inputs[1]},
        {"PITCH_X2", s->pitch_x[1]},
        {"PITCH_V", s->pitch_y[layers - 1]},
        {"ROW", s->row},
        {"ROW_D1", s->pitch_x[0]},
        {"ROW_X2", s->pitch_x[0] + s->pitch_y[0]},
        {"ROW_D2", s->pitch_x[0] + s->pitch_y[0] + s->pitch_x[1]},
        {"ROW_LOSS", s->row - s->pitch_y[layers - 1]},
        {"WINDOW", s->window},
        {"ROWS", s->rows},
        {"MUON_FEW", s->few},
        {"MUON_MANY", s->many},
        {"MOMENTS_1", s->inputs[0] * s->outputs[0]},
    };

    step_constants(step, numbers, sizeof numbers / sizeof *numbers);
}

static void add_muon(struct kernel_step *step, clattn_muon muon)
{
    static const char *const names[MUON_STEPS][3] = {{"MUON_A0", "MUON_B0", "MUON_C0"},
                                                     {"MUON_A1", "MUON_B1", "MUON_C1"},
                                                     {"MUON_A2", "MUON_B2", "MUON_C2"},
                                                     {"MUON_A3", "MUON_B3", "MUON_C3"},
                                                     {"MUON_A4", "MUON_B4", "MUON_C4"}};

    for (int i = 0; i < MUON_STEPS; i++)
        for (int j = 0; j < 3; j++)
            step_constant(step, names[i][j], muon != CLATTN_MUON_NONE ? llround(1e4 * learner_muon(muon)[i][j]) : 0);
}

void ttt_add_kinds(struct kernel_step *step, const struct problem *problem)
{
    const struct number numbers[] = {
        {"BIAS", problem->rule->bias},         {"LOSS", problem->desc.loss},    {"LOSS_LN", CLATTN_LOSS_LN},
        {"LOSS_L2", CLATTN_LOSS_L2},           {"LOSS_DOT", CLATTN_LOSS_DOT},   {"READOUT", problem->desc.readout},
        {"READOUT_NONE", CLATTN_READOUT_NONE}, {"READOUT_Q", CLATTN_READOUT_Q},
    };

    step_constants(step, numbers, sizeof numbers / sizeof *numbers);
}

static struct kernel_step step_of(const struct problem *problem, const struct ttt_tiles *t, const struct ttt_sizes *s)
{
    const clattn_plan_desc *desc = &problem->desc;
    struct kernel_step step = kernel_step(FILE_ttt_scan, problem);
    const struct number numbers[] = {
        {"LAYERS", layers_of(problem)}, {"HIDDEN_DIM", desc->hidden_dim}, {"OMEGA", desc->omega},
        {"ROW_BLOCK", t->row_block},    {"ROW_LANES", t->row_lanes},      {"MUON", desc->muon != CLATTN_MUON_NONE},
    };

    step_tile(&step, t->group, t->vec, t->chunk, t->sub_group);
    step_constants(&step, numbers, sizeof numbers / sizeof *numbers);
    add_places(&step, s, layers_of(problem));
    add_muon(&step, desc->muon);
    ttt_add_kinds(&step, problem);
    step_local(&step, "LOCAL_SUMS", t->group, sizeof(float));
    return step;
}

/* Turns of loops that a work-item has: of a batch, about the products of its tokens with the weights, there and back; of
 * a token with Muon, three products in each of its steps. */
static int64_t batch_turns(const struct problem *problem, const struct ttt_tiles *t, const struct ttt_sizes *s)
{
    int64_t turns = 1;

    for (int i = 0; i < layers_of(problem); i++)
        turns += 2 * problem->desc.mini_batch * s->pitch_x[i] * s->pitch_y[i] / (t->row_block * t->vec * t->group);
    return turns;
}

static int64_t muon_turns(const struct problem *problem, const struct ttt_tiles *t, const struct ttt_sizes *s)
{
    enum { UNROLLED = 4 };

    return layers_of(problem) * MUON_STEPS * s->few * s->few * (2 * s->many + s->few) / (UNROLLED * t->vec * t->group);
}

/* A launch's tokens, with at most half of the turns of loops that the device lets a work-item have. */
static int64_t tokens_of_launch(const struct device_facts *facts, const struct problem *problem,
                                const struct ttt_tiles *t, const struct ttt_sizes *s)
{
    const int64_t most = facts->device->loop_turns / 2;

    if (most == 0)
        return 0;
    if (problem->desc.muon != CLATTN_MUON_NONE) /* a chunk is a token */
        return higher(1, most / higher(1, muon_turns(problem, t, s)));
    return problem->desc.mini_batch * higher(1, most / batch_turns(problem, t, s));
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    struct ttt_shape *s = shape;
    struct ttt_sizes sizes;

    (void)solver;
    s->tiles = *(const struct ttt_tiles *)tiles;
    sizes = sizes_of(problem, &s->tiles);
    s->fixed = sizes.tokens;
    s->row = sizes.row;
    s->tokens = tokens_of_launch(facts, problem, &s->tiles, &sizes);
    s->step = step_of(problem, &s->tiles, &sizes);
    return step_fits(&s->step, facts->device);
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    const struct ttt_shape *s = shape;

    return (struct reach){.chunk = s->tiles.chunk, .parts = 1, .reported = problem->desc.mini_batch};
}

/* ---- The recipe ---------------------------------------------------------------------------------------------------
 */

void ttt_bind_state(struct builder *b)
{
    build_bind(b, "w1", build_operand(b, CLATTN_STATE_IN));
    build_bind(b, "b1", build_operand(b, CLATTN_INITIAL_BIAS));
    build_bind(b, "final_w1", build_operand(b, CLATTN_STATE_OUT));
    build_bind(b, "final_b1", build_operand(b, CLATTN_FINAL_BIAS));
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct ttt_shape *s = shape;
    const clattn_plan_desc *desc = &problem->desc;
    const int64_t batch = desc->mini_batch < desc->seq_len ? desc->mini_batch : desc->seq_len;
    const int64_t rows = batch + desc->omega - 1 + s->tiles.chunk + 4; /* blocks reach beyond the last */
    const int64_t head = round_up(s->fixed + rows * s->row, 16), heads = desc->heads;
    const ir_expression apart[3] = {build_constant(b, heads * head), build_constant(b, 0), build_constant(b, head)};
    const int first = b->ir->step_count, parted = s->tokens > 0, loop = build_next_loop(b);
    int memory;

    if (problem->rule->model == MODEL_LINEAR)
        ttt_bind_state(b);
    memory = build_scratch_of(b, "memory", CLATTN_F32, desc->batch * heads * head, apart);
    build_bind(b, "memory", parted ? build_carry(b, memory) : memory);
    build_number(b, "mini_batch", build_constant(b, batch));
    build_number(b, "first_row", parted ? ir_loop_value(b->ir, IR_LOOP_FIRST, loop) : build_constant(b, 0));
    build_number(b, "stretch_rows", build_constant(b, parted ? s->tokens : desc->seq_len));
    build_kernel(b, &s->step, (struct grid3){build_length(b, IR_SEQUENCES), heads, 1});
    if (parted)
        build_loop(b, first, build_length(b, IR_TOKENS), s->tokens);
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct ttt_shape *s = shape;
    const struct ttt_tiles *t = &s->tiles;

    (void)step;
    text_format(text, "group %d, vec %d, chunk %d, blocks of %d rows", t->group, t->vec, t->chunk, t->row_block);
    if (s->tokens > 0)
        text_format(text, ", %lld tokens a launch", (long long)s->tokens);
    text_format(text, "\n");
}

const struct solver solver_ttt = {
    .space = {"ttt", parameters, 1024, 0, 0, 1},
    .mode = CLATTN_MODE_CHUNK,
    .rank = 800,
    .tiles_size = sizeof(struct ttt_tiles),
    .shape_size = sizeof(struct ttt_shape),
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
