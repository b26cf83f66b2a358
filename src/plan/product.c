/* The matrix products among a plan's steps: what computes each, and their launches. */
#include "plan/gemm.h"
#include "plan/plan.h"

#include <stdlib.h>

static int is_constant(const struct ir_recipe *ir, ir_expression expression)
{
    return ir->nodes[expression].operation == IR_CONSTANT;
}

/* Whether its sizes are not the same in every call and turn. */
static int varies(const struct ir_recipe *ir, const struct product *product)
{
    return !is_constant(ir, product->m) || !is_constant(ir, product->n) || !is_constant(ir, product->k);
}

/* The product at a plan's lengths, of all sequences. */
static clattn_gemm_desc desc_of(const struct ir_recipe *ir, const struct extent *most, const struct product *product)
{
    return (clattn_gemm_desc){.dtype = product->dtype,
                              .flags = product->flags,
                              .m = ir_most(ir, most, product->m),
                              .n = ir_most(ir, most, product->n),
                              .k = ir_most(ir, most, product->k),
                              .batch = product->batch * most->sequences,
                              .alpha = product->alpha,
                              .beta = product->beta};
}

int products_fit(clattn_context *context, const struct extent *most, const struct ir_recipe *ir,
                 const struct built *built)
{
    for (int i = 0; i < built->product_count; i++) {
        const clattn_gemm_desc desc = desc_of(ir, most, &built->products[i].product);
        if (!gemm_fits(context, &desc, varies(ir, &built->products[i].product)))
            return 0;
    }
    return 1;
}

/* Whether what computes one product computes the other: alpha and beta go with each launch. */
static int are_alike(const struct plan_product *a, const struct plan_product *b)
{
    const clattn_gemm_desc *x = &a->most, *y = &b->most;

    return x->dtype == y->dtype && x->flags == y->flags && x->m == y->m && x->n == y->n && x->k == y->k &&
           x->batch == y->batch && a->varies == b->varies && (x->beta != 0) == (y->beta != 0);
}

/* The first product like that of the number, which may be itself. */
static int first_alike(const struct clattn_plan *plan, int number)
{
    int first = 0;

    while (!are_alike(&plan->products[first], &plan->products[number]))
        first++;
    return first;
}

static clattn_status find_provider(struct clattn_plan *plan, int number)
{
    struct plan_product *product = &plan->products[number];
    const int first = first_alike(plan, number);

    if (first < number)
        product->by = plan->products[first].by;
    else if (plan->like != NULL)
        product->by = number < plan->like->built.product_count ? plan->like->products[number].by : NULL;
    else
        TRY(gemm_plan_for(&product->by, plan->context, &plan->log, &product->most, product->varies));
    return product->by != NULL ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

static clattn_status bind_product(struct clattn_plan *plan, int number)
{
    struct plan_product *product = &plan->products[number];
    struct ir_step *step = &plan->ir.steps[plan->built.products[number].step];

    product->product = &plan->built.products[number].product;
    product->most = desc_of(&plan->ir, &plan->most, product->product);
    product->varies = varies(&plan->ir, product->product);
    TRY(find_provider(plan, number));
    product->is_one = gemm_has_sets(product->by) || product_is_even(product->product);
    if (product->is_one)
        step->parts = ir_constant(&plan->ir, 1);
    step->user = product;
    plan->hash = hash_add(plan->hash, &product->by->hash, sizeof plan->hash);
    return plan->ir.failed ? CLATTN_OUT_OF_MEMORY : CLATTN_SUCCESS;
}

clattn_status plan_bind_products(struct clattn_plan *plan)
{
    if (plan->built.product_count == 0)
        return CLATTN_SUCCESS;
    plan->products = calloc((size_t)plan->built.product_count, sizeof *plan->products);
    if (plan->products == NULL)
        return CLATTN_OUT_OF_MEMORY;
    for (int i = 0; i < plan->built.product_count; i++)
        TRY(bind_product(plan, i));
    return CLATTN_SUCCESS;
}

void plan_drop_products(struct clattn_plan *plan)
{
    for (int i = 0; i < plan->built.product_count && plan->products != NULL && plan->like == NULL; i++)
        if (plan->products[i].by != NULL && first_alike(plan, i) == i)
            clattn_gemm_plan_destroy(plan->products[i].by);
    free(plan->products);
    plan->products = NULL;
}

void plan_describe_product(struct text *text, const struct plan_product *product)
{
    const clattn_gemm_desc *d = &product->most;
    clattn_gemm_info info = {.provider = ""};

    clattn_gemm_plan_get(product->by, &info);
    text_format(text, "%lld x %lld x %lld of a head, by %s\n", (long long)d->m, (long long)d->n, (long long)d->k,
                info.provider);
}

clattn_status plan_enqueue_product(const struct ir_foreign *foreign)
{
    const struct plan_product *bound = foreign->user;
    const struct product *product = bound->product;
    struct gemm gemm = bound->by->gemm;
    clattn_gemm_desc *d = &gemm.desc;
    const int has_sets = gemm_has_sets(bound->by), headless = product->batch == 1;
    cl_mem buffers[GEMM_OPERANDS];
    size_t bytes[GEMM_OPERANDS];

    d->m = foreign->sizes[0];
    d->n = foreign->sizes[1];
    d->k = foreign->sizes[2];
    d->batch = product->batch * (bound->is_one && !has_sets ? foreign->sequences : 1);
    gemm.sets = has_sets ? foreign->sequences : 1;
    d->alpha = product->alpha != 0 ? product->alpha : 1;
    d->beta = product->beta;
    for (int i = 0; i < GEMM_OPERANDS; i++) {
        const struct ir_place *at = &foreign->places[i];
        gemm.of[i].ld = at->view.token;
        gemm.of[i].stride = headless ? at->view.batch : at->view.head;
        gemm.of[i].apart = at->view.batch;
        buffers[i] = at->memory;
        bytes[i] =
            (size_t)(at->view.offset + foreign->part * at->view.batch) * dtype_size(gemm_type(d, (enum gemm_operand)i));
    }
    return gemm_launch(bound->by, &gemm, foreign->log, foreign->queue,
                       &(clattn_gemm_call){buffers[GEMM_A], buffers[GEMM_B], buffers[GEMM_C], buffers[GEMM_D],
                                           bytes[GEMM_A], bytes[GEMM_B], bytes[GEMM_C], bytes[GEMM_D], 0},
                       foreign->n_wait, foreign->wait, foreign->event);
}
