/* A part's operands: on the host (clattn_mpi_run), or in buffers (clattn_mpi_enqueue). What the library adds to those in
 * buffers lies in the call's workspace, behind the space of the rank's own plans:
 *
 *     | workspace of the plans, which run one after the other | room | room | … */
#include "mpi/mpi.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM_UNIT = 256 };

size_t room_of(size_t bytes)
{
    return (bytes + ROOM_UNIT - 1) / ROOM_UNIT * ROOM_UNIT;
}

/* ---- Workspace ---------------------------------------------------------------------------------------------------- */

static size_t workspace_of(const clattn_plan *plan)
{
    size_t bytes = 0;

    if (plan != NULL)
        clattn_plan_workspace_size(plan, &bytes);
    return bytes;
}

size_t plans_workspace(const clattn_mpi_plan *plan)
{
    const size_t sizes[] = {workspace_of(plan->run), workspace_of(plan->summary), workspace_of(plan->before)};
    size_t most = 0;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        most = sizes[i] > most ? sizes[i] : most;
    return room_of(most);
}

/* Bytes of the rooms for one plan's operands, at its maxima. */
static size_t rooms_of(const clattn_plan_desc *desc)
{
    static const clattn_operand_id ids[] = {CLATTN_STATE_IN,
                                            CLATTN_STATE_OUT,
                                            CLATTN_NORMALIZER_IN,
                                            CLATTN_NORMALIZER_OUT,
                                            CLATTN_STABILIZER_IN,
                                            CLATTN_STABILIZER_OUT,
                                            CLATTN_TRANSITION,
                                            CLATTN_SEQLENS,
                                            CLATTN_SEQLENS_KV,
                                            CLATTN_POSITION,
                                            CLATTN_GRAD(CLATTN_STATE_IN),
                                            CLATTN_GRAD(CLATTN_STATE_OUT),
                                            CLATTN_GRAD(CLATTN_NORMALIZER_IN),
                                            CLATTN_GRAD(CLATTN_NORMALIZER_OUT)};
    static const clattn_operand_id gathered[] = {CLATTN_K, CLATTN_V, CLATTN_G};
    size_t bytes = 0;

    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        bytes += room_of(operand_bytes(desc, ids[i]));
    for (size_t i = 0; i < sizeof gathered / sizeof *gathered && desc->kv_len > 0; i++)
        bytes += room_of(operand_bytes(desc, gathered[i]));
    return bytes;
}

size_t operand_bytes(const clattn_plan_desc *desc, clattn_operand_id id)
{
    clattn_operand_info info;
    size_t bytes;

    if (clattn_operand_describe(desc, id, &info) != CLATTN_SUCCESS || info.rank == 0)
        return 0;
    bytes = (size_t)info.element_size;
    for (int i = 0; i < info.rank; i++)
        bytes *= (size_t)info.dims[i];
    return bytes;
}

/* The summary of short_conv has an o, of which the backward pass has none. */
static size_t rooms_of_summary(const clattn_mpi_plan *plan)
{
    const int is_backward = plan->whole.pass == CLATTN_PASS_BACKWARD;

    return rooms_of(&plan->summary_desc) + (is_backward ? room_of(operand_bytes(&plan->summary_desc, CLATTN_O)) : 0);
}

/* The queries and outputs of the halves that a rank computes for others, and where their sequences begin. */
static size_t rooms_of_halves(const clattn_mpi_plan *plan)
{
    static const clattn_operand_id ids[] = {CLATTN_Q, CLATTN_O, CLATTN_LSE, CLATTN_SEQLENS, CLATTN_SEQLENS_KV};
    size_t bytes = 0;

    for (size_t i = 0; i < sizeof ids / sizeof *ids && plan->trades; i++)
        bytes += 2 * room_of(operand_bytes(&plan->local, ids[i]));
    return bytes;
}

clattn_status clattn_mpi_plan_workspace_size(const clattn_mpi_plan *plan, size_t *bytes)
{
    if (plan == NULL || bytes == NULL)
        return CLATTN_INVALID_ARGUMENT;
    *bytes = plans_workspace(plan);
    if (plan->exchange == EXCHANGE_RING)
        *bytes += ring_rooms(plan);
    else if (plan->split == CLATTN_MPI_TOKENS)
        *bytes += rooms_of(&plan->local) + rooms_of_halves(plan) + (plan->summary != NULL ? rooms_of_summary(plan) : 0);
    return CLATTN_SUCCESS;
}

