#include "solve/builder.h"

#include <stdlib.h>
#include <string.h>

/* ---- Lengths and grids --------------------------------------------------------------------------------------------
 */

ir_expression build_constant(const struct builder *b, int64_t value)
{
    return ir_constant(b->ir, value);
}

ir_expression build_length(const struct builder *b, enum ir_length length)
{
    return b->lengths != NULL && b->lengths[length] != IR_NONE ? b->lengths[length] : ir_length(b->ir, length);
}

ir_expression build_binary(const struct builder *b, enum ir_operation operation, ir_expression x, ir_expression y)
{
    return ir_binary(b->ir, operation, x, y);
}

ir_expression build_times(const struct builder *b, ir_expression x, int64_t factor)
{
    return build_binary(b, IR_MULTIPLY, x, build_constant(b, factor));
}

ir_expression build_rows(const struct builder *b)
{
    return build_times(b, build_length(b, IR_TOKENS), b->problem->desc.steps);
}

static int is_packed(const struct problem *problem)
{
    return (problem->desc.flags & CLATTN_CU_SEQLENS) != 0;
}

ir_expression build_slots(const struct builder *b, int chunk)
{
    const ir_expression rows = build_rows(b), size = build_constant(b, chunk);

    if (is_packed(b->problem))
        return build_binary(b, IR_ADD, build_binary(b, IR_DIVIDE, rows, size), build_length(b, IR_SEQUENCES));
    return build_binary(b, IR_MULTIPLY, build_length(b, IR_BATCH), build_binary(b, IR_DIVIDE_UP, rows, size));
}

ir_expression build_key_slots(const struct builder *b, int chunk)
{
    const ir_expression keys = build_length(b, IR_KEYS), size = build_constant(b, chunk);

    if (is_packed(b->problem))
        return build_binary(b, IR_ADD, build_binary(b, IR_DIVIDE, keys, size),
                            build_times(b, build_length(b, IR_SEQUENCES), 2));
    return build_binary(b, IR_MULTIPLY, build_length(b, IR_BATCH),
                        build_binary(b, IR_ADD, build_binary(b, IR_DIVIDE_UP, keys, size), build_constant(b, 1)));
}

int64_t most_slots(const struct problem *problem, int chunk)
{
    const struct extent most = problem_most(problem);
    const int64_t rows = most.seq_len * problem->desc.steps;

    return is_packed(problem) ? rows / chunk + most.sequences : most.batch * divide_up(rows, chunk);
}

int64_t most_key_slots(const struct problem *problem, int chunk)
{
    const struct extent most = problem_most(problem);

    return is_packed(problem) ? most.kv_len / chunk + 2 * most.sequences
                              : most.batch * (divide_up(most.kv_len, chunk) + 1);
}

/* ---- Tensors ------------------------------------------------------------------------------------------------------
 */

static int has_operand(const struct problem *problem, clattn_operand_id id)
{
    for (int i = 0; i < problem->operand_count; i++)
        if (problem->operands[i].id == id)
            return 1;
    return 0;
}

/* If query heads share a state, each iteration of the reads' loop handles one query head of each state. This is the
 * slice of q, levels, z or o that it sees. */
static int read_slice(const struct builder *b, int base)
{
    const clattn_plan_desc *desc = &b->outer->desc;
    const ir_expression turn = ir_loop_value(b->ir, IR_LOOP_TURN, b->reads_loop);
    const int tiled = (desc->flags & CLATTN_HEADS_TILED) != 0;
    const struct ir_tensor slice = {.home = IR_SLICE,
                                    .base = base,
                                    .element = b->ir->failed ? 1 : b->ir->tensors[base].element,
                                    .strides = {IR_NONE, IR_NONE, IR_NONE},
                                    .tokens = IR_NONE,
                                    .elements = IR_NONE,
                                    .heads = tiled ? build_times(b, turn, desc->kv_heads) : turn,
                                    .head_step = tiled ? 1 : problem_reads(b->outer)};

    return ir_tensor(b->ir, &slice);
}

