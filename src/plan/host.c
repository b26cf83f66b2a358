/* A call on host memory. It has its own buffers and queue, and copies all operands to the device and back. */
#include "base/system.h"
#include "plan/plan.h"
#include "plan/verbose.h"

#include <stdlib.h>
#include <string.h>

struct host_call {
    struct clattn_plan *plan;
    const struct opencl *cl;
    const struct log *log;
    struct extent extent;
    struct arguments host, device;
    struct placement places[OPERAND_COUNT];
    cl_command_queue queue;
};

static size_t bytes_of(const struct placement *place)
{
    return (size_t)place->span * place->element;
}

static clattn_status create_buffer(const struct host_call *call, size_t bytes, void *data, cl_mem *buffer)
{
    return opencl_create_buffer(call->log, call->cl, call->plan->context->cl,
                                CL_MEM_READ_WRITE | (data != NULL ? CL_MEM_COPY_HOST_PTR : 0), bytes, data, buffer);
}

/* The address of the element with the lowest one. */
static char *base_of(const clattn_operand *host, const struct placement *place)
{
    return (char *)host->host + host->offset - (size_t)place->low * place->element;
}

/* Whether a call writes all of the operand. States in a pool stay as they are for other sequences, and so do the
 * intermediate states that a short sequence does not reach. Some gradients are added to what is there. */
static int is_written_whole(const struct problem *problem, const struct operand_row *row)
{
    int pool = (problem->desc.flags & CLATTN_WITH_STATE_INDICES) && row->dims[0] == 'M';

    int added = operand_is_optional(row) && problem_adds(problem, (clattn_operand_id)((int)row->id - (int)OPERAND_IDS));

    return row->numbers == NUMBERS_WRITTEN && !operand_is_snapshots(row) && !pool && !added;
}

/* Copies the operand, from its first element to its last, into a buffer with the same strides. */
static clattn_status copy_in(struct host_call *call, const struct operand_row *row)
{
    const struct problem *problem = &call->plan->problem;
    const clattn_operand *host = &call->host.of[row->id];
    clattn_operand *device = &call->device.of[row->id];
    struct placement *place = &call->places[row->id];

    if (host->host == NULL && operand_is_optional(row))
        return CLATTN_SUCCESS;
    if (host->host == NULL && !problem_is_empty(problem, &call->extent, row))
        return FAIL(call->log, INVALID_OPERAND, "%s: operand %s is missing%s", problem->rule->name,
                    operand_name(row->id), host->buffer != NULL ? ": it has .buffer, and clattn_run reads .host" : "");
    TRY(problem_place(problem, &call->extent, row, host, host->size, place, call->log));
    *device = *host;
    device->offset = (size_t)place->low * place->element;
    device->size = 0;
    device->buffer = NULL;
    if (place->span == 0)
        return CLATTN_SUCCESS;
    return create_buffer(call, bytes_of(place), is_written_whole(problem, row) ? NULL : base_of(host, place),
                         &device->buffer);
}

static clattn_status check_state_indices(const struct host_call *call)
{
    const clattn_operand *indices = &call->host.of[CLATTN_STATE_INDICES];

    if (!(call->plan->problem.desc.flags & CLATTN_WITH_STATE_INDICES) || indices->host == NULL)
        return CLATTN_SUCCESS;
    return problem_check_slots(&call->plan->problem, &call->extent,
                               (const int32_t *)(const void *)((const char *)indices->host + indices->offset),
                               call->log);
}

static clattn_status copy_all_in(struct host_call *call)
{
    const struct problem *problem = &call->plan->problem;
    size_t bytes = (size_t)call->plan->bound.ir.bytes[IR_SCRATCH];

    TRY(problem_extent(problem, &call->host, &call->extent, call->log));
    call->device.seq_len = call->host.seq_len;
    call->device.batch = call->host.batch;
    call->device.sequences = call->host.sequences;
    call->device.kv_len = call->host.kv_len;
    call->device.tail = call->host.tail;
    for (int i = 0; i < problem->operand_count; i++)
        TRY(copy_in(call, &problem->operands[i]));
    /* each operand's memory has been checked */
    TRY(problem_check_lengths(problem, &call->extent, &call->host, call->log));
    TRY(check_state_indices(call));
    return bytes > 0 ? create_buffer(call, bytes, NULL, &call->device.workspace.buffer) : CLATTN_SUCCESS;
}

/* Copies the elements only: the bytes between them may belong to another operand. */
static void copy_rows(const struct placement *place, char *to, const char *from)
{
    size_t row = (size_t)place->inner * place->element;

    for (int64_t b = 0; b < place->count[0]; b++)
        for (int64_t t = 0; t < place->count[1]; t++)
            for (int64_t h = 0; h < place->count[2]; h++) {
                int64_t at = place->low + b * place->view.batch + t * place->view.token + h * place->view.head;
                memcpy(to + (size_t)at * place->element, from + (size_t)at * place->element, row);
            }
}

static clattn_status copy_all_out(const struct host_call *call, int id)
{
    const struct placement *place = &call->places[id];
    const clattn_operand *host = &call->host.of[id];
    char *copy = malloc(bytes_of(place));
    clattn_status status;

    if (copy == NULL)
        return FAIL(call->log, OUT_OF_MEMORY, "no memory to read %s", operand_name((clattn_operand_id)id));
    status = opencl_read(call->log, call->cl, call->queue, call->device.of[id].buffer, 0, bytes_of(place), copy);
    if (status == CLATTN_SUCCESS)
        copy_rows(place, base_of(host, place), copy);
    free(copy);
    return status;
}

static clattn_status run(struct host_call *call)
{
    const clattn_context *context = call->plan->context;

    TRY(copy_all_in(call));
    TRY(opencl_create_queue(call->log, call->cl, context->cl, context->device.info.device, 0, &call->queue));
    TRY(plan_run(call->plan, call->queue, &call->device, 0, NULL, NULL));
    TRY_CL(call->log, call->cl, Finish, call->queue);
    for (int id = 1; id < OPERAND_COUNT; id++)
        if (call->device.of[id].buffer != NULL && (call->places[id].output || call->places[id].updated))
            TRY(copy_all_out(call, id));
    return CLATTN_SUCCESS;
}

static void drop(const struct host_call *call)
{
    if (call->queue != NULL) {
        call->cl->Finish(call->queue); /* if enqueuing failed, the earlier launches are still running */
        call->cl->ReleaseCommandQueue(call->queue);
    }
    for (int id = 1; id < OPERAND_COUNT; id++)
        if (call->device.of[id].buffer != NULL)
            call->cl->ReleaseMemObject(call->device.of[id].buffer);
    if (call->device.workspace.buffer != NULL)
        call->cl->ReleaseMemObject(call->device.workspace.buffer);
}

clattn_status clattn_run_sized(clattn_plan *plan, const clattn_call *call, size_t call_size, size_t operand_size)
{
    struct host_call host = {.plan = plan};
    const double begin = now_seconds();
    clattn_status status;

    if (plan == NULL)
        return CLATTN_INVALID_ARGUMENT;
    host.cl = plan->context->device.cl;
    host.log = &plan->log;
    if (call == NULL)
        return FAIL(host.log, INVALID_ARGUMENT, "call is NULL");
    TRY(arguments_read(&host.host, &plan->problem, call, call_size, operand_size, host.log));
    status = run(&host);
    drop(&host);
    if (plan->verbose && status == CLATTN_SUCCESS)
        verbose_call(plan, &host.host, now_seconds() - begin);
    return status;
}