/* ---- Reading and writing ------------------------------------------------------------------------------------------ */

static struct log log_of(clattn_mpi_context *context)
{
    return (struct log){rank_log, context};
}

int has_memory(const struct part *part, const clattn_operand *operand)
{
    return operand != NULL && (operand->host != NULL || (part->device != NULL && operand->buffer != NULL));
}

/* What comes next waits for the events of the caller, or if a plan was enqueued since, for that. */
static cl_uint wait_list(const struct device_call *device, const cl_event **wait)
{
    const cl_uint count = device->done != NULL ? 1 : device->n_wait;

    *wait = count == 0 ? NULL : device->done != NULL ? &device->done : device->wait;
    return count;
}

static clattn_status read_buffer(clattn_mpi_context *context, const struct device_call *device,
                                 const clattn_operand *operand, size_t bytes, void *to)
{
    const struct log log = log_of(context);
    const cl_event *wait;
    const cl_uint count = wait_list(device, &wait);

    if (bytes > 0)
        TRY_CL(&log, device->cl, EnqueueReadBuffer, device->queue, operand->buffer, CL_TRUE, operand->offset, bytes, to,
               count, wait, NULL);
    return CLATTN_SUCCESS;
}

static clattn_status write_buffer(clattn_mpi_context *context, const struct device_call *device,
                                  const clattn_operand *operand, size_t bytes, const void *from)
{
    const struct log log = log_of(context);
    const cl_event *wait;
    const cl_uint count = wait_list(device, &wait);

    if (bytes > 0)
        TRY_CL(&log, device->cl, EnqueueWriteBuffer, device->queue, operand->buffer, CL_TRUE, operand->offset, bytes,
               from, count, wait, NULL);
    return CLATTN_SUCCESS;
}

clattn_status part_write(clattn_mpi_plan *plan, struct part *part, const clattn_operand *operand, size_t bytes,
                         const void *from)
{
    return note_failure(plan->context, write_buffer(plan->context, part->device, operand, bytes, from),
                        "cannot write to a buffer");
}

clattn_status part_read(clattn_mpi_plan *plan, struct part *part, const clattn_operand *operand, size_t bytes, void *to)
{
    if (operand->size != 0 && operand->size < bytes)
        return note_failure(plan->context, CLATTN_INVALID_OPERAND, "operand %d has %zu bytes, expected %zu",
                            (int)operand->id, operand->size, bytes);
    if (operand->host == NULL)
        return note_failure(plan->context, read_buffer(plan->context, part->device, operand, bytes, to),
                            "cannot read a buffer");
    if (to != (char *)operand->host + operand->offset)
        memcpy(to, (const char *)operand->host + operand->offset, bytes);
    return CLATTN_SUCCESS;
}

const void *part_view(clattn_mpi_plan *plan, struct part *part, const clattn_operand *operand, size_t bytes,
                      void **owned)
{
    *owned = NULL;
    if (operand->host != NULL && (operand->size == 0 || operand->size >= bytes))
        return (const char *)operand->host + operand->offset;
    *owned = pool_take(plan, bytes);
    if (*owned == NULL)
        note_failure(plan->context, CLATTN_OUT_OF_MEMORY, "no memory for %zu bytes of an operand", bytes);
    else if (part_read(plan, part, operand, bytes, *owned) == CLATTN_SUCCESS)
        return *owned;
    pool_give(plan, *owned);
    *owned = NULL;
    return NULL;
}

clattn_operand *part_operand(struct part *part, clattn_operand_id id)
{
    for (size_t i = 0; i < part->operand_count; i++)
        if (part->operands[i].id == id)
            return &part->operands[i];
    return NULL;
}

void part_drop(struct part *part, clattn_operand_id id)
{
    clattn_operand *operand = part_operand(part, id);

    if (operand != NULL)
        *operand = part->operands[--part->operand_count];
}