/* Whether the operand has a row for each head that reads, and not for each state. */
static int has_row_of_read(clattn_operand_id id)
{
    return id == CLATTN_Q || id == CLATTN_LEVELS || id == CLATTN_O || id == CLATTN_ATTN || id == CLATTN_Z;
}

int build_operand(struct builder *b, clattn_operand_id id)
{
    int *tensor = &b->operands[id];

    if (id == CLATTN_OPERAND_NONE || !has_operand(b->outer, id) || !has_operand(b->problem, id))
        return IR_NONE;
    if (*tensor == IR_NONE) {
        *tensor = ir_tensor(b->ir, &(struct ir_tensor){.name = operand_name(id),
                                                       .home = IR_OPERAND,
                                                       .element = (int)dtype_size(b->outer->types[id]),
                                                       .operand = (int)id});
        if (b->reads_loop != IR_NONE && !b->ir->failed && has_row_of_read(id))
            *tensor = read_slice(b, *tensor);
    }
    return *tensor;
}

int build_scratch_of(struct builder *b, const char *name, clattn_dtype type, int64_t elements,
                     const ir_expression strides[3])
{
    const int64_t element = (int64_t)dtype_size(type);
    struct ir_tensor scratch = {.name = name,
                                .home = IR_SCRATCH,
                                .element = (int)element,
                                .bytes = divide_up(elements * element, sizeof(float)) * (int64_t)sizeof(float),
                                .strides = {strides[0], strides[1], strides[2]}};

    return elements > 0 ? ir_tensor(b->ir, &scratch) : IR_NONE;
}

int build_scratch(struct builder *b, const char *name, clattn_dtype type, int64_t elements)
{
    const ir_expression tokens = build_length(b, IR_TOKENS);
    const ir_expression strides[3] = {build_times(b, tokens, problem_work_heads(b->outer)), build_constant(b, 1),
                                      tokens};

    return build_scratch_of(b, name, type, elements, strides);
}

int build_carry(struct builder *b, int tensor)
{
    if (tensor != IR_NONE && !b->ir->failed)
        b->ir->tensors[tensor].carried = 1;
    return tensor;
}

int build_carried(struct builder *b, const char *name, clattn_dtype type, int64_t elements)
{
    return build_carry(b, build_scratch(b, name, type, elements));
}

/* ---- Names --------------------------------------------------------------------------------------------------------
 */

static void bind(struct builder *b, const char *name, int tensor, int number)
{
    if (b->name_count == BUILDER_NAMES) {
        b->failed = 1;
        return;
    }
    b->names[b->name_count].name = name;
    b->names[b->name_count].tensor = tensor;
    b->names[b->name_count++].number = number;
}

void build_bind(struct builder *b, const char *name, int tensor)
{
    bind(b, name, tensor, IR_NONE);
}

void build_number(struct builder *b, const char *name, ir_expression number)
{
    bind(b, name, IR_NONE, number);
}

/* The index of the last binding of the name, or -1. */
static int find_name(const struct builder *b, const char *name)
{
    int i = b->name_count - 1;

    while (i >= 0 && strcmp(b->names[i].name, name) != 0)
        i--;
    return i;
}

ir_expression build_bound_number(const struct builder *b, const char *name)
{
    const int at = find_name(b, name);

    return at >= 0 ? b->names[at].number : IR_NONE;
}

