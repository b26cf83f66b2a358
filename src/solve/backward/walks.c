/* The two walks of the backward pass in chunks, for which other solvers of the list are children. */
#include "solve/backward/walks.h"

#include "solve/around.h"

#include "solve/state_words.h"

int is_packed(const struct problem *problem)
{
    return (problem->desc.flags & CLATTN_CU_SEQLENS) != 0;
}

int erases(const struct problem *problem)
{
    return erase_words(problem).streams > 0;
}

int is_low_rank(const struct problem *problem)
{
    return problem->rule->erase == ERASE_LOW_RANK;
}

int has_strength(const struct problem *problem)
{
    return problem->rule->write == WRITE_BETA || problem->rule->write == WRITE_EXP;
}

int64_t walk_heads(const struct problem *problem)
{
    return problem->desc.heads;
}

int64_t walk_columns(const struct problem *problem)
{
    enum { OF_NORMALIZER = 2, UNIT = 16 };

    return problem_normalized(problem) ? round_up(problem->desc.value_dim + OF_NORMALIZER, UNIT)
                                       : problem->desc.value_dim;
}

/* Rules by their words, of rows to which all maps were applied. */
#define RULE_OF(decay_, erase_, order_, write_)                                                                        \
    {                                                                                                                  \
        .name = "a walk of the backward pass", .decay = DECAY_##decay_,                                                \
        .gate = DECAY_##decay_ == DECAY_NONE ? CLATTN_OPERAND_NONE : CLATTN_G, .erase = ERASE_##erase_,                \
        .order = order_##_FIRST, .write = WRITE_##write_, .read = READ_AFTER, .default_scale = 1, .op = OP_MIXER       \
    }
#define RULES_OF(decay)                                                                                                \
    RULE_OF(decay, NONE, DECAY, VALUE), RULE_OF(decay, NONE, DECAY, BETA), RULE_OF(decay, KEY, DECAY, VALUE),          \
        RULE_OF(decay, KEY, DECAY, BETA), RULE_OF(decay, OPERAND, DECAY, VALUE), RULE_OF(decay, OPERAND, DECAY, BETA), \
        RULE_OF(decay, OPERAND, ERASE, BETA), RULE_OF(decay, LOW_RANK, ERASE, VALUE)
static const struct rule rules[] = {RULES_OF(NONE), RULES_OF(SCALAR), RULES_OF(CHANNEL)};

static const struct rule *rule_of(enum decay decay, enum erase erase, enum order order, enum write write)
{
    size_t i = 0;

    while (i + 1 < sizeof rules / sizeof *rules &&
           (rules[i].decay != decay || rules[i].erase != erase || rules[i].order != order || rules[i].write != write))
        i++;
    return &rules[i];
}

static const struct rule *rule_down(const struct problem *problem)
{
    const enum erase erase = problem->rule->erase == ERASE_GATED ? ERASE_OPERAND : problem->rule->erase;
    const enum order order = erases(problem) ? problem->rule->order : DECAY_FIRST;

    return rule_of(problem_decay(problem), erase, order, has_strength(problem) ? WRITE_BETA : WRITE_VALUE);
}

static const struct rule *rule_up(const struct problem *problem)
{
    const enum erase erase = erases(problem) ? ERASE_LOW_RANK : ERASE_NONE;

    return rule_of(problem_decay(problem), erase, erases(problem) ? ERASE_FIRST : DECAY_FIRST, WRITE_VALUE);
}

/* The longest sequence with padding; of packed sequences all of them together. */
static int64_t most_rows(const struct problem *problem, int chunk)
{
    const struct extent most = problem_most(problem);

    return (problem_rows(problem) / chunk + (is_packed(problem) ? most.sequences : 1)) * chunk;
}

static void add_operand(struct problem *walk, clattn_operand_id id, clattn_dtype type)
{
    if (id == NO_OPERAND)
        return;
    walk->types[id] = type;
    walk->operands[walk->operand_count++].id = id;
}

