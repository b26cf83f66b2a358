/* Expressions: building them, and evaluating them in a call. Also the places of tensors in a call: they depend on
 * expressions, and strides depend on them. */
#include "ir/ir.h"

#include "ir/grow.h"

ir_expression ir_node(struct ir_recipe *recipe, const struct ir_node *node)
{
    struct ir_node *nodes = ir_grow(recipe, recipe->nodes, recipe->node_count, sizeof *nodes);

    if (nodes == NULL)
        return IR_NONE;
    recipe->nodes = nodes;
    nodes[recipe->node_count] = *node;
    return recipe->node_count++;
}

ir_expression ir_constant(struct ir_recipe *recipe, int64_t value)
{
    return ir_node(recipe, &(struct ir_node){IR_CONSTANT, value, IR_NONE, IR_NONE});
}

ir_expression ir_length(struct ir_recipe *recipe, enum ir_length length)
{
    return ir_node(recipe, &(struct ir_node){IR_LENGTH, length, IR_NONE, IR_NONE});
}

ir_expression ir_loop_value(struct ir_recipe *recipe, enum ir_operation value, int loop)
{
    return ir_node(recipe, &(struct ir_node){value, loop, IR_NONE, IR_NONE});
}

ir_expression ir_part(struct ir_recipe *recipe)
{
    return ir_node(recipe, &(struct ir_node){IR_PART, 0, IR_NONE, IR_NONE});
}

ir_expression ir_stride(struct ir_recipe *recipe, int tensor, enum ir_stride stride)
{
    return ir_node(recipe, &(struct ir_node){IR_STRIDE, tensor, (int)stride, IR_NONE});
}

ir_expression ir_binary(struct ir_recipe *recipe, enum ir_operation operation, ir_expression left, ir_expression right)
{
    if (left == IR_NONE || right == IR_NONE)
        recipe->failed = 1;
    return recipe->failed ? IR_NONE : ir_node(recipe, &(struct ir_node){operation, 0, left, right});
}

static int64_t length_of(const struct extent *extent, enum ir_length length)
{
    switch (length) {
    case IR_BATCH: return extent->batch;
    case IR_TOKENS: return extent->seq_len;
    case IR_SEQUENCES: return extent->sequences;
    case IR_KEYS: return extent->kv_len;
    case IR_TAIL: return extent->tail;
    case IR_LENGTHS: break;
    }
    return 0;
}

/* ---- Loops -------------------------------------------------------------------------------------------------------
 */

int64_t ir_turns(const struct ir_call *call, int number)
{
    const struct ir_loop *loop = &call->recipe->loops[number];
    int64_t rows;

    if (loop->per_turn == 0)
        return loop->turns;
    rows = ir_value(call, loop->rows);
    return rows > loop->per_turn ? (rows + loop->per_turn - 1) / loop->per_turn : 1;
}

static int64_t first_row(const struct ir_call *call, int number)
{
    const struct ir_loop *loop = &call->recipe->loops[number];
    int64_t turn = call->at.turn[number];

    return (loop->down ? ir_turns(call, number) - 1 - turn : turn) * loop->per_turn;
}

static int64_t rows_of_iteration(const struct ir_call *call, int number)
{
    const struct ir_loop *loop = &call->recipe->loops[number];
    int64_t remaining = ir_value(call, loop->rows) - first_row(call, number);

    return remaining < loop->per_turn ? remaining : loop->per_turn;
}

static int64_t loop_value(const struct ir_call *call, enum ir_operation value, int number)
{
    switch (value) {
    case IR_LOOP_TURN: return call->at.turn[number];
    case IR_LOOP_FIRST: return first_row(call, number);
    case IR_LOOP_ROWS: return rows_of_iteration(call, number);
    default: return call->at.turn[number] + 1 == ir_turns(call, number);
    }
}

static int64_t stride_of(const struct ir_call *call, const struct ir_node *node)
{
    const struct view view = ir_resolve(call, (int)node->value).view;

    switch ((enum ir_stride)node->left) {
    case IR_STRIDE_BATCH: return view.batch;
    case IR_STRIDE_TOKEN: return view.token;
    case IR_STRIDE_HEAD: break;
    }
    return view.head;
}

