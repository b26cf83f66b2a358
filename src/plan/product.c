/* The matrix products among a plan's steps: what computes each, and their launches. */
#include "plan/gemm.h"
#include "plan/plan.h"

#include <string.h>

static int varies(const struct product *product)
{
    return product->m != LENGTH_FIXED || product->n != LENGTH_FIXED || product->k != LENGTH_FIXED;
}

/* The product as a plan of its own, of all sequences */
static clattn_gemm_desc desc_of(const struct clattn_plan *plan, const struct product *product)
{
    clattn_gemm_desc desc = product->desc;

    desc.batch *= problem_most(&plan->problem).sequences;
    return desc;
}

int64_t plan_product_launches(const struct clattn_plan *plan, int step, int64_t sequences)
{
    int one = gemm_has_sets(plan->products[step]) || product_is_even(&plan->recipe.steps[step].product);

    return one ? 1 : sequences;
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
    const clattn_gemm_desc desc = desc_of(plan, product);
    int first = first_alike(plan, step);

    if (first < step)
        plan->products[step] = plan->products[first];
    else if (plan->like != NULL)
        plan->products[step] = plan->like->products[step];
    else
        TRY(gemm_plan_for(&plan->products[step], plan->context, &desc, varies(product)));
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

clattn_status plan_enqueue_product(const struct clattn_plan *plan, int step, const struct lying at[GEMM_OPERANDS],
                                   const int64_t lengths[3], int64_t sequences, int64_t part, const struct log *log,
                                   cl_command_queue queue, uint32_t n_wait, const cl_event *wait, cl_event *event)
{
    const struct product *product = &plan->recipe.steps[step].product;
    struct gemm gemm = plan->products[step]->gemm;
    clattn_gemm_desc *d = &gemm.desc;
    int sets = gemm_has_sets(plan->products[step]), headless = product->desc.batch == 1;
    int one = plan_product_launches(plan, step, sequences) == 1;
    size_t bytes[GEMM_OPERANDS];

    d->m = product->m == LENGTH_FIXED ? d->m : lengths[product->m];
    d->n = product->n == LENGTH_FIXED ? d->n : lengths[product->n];
    d->k = product->k == LENGTH_FIXED ? d->k : lengths[product->k];
    d->batch = product->desc.batch * (one && !sets ? sequences : 1);
    gemm.sets = sets ? sequences : 1;
    d->alpha = product->desc.alpha != 0 ? product->desc.alpha : 1;
    d->beta = product->desc.beta;
    for (int i = 0; i < GEMM_OPERANDS; i++) {
        gemm.of[i].ld = at[i].row;
        gemm.of[i].stride = headless ? at[i].sequence : at[i].head;
        gemm.of[i].apart = at[i].sequence;
        bytes[i] =
            (size_t)(at[i].byte + part * at[i].sequence * (int64_t)dtype_size(gemm_type(d, (enum gemm_operand)i)));
    }
    return gemm_launch(plan->products[step], &gemm, log, queue,
                       &(clattn_gemm_call){at[GEMM_A].buffer, at[GEMM_B].buffer, at[GEMM_C].buffer, at[GEMM_D].buffer,
                                           bytes[GEMM_A], bytes[GEMM_B], bytes[GEMM_C], bytes[GEMM_D], 0},
                       n_wait, wait, event);
}
