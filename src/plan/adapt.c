/* A recipe as solvers make it, with roles, temporaries and one loop, in the intermediate form. It goes when the last
 * solver builds the intermediate form itself. */
#include "plan/plan.h"

#include <string.h>

struct adapter {
    const struct clattn_plan *plan;
    struct ir_recipe *ir;
    struct builder *b;
    int temporaries[TEMPORARY_COUNT]; /* tensors; IR_NONE: not made yet */
    int rows_loop, reads_loop;        /* IR_NONE: there is none */
};

/* ---- Expressions --------------------------------------------------------------------------------------------------
 */

static ir_expression constant(const struct adapter *a, int64_t value)
{
    return ir_constant(a->ir, value);
}

static ir_expression length_of(const struct adapter *a, enum ir_length which)
{
    return ir_length(a->ir, which);
}

static ir_expression binary(const struct adapter *a, enum ir_operation operation, ir_expression x, ir_expression y)
{
    return ir_binary(a->ir, operation, x, y);
}

static ir_expression times(const struct adapter *a, ir_expression x, int64_t factor)
{
    return binary(a, IR_MULTIPLY, x, constant(a, factor));
}

/* Rows of a sequence that the recipe's loop cuts. */
static ir_expression rows(const struct adapter *a)
{
    return times(a, length_of(a, IR_TOKENS), a->plan->problem.desc.steps);
}

static ir_expression first_row(const struct adapter *a)
{
    return a->rows_loop == IR_NONE ? constant(a, 0) : ir_loop_value(a->ir, IR_LOOP_FIRST, a->rows_loop);
}

/* recipe_slots, of a call */
static ir_expression slots(const struct adapter *a, const struct problem *problem, int chunk)
{
    const ir_expression all = times(a, length_of(a, IR_TOKENS), problem->desc.steps), size = constant(a, chunk);

    if (problem->desc.flags & CLATTN_CU_SEQLENS)
        return binary(a, IR_ADD, binary(a, IR_DIVIDE, all, size), length_of(a, IR_SEQUENCES));
    return binary(a, IR_MULTIPLY, length_of(a, IR_BATCH), binary(a, IR_DIVIDE_UP, all, size));
}

/* recipe_key_slots */
static ir_expression key_slots(const struct adapter *a, int chunk)
{
    const ir_expression keys = length_of(a, IR_KEYS), size = constant(a, chunk);

    if (a->plan->problem.desc.flags & CLATTN_CU_SEQLENS)
        return binary(a, IR_ADD, binary(a, IR_DIVIDE, keys, size), times(a, length_of(a, IR_SEQUENCES), 2));
    return binary(a, IR_MULTIPLY, length_of(a, IR_BATCH),
                  binary(a, IR_ADD, binary(a, IR_DIVIDE_UP, keys, size), constant(a, 1)));
}

/* ---- Tensors ------------------------------------------------------------------------------------------------------
 */

static void set_strides(struct ir_tensor *tensor, ir_expression batch, ir_expression token, ir_expression head)
{
    tensor->strides[0] = batch;
    tensor->strides[1] = token;
    tensor->strides[2] = head;
}

/* Temporaries are floats; one that has a number for each token and head is [batch, head, token], so that a head's
 * numbers lie side by side. */
static int make_temporary(const struct adapter *a, enum temporary_id id)
{
    const struct problem *problem = &a->plan->problem;
    const struct temporary *t = &a->plan->recipe.temporaries[id];
    const ir_expression tokens = length_of(a, IR_TOKENS);
    struct ir_tensor scratch = {
        .name = temporary_name(id), .home = IR_SCRATCH, .element = sizeof(float), .bytes = t->floats * 4};

    if (t->element != 0) {
        const struct view view = t->strides;
        scratch.element = t->element;
        set_strides(&scratch, constant(a, view.batch), constant(a, view.token), constant(a, view.head));
    } else {
        set_strides(&scratch, times(a, tokens, problem_work_heads(problem)), constant(a, 1), tokens);
    }
    return ir_tensor(a->ir, &scratch);
}

static int temporary_tensor(struct adapter *a, enum temporary_id id)
{
    if (a->temporaries[id] == IR_NONE)
        a->temporaries[id] = make_temporary(a, id);
    return a->temporaries[id];
}

static int tensor_of(struct adapter *a, struct source source)
{
    switch (source.kind) {
    case SOURCE_NONE: break;
    case SOURCE_OPERAND: return build_operand(a->b, (clattn_operand_id)source.index);
    case SOURCE_TEMPORARY: return temporary_tensor(a, (enum temporary_id)source.index);
    case SOURCE_FIXED: return build_bound(a->b, "g");
    }
    return IR_NONE;
}

/* ---- Kernels ------------------------------------------------------------------------------------------------------
 */

