/* Matrix products among a recipe's steps. A product is a step that nothing computes yet while its recipe is built, for its
 * sizes may be those of a loop that is added after it; build_products asks the planner for all of them at the end. */
#include "solve/gemm/way.h"

#include <stdlib.h>
#include <string.h>

/* ---- Adding -------------------------------------------------------------------------------------------------------
 */

/* Whether the matrices of all heads of all sequences are evenly apart. */
static int is_even(const struct product *product)
{
    int even = 1;

    for (int i = 0; i < GEMM_OPERANDS; i++) {
        const struct product_matrix *x = &product->of[i];
        even &= x->tensor == IR_NONE || (x->row != 0 && x->sequence == product->batch * x->head);
    }
    return even || product->batch == 1;
}

static struct built_product *keep_product(struct builder *b, const struct product *product)
{
    struct built *built = b->built;
    struct built_product **products =
        realloc(built->products, (size_t)(built->product_count + 1) * sizeof *built->products);
    struct built_product *kept = calloc(1, sizeof *kept);

    built->products = products != NULL ? products : built->products;
    if (products == NULL || kept == NULL) {
        free(kept);
        b->ir->failed = 1;
        return NULL;
    }
    kept->product = *product;
    kept->step = b->ir->step_count;
    built->products[built->product_count++] = kept;
    return kept;
}

int build_product_if(struct builder *b, const struct product *product, ir_expression condition)
{
    static const struct kernel_step no_kernel = {.file = FILE_nothing, .name = "gemm"};
    const struct ir_step added = {
        .condition = condition, .parts = IR_NONE, .kernel = "gemm", .grid = {IR_NONE, IR_NONE, IR_NONE}};

    if (keep_product(b, product) == NULL || build_step(b, &no_kernel) == NULL)
        return IR_NONE;
    return ir_step(b->ir, &added);
}

int build_product(struct builder *b, const struct product *product)
{
    return build_product_if(b, product, IR_NONE);
}

const struct built_product *built_product_of(const struct built *built, int step)
{
    for (int i = 0; i < built->product_count; i++)
        if (built->products[i]->step == step)
            return built->products[i];
    return NULL;
}

/* ---- What computes them -------------------------------------------------------------------------------------------
 */

static int is_constant(const struct ir_recipe *ir, ir_expression expression)
{
    return ir->nodes[expression].operation == IR_CONSTANT;
}

/* The product at the plan's lengths, of all sequences. */
static clattn_status read_sizes(struct builder *b, struct built_product *built)
{
    const struct extent most = problem_most(b->problem);
    const struct product *p = &built->product;
    const clattn_gemm_desc desc = {.dtype = p->dtype,
                                   .flags = p->flags,
                                   .m = ir_most(b->ir, &most, p->m),
                                   .n = ir_most(b->ir, &most, p->n),
                                   .k = ir_most(b->ir, &most, p->k),
                                   .batch = p->batch * most.sequences,
                                   .alpha = p->alpha,
                                   .beta = p->beta};

    built->varies = !is_constant(b->ir, p->m) || !is_constant(b->ir, p->n) || !is_constant(b->ir, p->k);
    return gemm_read(&built->gemm, &desc, sizeof desc, b->planner->log);
}

/* Whether what computes one product computes the other: alpha and beta go with each launch. */
static int are_alike(const struct built_product *a, const struct built_product *b)
{
    const clattn_gemm_desc *x = &a->gemm.desc, *y = &b->gemm.desc;

    return x->dtype == y->dtype && x->flags == y->flags && x->m == y->m && x->n == y->n && x->k == y->k &&
           x->batch == y->batch && a->varies == b->varies && (x->beta != 0) == (y->beta != 0);
}

/* As in the plan that this one is like, or as an equal product before; else the planner says it. */
static clattn_status choose(struct builder *b, int number)
{
    struct built_product *const *products = b->built->products;
    const struct built *like = b->like;

    if (like != NULL && number >= like->product_count)
        return CLATTN_UNSUPPORTED;
    if (like != NULL) {
        products[number]->choice = like->products[number]->choice;
        return CLATTN_SUCCESS;
    }
    for (int i = 0; i < number; i++)
        if (are_alike(products[i], products[number])) {
            products[number]->choice = products[i]->choice;
            return CLATTN_SUCCESS;
        }
    return b->planner->choose(b->planner, &products[number]->gemm, products[number]->varies, &products[number]->choice);
}