static clattn_status put(clattn_mpi_plan *plan, struct part *part, clattn_operand_id id, void *host, size_t size,
                         int is_read)
{
    struct device_call *device = part->device;
    clattn_operand *operand;

    part_drop(part, id);
    operand = &part->operands[part->operand_count++];
    if (device == NULL) {
        *operand = (clattn_operand){.id = id, .host = host, .size = size};
        return CLATTN_SUCCESS;
    }
    *operand = (clattn_operand){.id = id, .buffer = device->workspace, .offset = device->room, .size = size};
    device->room += room_of(size);
    return is_read ? part_write(plan, part, operand, size, host) : CLATTN_SUCCESS;
}

clattn_status part_put(clattn_mpi_plan *plan, struct part *part, clattn_operand_id id, void *host, size_t size)
{
    return put(plan, part, id, host, size, 1);
}

clattn_status part_put_output(clattn_mpi_plan *plan, struct part *part, clattn_operand_id id, void *host, size_t size)
{
    return put(plan, part, id, host, size, 0);
}

/* ---- Running ------------------------------------------------------------------------------------------------------ */

static void forget_event(struct device_call *device, cl_event *event)
{
    if (*event != NULL)
        device->cl->ReleaseEvent(*event);
    *event = NULL;
}

/* Behind the plan before it, with which it shares the workspace. */
static clattn_status enqueue(clattn_plan *plan, struct part *part)
{
    struct device_call *device = part->device;
    const cl_event *wait;
    const cl_uint count = wait_list(device, &wait);
    cl_event done = NULL;
    const clattn_status status = clattn_enqueue(plan, device->queue, &part->call, count, wait, &done);

    forget_event(device, &device->done);
    device->done = done;
    return status;
}

clattn_status part_compute(clattn_plan *plan, struct part *part)
{
    part->call.operands = part->operands;
    part->call.operand_count = part->operand_count;
    return part->device != NULL ? enqueue(plan, part) : clattn_run(plan, &part->call);
}

/* Bytes of the workspace that the caller gives. */
static clattn_status given_workspace(clattn_mpi_context *context, const struct opencl *cl, const clattn_call *call,
                                     size_t *bytes)
{
    const struct log log = log_of(context);

    *bytes = call->workspace_size;
    if (call->workspace == NULL || call->workspace_size != 0)
        return CLATTN_SUCCESS;
    TRY_CL(&log, cl, GetMemObjectInfo, call->workspace, CL_MEM_SIZE, sizeof *bytes, bytes, NULL);
    *bytes -= *bytes < call->workspace_offset ? *bytes : call->workspace_offset;
    return CLATTN_SUCCESS;
}

clattn_status device_begin(clattn_mpi_plan *plan, struct device_call *device, const clattn_call *call)
{
    clattn_mpi_context *context = plan->context;
    size_t needed = 0, given = 0;

    device->cl = opencl_get();
    if (device->cl == NULL || device->queue == NULL || call == NULL || (device->n_wait > 0 && device->wait == NULL))
        return note_failure(context, CLATTN_INVALID_ARGUMENT, "the queue, the call or the events are NULL");
    clattn_mpi_plan_workspace_size(plan, &needed);
    TRY(note_failure(context, given_workspace(context, device->cl, call, &given), "no size of the workspace"));
    if (needed > 0 && (given < needed || call->workspace_offset % 16 != 0))
        return note_failure(context, CLATTN_INVALID_WORKSPACE,
                            "the workspace has %zu bytes at offset %zu, expected %zu at a multiple of 16", given,
                            call->workspace_offset, needed);
    device->workspace = call->workspace;
    device->room = call->workspace_offset + plans_workspace(plan);
    return CLATTN_SUCCESS;
}

/* A rank that ran nothing has an event, too. */
clattn_status device_end(clattn_mpi_plan *plan, struct device_call *device, clattn_status status, cl_event *event)
{
    const struct log log = log_of(plan->context);

    if (status == CLATTN_SUCCESS && event != NULL && device->done == NULL)
        TRY_CL(&log, device->cl, EnqueueMarkerWithWaitList, device->queue, device->n_wait, device->wait, &device->done);
    if (status == CLATTN_SUCCESS && event != NULL) {
        *event = device->done;
        device->done = NULL;
    }
    if (device->cl != NULL)
        forget_event(device, &device->done);
    return status;
}