/* Names of operands in kernels, for all rules that have them. */
static const struct {
    const char *name;
    clattn_operand_id operand;
} operand_names[] = {
    {"q", CLATTN_Q},
    {"k", CLATTN_K},
    {"v", CLATTN_V},
    {"o", CLATTN_O},
    {"gv", CLATTN_GV},
    {"u", CLATTN_U},
    {"f", CLATTN_F},
    {"cu", CLATTN_SEQLENS},
    {"initial", CLATTN_STATE_IN},
    {"final", CLATTN_STATE_OUT},
    {"sink", CLATTN_SINK},
    {"lse", CLATTN_LSE},
    {"cu_kv", CLATTN_SEQLENS_KV},
    {"lens", CLATTN_KV_LENS},
    {"k_new", CLATTN_K_NEW},
    {"v_new", CLATTN_V_NEW},
    {"theta", CLATTN_THETA},
    {"bias", CLATTN_DT_BIAS},
    {"d", CLATTN_D},
    {"z", CLATTN_Z},
    {"slots", CLATTN_STATE_INDICES},
    {"accepted", CLATTN_ACCEPTED},
    {"snapshots", CLATTN_STATES},
    {"weights", CLATTN_W},
    {"shift", CLATTN_BIAS},
    {"a_log", CLATTN_A_LOG},
    {"position", CLATTN_POSITION},
    {"final_position", CLATTN_POSITION_OUT},
    {"levels", CLATTN_LEVELS},
    {"omega", CLATTN_OMEGA},
    {"w0", CLATTN_W0},
    {"w1", CLATTN_W1},
    {"w2", CLATTN_W2},
    {"final_w0", CLATTN_FINAL_W0},
    {"final_w1", CLATTN_FINAL_W1},
    {"final_w2", CLATTN_FINAL_W2},
    {"lr0", CLATTN_LR0},
    {"lr1", CLATTN_LR1},
    {"lr2", CLATTN_LR2},
    {"momentum", CLATTN_MOMENTUM},
    {"b1", CLATTN_B1},
    {"b2", CLATTN_B2},
    {"final_b1", CLATTN_FINAL_B1},
    {"final_b2", CLATTN_FINAL_B2},
    {"initial_momentum", CLATTN_INITIAL_MOMENTUM},
    {"final_momentum", CLATTN_FINAL_MOMENTUM},
    {"eta", CLATTN_ETA},
    {"alpha", CLATTN_ALPHA},
    {"gamma", CLATTN_GAMMA},
    {"ln_weight", CLATTN_LN_WEIGHT},
    {"ln_bias", CLATTN_LN_BIAS},
    {"ridge", CLATTN_RIDGE},
    {"norm", CLATTN_NORM},
};

/* The names of the operands that a write reads: "beta", for one. */
static const char *const write_names[] = {
#define WRITE(value, row, name, ...) name,
#include "op/words.def"
};

/* Tensors that the rule fixes, and those that a pass puts in place of outputs and states. */
static int rule_tensor(struct builder *b, const char *name)
{
    const struct rule *rule = b->problem->rule;
    const enum pass pass = b->problem->pass;

    if (strcmp(name, "q") == 0 && problem_is_summary(b->problem)) /* what a kernel computes with queries is not used */
        return build_operand(b, CLATTN_K);
    if (strcmp(name, "g") == 0)
        return build_operand(b, rule->gate);
    if (strcmp(name, "p") == 0)
        return build_operand(b, erase_operands(rule->erase)[0].id);
    if (strcmp(name, "e") == 0)
        return build_operand(b, erase_operands(rule->erase)[1].id);
    if (strcmp(name, write_names[rule->write]) == 0)
        return build_operand(b, write_operand(rule->write)->id);
    if (pass == PASS_ATTENTION && strcmp(name, "o") == 0)
        return build_operand(b, CLATTN_ATTN);
    if (pass == PASS_DENOMINATORS && strcmp(name, "initial") == 0)
        return build_operand(b, CLATTN_NORMALIZER_IN);
    if (pass == PASS_DENOMINATORS && strcmp(name, "final") == 0)
        return build_operand(b, CLATTN_NORMALIZER_OUT);
    if (pass == PASS_DENOMINATORS && strcmp(name, "snapshots") == 0)
        return build_operand(b, CLATTN_NORMALIZERS);
    return IR_NONE;
}

/* Whether the tensor belongs to another pass. */
static int belongs_to_other_pass(enum pass pass, const char *name)
{
    return pass == PASS_ATTENTION &&
           (strcmp(name, "initial") == 0 || strcmp(name, "final") == 0 || strcmp(name, "lse") == 0 ||
            strcmp(name, "snapshots") == 0 || strcmp(name, "accepted") == 0);
}

