#include "tuner/kernel_times.h"

#include "device/context.h"
#include "plan/plan.h"
#include "tuner/timing.h"

#include <stdlib.h>
#include <string.h>

static double event_time(const struct opencl *cl, cl_event event, cl_profiling_info which, int *known)
{
    cl_ulong nanoseconds = 0;

    if (event == NULL || cl->GetEventProfilingInfo(event, which, sizeof nanoseconds, &nanoseconds, NULL) != CL_SUCCESS)
        *known = 0;
    return 1e-9 * (double)nanoseconds;
}

/* One run. seconds[step * stride] grows by the time of all launches of the step. */
static clattn_status run(struct clattn_plan *plan, cl_command_queue queue, const struct arguments *operands,
                         struct ir_launches *launches, double *seconds, size_t stride, int *known)
{
    const struct opencl *cl = plan->context->device.cl;
    clattn_status status = plan_run_each(plan, queue, operands, launches);
    double before = 0;

    cl->Finish(queue);
    if (status == CLATTN_SUCCESS && launches->count > 0)
        before = event_time(cl, launches->each[0].event, CL_PROFILING_COMMAND_START, known);
    for (int64_t i = 0; i < launches->count && launches->each[i].event != NULL; i++) {
        double end = event_time(cl, launches->each[i].event, CL_PROFILING_COMMAND_END, known);
        seconds[(size_t)launches->each[i].step * stride] += end - before;
        before = end;
        cl->ReleaseEvent(launches->each[i].event);
    }
    return status;
}

clattn_status kernel_times(struct kernel_times *times, struct clattn_plan *plan, cl_command_queue queue,
                           const struct buffers *buffers, size_t runs)
{
    double *seconds = calloc(runs * (size_t)plan->bound.built.step_count, sizeof *seconds);
    struct ir_launches launches = {calloc((size_t)plan_launches(plan), sizeof *launches.each), 0};
    clattn_status status = seconds != NULL && launches.each != NULL ? CLATTN_SUCCESS : CLATTN_OUT_OF_MEMORY;
    int known = 1;

    memset(times, 0, sizeof *times);
    for (size_t i = 0; i < runs && status == CLATTN_SUCCESS; i++) {
        struct arguments operands = buffers_operands(buffers, i % buffers->sets, &plan->problem.desc);
        status = run(plan, queue, &operands, &launches, seconds + i, runs, &known);
    }
    times->count = status == CLATTN_SUCCESS && known ? lower(plan->bound.built.step_count, MAX_KERNELS) : 0;
    for (int i = 0; i < times->count; i++) {
        times->names[i] = plan->bound.built.steps[i].name;
        times->seconds[i] = timing_median(seconds + (size_t)i * runs, runs);
    }
    free(launches.each);
    free(seconds);
    return status;
}