static int64_t bits_of(int64_t x)
{
    int64_t bits = 0;

    while (x >> bits > 0)
        bits++;
    return bits;
}

static int64_t binary(enum ir_operation operation, int64_t a, int64_t b)
{
    switch (operation) {
    case IR_ADD: return a + b;
    case IR_SUBTRACT: return a - b;
    case IR_MULTIPLY: return a * b;
    case IR_DIVIDE: return a / b;
    case IR_DIVIDE_UP: return (a + b - 1) / b;
    case IR_LOWER: return a < b ? a : b;
    case IR_HIGHER: return a > b ? a : b;
    case IR_LESS: return a < b;
    case IR_SHIFT: return a << b;
    case IR_BITS: return bits_of(a);
    default: return a == b;
    }
}

int64_t ir_value(const struct ir_call *call, ir_expression expression)
{
    const struct ir_node *node = &call->recipe->nodes[expression];

    switch (node->operation) {
    case IR_CONSTANT: return node->value;
    case IR_LENGTH: return length_of(&call->extent, (enum ir_length)node->value);
    case IR_LOOP_TURN:
    case IR_LOOP_FIRST:
    case IR_LOOP_ROWS:
    case IR_LOOP_LAST: return loop_value(call, node->operation, (int)node->value);
    case IR_PART: return call->at.part;
    case IR_STRIDE: return stride_of(call, node);
    default: return binary(node->operation, ir_value(call, node->left), ir_value(call, node->right));
    }
}

int64_t ir_most(const struct ir_recipe *recipe, const struct extent *extent, ir_expression expression)
{
    struct ir_call call = {.recipe = recipe, .extent = *extent};

    for (int i = 0; i < recipe->loop_count; i++)
        if (recipe->loops[i].down) /* the first iteration has the remainder */
            call.at.turn[i] = ir_turns(&call, i) - 1;
    return ir_value(&call, expression);
}

/* ---- Where tensors lie --------------------------------------------------------------------------------------------
 */

int64_t ir_value_or(const struct ir_call *call, ir_expression expression, int64_t otherwise)
{
    return expression != IR_NONE ? ir_value(call, expression) : otherwise;
}

static struct view strides_of(const struct ir_call *call, const struct ir_tensor *t, int64_t offset)
{
    return (struct view){offset, ir_value_or(call, t->strides[0], 0), ir_value_or(call, t->strides[1], 0),
                         ir_value_or(call, t->strides[2], 0)};
}

static struct ir_place resolve_slice(const struct ir_call *call, const struct ir_tensor *t)
{
    struct ir_place place = ir_resolve(call, t->base);
    struct view *view = &place.view;

    view->offset += ir_value_or(call, t->tokens, 0) * view->token + ir_value_or(call, t->heads, 0) * view->head;
    view->offset = view->offset * call->recipe->tensors[t->base].element / t->element;
    view->offset += ir_value_or(call, t->elements, 0);
    if (t->head_step > 1)
        view->head *= t->head_step;
    if (t->strides[0] != IR_NONE)
        *view = strides_of(call, t, view->offset);
    return place;
}

struct ir_place ir_resolve(const struct ir_call *call, int tensor)
{
    const struct ir_tensor *t;

    if (tensor == IR_NONE)
        return (struct ir_place){NULL, {0, 0, 0, 0}};
    t = &call->recipe->tensors[tensor];
    switch (t->home) {
    case IR_OPERAND: return call->operands[t->operand];
    case IR_SCRATCH:
    case IR_SAVED: /* no recipe has any yet */
        return (struct ir_place){call->scratch,
                                 strides_of(call, t, ((int64_t)call->scratch_offset + t->at) / t->element)};
    case IR_CONSTANT_BUFFER: return (struct ir_place){t->buffer, strides_of(call, t, 0)};
    case IR_SLICE:
    case IR_HOME_COUNT: break;
    }
    return resolve_slice(call, t);
}