/* A walk as a problem of its own: the forward pass of a rule, without maps, with f32 gates, states and outputs. */
static struct problem walk_problem(const struct problem *problem, const struct rule *rule, int chunk, uint64_t flags,
                                   double scale)
{
    const clattn_plan_desc *outer = &problem->desc;
    const int64_t heads = walk_heads(problem);
    struct problem walk = {.rule = rule, .has_gates = rule->gate != NO_OPERAND};

    walk.desc = (clattn_plan_desc){.rule = outer->rule, .dtype = outer->dtype, .gate_dtype = CLATTN_F32};
    walk.desc.flags =
        flags | CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE | CLATTN_STATE_VK | (outer->flags & CLATTN_CU_SEQLENS);
    walk.desc.batch = outer->batch;
    walk.desc.seq_len = most_rows(problem, chunk);
    walk.desc.sequences = outer->sequences;
    walk.desc.heads = walk.desc.qk_heads = walk.desc.kv_heads = heads;
    walk.desc.key_dim = outer->key_dim;
    walk.desc.value_dim = walk_columns(problem);
    walk.desc.steps = walk.desc.layers = 1;
    walk.desc.scale = scale;
    walk.desc.state_every = chunk;
    walk.states_in_order = 1;
    for (int id = 0; id < OPERAND_COUNT; id++)
        walk.types[id] = CLATTN_F32;
    add_operand(&walk, CLATTN_Q, outer->dtype);
    add_operand(&walk, CLATTN_K, outer->dtype);
    add_operand(&walk, CLATTN_V, outer->dtype);
    add_operand(&walk, CLATTN_O, CLATTN_F32);
    add_operand(&walk, rule->gate, CLATTN_F32);
    add_operand(&walk, write_operand(rule->write)->id, CLATTN_F32);
    add_operand(&walk, erase_operands(rule->erase)[0].id, outer->dtype);
    add_operand(&walk, erase_operands(rule->erase)[1].id, outer->dtype);
    return walk;
}

struct problem walk_down_problem(const struct problem *problem, int chunk, int is_read)
{
    return walk_problem(problem, rule_down(problem), chunk, is_read ? 0 : CLATTN_NONCAUSAL, 1);
}

struct problem walk_up_problem(const struct problem *problem, int chunk)
{
    return walk_problem(problem, rule_up(problem), chunk, CLATTN_REVERSED, problem->desc.scale);
}

void walk_is_narrow(struct problem *walk, const struct problem *problem)
{
    walk->states_narrow = 1;
    walk->types[CLATTN_O] = problem->desc.dtype;
}

void walk_leaves_erased(struct problem *walk, const struct problem *problem)
{
    walk->leaves_erased = 1;
    if (!(walk->desc.flags & CLATTN_REVERSED) || !is_low_rank(problem))
        walk->desc.flags |= CLATTN_NONCAUSAL;
}

/* ---- Recipe -------------------------------------------------------------------------------------------------------
 */

struct walks walks_of(struct builder *b, const struct problem *problem, int chunk, const struct problem *down,
                      const struct problem *up)
{
    const int packed = is_packed(problem);
    const ir_expression of_one =
        build_binary(b, IR_ADD, build_binary(b, IR_DIVIDE, build_rows(b), build_constant(b, chunk)),
                     packed ? build_length(b, IR_SEQUENCES) : build_constant(b, 1));
    const int64_t sequences = packed ? 1 : problem_most(problem).batch;

    return (struct walks){.b = b,
                          .problem = problem,
                          .down = down,
                          .up = up,
                          .chunk = chunk,
                          .slots = packed ? of_one : build_binary(b, IR_MULTIPLY, build_length(b, IR_BATCH), of_one),
                          .rows = build_times(b, of_one, chunk),
                          .most_slots = sequences * most_rows(problem, chunk) / chunk};
}

void add_rows(const struct walks *w, const char *name, clattn_dtype type, int64_t width, int wanted)
{
    const int64_t heads = walk_heads(w->problem);
    const ir_expression strides[3] = {build_times(w->b, w->rows, heads * width), build_constant(w->b, heads * width),
                                      build_constant(w->b, width)};
    int rows = IR_NONE;

    if (wanted)
        rows = build_scratch_of(w->b, name, type, (w->most_slots + 1) * w->chunk * heads * width, strides);
    build_bind(w->b, name, rows);
}

void add_state_rows(const struct walks *w, const char *name, clattn_dtype type, int64_t count, ir_expression of_one,
                    int wanted)
{
    const clattn_plan_desc *desc = &w->problem->desc;
    const int64_t heads = walk_heads(w->problem), state = desc->key_dim * walk_columns(w->problem);
    const ir_expression strides[3] = {build_times(w->b, of_one, heads * state), build_constant(w->b, heads * state),
                                      build_constant(w->b, state)};
    int states = IR_NONE;

    if (wanted)
        states = build_scratch_of(w->b, name, type, count * heads * state, strides);
    build_bind(w->b, name, states);
}

/* The rows of a tensor that are so many rows later; reversed: from the last to the first. */
static int rows_from(const struct walks *w, int tensor, int later, int reversed)
{
    struct builder *b = w->b;
    struct ir_tensor slice = {.home = IR_SLICE,
                              .base = tensor,
                              .tokens = build_constant(b, later),
                              .heads = IR_NONE,
                              .elements = IR_NONE,
                              .strides = {IR_NONE, IR_NONE, IR_NONE}};

    if (tensor == IR_NONE || b->ir->failed)
        return IR_NONE;
    slice.element = b->ir->tensors[tensor].element;
    if (reversed) {
        const ir_expression *of = b->ir->tensors[tensor].strides;
        slice.tokens = build_binary(b, IR_ADD, w->rows, build_constant(b, later - 1));
        slice.strides[0] = of[0];
        slice.strides[1] = build_times(b, of[1], -1);
        slice.strides[2] = of[2];
    }
    return ir_tensor(b->ir, &slice);
}

