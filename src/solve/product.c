/* Matrix products as steps of a recipe. */
#include "solve/builder.h"

#include <stdlib.h>

int product_is_even(const struct product *product)
{
    int even = 1;

    for (int i = 0; i < GEMM_OPERANDS; i++) {
        const struct product_matrix *x = &product->of[i];
        even &= x->tensor == IR_NONE || (x->row != 0 && x->sequence == product->batch * x->head);
    }
    return even || product->batch == 1;
}

/* Adds the matrix as a slice of its tensor. */
static int add_matrix(struct builder *b, const struct product *product, enum gemm_operand id)
{
    const struct product_matrix *x = &product->of[id];
    const clattn_gemm_desc types = {.dtype = product->dtype, .flags = product->flags};
    struct ir_tensor slice = {.home = IR_SLICE,
                              .base = x->tensor,
                              .element = (int)dtype_size(gemm_type(&types, id)),
                              .tokens = x->tokens,
                              .heads = IR_NONE,
                              .elements = x->offset,
                              .strides = {IR_NONE, IR_NONE, IR_NONE}};

    if (x->tensor == IR_NONE)
        return IR_NONE;
    if (x->row != 0) {
        slice.strides[0] = build_constant(b, x->sequence);
        slice.strides[1] = build_constant(b, x->row);
        slice.strides[2] = build_constant(b, x->head);
    }
    return ir_tensor(b->ir, &slice);
}

/* Records the product for the recipe's next step. */
static int keep_product(struct builder *b, const struct product *product)
{
    static const struct kernel_step no_kernel = {.file = FILE_nothing, .name = "gemm"};
    struct built *built = b->built;
    void *products = realloc(built->products, (size_t)(built->product_count + 1) * sizeof *built->products);

    b->failed |= b->enqueue_product == NULL;
    if (products == NULL) {
        b->ir->failed = 1;
        return 0;
    }
    built->products = products;
    built->products[built->product_count].step = b->ir->step_count;
    built->products[built->product_count++].product = *product;
    return build_step(b, &no_kernel) != NULL;
}

int build_product_if(struct builder *b, const struct product *product, ir_expression condition)
{
    struct ir_step added = {.condition = condition,
                            .foreign = b->enqueue_product,
                            .sizes = {product->m, product->n, product->k, IR_NONE},
                            .grid = {IR_NONE, IR_NONE, IR_NONE}};

    if (!keep_product(b, product))
        return IR_NONE;
    added.parts = product_is_even(product) ? build_constant(b, 1) : build_length(b, IR_SEQUENCES);
    for (int i = 0; i < GEMM_OPERANDS; i++)
        added.tensors[i] = add_matrix(b, product, (enum gemm_operand)i);
    return ir_step(b->ir, &added);
}

int build_product(struct builder *b, const struct product *product)
{
    return build_product_if(b, product, IR_NONE);
}
