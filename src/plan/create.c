/* clattn_plan_create: opens a plan, then chooses a solver and binds it. */
#include "base/system.h"
#include "plan/plan.h"
#include "plan/verbose.h"

static clattn_status create(clattn_plan **plan, clattn_context *context, const clattn_plan_desc *desc, size_t desc_size,
                            const struct tuned *forced)
{
    TRY(plan_open(plan, context, desc, desc_size));
    return plan_finish_create(plan, plan_choose(*plan, forced));
}

clattn_status plan_create(clattn_plan **plan, clattn_context *context, const clattn_plan_desc *desc,
                          const struct tuned *forced)
{
    return create(plan, context, desc, sizeof *desc, forced);
}

clattn_status clattn_plan_create_sized(clattn_plan **plan, clattn_context *context, const clattn_plan_desc *desc,
                                       size_t desc_size)
{
    double begin = now_seconds();

    if (plan == NULL)
        return CLATTN_INVALID_ARGUMENT;
    *plan = NULL;
    if (context == NULL)
        return CLATTN_INVALID_ARGUMENT;
    TRY(create(plan, context, desc, desc_size, NULL));
    (*plan)->verbose = context->verbose;
    if (context->verbose)
        verbose_plan(*plan, now_seconds() - begin);
    return CLATTN_SUCCESS;
}

clattn_status clattn_supports_sized(clattn_context *context, const clattn_plan_desc *desc, size_t desc_size)
{
    struct problem problem;

    if (context == NULL)
        return CLATTN_INVALID_ARGUMENT;
    TRY(problem_read(&problem, desc, desc_size, &context->log));
    TRY(problem_check_kernels(&problem, &context->log));
    return plan_supports(context, &problem);
}