void bind_rows(const struct walks *w, const char *name, const char *of, int later)
{
    build_bind(w->b, name, rows_from(w, build_bound(w->b, of), later, 0));
}

struct binding {
    const char *name;
    int tensor;
};

/* Adds the first solver that can compute a walk, with these tensors and no others. */
static clattn_status add_walk(const struct walks *w, const struct problem *walk, const struct binding *bindings,
                              size_t count)
{
    static const char *const absent[] = {"gv",    "u", "bias", "a_log", "slots", "position", "accepted",
                                         "decay", "m", "den",  "e",     "p",     "erased"};
    struct builder *b = w->b;
    const ir_expression lengths[IR_LENGTHS] = {IR_NONE, w->rows, IR_NONE, IR_NONE, IR_NONE};
    const ir_expression *outside = b->lengths;
    const int names = b->name_count;
    clattn_status status;

    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        build_bind(b, absent[i], IR_NONE);
    for (size_t i = 0; i < count; i++)
        build_bind(b, bindings[i].name, bindings[i].tensor);
    b->lengths = lengths;
    status = walk->states_narrow ? build_child(b, &solver_matrix_scan, walk) : build_problem(b, walk);
    b->lengths = outside;
    b->name_count = names;
    return status;
}

clattn_status walk_down(const struct walks *w, int cuts, int to_end)
{
    struct builder *b = w->b;
    const struct problem *problem = w->problem;
    struct problem down = *w->down;
    const int key = problem->rule->erase == ERASE_KEY, erase = erases(problem);
    const int is_left = down.leaves_erased && !to_end, is_read = erase && !down.leaves_erased;
    const int own = key ? IR_NONE : build_bound(b, problem->rule->order == ERASE_FIRST ? "rows_f" : "rows_p");
    const struct binding bindings[] = {
        {"q", is_read ? rows_from(w, build_bound(b, "rows_f"), 1, 0) : build_bound(b, "rows_k")},
        {"k", build_bound(b, "rows_k")},
        {"v", build_bound(b, "rows_x")},
        {"g", build_bound(b, "logs")},
        {"beta", build_bound(b, "strengths")},
        {"p", own},
        {"e", is_low_rank(problem) ? build_bound(b, "rows_n") : IR_NONE},
        {"o", down.leaves_erased ? IR_NONE : build_bound(b, "read")},
        {"erased", is_left ? build_bound(b, "erased") : IR_NONE},
        {"cu", cuts},
        {"initial", build_bound(b, "begins")},
        {"final", to_end ? build_bound(b, "ended") : IR_NONE},
        {"snapshots", to_end ? IR_NONE : build_bound(b, "down")},
    };

    if (to_end)
        down.desc.state_every = down.leaves_erased = 0;
    return add_walk(w, &down, bindings, sizeof bindings / sizeof *bindings);
}

clattn_status walk_up(const struct walks *w, int cuts, const char *readers, const char *out, int with_states)
{
    struct builder *b = w->b;
    struct problem up = *w->up;
    const int low_rank = is_low_rank(w->problem), left = up.leaves_erased;
    /* What reads the state for the erase, and what is written by it */
    const char *reader = left && !low_rank ? "rows_k" : "rows_n", *written = left && !low_rank ? "rows_n" : "rows_f";
    const struct binding bindings[] = {
        {"q", rows_from(w, build_bound(b, readers), 0, 1)},
        {"k", rows_from(w, build_bound(b, "rows_q"), 0, 1)},
        {"v", rows_from(w, build_bound(b, "rows_d"), 0, 1)},
        {"g", rows_from(w, build_bound(b, "logs"), 1, 1)},
        {"beta", IR_NONE},
        {"p", rows_from(w, build_bound(b, reader), 1, 1)},
        {"e", rows_from(w, build_bound(b, written), 1, 1)},
        {"o", left && !low_rank ? IR_NONE : rows_from(w, build_bound(b, out), 0, 1)},
        {"erased", left ? rows_from(w, build_bound(b, low_rank ? "low" : "written"), 1, 1) : IR_NONE},
        {"cu", cuts},
        {"initial", build_bound(b, "ends")},
        {"final", with_states ? build_bound(b, "ended") : IR_NONE},
        {"snapshots", with_states ? build_bound(b, "up") : IR_NONE},
    };

    if (!with_states)
        up.desc.state_every = 0;
    return add_walk(w, &up, bindings, sizeof bindings / sizeof *bindings);
}
