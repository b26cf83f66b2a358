#include "plan/bound.h"

#include "device/program.h"

#include <stdlib.h>

/* ---- Kernels ------------------------------------------------------------------------------------------------------
 */

void bound_open(struct bound *bound, clattn_context *context)
{
    bound->context = context;
    lock_init(&bound->lock);
}

clattn_status bound_build(struct bound *bound, const struct log *log)
{
    const struct built *built = &bound->built;

    bound->kernels = calloc((size_t)built->step_count, sizeof *bound->kernels);
    bound->launched = calloc((size_t)built->step_count, sizeof *bound->launched);
    if (bound->kernels == NULL || bound->launched == NULL)
        return CLATTN_OUT_OF_MEMORY;
    for (int i = 0; i < built->step_count; i++) {
        if (bound->ir.steps[i].foreign != NULL)
            continue;
        TRY(kernel_create(bound->context, log, &built->steps[i], &bound->kernels[i], &bound->hash));
        bound->launched[i] = bound->kernels[i].cl;
    }
    bound->set = ir_set_create(&bound->ir);
    return bound->set != NULL ? CLATTN_SUCCESS : CLATTN_OUT_OF_MEMORY;
}

void bound_drop(struct bound *bound)
{
    for (int i = 0; i < bound->built.step_count && bound->kernels != NULL; i++)
        kernel_release(bound->context, &bound->kernels[i]);
    ir_close(&bound->ir);
    built_free(&bound->built);
    free(bound->kernels);
    free(bound->launched);
    free(bound->set);
    bound->kernels = NULL;
    bound->launched = NULL;
    bound->set = NULL;
    bound->hash = (struct hash){0, 0};
}

void bound_close(struct bound *bound)
{
    bound_drop(bound);
    lock_destroy(&bound->lock);
}

/* ---- Calls --------------------------------------------------------------------------------------------------------
 */

clattn_status bound_renew_step(struct bound *bound, int step)
{
    struct kernel kernel, again;
    cl_kernel released;

    if (step >= bound->ir.step_count || bound->ir.steps[step].foreign != NULL)
        return CLATTN_UNSUPPORTED;
    lock_take(&bound->lock);
    kernel = bound->kernels[step];
    lock_give(&bound->lock);
    TRY(kernel_rebuild(bound->context, &kernel, &again));
    lock_take(&bound->lock);
    released = kernel_swap(&bound->kernels[step], &again);
    bound->launched[step] = bound->kernels[step].cl;
    ir_set_forget(&bound->ir, bound->set, step);
    lock_give(&bound->lock);
    bound->context->device.cl->ReleaseKernel(released);
    return CLATTN_SUCCESS;
}

int bound_renew(struct bound *bound)
{
    int renewed = 0;

    for (int i = 0; i < bound->ir.step_count; i++)
        renewed += bound_renew_step(bound, i) == CLATTN_SUCCESS;
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
        if (runner->lock != NULL)
            lock_take(runner->lock);
        status = ir_enqueue(call, n_wait, wait, event, launches);
        if (runner->lock != NULL)
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

static clattn_status renew(void *bound, int step)
{
    return bound_renew_step(bound, step);
}

clattn_status bound_run(struct bound *bound, struct ir_call *call, const struct log *log, uint32_t n_wait,
                        const cl_event *wait, cl_event *event, struct ir_launches *launches)
{
    const int has_kernels = bound->ir.argument_count > 0;
    const struct runner runner = {bound->context, log, has_kernels ? &bound->lock : NULL, renew, bound};

    call->recipe = &bound->ir;
    call->cl = bound->context->device.cl;
    call->kernels = bound->launched;
    call->set = bound->set;
    return run_recipe(&runner, call, n_wait, wait, event, launches);
}
