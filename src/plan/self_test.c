/* The self-test: the first time that kernels meet a device and driver, they run two short sequences, which are compared
 * with the reference. */
#include "plan/plan.h"

#include "plan/sample.h"

static struct reach reach_of(const struct clattn_plan *plan)
{
    const struct child *child = plan_child(plan);

    return child->solver->reach(&plan->problem, child->shape);
}

/* A short problem that reaches every part of the kernels. It has two chunks and a remainder longer than a vector of
 * rows, which shows a store that passes the end of a chunk. Heads share queries and keys. A learner has one batch to
 * learn from and a few tokens that it only reads. */
static clattn_plan_desc small_desc(const struct clattn_plan *plan)
{
    clattn_plan_desc desc = plan->problem.desc;
    const struct reach reach = reach_of(plan);
    const int64_t chunk = reach.chunk, rest = desc.mini_batch != 0 ? 3 : chunk / 2 + 3;

    problem_share_heads(&desc, 1);
    desc.batch = 1;
    desc.sequences = desc.flags & CLATTN_CU_SEQLENS ? 2 : 0;
    desc.seq_len = 2 * chunk * reach.parts + rest;
    desc.mini_batch = desc.mini_batch != 0 ? (int32_t)chunk + 2 : 0;
    desc.state_slots = 0;
    desc.state_every = desc.state_every != 0 ? chunk : 0;
    desc.state_window = desc.state_window != 0 ? 2 : 0;
    desc.kv_len = desc.kv_len != 0 ? desc.seq_len + chunk / 2 + 3 * reach.keys : 0;
    desc.tail = desc.tail != 0 ? desc.seq_len + chunk / 4 : 0;
    desc.window = desc.window != 0 ? chunk + 1 : 0;
    desc.scale = 0; /* scale is an argument, so no kernel depends on it; the caller's scale may leave the type's
                     * range */
    return desc;
}

/* *verdict stays 0 if the test could not run. An error of OpenCL says nothing about the kernels: the device may be out
 * of memory, or may have been reset. */
static clattn_status measure(void *user, int *verdict)
{
    const struct clattn_plan *plan = user;
    const struct clattn_context *context = plan->context;
    const clattn_plan_desc desc = small_desc(plan);
    cl_command_queue queue;
    clattn_plan *small;
    clattn_status status;

    TRY(plan_create_sharing(&small, &desc, plan));
    status = opencl_create_queue(&plan->log, context->device.cl, context->cl, context->device.info.device, 0, &queue);
    if (status == CLATTN_SUCCESS)
        status = sample_run(small, queue, verdict);
    if (queue != NULL)
        context->device.cl->ReleaseCommandQueue(queue);
    clattn_plan_destroy(small);
    return status;
}

clattn_status plan_self_test(struct clattn_plan *plan)
{
    return self_test(plan->context, plan->bound.hash, plan->solver->space.name, measure, plan);
}
