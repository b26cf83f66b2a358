/* Children: a finished recipe becomes part of another. One allocator then lays out the scratch memory of both, and one
 * executor runs one list of steps. */
#include "ir/grow.h"

/* The numbers of nodes, tensors, steps and loops before the child's own. */
struct before {
    int nodes, tensors, steps, loops;
};

static int after(int before, int number)
{
    return number != IR_NONE ? before + number : IR_NONE;
}

/* The same expression behind the recipe's. */
static struct ir_node moved(struct ir_node node, const struct before *before)
{
    if (node.operation == IR_STRIDE) {
        node.value += before->tensors;
        return node;
    }
    node.left = after(before->nodes, node.left);
    node.right = after(before->nodes, node.right);
    if (ir_is_of_loop(node.operation))
        node.value += before->loops;
    return node;
}

static void add_nodes(struct ir_recipe *recipe, const struct ir_recipe *child, const ir_expression *lengths,
                      const struct before *before)
{
    for (int i = 0; i < child->node_count; i++) {
        struct ir_node node = moved(child->nodes[i], before);
        if (node.operation == IR_LENGTH && lengths != NULL && lengths[node.value] != IR_NONE) {
            const ir_expression length = lengths[node.value];
            node = (struct ir_node){IR_LOWER, 0, length, length};
        }
        ir_node(recipe, &node);
    }
}

static void add_tensors(struct ir_recipe *recipe, const struct ir_recipe *child, const struct ir_tensor *operands,
                        const struct before *before)
{
    for (int i = 0; i < child->tensor_count; i++) {
        struct ir_tensor tensor = child->tensors[i];
        if (tensor.home == IR_OPERAND) {
            ir_tensor(recipe, &operands[tensor.operand]);
            continue;
        }
        for (int axis = 0; axis < 3; axis++)
            tensor.strides[axis] = after(before->nodes, tensor.strides[axis]);
        if (tensor.home == IR_SLICE) {
            tensor.base += before->tensors;
            tensor.tokens = after(before->nodes, tensor.tokens);
            tensor.heads = after(before->nodes, tensor.heads);
            tensor.elements = after(before->nodes, tensor.elements);
        }
        ir_tensor(recipe, &tensor);
    }
}

static void add_arguments(struct ir_recipe *recipe, const struct ir_recipe *child, const struct ir_step *step,
                          const struct before *before)
{
    for (int i = 0; i < step->argument_count; i++) {
        struct ir_argument argument = child->arguments[step->first_argument + i];
        argument.tensor = after(before->tensors, argument.tensor);
        for (int number = 0; number < IR_MAX_WIDTH; number++)
            argument.integers[number] = after(before->nodes, argument.integers[number]);
        ir_argument(recipe, &argument);
    }
}

static void add_steps(struct ir_recipe *recipe, const struct ir_recipe *child, const struct before *before)
{
    for (int s = 0; s < child->step_count; s++) {
        struct ir_step step = child->steps[s];
        step.condition = after(before->nodes, step.condition);
        step.parts = after(before->nodes, step.parts);
        for (int i = 0; i < 3; i++)
            step.grid[i] = after(before->nodes, step.grid[i]);
        for (int i = 0; i < IR_MAX_FOREIGN; i++) {
            step.tensors[i] = after(before->tensors, step.tensors[i]);
            step.sizes[i] = after(before->nodes, step.sizes[i]);
        }
        if (ir_step(recipe, &step) != IR_NONE)
            add_arguments(recipe, child, &child->steps[s], before);
    }
}

int ir_inline(struct ir_recipe *recipe, const struct ir_recipe *child, const struct ir_tensor *operands,
              const ir_expression *lengths)
{
    const struct before before = {recipe->node_count, recipe->tensor_count, recipe->step_count, recipe->loop_count};

    add_nodes(recipe, child, lengths, &before);
    add_tensors(recipe, child, operands, &before);
    add_steps(recipe, child, &before);
    for (int i = 0; i < child->loop_count; i++) {
        struct ir_loop loop = child->loops[i];
        loop.first += before.steps;
        loop.last += before.steps;
        loop.rows = after(before.nodes, loop.rows);
        ir_loop(recipe, &loop);
    }
    return before.steps;
}