int build_bound(struct builder *b, const char *name)
{
    const int at = find_name(b, name);
    int tensor;

    if (at >= 0)
        return b->names[at].tensor;
    if (belongs_to_other_pass(b->problem->pass, name))
        return IR_NONE;
    tensor = rule_tensor(b, name);
    for (size_t i = 0; tensor == IR_NONE && i < sizeof operand_names / sizeof *operand_names; i++)
        if (strcmp(operand_names[i].name, name) == 0)
            tensor = build_operand(b, operand_names[i].operand);
    return tensor;
}

/* ---- Numbers ------------------------------------------------------------------------------------------------------
 */

/* 1 in the iteration of the reads' loop that writes states. That is the last one, because they may overwrite the
 * initial one, which every iteration reads. If the reads are of the final state, it is the first one. */
static ir_expression writes_final_state(const struct builder *b)
{
    if (b->reads_loop == IR_NONE)
        return build_constant(b, 1);
    if (problem_reads_whole(b->outer))
        return build_binary(b, IR_EQUAL, ir_loop_value(b->ir, IR_LOOP_TURN, b->reads_loop), build_constant(b, 0));
    return ir_loop_value(b->ir, IR_LOOP_LAST, b->reads_loop);
}

static int has(struct builder *b, const char *name)
{
    return build_bound(b, name) != IR_NONE;
}

/* Flags: whether the call has a sink, wants lse, and has lengths of keys and strengths. */
static ir_expression optional_flags(struct builder *b)
{
    return build_constant(b, has(b, "sink") + 2 * has(b, "lse") + 4 * has(b, "cu_kv") + 8 * has(b, "lens") +
                                 16 * has(b, "e"));
}

/* The window, at most the largest distance of a query from a key that it sees, plus 1. */
static ir_expression window(const struct builder *b)
{
    const int64_t size = b->problem->desc.window;
    ir_expression most = build_length(b, IR_KEYS);

    if (problem_sees_all(b->problem)) /* also queries before the first key */
        most = build_binary(b, IR_ADD, most, build_length(b, IR_TOKENS));
    return size == 0 ? most : build_binary(b, IR_LOWER, build_constant(b, size), most);
}

/* The interval in tokens between the states that a call returns. If negative: how many of the last tokens return their
 * state. */
static ir_expression state_interval(const struct builder *b)
{
    return build_constant(b, b->problem->desc.state_every - b->problem->desc.state_window);
}

/* Flags: 1 if there is an initial state, 2 if there is a final one, 4 if there are some on the way, whose interval is
 * above the flags. */
static ir_expression state_flags(struct builder *b)
{
    const int written = 2 * has(b, "final") + 4 * has(b, "snapshots");
    const ir_expression flags =
        build_binary(b, IR_ADD, build_constant(b, has(b, "initial")), build_times(b, writes_final_state(b), written));

    return has(b, "snapshots") ? build_binary(b, IR_ADD, build_times(b, state_interval(b), 8), flags) : flags;
}

static ir_expression number_of(struct builder *b, const char *name)
{
    const int at = find_name(b, name);

    if (at >= 0 && b->names[at].number != IR_NONE)
        return b->names[at].number;
    if (strcmp(name, "seq_len") == 0)
        return build_length(b, IR_TOKENS);
    if (strcmp(name, "sequences") == 0)
        return build_length(b, IR_SEQUENCES);
    if (strcmp(name, "kv_len") == 0)
        return build_length(b, IR_KEYS);
    if (strcmp(name, "tail") == 0)
        return build_length(b, IR_TAIL);
    if (strcmp(name, "states") == 0)
        return state_flags(b);
    if (strcmp(name, "given") == 0)
        return optional_flags(b);
    if (strcmp(name, "window") == 0)
        return window(b);
    if (strcmp(name, "every") == 0)
        return state_interval(b);
    if (strcmp(name, "first_row") == 0)
        return build_constant(b, 0);
    return strcmp(name, "stretch_rows") == 0 ? build_rows(b) : IR_NONE;
}

/* ---- Steps --------------------------------------------------------------------------------------------------------
 */

