/* A matrix product's plan from its beginning to its end, whatever way computes it. */
#include "plan/gemm.h"

#include <stdlib.h>

clattn_status gemm_plan_open(clattn_gemm_plan **plan, clattn_context *context, const struct log *log)
{
    *plan = calloc(1, sizeof **plan);
    if (*plan == NULL)
        return CLATTN_OUT_OF_MEMORY;
    (*plan)->context = context;
    (*plan)->log = *log;
    bound_open(&(*plan)->bound, context);
    return CLATTN_SUCCESS;
}

clattn_status gemm_plan_bind(clattn_gemm_plan *plan)
{
    struct builder builder = {.ir = &plan->bound.ir, .built = &plan->bound.built, .problem = &plan->gemm.ground};

    bound_drop(&plan->bound);
    TRY(build_gemm(&builder, plan->context, &plan->gemm, &plan->choice));
    return bound_build(&plan->bound, &plan->log);
}

void clattn_gemm_plan_destroy(clattn_gemm_plan *plan)
{
    if (plan == NULL)
        return;
    bound_close(&plan->bound);
    free(plan);
}

clattn_status gemm_plan_made(clattn_gemm_plan **plan, clattn_status status)
{
    if (status != CLATTN_SUCCESS) {
        clattn_gemm_plan_destroy(*plan);
        *plan = NULL;
    }
    return status;
}

clattn_status gemm_plan_like(clattn_gemm_plan **plan, const struct gemm *gemm, const clattn_gemm_plan *like)
{
    TRY(gemm_plan_open(plan, like->context, &like->log));
    (*plan)->gemm = *gemm;
    (*plan)->choice = like->choice;
    (*plan)->chosen_by = like->chosen_by;
    return gemm_plan_made(plan, gemm_plan_bind(*plan));
}