static ir_expression groups(const struct adapter *a, const struct step *step)
{
    const int chunk = step->variant.tiles.chunk;
    ir_expression left, each;

    if (step->grid == GRID_SEQUENCES)
        return length_of(a, IR_SEQUENCES);
    if (step->grid == GRID_KEY_SLOTS)
        return key_slots(a, chunk);
    each = slots(a, step->variant.problem, chunk);
    if (step->grid == GRID_SLOTS)
        return each;
    /* slots; of a call of no tokens the sequences */
    left = binary(a, IR_MULTIPLY, binary(a, IR_EQUAL, length_of(a, IR_TOKENS), constant(a, 0)),
                  length_of(a, IR_SEQUENCES));
    each = binary(a, IR_MULTIPLY, binary(a, IR_LESS, constant(a, 0), length_of(a, IR_TOKENS)), each);
    return binary(a, IR_ADD, left, each);
}

static int has(const struct step *step, enum role role)
{
    return step->sources[role].kind != SOURCE_NONE;
}

static ir_expression number_of(const struct adapter *a, const struct step *step, enum role argument)
{
    const clattn_plan_desc *desc = &a->plan->problem.desc;

    switch ((int)argument) {
    case ARG_seq_len: return length_of(a, IR_TOKENS);
    case ARG_sequences: return length_of(a, IR_SEQUENCES);
    case ARG_kv_len: return length_of(a, IR_KEYS);
    case ARG_tail: return length_of(a, IR_TAIL);
    case ARG_first_row: return first_row(a);
    case ARG_window:
        if (desc->window == 0)
            return length_of(a, IR_KEYS);
        return binary(a, IR_LOWER, constant(a, desc->window), length_of(a, IR_KEYS));
    case ARG_given:
        return constant(a, has(step, ROLE_sink) + 2 * has(step, ROLE_lse) + 4 * has(step, ROLE_cu_kv) +
                               8 * has(step, ROLE_lens) + 16 * has(step, ROLE_e));
    default: return constant(a, 0);
    }
}

static void add_argument(struct adapter *a, const struct step *step, enum role role)
{
    struct ir_argument argument = {.kind = IR_INTEGER, .tensor = IR_NONE, .integers = {IR_NONE}};

    if (role < ROLE_COUNT) {
        argument.kind = IR_TENSOR;
        argument.tensor = tensor_of(a, step->sources[role]);
    } else if (role == (enum role)ARG_scale) {
        argument.kind = IR_FLOAT;
        argument.reals[0] = (float)a->plan->problem.desc.scale;
    } else {
        argument.integers[0] = number_of(a, step, role);
    }
    ir_argument(a->ir, &argument);
}

static void add_kernel(struct adapter *a, const struct step *step)
{
    const struct kernel_signature *signature = &kernel_signatures[step->layout.step.file];
    const int64_t heads =
        step->layout.head_groups != 0 ? step->layout.head_groups : problem_work_heads(&a->plan->problem);
    struct kernel_step kernel = step->layout.step;
    const struct ir_step added = {
        .condition = IR_NONE,
        .parts = IR_NONE,
        .kernel = step->layout.step.name,
        .group = (size_t)step->layout.step.group,
        .grid = {groups(a, step), constant(a, heads), constant(a, step->layout.value_groups)}};

    kernel.absent = step_absent(step);
    if (build_step(a->b, &kernel) == NULL || ir_step(a->ir, &added) == IR_NONE)
        return;
    for (int i = 0; i < signature->count; i++)
        if (!(kernel.absent >> i & 1))
            add_argument(a, step, kernel_role(&signature->parameters[i]));
}

/* ---- The recipe ---------------------------------------------------------------------------------------------------
 */

clattn_status plan_adapt(const struct clattn_plan *plan, struct builder *b)
{
    const struct recipe *recipe = &plan->recipe;
    struct adapter a = {.plan = plan, .ir = b->ir, .b = b, .rows_loop = IR_NONE, .reads_loop = b->reads_loop};
    const int first = b->ir->step_count;

    for (int id = 0; id < TEMPORARY_COUNT; id++)
        a.temporaries[id] = IR_NONE;
    if (recipe->loop_rows > 0)
        a.rows_loop = 0;
    for (int id = 0; id < TEMPORARY_COUNT; id++)
        if (recipe->temporaries[id].floats > 0)
            temporary_tensor(&a, (enum temporary_id)id);
    for (int i = 0; i < recipe->step_count; i++)
        add_kernel(&a, &recipe->steps[i]);
    if (a.rows_loop != IR_NONE)
        ir_loop(a.ir, &(struct ir_loop){.first = first + recipe->loop_first,
                                        .last = first + recipe->loop_last,
                                        .rows = rows(&a),
                                        .per_turn = recipe->loop_rows,
                                        .carries = 1});
    return build_end(b);
}
