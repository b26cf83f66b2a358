/* A matrix product bound to a device: what computes it, tried on numbers whose product is known. */
#ifndef CLATTN_SRC_PLAN_GEMM_H
#define CLATTN_SRC_PLAN_GEMM_H

#include "kernel/kernel.h"
#include "plan/clblast.h"
#include "tune/space.h"

/* Who computes a product. */
struct provider;

struct clattn_gemm_plan {
    clattn_context *context;
    struct log log; /* the context's; while providers are tried, one to which errors are warnings */
    struct gemm gemm;
    const struct provider *provider;
    struct variant variant; /* of a kernel of the library's own */
    struct layout layout;
    struct kernel kernel; /* none for another's, */
    int calls_back;       /* which is the application's */
    mutex lock;           /* the kernel carries its arguments until enqueued */
    struct hash hash;     /* of its source */
    const char *chosen_by;
    int varies; /* calls of sizes below the desc's */
    int rejected;
};

/* Whether a launch takes sets of the batch: that of the library's kernels of tiles. */
static inline int gemm_has_sets(const clattn_gemm_plan *plan)
{
    return plan->kernel.cl != NULL && plan->variant.kernel != KERNEL_GEMV;
}

/* Makes the kernel again that cannot be run, where it came from the cache: SUCCESS. */
clattn_status gemm_renew(clattn_gemm_plan *plan);
/* Enqueues the product that gemm says, of any sizes and strides, checked by the caller; gemm_enqueue renews the kernel
 * where that helps. */
clattn_status gemm_launch(clattn_gemm_plan *plan, const struct gemm *gemm, const struct log *log,
                          cl_command_queue queue, const clattn_gemm_call *call, uint32_t n_wait, const cl_event *wait,
                          cl_event *event);
clattn_status gemm_enqueue(clattn_gemm_plan *plan, const struct gemm *gemm, cl_command_queue queue,
                           const clattn_gemm_call *call, uint32_t n_wait, const cl_event *wait, cl_event *event);

/* clattn_gemm_plan_create with exactly the tiles given where they are not NULL; every field that is not 0 counts. */
clattn_status gemm_plan_create(clattn_gemm_plan **plan, clattn_context *context, const clattn_gemm_desc *desc,
                               const struct tiles *tiles);
/* clattn_gemm_plan_create, which logs there; where calls vary, by a provider of any sizes. */
clattn_status gemm_plan_for(clattn_gemm_plan **plan, clattn_context *context, const struct log *log,
                            const clattn_gemm_desc *desc, int varies);
/* Whether there may be such a plan: nothing is built, and an engine counts as working. */
int gemm_fits(clattn_context *context, const clattn_gemm_desc *desc, int any_sizes);
/* The same with a point of the provider's space, which names the provider. */
clattn_status gemm_plan_tuned(clattn_gemm_plan **plan, clattn_context *context, const clattn_gemm_desc *desc,
                              const struct tuned *tuned);
/* The name of the n-th provider that has a space and takes the product; NULL past the last. */
const char *gemm_provider(clattn_context *context, const struct gemm *gemm, int index);

/* Runs the plan's provider on random numbers of gemm's sizes and compares every row with what it should be: *right is
 * 1, or -1. */
clattn_status gemm_try(clattn_gemm_plan *plan, const struct gemm *gemm, int *right);

/* What the plan has bound, tried where it was not before. UNSUPPORTED: it is wrong. */
clattn_status gemm_test(clattn_gemm_plan *plan);

/* As few numbers as reach every part of the plan's kernel. */
void gemm_small(const clattn_gemm_plan *plan, struct gemm *gemm);

#endif