clattn_status build_products(struct builder *b)
{
    if (b->built->product_count > 0 && b->planner == NULL)
        return CLATTN_UNSUPPORTED;
    for (int i = 0; i < b->built->product_count && !b->ir->failed; i++) {
        struct built_product *product = b->built->products[i];
        product->context = b->planner->context;
        TRY(read_sizes(b, product));
        TRY(choose(b, i));
        product->choice.way->add(b, product);
    }
    return CLATTN_SUCCESS;
}

/* ---- One by itself ------------------------------------------------------------------------------------------------
 */

static struct product_matrix operand(struct builder *b, const struct gemm *gemm, enum gemm_operand id)
{
    const struct gemm_matrix *x = &gemm->of[id];
    const struct ir_tensor tensor = {
        .home = IR_OPERAND, .element = (int)dtype_size(gemm_type(&gemm->desc, id)), .operand = (int)id};

    if (id == GEMM_C && !(gemm->desc.flags & CLATTN_GEMM_WITH_C))
        return (struct product_matrix){.tensor = IR_NONE, .tokens = IR_NONE};
    return (struct product_matrix){
        .tensor = ir_tensor(b->ir, &tensor), .tokens = IR_NONE, .row = x->ld, .head = x->stride};
}

clattn_status build_gemm(struct builder *b, clattn_context *context, const struct gemm *gemm,
                         const struct gemm_choice *choice)
{
    const clattn_gemm_desc *d = &gemm->desc;
    struct product product = {.dtype = d->dtype,
                              .flags = d->flags,
                              .alpha = d->alpha,
                              .beta = d->beta,
                              .m = build_length(b, IR_TOKENS),
                              .n = build_constant(b, d->n),
                              .k = gemm->depth_varies ? build_length(b, IR_KEYS) : build_constant(b, d->k),
                              .batch = d->batch};
    struct built_product *built;

    for (int id = 0; id < GEMM_OPERANDS; id++)
        product.of[id] = operand(b, gemm, (enum gemm_operand)id);
    if (build_product(b, &product) == IR_NONE)
        return CLATTN_OUT_OF_MEMORY;
    built = b->built->products[0];
    built->context = context;
    built->gemm = *gemm;
    built->choice = *choice;
    choice->way->add(b, built);
    return ir_finish(b->ir);
}

/* ---- Steps --------------------------------------------------------------------------------------------------------
 */

/* The matrix of the operand, or what stands for it. */
static const struct product_matrix *matrix_of(const struct built_product *product, enum gemm_operand id)
{
    const int is_d = id == GEMM_C && !(product->product.flags & CLATTN_GEMM_WITH_C);

    return &product->product.of[is_d ? GEMM_D : id];
}

ir_expression product_stride(struct builder *b, const struct built_product *product, enum gemm_operand id,
                             enum ir_stride stride)
{
    const struct product_matrix *x = matrix_of(product, id);

    if (x->row == 0)
        return ir_stride(b->ir, x->tensor, stride);
    switch (stride) {
    case IR_STRIDE_BATCH: return build_constant(b, x->sequence);
    case IR_STRIDE_TOKEN: return build_constant(b, x->row);
    case IR_STRIDE_HEAD: break;
    }
    return build_constant(b, x->head);
}

ir_expression product_parts(struct builder *b, const struct built_product *product)
{
    return is_even(&product->product) ? IR_NONE : build_length(b, IR_SEQUENCES);
}

ir_expression product_batch(struct builder *b, const struct built_product *product)
{
    const int64_t batch = product->product.batch;

    return is_even(&product->product) ? build_times(b, build_length(b, IR_SEQUENCES), batch) : build_constant(b, batch);
}

/* One matrix a sequence has the sequences' distance. */
ir_expression product_apart(struct builder *b, const struct built_product *product, enum gemm_operand id)
{
    return product_stride(b, product, id, product->product.batch == 1 ? IR_STRIDE_BATCH : IR_STRIDE_HEAD);
}

int product_tensor(struct builder *b, const struct built_product *product, enum gemm_operand id,
                   const ir_expression strides[3], int in_parts)
{
    const struct product_matrix *x = matrix_of(product, id);
    struct ir_tensor slice = {.home = IR_SLICE,
                              .base = x->tensor,
                              .element = (int)dtype_size(gemm_type(&product->gemm.desc, id)),
                              .tokens = x->tokens,
                              .heads = IR_NONE,
                              .elements = build_constant(b, x->offset),
                              .strides = {strides[0], strides[1], strides[2]}};

    if (in_parts && !is_even(&product->product))
        slice.elements =
            build_binary(b, IR_ADD, slice.elements,
                         build_binary(b, IR_MULTIPLY, ir_part(b->ir), product_stride(b, product, id, IR_STRIDE_BATCH)));
    return ir_tensor(b->ir, &slice);
}

