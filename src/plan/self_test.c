/* The first use of kernels on a device and driver: two short sequences against the reference. */
#include "plan/plan.h"

#include "plan/sample.h"

/* Tokens that the last kernel of a solver of src/kernel works at once. */
static struct reach old_reach(const struct clattn_plan *plan)
{
    const struct variant *last = &recipe_last(&plan->recipe)->variant;

    return (struct reach){.chunk = last->tiles.chunk, .parts = 1, .keys = last->tiles.keys};
}

static struct reach reach_of(const struct clattn_plan *plan)
{
    const struct child *child = plan_child(plan);

    return child != NULL ? child->solver->reach(&plan->problem, child->shape) : old_reach(plan);
}

/* As few tokens as reach every part of the kernels: two chunks and a rest that goes past a whole vector of rows, where a
 * store may forget that the chunk ends; heads that share their queries and keys. A learner has one batch that it learns
 * from and a few tokens that are only read. */
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
    desc.scale = 0; /* an argument: no kernel depends on it, and the caller's may leave the type's range */
    return desc;
}

/* 0 where the test could not be run: an error of OpenCL says nothing of the kernels, for the device may be out of
 * memory, or reset. */
static clattn_status measure(void *user, int *verdict)
{
    const struct clattn_plan *plan = user;
    const struct clattn_context *context = plan->context;
    const clattn_plan_desc desc = small_desc(plan);
    cl_command_queue queue;
    clattn_plan *small;
    clattn_status status;

    TRY(plan_like(&small, &desc, plan));
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
