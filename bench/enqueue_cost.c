/* enqueue_cost [DEVICE]: what a call of clattn_enqueue costs the host, for a tiny problem in chunks and for a step of one
 * token: microseconds a call with the launches themselves left out, and with them; and how many OpenCL calls it
 * makes. */
#include "check/check.h"
#include "cli/device/target.h"
#include "tuner/buffers.h"

#include <stdio.h>
#include <time.h>

enum { CALLS = 20000, ROUNDS = 7 };

static struct opencl real;
static long count_arguments, count_infos, count_launches;

static cl_int count_argument(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    count_arguments++;
    return real.SetKernelArg(kernel, index, size, value);
}

static cl_int count_memory(cl_mem memory, cl_mem_info name, size_t size, void *value, size_t *whole)
{
    count_infos++;
    return real.GetMemObjectInfo(memory, name, size, value, whole);
}

static cl_int count_queue(cl_command_queue queue, cl_command_queue_info name, size_t size, void *value, size_t *whole)
{
    count_infos++;
    return real.GetCommandQueueInfo(queue, name, size, value, whole);
}

static cl_int no_launch(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
                        const size_t *global, const size_t *local, cl_uint n_wait, const cl_event *wait,
                        cl_event *event)
{
    (void)queue, (void)kernel, (void)dims, (void)offset, (void)global, (void)local, (void)n_wait, (void)wait,
        (void)event;
    count_launches++;
    return CL_SUCCESS;
}

static double now(clockid_t clock)
{
    struct timespec time;

    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The least of some rounds, in microseconds a call. */
static double cost(clockid_t clock, clattn_plan *plan, cl_command_queue queue, const clattn_call *call, int calls)
{
    double least = 1e9;

    for (int round = 0; round < ROUNDS; round++) {
        double start = now(clock), taken;
        for (int i = 0; i < calls; i++)
            if (clattn_enqueue(plan, queue, call, 0, NULL, NULL) != CLATTN_SUCCESS)
                return -1;
        taken = (now(clock) - start) / calls * 1e6;
        opencl_get()->Finish(queue);
        least = taken < least ? taken : least;
    }
    return least;
}

static void report(clattn_plan *plan, cl_command_queue queue, const clattn_call *call)
{
    union {
        const struct opencl *table;
        struct opencl *changed;
    } functions = {opencl_get()}; /* the library keeps them in memory that can be written */
    struct opencl *cl = functions.changed;
    double whole;

    real = *cl;
    whole = cost(CLOCK_MONOTONIC, plan, queue, call, CALLS / 100);
    cl->SetKernelArg = count_argument;
    cl->GetMemObjectInfo = count_memory;
    cl->GetCommandQueueInfo = count_queue;
    cl->EnqueueNDRangeKernel = no_launch;
    clattn_enqueue(plan, queue, call, 0, NULL, NULL);
    count_arguments = count_infos = count_launches = 0;
    clattn_enqueue(plan, queue, call, 0, NULL, NULL);
    printf("OpenCL calls: %ld launches, %ld arguments set, %ld questions\n", count_launches, count_arguments,
           count_infos);
    *cl = real;
    cl->EnqueueNDRangeKernel = no_launch;
    printf("a call: %.2f us without its launches, %.1f us with them\n",
           cost(CLOCK_THREAD_CPUTIME_ID, plan, queue, call, CALLS), whole);
    *cl = real;
}

static int measure(const struct target *target, const clattn_plan_desc *desc)
{
    struct check_tensors tensors;
    struct buffers buffers;
    struct arguments arguments;
    clattn_operand list[OPERAND_COUNT];
    clattn_call call;
    clattn_plan *plan;
    size_t bytes;

    if (check_make(&tensors, desc, 1, CHECK_GATES_USUAL, NULL) != CLATTN_SUCCESS ||
        clattn_plan_create(&plan, target->device.context, desc) != CLATTN_SUCCESS ||
        clattn_plan_workspace_size(plan, &bytes) != CLATTN_SUCCESS ||
        buffers_create(&buffers, &target->device, &tensors, 1, 1, bytes, NULL, NULL) != CLATTN_SUCCESS)
        return 1;
    arguments = buffers_operands(&buffers, 0, desc);
    call = arguments_call(&arguments, list);
    report(plan, target->device.queue, &call);
    buffers_destroy(&buffers);
    clattn_plan_destroy(plan);
    check_free(&tensors);
    return 0;
}

int main(int argc, char **argv)
{
    const clattn_plan_desc chunks = {.rule = CLATTN_GATED_DELTA_RULE,
                                     .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE,
                                     .seq_len = 16,
                                     .heads = 1,
                                     .key_dim = 16,
                                     .value_dim = 16,
                                     .mode = CLATTN_MODE_CHUNK};
    clattn_plan_desc step = chunks;
    struct target target;
    int failed;

    if (target_open(&target, argc > 1 ? argv[1] : NULL) != 0 || target.reference)
        return 1;
    step.seq_len = 1;
    step.mode = CLATTN_MODE_AUTO;
    printf("16 tokens in chunks\n");
    failed = measure(&target, &chunks);
    printf("a step\n");
    failed += measure(&target, &step);
    target_close(&target);
    return failed;
}
