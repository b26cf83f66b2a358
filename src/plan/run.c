/* Calls of a plan: bound to the intermediate form, which is run while nobody else has the plan's kernels. */
#include "plan/call.h"

int64_t plan_launches(const struct clattn_plan *plan)
{
    return ir_count(&plan->bound.ir, &plan->most);
}

static clattn_status run(struct clattn_plan *plan, cl_command_queue queue, const struct arguments *arguments,
                         uint32_t n_wait, const cl_event *wait, cl_event *event, struct ir_launches *launches)
{
    struct call call = {.plan = plan, .ir = {.queue = queue}};

    call.ir.operands = call.operands;
    TRY(call_bind(&call, arguments));
    if (launches != NULL && !call.ir.in_order)
        return FAIL(&plan->log, INVALID_ARGUMENT, "the queue is out of order");
    return bound_run(&plan->bound, &call.ir, &plan->log, n_wait, wait, event, launches);
}

clattn_status plan_run_each(struct clattn_plan *plan, cl_command_queue queue, const struct arguments *arguments,
                            struct ir_launches *launches)
{
    launches->count = 0;
    return run(plan, queue, arguments, 0, NULL, NULL, launches);
}

clattn_status plan_run(struct clattn_plan *plan, cl_command_queue queue, const struct arguments *arguments,
                       uint32_t n_wait, const cl_event *wait, cl_event *event)
{
    return run(plan, queue, arguments, n_wait, wait, event, NULL);
}
