/* Which numbers a way is tried on before it computes any of a caller's. */
#include "plan/gemm.h"
#include "plan/plan.h"

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A product of those sizes as the plan's kernel has it: rows begin where vectors may be read, and end where not. */
static void resize(struct gemm *gemm, int64_t m, int64_t n, int64_t k, int64_t batch)
{
    enum { GRAIN = 8 };
    clattn_gemm_desc desc = gemm->desc;

    desc.m = m;
    desc.n = n;
    desc.k = k;
    desc.batch = batch;
    desc.lda = round_up(gemm_turned(gemm, GEMM_A) ? m : k, GRAIN);
    desc.ldb = round_up(gemm_turned(gemm, GEMM_B) ? k : n, GRAIN);
    desc.ldc = desc.ldd = round_up(n, GRAIN);
    desc.stride_a = desc.stride_b = desc.stride_c = desc.stride_d = 0;
    gemm_read(gemm, &desc, sizeof desc, &(struct log){NULL, NULL});
}

void gemm_small(const clattn_gemm_plan *plan, struct gemm *gemm)
{
    const clattn_gemm_desc *d = &plan->gemm.desc;
    const struct gemm_shape *shape = &plan->choice.shape;

    *gemm = plan->gemm;
    resize(gemm, least(d->m, shape->reach.m), least(d->n, shape->reach.n), least(d->k, shape->reach.k),
           least(d->batch, 2));
}

static clattn_status try_small(void *user, int *right)
{
    clattn_gemm_plan *plan = user;
    struct gemm gemm;

    gemm_small(plan, &gemm);
    return gemm_try(plan, &gemm, right);
}

/* Another's kernels depend on the sizes: all of them, but where the numbers are too many for the host; and its first
 * call compiles them. */
static clattn_status try_whole(clattn_gemm_plan *plan)
{
    enum { MOST_NUMBERS = 1 << 27 };
    struct gemm gemm = plan->gemm;
    clattn_gemm_desc *d = &gemm.desc, desc;
    int right = 0;

    d->batch = least(d->batch, 2);
    while ((d->m * d->k + d->k * d->n + d->m * d->n) * d->batch > MOST_NUMBERS) {
        int64_t *most = d->m > d->n ? &d->m : &d->n;
        most = d->k > *most ? &d->k : most;
        *most /= 2;
        d->lda = d->ldb = d->ldc = d->ldd = 0;
    }
    d->stride_a = d->stride_b = d->stride_c = d->stride_d = 0;
    desc = *d;
    TRY(gemm_read(&gemm, &desc, sizeof desc, &plan->log));
    TRY(gemm_try(plan, &gemm, &right));
    return right > 0 ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

clattn_status gemm_test(clattn_gemm_plan *plan)
{
    if (!gemm_has_kernel(plan->choice.way))
        return try_whole(plan);
    return plan->context->self_test
               ? self_test(plan->context, plan->bound.hash, plan->choice.shape.step.name, try_small, plan)
               : CLATTN_SUCCESS;
}
