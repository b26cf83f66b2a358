/* The launch of a matrix product. */
#include "plan/gemm.h"

#include "device/program.h"

/* A matrix as gemv sees it: offset, batch, from row to row and from column to column of op(X), or of its transpose. */
static cl_long4 view_of(const struct gemm *gemm, enum gemm_operand id, size_t offset, int transposed)
{
    const struct gemm_matrix *x = &gemm->of[id];
    int across = gemm_turned(gemm, id) != transposed;
    cl_long4 view = {{(cl_long)(offset / (size_t)dtype_size(gemm_type(&gemm->desc, id))), x->stride, across ? 1 : x->ld,
                      across ? x->ld : 1}};

    return view;
}

/* The launch of a kernel: its matrices in the order of its arguments. */
struct launch {
    cl_mem buffers[GEMM_OPERANDS];
    cl_long4 views[GEMM_OPERANDS];
    cl_int size[4];
    size_t size_bytes;
    size_t groups;
};

static void lay_out_views(struct launch *launch, const struct gemm *gemm, const clattn_gemm_call *call, int transposed)
{
    const cl_mem buffers[] = {call->a, call->b, call->c, call->d};
    const size_t offsets[] = {call->a_offset, call->b_offset, call->c_offset, call->d_offset};

    for (int i = 0; i < GEMM_OPERANDS; i++) {
        int from = transposed && i < GEMM_C ? 1 - i : i;
        launch->buffers[i] = buffers[from];
        launch->views[i] = view_of(gemm, (enum gemm_operand)from, offsets[from], transposed);
    }
    if (!(gemm->desc.flags & CLATTN_GEMM_WITH_C)) {
        launch->buffers[GEMM_C] = launch->buffers[GEMM_D];
        launch->views[GEMM_C] = launch->views[GEMM_D];
    }
}

static void lay_out_launch(struct launch *launch, const clattn_gemm_plan *plan, const struct gemm *gemm,
                           const clattn_gemm_call *call)
{
    const clattn_gemm_desc *d = &gemm->desc;
    const struct tiles *t = &plan->variant.tiles;
    int few = plan->variant.kernel == KERNEL_GEMV, transposed = few && plan->gemm.desc.m > plan->gemm.desc.n;

    lay_out_views(launch, gemm, call, transposed);
    if (few) {
        launch->size[0] = (cl_int)(transposed ? d->m : d->n);
        launch->size[1] = (cl_int)d->k;
        launch->size_bytes = sizeof(cl_int2);
        launch->groups = (size_t)divide_up(launch->size[0], plan->layout.value_groups);
        launch->views[GEMM_B].s[2] = gemm->of[transposed ? GEMM_A : GEMM_B].ld;
        return;
    }
    for (int i = 0; i < GEMM_OPERANDS; i++) {
        int from = i == GEMM_C && !(d->flags & CLATTN_GEMM_WITH_C) ? GEMM_D : i;
        launch->views[i].s[2] = gemm->of[from].ld;
        launch->views[i].s[3] = gemm->of[from].apart;
    }
    launch->size[0] = (cl_int)d->m;
    launch->size[1] = (cl_int)d->n;
    launch->size[2] = (cl_int)d->k;
    launch->size_bytes = sizeof(cl_int4);
    launch->groups = (size_t)(divide_up(d->m, t->chunk) * divide_up(d->n, t->block_v));
}

static clattn_status set_and_enqueue(const clattn_gemm_plan *plan, const struct launch *launch, const struct gemm *gemm,
                                     const struct log *log, cl_command_queue queue, uint32_t n_wait,
                                     const cl_event *wait, cl_event *event)
{
    const struct opencl *cl = plan->context->device.cl;
    const struct opencl_kernel kernel = {plan->kernel.cl, kernel_name(plan->variant.kernel)};
    const cl_float2 scales = {{(cl_float)gemm->desc.alpha, (cl_float)gemm->desc.beta}};
    const size_t group = (size_t)plan->variant.tiles.group;
    const size_t local[] = {group, 1, 1};
    const size_t global[] = {launch->groups * group, (size_t)gemm->desc.batch, (size_t)gemm->sets};
    cl_uint index = 0;

    for (int i = 0; i < GEMM_OPERANDS; i++) {
        TRY(opencl_set_argument(log, cl, kernel, index++, sizeof launch->buffers[i], &launch->buffers[i]));
        TRY(opencl_set_argument(log, cl, kernel, index++, sizeof launch->views[i], &launch->views[i]));
    }
    TRY(opencl_set_argument(log, cl, kernel, index++, launch->size_bytes, launch->size));
    TRY(opencl_set_argument(log, cl, kernel, index, sizeof scales, &scales));
    return opencl_launch(log, cl, queue, kernel, global, local, n_wait, wait, event);
}

clattn_status gemm_launch(clattn_gemm_plan *plan, const struct gemm *gemm, const struct log *log,
                          cl_command_queue queue, const clattn_gemm_call *call, uint32_t n_wait, const cl_event *wait,
                          cl_event *event)
{
    const clattn_gemm_desc *desc = &gemm->desc;
    struct launch launch;
    clattn_status status;

    if (plan->calls_back)
        return desc->callback(desc->user, desc, queue, call, n_wait, wait, event);
    if (plan->kernel.cl == NULL)
        return clblast_enqueue(plan->context, gemm, queue, call, n_wait, wait, event);
    lay_out_launch(&launch, plan, gemm, call);
    lock_take(&plan->lock);
    status = set_and_enqueue(plan, &launch, gemm, log, queue, n_wait, wait, event);
    lock_give(&plan->lock);
    return status;
}

clattn_status gemm_renew(clattn_gemm_plan *plan)
{
    struct kernel kernel, again;
    cl_kernel released;

    lock_take(&plan->lock);
    kernel = plan->kernel;
    lock_give(&plan->lock);
    TRY(kernel_rebuild(plan->context, &kernel, &again));
    lock_take(&plan->lock);
    released = kernel_swap(&plan->kernel, &again);
    lock_give(&plan->lock);
    plan->context->device.cl->ReleaseKernel(released);
    return CLATTN_SUCCESS;
}

clattn_status gemm_enqueue(clattn_gemm_plan *plan, const struct gemm *gemm, cl_command_queue queue,
                           const clattn_gemm_call *call, uint32_t n_wait, const cl_event *wait, cl_event *event)
{
    struct log_held held = {.line = ""};
    const struct log log = {log_hold, &held};
    clattn_status status = gemm_launch(plan, gemm, &log, queue, call, n_wait, wait, event);

    if (status == CLATTN_DEVICE_ERROR && gemm_renew(plan) == CLATTN_SUCCESS) {
        held.line[0] = '\0';
        status = gemm_launch(plan, gemm, &log, queue, call, n_wait, wait, event);
        program_keep(plan->context);
    }
    log_release(&held, &plan->context->log);
    return status;
}
