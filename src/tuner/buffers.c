#include "tuner/buffers.h"

#include "op/state.h"

#include <string.h>

enum { ALIGNMENT = 4096 };

/* The operand whose buffer holds this one. */
static int buffer_owner(const struct buffers *buffers, int id)
{
    clattn_operand_id before = state_before(rule_get(buffers->rule), (clattn_operand_id)id);

    return buffers->in_place && before != NO_OPERAND ? (int)before : id;
}

static clattn_status create_buffer(const struct buffers *buffers, size_t bytes, cl_mem *buffer)
{
    return opencl_create_buffer(&buffers->log, opencl_get(), buffers->device->cl, CL_MEM_READ_WRITE, bytes, NULL,
                                buffer);
}

static double bytes_of(const clattn_operand_info *info)
{
    double bytes = (double)dtype_size(info->dtype);

    for (int i = 0; i < info->rank; i++)
        bytes *= (double)info->dims[i];
    return bytes;
}

static clattn_status fit_one(const clattn_device_info *info, const char *what, double bytes, const struct log *log)
{
    const double gib = 1 << 30;

    if (bytes <= (double)info->max_allocation)
        return CLATTN_SUCCESS;
    return FAIL(log, OUT_OF_MEMORY, "%s takes %.3g GiB, the device allocates at most %.3g GiB at once", what,
                bytes / gib, (double)info->max_allocation / gib);
}

clattn_status buffers_fit(const clattn_device_info *info, const clattn_plan_desc *desc, size_t workspace,
                          const struct log *log)
{
    const double gib = 1 << 30;
    double all = (double)workspace;

    for (int id = 1; id < OPERAND_COUNT; id++) {
        clattn_operand_info operand;
        if (clattn_operand_describe(desc, operand_to_public((clattn_operand_id)id), &operand) != CLATTN_SUCCESS ||
            operand.rank == 0)
            continue;
        TRY(fit_one(info, operand.name, bytes_of(&operand), log));
        all += bytes_of(&operand);
    }
    TRY(fit_one(info, "workspace", (double)workspace, log));
    if (all <= (double)info->global_memory)
        return CLATTN_SUCCESS;
    return FAIL(log, OUT_OF_MEMORY, "operands%s take %.3g GiB, the device has %.3g GiB",
                workspace > 0 ? " and workspace" : "", all / gib, (double)info->global_memory / gib);
}

clattn_status buffers_create(struct buffers *buffers, const struct check_device *device,
                             const struct check_tensors *tensors, size_t sets, int in_place, size_t workspace,
                             clattn_log_fn log, void *log_user)
{
    *buffers = (struct buffers){
        .device = device, .log = {log, log_user}, .rule = tensors->desc.rule, .sets = sets, .in_place = in_place};
    for (int id = 1; id < OPERAND_COUNT; id++) {
        if (tensors->tensor[id].data == NULL)
            continue;
        buffers->stride[id] = (tensors->tensor[id].bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (buffer_owner(buffers, id) == id)
            TRY(create_buffer(buffers, buffers->stride[id] * sets, &buffers->buffer[id]));
    }
    return workspace > 0 ? create_buffer(buffers, workspace, &buffers->workspace) : CLATTN_SUCCESS;
}

void buffers_destroy(struct buffers *buffers)
{
    for (int id = 1; id < OPERAND_COUNT; id++)
        if (buffers->buffer[id] != NULL)
            opencl_get()->ReleaseMemObject(buffers->buffer[id]);
    if (buffers->workspace != NULL)
        opencl_get()->ReleaseMemObject(buffers->workspace);
    memset(buffers, 0, sizeof *buffers);
}

static clattn_status write_tensor(const struct buffers *buffers, size_t set, const struct check_tensors *tensors,
                                  int id)
{
    const struct check_tensor *tensor = &tensors->tensor[id];

    return opencl_write(&buffers->log, opencl_get(), buffers->device->queue, buffers->buffer[id],
                        set * buffers->stride[id], tensor->bytes, tensor->data);
}

clattn_status buffers_write(const struct buffers *buffers, size_t set, const struct check_tensors *tensors)
{
    for (int id = 1; id < OPERAND_COUNT; id++)
        if (tensors->tensor[id].data != NULL && buffer_owner(buffers, id) == id)
            TRY(write_tensor(buffers, set, tensors, id));
    return CLATTN_SUCCESS;
}

clattn_status buffers_read(const struct buffers *buffers, size_t set, struct check_tensors *tensors)
{
    TRY(check_copy_updated(tensors));
    for (int id = 1; id < OPERAND_COUNT; id++) {
        const struct check_tensor *tensor = &tensors->tensor[id];
        void *to = tensor->info.output ? tensor->data : tensors->after[id];
        if (to == NULL)
            continue;
        TRY(opencl_read(&buffers->log, opencl_get(), buffers->device->queue, buffers->buffer[buffer_owner(buffers, id)],
                        set * buffers->stride[id], tensor->bytes, to));
    }
    return CLATTN_SUCCESS;
}

struct arguments buffers_operands(const struct buffers *buffers, size_t set, const clattn_plan_desc *desc)
{
    struct arguments operands = check_lengths(desc);

    operands.workspace.buffer = buffers->workspace;
    for (int id = 1; id < OPERAND_COUNT; id++) {
        clattn_operand *operand = &operands.of[id];
        operand->buffer = buffers->buffer[buffer_owner(buffers, id)];
        operand->offset = set * buffers->stride[id];
    }
    return operands;
}