/* A product without rows, columns or depth is left out. */
static ir_expression has_numbers(struct builder *b, const struct product *p)
{
    const ir_expression least = build_binary(b, IR_LOWER, p->m, build_binary(b, IR_LOWER, p->n, p->k));

    return build_binary(b, IR_LESS, build_constant(b, 0), least);
}

void product_kernel(struct builder *b, const struct built_product *product, const ir_expression grid[3],
                    ir_expression parts)
{
    const struct kernel_step *kernel = &product->choice.shape.step;
    const ir_expression any = has_numbers(b, &product->product);
    struct ir_step step = {.parts = parts,
                           .kernel = kernel->name,
                           .group = (size_t)kernel->group,
                           .grid = {grid[0], grid[1], build_binary(b, IR_MULTIPLY, grid[2], any)}};

    if (b->ir->failed)
        return;
    step.condition = b->ir->steps[product->step].condition;
    b->built->steps[product->step] = *kernel;
    ir_replace(b->ir, product->step, &step);
}

void product_argument(struct builder *b, int tensor)
{
    ir_argument(b->ir, &(struct ir_argument){.kind = IR_TENSOR, .tensor = tensor});
}

void product_numbers(struct builder *b, const struct built_product *product, const ir_expression *sizes, int width)
{
    const struct product *p = &product->product;
    struct ir_argument of_sizes = {.kind = IR_INTEGER, .width = width};
    const struct ir_argument scales = {
        .kind = IR_FLOAT, .width = 2, .reals = {(float)(p->alpha != 0 ? p->alpha : 1), (float)p->beta}};

    memcpy(of_sizes.integers, sizes, (size_t)width * sizeof *sizes);
    ir_argument(b->ir, &of_sizes);
    ir_argument(b->ir, &scales);
}

/* ---- Foreign steps ------------------------------------------------------------------------------------------------
 */

void product_foreign(struct builder *b, const struct built_product *product)
{
    const struct product *p = &product->product;
    struct ir_step step = {.parts = product_parts(b, product),
                           .grid = {IR_NONE, IR_NONE, IR_NONE},
                           .foreign = product->choice.way->enqueue,
                           .user = product,
                           .sizes = {p->m, p->n, p->k, product_batch(b, product)}};

    for (int i = 0; i < GEMM_OPERANDS; i++) {
        const enum gemm_operand id = (enum gemm_operand)i;
        const ir_expression strides[3] = {product_apart(b, product, id),
                                          product_stride(b, product, id, IR_STRIDE_TOKEN), build_constant(b, 0)};
        step.tensors[i] = product_tensor(b, product, id, strides, 1);
    }
    if (!(p->flags & CLATTN_GEMM_WITH_C))
        step.tensors[GEMM_C] = IR_NONE;
    if (b->ir->failed)
        return;
    step.condition = b->ir->steps[product->step].condition;
    ir_replace(b->ir, product->step, &step);
}

void product_asked(const struct ir_foreign *foreign, struct gemm *gemm, clattn_gemm_call *call)
{
    const struct built_product *product = foreign->user;
    clattn_gemm_desc *d = &gemm->desc;
    size_t bytes[GEMM_OPERANDS];

    *gemm = product->gemm;
    d->m = foreign->sizes[0];
    d->n = foreign->sizes[1];
    d->k = foreign->sizes[2];
    d->batch = foreign->sizes[3];
    d->alpha = product->product.alpha != 0 ? product->product.alpha : 1;
    d->beta = product->product.beta;
    for (int i = 0; i < GEMM_OPERANDS; i++) {
        const struct view *view = &foreign->places[i].view;
        gemm->of[i].ld = view->token;
        gemm->of[i].stride = view->batch;
        bytes[i] = (size_t)view->offset * dtype_size(gemm_type(d, (enum gemm_operand)i));
    }
    *call = (clattn_gemm_call){foreign->places[GEMM_A].memory,
                               foreign->places[GEMM_B].memory,
                               foreign->places[GEMM_C].memory,
                               foreign->places[GEMM_D].memory,
                               bytes[GEMM_A],
                               bytes[GEMM_B],
                               bytes[GEMM_C],
                               bytes[GEMM_D],
                               0};
}