static void add_argument(struct builder *b, const struct kernel_parameter *parameter)
{
    struct ir_argument argument = {.kind = IR_INTEGER, .tensor = IR_NONE, .integers = {IR_NONE}};

    switch (parameter->kind) {
    case PARAMETER_TENSOR:
    case PARAMETER_OPTIONAL:
        argument.kind = IR_TENSOR;
        argument.tensor = build_bound(b, parameter->name);
        break;
    case PARAMETER_INTEGER:
        argument.integers[0] = number_of(b, parameter->name);
        b->failed |= argument.integers[0] == IR_NONE;
        break;
    case PARAMETER_FLOAT: /* the only float that a call decides */
        argument.kind = IR_FLOAT;
        argument.reals[0] = (float)b->problem->desc.scale;
        b->failed |= strcmp(parameter->name, "scale") != 0;
        break;
    }
    ir_argument(b->ir, &argument);
}

/* A bit for each tensor that is absent. */
static uint64_t absent_of(struct builder *b, const struct kernel_signature *signature)
{
    uint64_t absent = 0;

    for (int i = 0; i < signature->count; i++)
        if (signature->parameters[i].kind == PARAMETER_TENSOR && !has(b, signature->parameters[i].name))
            absent |= (uint64_t)1 << i;
    return absent;
}

struct kernel_step *build_step(struct builder *b, const struct kernel_step *step)
{
    struct built *built = b->built;
    struct kernel_step *steps = realloc(built->steps, (size_t)(built->step_count + 1) * sizeof *steps);

    if (steps == NULL) {
        b->ir->failed = 1;
        return NULL;
    }
    built->steps = steps;
    steps[built->step_count] = *step;
    return &steps[built->step_count++];
}

int build_kernel_if(struct builder *b, const struct kernel_step *step, struct grid3 grid, ir_expression condition)
{
    const struct kernel_signature *signature = &kernel_signatures[step->file];
    const struct ir_step added = {.condition = condition,
                                  .parts = IR_NONE,
                                  .kernel = step->name,
                                  .group = (size_t)step->group,
                                  .grid = {grid.x, build_constant(b, grid.y), build_constant(b, grid.z)}};
    struct kernel_step *kept = build_step(b, step);
    const int number = kept != NULL ? ir_step(b->ir, &added) : IR_NONE;

    if (number == IR_NONE)
        return IR_NONE;
    kept->absent = absent_of(b, signature);
    for (int i = 0; i < signature->count; i++)
        if (!(kept->absent >> i & 1))
            add_argument(b, &signature->parameters[i]);
    return number;
}

int build_kernel(struct builder *b, const struct kernel_step *step, struct grid3 grid)
{
    return build_kernel_if(b, step, grid, IR_NONE);
}

int build_next_loop(const struct builder *b)
{
    return b->ir->loop_count;
}

static void add_loop(struct builder *b, int first, ir_expression rows, int64_t per_turn, int down)
{
    const struct ir_loop loop = {
        .first = first, .last = b->ir->step_count - 1, .rows = rows, .per_turn = per_turn, .down = down, .carries = 1};

    ir_loop(b->ir, &loop);
}

int build_open_loop(struct builder *b, ir_expression rows, int64_t per_turn)
{
    const int number = b->ir->loop_count;

    add_loop(b, b->ir->step_count, rows, per_turn, 0);
    return b->ir->failed ? IR_NONE : number;
}

void build_close_loop(struct builder *b, int loop)
{
    ir_loop_end(b->ir, loop, b->ir->step_count - 1);
}

void build_loop(struct builder *b, int first, ir_expression rows, int64_t per_turn)
{
    add_loop(b, first, rows, per_turn, 0);
}

void build_loop_down(struct builder *b, int first, ir_expression rows, int64_t per_turn)
{
    add_loop(b, first, rows, per_turn, 1);
}

void built_free(struct built *built)
{
    for (int i = 0; i < built->child_count; i++) {
        free(built->children[i].tiles);
        free(built->children[i].shape);
    }
    for (int i = 0; i < built->product_count; i++)
        free(built->products[i]);
    free(built->steps);
    free(built->products);
    memset(built, 0, sizeof *built);
}
