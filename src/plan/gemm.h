/* A matrix product bound to a device: what computes it, tried on numbers whose product is known. */
#ifndef CLATTN_SRC_PLAN_GEMM_H
#define CLATTN_SRC_PLAN_GEMM_H

#include "plan/bound.h"
#include "solve/gemm/gemm.h"

struct clattn_gemm_plan {
    clattn_context *context;
    struct log log; /* the context's; while ways are tried, one to which errors are warnings */
    struct gemm gemm;
    struct gemm_choice choice;
    struct bound bound; /* the product by itself */
    const char *chosen_by;
    int varies; /* calls of sizes below the desc's */
    int rejected;
};

/* A plan of no product yet. */
clattn_status gemm_plan_open(clattn_gemm_plan **plan, clattn_context *context, const struct log *log);
/* Builds the recipe and the kernel of plan->choice. */
clattn_status gemm_plan_bind(clattn_gemm_plan *plan);
/* The status of what was done to a new plan, which is destroyed, and NULL, unless that is SUCCESS. */
clattn_status gemm_plan_made(clattn_gemm_plan **plan, clattn_status status);
/* A plan of another product with the kernel of one. It is not tried. */
clattn_status gemm_plan_like(clattn_gemm_plan **plan, const struct gemm *gemm, const clattn_gemm_plan *like);

/* Enqueues the product of m rows. */
clattn_status gemm_enqueue(clattn_gemm_plan *plan, int64_t m, cl_command_queue queue, const clattn_gemm_call *call,
                           uint32_t n_wait, const cl_event *wait, cl_event *event);

/* clattn_gemm_plan_create by that way. */
clattn_status gemm_plan_by(clattn_gemm_plan **plan, clattn_context *context, const clattn_gemm_desc *desc,
                           const struct gemm_way *way);
/* clattn_gemm_plan_create of a product whose depth varies from call to call, up to the desc's. */
clattn_status gemm_plan_deep(clattn_gemm_plan **plan, clattn_context *context, const clattn_gemm_desc *desc);
/* The same with a point of a space, which names the way. */
clattn_status gemm_plan_tuned(clattn_gemm_plan **plan, clattn_context *context, const clattn_gemm_desc *desc,
                              const struct tuned *tuned);
/* The name of the n-th provider that has a space and takes the product; NULL past the last. */
const char *gemm_provider(clattn_context *context, const struct gemm *gemm, int index);

/* What planners choose for a recipe's products: the way of a plan; and one that is not tried. */
clattn_status planner_choose(const struct planner *planner, const struct gemm *gemm, int varies,
                             struct gemm_choice *choice);
clattn_status planner_choose_untried(const struct planner *planner, const struct gemm *gemm, int varies,
                                     struct gemm_choice *choice);

/* Runs the plan's kernel on random numbers of gemm's sizes and compares every row with what it should be: *right is 1, or
 * -1. */
clattn_status gemm_try(const clattn_gemm_plan *plan, const struct gemm *gemm, int *right);

/* What the plan has bound, tried where it was not before. UNSUPPORTED: it is wrong. */
clattn_status gemm_test(clattn_gemm_plan *plan);

/* As few numbers as reach every part of the plan's kernel. */
void gemm_small(const clattn_gemm_plan *plan, struct gemm *gemm);

#endif
