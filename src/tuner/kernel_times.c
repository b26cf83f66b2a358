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

/* One run: seconds[kernel * stride]. */
static clattn_status run(struct clattn_plan *plan, cl_command_queue queue, const struct arguments *operands,
                         double *seconds, size_t stride, int *known)
{
    const struct opencl *cl = plan->context->device.cl;
    cl_event each[MAX_STEPS] = {NULL};
    clattn_status status = plan_run_each(plan, queue, operands, each);
    double before = 0;

    cl->Finish(queue);
    if (status == CLATTN_SUCCESS)
        before = event_time(cl, each[0], CL_PROFILING_COMMAND_START, known);
    for (int i = 0; i < plan->recipe.step_count && each[i] != NULL; i++) {
        double end = event_time(cl, each[i], CL_PROFILING_COMMAND_END, known);
        seconds[(size_t)i * stride] = end - before;
        before = end;
        cl->ReleaseEvent(each[i]);
    }
    return status;
}

clattn_status kernel_times(struct kernel_times *times, struct clattn_plan *plan, cl_command_queue queue,
                           const struct buffers *buffers, size_t runs)
{
    double *seconds = calloc(runs * MAX_STEPS, sizeof *seconds);
    clattn_status status = seconds != NULL ? CLATTN_SUCCESS : CLATTN_OUT_OF_MEMORY;
    int known = 1;

    _Static_assert((int)MOST_KERNELS == (int)MAX_STEPS, "as many as a plan launches");
    memset(times, 0, sizeof *times);
    for (size_t i = 0; i < runs && status == CLATTN_SUCCESS; i++) {
        struct arguments operands = buffers_operands(buffers, i % buffers->sets, &plan->problem.desc);
        status = run(plan, queue, &operands, seconds + i, runs, &known);
    }
    times->count = status == CLATTN_SUCCESS && known ? plan->recipe.step_count : 0;
    for (int i = 0; i < times->count; i++) {
        times->names[i] = kernel_name(plan->recipe.steps[i].variant.kernel);
        times->seconds[i] = timing_median(seconds + (size_t)i * runs, runs);
    }
    free(seconds);
    return status;
}
