/* Calls of a plan: bound to the intermediate form, which is run while nobody else has the plan's kernels. */
#include "device/program.h"
#include "plan/call.h"
#include "plan/gemm.h"

int64_t plan_launches(const struct clattn_plan *plan)
{
    return ir_count(&plan->ir, &plan->most);
}

clattn_status plan_renew_step(struct clattn_plan *plan, int step)
{
    struct kernel kernel, again;
    cl_kernel released;

    if (step >= plan->ir.step_count)
        return CLATTN_UNSUPPORTED;
    if (plan->ir.steps[step].foreign != NULL) {
        const struct plan_product *product = plan->ir.steps[step].user;
        return gemm_renew(product->by);
    }
    lock_take(&plan->lock);
    kernel = plan->kernels[step];
    lock_give(&plan->lock);
    TRY(kernel_again(plan->context, &kernel, &again));
    lock_take(&plan->lock);
    released = kernel_swap(&plan->kernels[step], &again);
    plan->launched[step] = plan->kernels[step].cl;
    ir_set_forget(&plan->ir, plan->set, step);
    lock_give(&plan->lock);
    plan->context->device.cl->ReleaseKernel(released);
    return CLATTN_SUCCESS;
}

int plan_renew(struct clattn_plan *plan)
{
    int renewed = 0;

    for (int i = 0; i < plan->ir.step_count; i++)
        renewed += plan_renew_step(plan, i) == CLATTN_SUCCESS;
    return renewed > 0;
}

clattn_status run_recipe(const struct runner *runner, struct ir_call *call, uint32_t n_wait, const cl_event *wait,
                         cl_event *event, struct ir_launches *launches)
{
    struct log_held held = {.line = ""};
    clattn_status status;
    int renewed = 0;

    call->log = (struct log){log_hold, &held};
    do {
        held.line[0] = '\0';
        lock_take(runner->lock);
        status = ir_enqueue(call, n_wait, wait, event, launches);
        lock_give(runner->lock);
    } while (status == CLATTN_DEVICE_ERROR && runner->renew(runner->user, call->at.step) == CLATTN_SUCCESS &&
             ++renewed);
    if (call->before != NULL)
        call->cl->ReleaseEvent(call->before);
    if (renewed > 0)
        program_keep(runner->context);
    log_release(&held, runner->log);
    return status;
}

static clattn_status renew(void *plan, int step)
{
    return plan_renew_step(plan, step);
}

static clattn_status run(struct clattn_plan *plan, cl_command_queue queue, const struct arguments *arguments,
                         uint32_t n_wait, const cl_event *wait, cl_event *event, struct ir_launches *launches)
{
    const struct runner runner = {plan->context, &plan->log, &plan->lock, renew, plan};
    struct call call = {.plan = plan,
                        .ir = {.recipe = &plan->ir,
                               .cl = plan->context->device.cl,
                               .kernels = plan->launched,
                               .set = plan->set,
                               .queue = queue}};

    call.ir.operands = call.operands;
    TRY(call_bind(&call, arguments));
    if (launches != NULL && !call.ir.in_order)
        return FAIL(&plan->log, INVALID_ARGUMENT, "the queue is out of order");
    return run_recipe(&runner, &call.ir, n_wait, wait, event, launches);
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
