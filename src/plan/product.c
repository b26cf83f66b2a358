/* The matrix products among a plan's steps: what computes each, and their launches. */
#include "plan/gemm.h"
#include "plan/plan.h"

#include <string.h>

static int varies(const struct product *product)
{
    return product->m != LENGTH_FIXED || product->n != LENGTH_FIXED || product->k != LENGTH_FIXED;
}

/* The product as a plan of its own, of all sequences */
static clattn_gemm_desc desc_of(const struct problem *problem, const struct product *product)
{
    clattn_gemm_desc desc = product->desc;

    desc.batch *= problem_most(problem).sequences;
    return desc;
}

int products_fit(clattn_context *context, const struct problem *problem, const struct recipe *recipe)
{
    for (int i = 0; i < recipe->step_count; i++) {
        const struct product *product = &recipe->steps[i].product;
        const clattn_gemm_desc desc = desc_of(problem, product);
        if (is_product(&recipe->steps[i]) && !gemm_fits(context, &desc, varies(product)))
            return 0;
    }
    return 1;
}

int plan_product_is_one(const struct clattn_plan *plan, int step)
{
    return gemm_has_sets(plan->products[step]) || product_is_even(&plan->recipe.steps[step].product);
}

/* Whether one provider serves both: alpha and beta go with each launch. */
static int are_alike(const struct product *a, const struct product *b)
{
    const clattn_gemm_desc *x = &a->desc, *y = &b->desc;

    return x->dtype == y->dtype && x->flags == y->flags && x->m == y->m && x->n == y->n && x->k == y->k &&
           x->batch == y->batch && varies(a) == varies(b) && (x->beta != 0) == (y->beta != 0);
}

/* The first step of a product like that of the step, which may be itself. */
static int first_alike(const struct clattn_plan *plan, int step)
{
    const struct step *steps = plan->recipe.steps;
    int first = 0;

    while (!is_product(&steps[first]) || !are_alike(&steps[first].product, &steps[step].product))
        first++;
    return first;
}

static clattn_status bind_product(struct clattn_plan *plan, int step)
{
    const struct product *product = &plan->recipe.steps[step].product;
    const clattn_gemm_desc desc = desc_of(&plan->problem, product);
    int first = first_alike(plan, step);

    if (first < step)
        plan->products[step] = plan->products[first];
    else if (plan->like != NULL)
        plan->products[step] = plan->like->products[step];
    else
        TRY(gemm_plan_for(&plan->products[step], plan->context, &plan->log, &desc, varies(product)));
    return plan->products[step] != NULL ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

clattn_status plan_bind_products(struct clattn_plan *plan)
{
    for (int i = 0; i < plan->recipe.step_count; i++) {
        if (!is_product(&plan->recipe.steps[i]))
            continue;
        TRY(bind_product(plan, i));
        plan->hash = hash_add(plan->hash, &plan->products[i]->hash, sizeof plan->hash);
    }
    return CLATTN_SUCCESS;
}

void plan_drop_products(struct clattn_plan *plan)
{
    for (int i = 0; i < plan->recipe.step_count && plan->like == NULL; i++)
        if (plan->products[i] != NULL && first_alike(plan, i) == i)
            clattn_gemm_plan_destroy(plan->products[i]);
    memset(plan->products, 0, sizeof plan->products);
}

void plan_describe_product(struct text *text, const struct clattn_plan *plan, int step)
{
    const clattn_gemm_desc *d = &plan->recipe.steps[step].product.desc;
    clattn_gemm_info info = {.provider = ""};

    clattn_gemm_plan_get(plan->products[step], &info);
    text_format(text, "%lld x %lld x %lld of a head, by %s\n", (long long)d->m, (long long)d->n, (long long)d->k,
                info.provider);
}

clattn_status plan_enqueue_product(const struct ir_foreign *foreign)
{
    const struct clattn_plan *plan = foreign->user;
    const int step = foreign->step - plan->own;
    const struct product *product = &plan->recipe.steps[step].product;
    struct gemm gemm = plan->products[step]->gemm;
    clattn_gemm_desc *d = &gemm.desc;
    int sets = gemm_has_sets(plan->products[step]), headless = product->desc.batch == 1;
    cl_mem buffers[GEMM_OPERANDS];
    size_t bytes[GEMM_OPERANDS];

    d->m = foreign->sizes[0];
    d->n = foreign->sizes[1];
    d->k = foreign->sizes[2];
    d->batch = product->desc.batch * (plan_product_is_one(plan, step) && !sets ? foreign->sequences : 1);
    gemm.sets = sets ? foreign->sequences : 1;
    d->alpha = product->desc.alpha != 0 ? product->desc.alpha : 1;
    d->beta = product->desc.beta;
    for (int i = 0; i < GEMM_OPERANDS; i++) {
        const struct ir_place *at = &foreign->places[i];
        gemm.of[i].ld = at->view.token;
        gemm.of[i].stride = headless ? at->view.batch : at->view.head;
        gemm.of[i].apart = at->view.batch;
        buffers[i] = at->memory;
        bytes[i] =
            (size_t)(at->view.offset + foreign->part * at->view.batch) * dtype_size(gemm_type(d, (enum gemm_operand)i));
    }
    return gemm_launch(plan->products[step], &gemm, foreign->log, foreign->queue,
                       &(clattn_gemm_call){buffers[GEMM_A], buffers[GEMM_B], buffers[GEMM_C], buffers[GEMM_D],
                                           bytes[GEMM_A], bytes[GEMM_B], bytes[GEMM_C], bytes[GEMM_D], 0},
                       foreign->n_wait, foreign->wait, foreign->event);
}
