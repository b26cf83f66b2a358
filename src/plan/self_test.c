/* The first use of kernels on a device and driver: two short sequences against the reference. The verdict is kept with the
 * compiled programs, so that it is reached once. */
#include "plan/plan.h"

#include "check/check.h"
#include "device/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char passed[] = "passed", broken[] = "failed";

/* As few tokens as reach every part of the kernels: two chunks and a rest; heads that share their queries and keys. */
static clattn_plan_desc small_desc(const struct clattn_plan *plan)
{
    clattn_plan_desc desc = plan->problem.desc;
    int chunk = plan->recipe.steps[plan->recipe.step_count - 1].variant.tiles.chunk;

    desc.heads /= desc.qk_heads;
    desc.qk_heads = 1;
    desc.batch = 1;
    desc.sequences = desc.flags & CLATTN_CU_SEQLENS ? 2 : 0;
    desc.seq_len = 2 * chunk + 3;
    desc.scale = 0; /* an argument: no kernel depends on it, and the caller's may leave the type's range */
    return desc;
}

/* Wrong are numbers beyond the bound, and writes where there must be none or none where there must be one. A call of OpenCL
 * that fails says nothing of the kernels: the device may be out of memory, or reset. */
static clattn_status run_and_compare(struct check_tensors *tensors, struct check_device *device, clattn_plan *plan,
                                     int *verdict)
{
    const struct log *log = &plan->context->log;
    struct check_tensors expected;
    clattn_status status = check_run_plan(tensors, device, plan, log->fn, log->user);

    if (device->wrong)
        *verdict = -1;
    TRY(status);
    TRY(check_reference(&expected, tensors, log->fn, log->user));
    *verdict = check_error(tensors, &expected, NULL) <= check_bound(tensors->desc.dtype) ? 1 : -1;
    check_free(&expected);
    return CLATTN_SUCCESS;
}

static clattn_status run_small(const struct clattn_plan *plan, struct check_device *device, int *verdict)
{
    clattn_plan_desc desc = small_desc(plan);
    struct check_tensors tensors;
    clattn_plan *small;
    clattn_status status;

    TRY(plan_create(&small, plan->context, &desc, NULL, plan));
    status = check_make(&tensors, &desc, 1, CHECK_GATES_SLOW, NULL);
    if (status == CLATTN_SUCCESS) {
        status = run_and_compare(&tensors, device, small, verdict);
        check_free(&tensors);
    }
    clattn_plan_destroy(small);
    return status;
}

/* *verdict: 1 passed, -1 failed, 0 where the test could not be run. */
static clattn_status measure(const struct clattn_plan *plan, int *verdict)
{
    struct clattn_context *context = plan->context;
    struct check_device device = {
        .context = context, .cl = context->cl, .device = context->device.info.device, .queue = NULL};
    cl_int code = CL_SUCCESS;
    clattn_status status;

    device.queue = context->device.cl->CreateCommandQueue(device.cl, device.device, 0, &code);
    TRY_CL(&context->log, code);
    status = run_small(plan, &device, verdict);
    context->device.cl->ReleaseCommandQueue(device.queue);
    return status;
}

/* Whether the test is decided already: 1 passed, -1 failed, 0 unknown. */
static int recall(struct clattn_context *context, struct hash key)
{
    size_t size = 0;
    char *text = cache_load(&context->cache, key, &size);
    int verdict = 0;

    if (text != NULL && size == sizeof passed)
        verdict = memcmp(text, passed, size) == 0 ? 1 : memcmp(text, broken, size) == 0 ? -1 : 0;
    free(text);
    return verdict;
}

static void remember(struct clattn_context *context, struct hash key, const struct clattn_plan *plan, int verdict)
{
    char label[CACHE_LABEL];

    snprintf(label, sizeof label, "self-test of %s, %.90s, %.60s", plan->solver->name, context->device.info.name,
             context->device.info.driver);
    cache_store(&context->cache, key, label, verdict > 0 ? passed : broken, sizeof passed);
}

clattn_status plan_self_test(struct clattn_plan *plan)
{
    struct clattn_context *context = plan->context;
    struct hash key = hash_add(program_device_hash(context), &plan->hash, sizeof plan->hash);
    int verdict;

    verdict = context_verdict(context, key);
    if (verdict == 0)
        verdict = recall(context, key);
    if (verdict == 0) {
        clattn_status status = measure(plan, &verdict);
        if (verdict == 0) /* nothing was learnt of the kernels */
            return status == CLATTN_DEVICE_ERROR ? CLATTN_DEVICE_ERROR : CLATTN_SUCCESS;
        remember(context, key, plan, verdict);
    }
    context_set_verdict(context, key, verdict);
    return verdict > 0 ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}
