/* Tokens of a list are cut: keys and values, with their gates, go round, from each rank to the next one, in the blocks
 * that ranks have. A rank attends to the block that is with it while the next one comes, and joins the parts by their lse: of a
 * block that begins before a half and ends after it, the keys up to each query; of one before a half, all. So a rank
 * holds two blocks, and not the keys of the whole sequence. */
#include "mpi/decays.h"

#include <stdlib.h>

enum { CARRIED = 3, SLOTS = 2 };
static const clattn_operand_id carried_ids[CARRIED] = {CLATTN_K, CLATTN_V, CLATTN_G};

/* k, v or g */
struct carried {
    clattn_operand_info info;
    size_t row;          /* bytes of a token; 0: the problem has none */
    const void *own;     /* this rank's block, on the host */
    void *copy;          /* the same if it was in a buffer, owned */
    char *coming[SLOTS]; /* blocks of other ranks, in turn, owned */
    MPI_Datatype rows;
};

struct slot {
    size_t room[CARRIED], starts[HALVES], shifts[HALVES]; /* in the workspace */
    cl_event used; /* when what reads it is done, owned; NULL: nothing was enqueued */
};

struct ring {
    clattn_mpi_plan *plan;
    struct part *part;
    struct device_call own;       /* of a call from host memory */
    struct device_call transfers; /* of blocks, on a queue of their own, beside what is computed */
    cl_event begin;               /* what was enqueued before this call is done */
    struct halves halves;
    struct decays decays;
    float *shifts; /* of the lse of a block's part, owned; NULL: the list has no decays */
    struct carried carried[CARRIED];
    struct slot slots[SLOTS];
    struct join_rows rows[HALVES];
    int32_t *starts; /* packed sequences: in a block, owned */
    MPI_Request requests[2 * CARRIED];
    int request_count;
};

static struct log log_of(const clattn_mpi_plan *plan)
{
    return (struct log){rank_log, plan->context};
}

static void block_of(const struct ring *ring, int rank, int64_t *first, int64_t *count)
{
    const int64_t total = ring->part->total;

    part_of(rank, ring->plan->context->ranks, total, token_unit(ring->plan, total), first, count);
}

static int has_decays(const clattn_mpi_plan *plan)
{
    return plan->local.rule != CLATTN_SOFTMAX_ATTN;
}

/* ---- Plans -------------------------------------------------------------------------------------------------------- */

/* The kernels of the part of a half's own block, which has the sink, and of blocks before it. */
clattn_status ring_create(clattn_mpi_plan *plan)
{
    const struct log log = log_of(plan);
    clattn_plan_desc before = plan->local;
    cl_context cl;
    cl_device_id device;

    before.flags = (before.flags & ~CLATTN_WITH_SINK) | (has_decays(plan) ? CLATTN_KEYS_BEFORE : CLATTN_NONCAUSAL);
    TRY(note_failure(plan->context, clattn_plan_create(&plan->before, plan->context->local, &before),
                     "no plan for the keys of other ranks"));
    TRY(note_failure(plan->context, join_create(&plan->join, plan->context->local, plan->local.dtype, &log),
                     "no kernels that join parts"));
    TRY(clattn_context_get(plan->context->local, &cl, &device));
    return note_failure(plan->context, opencl_create_queue(&log, opencl_get(), cl, device, 0, &plan->transfers),
                        "no queue for keys");
}

void ring_destroy(clattn_mpi_plan *plan)
{
    clattn_plan_destroy(plan->before);
    join_destroy(&plan->join);
    if (plan->transfers != NULL)
        opencl_get()->ReleaseCommandQueue(plan->transfers);
}

size_t ring_rooms(const clattn_mpi_plan *plan)
{
    const clattn_plan_desc *desc = &plan->local;
    const size_t q = room_of(operand_bytes(desc, CLATTN_Q)), o = room_of(operand_bytes(desc, CLATTN_O)),
                 logs = room_of(operand_bytes(desc, CLATTN_LSE)),
                 block = room_of(operand_bytes(desc, CLATTN_K)) + room_of(operand_bytes(desc, CLATTN_V)) +
                         room_of(operand_bytes(desc, CLATTN_G)),
                 starts = room_of(operand_bytes(desc, CLATTN_SEQLENS)),
                 sum = room_of(operand_bytes(desc, CLATTN_LSE) * (size_t)desc->value_dim);

    return HALVES * (q + o + 2 * logs + sum + starts) + o + logs + SLOTS * (block + HALVES * (starts + logs)) +
           room_of(operand_bytes(desc, CLATTN_SINK));
}

/* ---- Before the exchange ------------------------------------------------------------------------------------------ */

/* A call from host memory gets a queue and a workspace. */
static clattn_status open_own(struct ring *ring)
{
    const struct log log = log_of(ring->plan);
    clattn_call *call = &ring->part->call;
    cl_context cl;
    cl_device_id device;

    TRY(clattn_context_get(ring->plan->context->local, &cl, &device));
    TRY(clattn_mpi_plan_workspace_size(ring->plan, &call->workspace_size));
    TRY(opencl_create_queue(&log, opencl_get(), cl, device, 0, &ring->own.queue));
    TRY(opencl_create_buffer(&log, opencl_get(), cl, CL_MEM_READ_WRITE, call->workspace_size, NULL, &call->workspace));
    ring->own.cl = opencl_get();
    ring->own.workspace = call->workspace;
    ring->own.room = plans_workspace(ring->plan);
    ring->part->device = &ring->own;
    return CLATTN_SUCCESS;
}

static void close_own(struct ring *ring)
{
    const struct opencl *cl = opencl_get();

    if (ring->own.queue == NULL)
        return;
    cl->Finish(ring->own.queue);
    if (ring->own.done != NULL)
        cl->ReleaseEvent(ring->own.done);
    if (ring->part->call.workspace != NULL)
        cl->ReleaseMemObject(ring->part->call.workspace);
    cl->ReleaseCommandQueue(ring->own.queue);
    ring->part->device = NULL;
}

static clattn_status no_memory(const struct ring *ring, const struct carried *carried)
{
    return note_failure(ring->plan->context, CLATTN_OUT_OF_MEMORY, "no memory for a block of %s", carried->info.name);
}

static clattn_status prepare_carried(struct ring *ring, int i)
{
    struct carried *carried = &ring->carried[i];
    const clattn_operand *operand = part_operand(ring->part, carried_ids[i]);
    const size_t batch = (size_t)ring->halves.batch;
    int64_t first, most = 0, count;
    size_t bytes;

    if (clattn_operand_describe(&ring->plan->local, carried_ids[i], &carried->info) != CLATTN_SUCCESS ||
        carried->info.rank == 0)
        return CLATTN_SUCCESS;
    carried->row = (size_t)row_of(&carried->info) * (size_t)carried->info.element_size;
    bytes = batch * (size_t)ring->part->count * carried->row;
    TRY(check_contiguous(ring->plan, ring->part, operand, &carried->info));
    if (bytes > 0 && (carried->own = part_view(ring->plan, ring->part, operand, bytes, &carried->copy)) == NULL)
        return ring->plan->context->trouble.status;
    for (int r = 0; r < ring->plan->context->ranks; r++) {
        block_of(ring, r, &first, &count);
        most = count > most ? count : most;
    }
    for (int s = 0; s < SLOTS; s++)
        if ((carried->coming[s] = pool_take(ring->plan, batch * (size_t)most * carried->row)) == NULL)
            return no_memory(ring, carried);
    return CLATTN_SUCCESS;
}

static clattn_status prepare_queues(struct ring *ring)
{
    const struct log log = log_of(ring->plan);
    struct device_call *device;

    if (ring->part->device == NULL)
        TRY(note_failure(ring->plan->context, open_own(ring), "no queue or workspace"));
    device = ring->part->device;
    ring->transfers = *device;
    ring->transfers.queue = ring->plan->transfers;
    TRY_CL(&log, device->cl, EnqueueMarkerWithWaitList, device->queue, device->n_wait,
           device->n_wait > 0 ? device->wait : NULL, &ring->begin);
    TRY_CL(&log, device->cl, Flush, device->queue);
    return CLATTN_SUCCESS;
}

static clattn_status prepare_shifts(struct ring *ring)
{
    const int64_t most = ring->halves.half[0].count > ring->halves.half[1].count ? ring->halves.half[0].count
                                                                                 : ring->halves.half[1].count;

    if (!has_decays(ring->plan))
        return CLATTN_SUCCESS;
    TRY(decays_prepare(&ring->decays, &ring->halves));
    ring->shifts = malloc(((size_t)(ring->halves.batch * most * ring->plan->local.heads) + 1) * sizeof *ring->shifts);
    return ring->shifts != NULL ? CLATTN_SUCCESS
                                : note_failure(ring->plan->context, CLATTN_OUT_OF_MEMORY, "no memory for decays");
}

static clattn_status prepare(struct ring *ring)
{
    clattn_mpi_context *context = ring->plan->context;

    TRY(note_failure(context, prepare_queues(ring), "no queue for keys"));
    TRY(halves_prepare(&ring->halves, ring->plan, ring->part));
    TRY(prepare_shifts(ring));
    for (int i = 0; i < CARRIED; i++)
        TRY(prepare_carried(ring, i));
    ring->starts = malloc(((size_t)ring->part->sequences + 1) * sizeof *ring->starts);
    return ring->starts != NULL ? CLATTN_SUCCESS
                                : note_failure(context, CLATTN_OUT_OF_MEMORY, "no memory for the starts of sequences");
}

/* ---- Rooms -------------------------------------------------------------------------------------------------------- */

static size_t take_room(struct ring *ring, size_t bytes)
{
    struct device_call *device = ring->part->device;
    const size_t at = device->room;

    device->room += room_of(bytes);
    return at;
}

static void set_operand(struct part *part, clattn_operand_id id, size_t room, size_t bytes)
{
    part_drop(part, id);
    part->operands[part->operand_count++] =
        (clattn_operand){.id = id, .buffer = part->device->workspace, .offset = room, .size = bytes};
}

static clattn_status bind_half(struct ring *ring, int h)
{
    const struct traded *q = &ring->halves.traded[TRADED_Q], *o = &ring->halves.traded[TRADED_O];
    struct half *half = &ring->halves.half[h];
    const size_t tokens = (size_t)(ring->halves.batch * half->count);
    struct join_rows *rows = &ring->rows[h];
    const int64_t columns = o->info.dims[o->info.rank - 1];

    half->part = *ring->part;
    TRY(part_place(ring->plan, &half->part, half->first, half->count));
    TRY(part_put(ring->plan, &half->part, CLATTN_Q, q->of[h], tokens * q->row));
    *rows = (struct join_rows){.rows = (int64_t)tokens * row_of(&o->info) / columns, .columns = columns};
    rows->sum = take_room(ring, (size_t)(rows->rows * columns) * sizeof(float));
    for (int i = 0; i < 2; i++)
        rows->logs[i] = take_room(ring, (size_t)rows->rows * sizeof(float));
    rows->output = take_room(ring, tokens * o->row);
    return CLATTN_SUCCESS;
}

/* Parts of both halves come one after the other, in the same room. */
static void place_parts(struct ring *ring)
{
    const int larger = ring->rows[1].rows > ring->rows[0].rows;
    const struct join_rows *rows = &ring->rows[larger];
    const size_t part = take_room(ring, (size_t)(ring->halves.batch * ring->halves.half[larger].count) *
                                            ring->halves.traded[TRADED_O].row),
                 logs = take_room(ring, (size_t)rows->rows * sizeof(float));

    for (int h = 0; h < HALVES; h++) {
        ring->rows[h].part = part;
        ring->rows[h].part_logs = logs;
    }
}

static clattn_status bind(struct ring *ring)
{
    const clattn_operand *sink = part_operand(ring->part, CLATTN_SINK);
    const clattn_plan_desc *local = &ring->plan->local;

    if (sink != NULL && sink->host != NULL)
        TRY(part_put(ring->plan, ring->part, CLATTN_SINK, (char *)sink->host + sink->offset,
                     operand_bytes(local, CLATTN_SINK)));
    for (int h = 0; h < HALVES; h++)
        if (ring->halves.half[h].count > 0)
            TRY(bind_half(ring, h));
    place_parts(ring);
    for (int s = 0; s < SLOTS; s++) {
        for (int i = 0; i < CARRIED; i++)
            ring->slots[s].room[i] = take_room(ring, operand_bytes(local, carried_ids[i]));
        for (int h = 0; h < HALVES; h++) {
            ring->slots[s].starts[h] = take_room(ring, operand_bytes(local, CLATTN_SEQLENS));
            ring->slots[s].shifts[h] =
                has_decays(ring->plan) ? take_room(ring, operand_bytes(local, CLATTN_LSE)) : NO_SHIFTS;
        }
    }
    return CLATTN_SUCCESS;
}

/* ---- Messages ----------------------------------------------------------------------------------------------------- */

/* The block that is with this rank at that step is another rank's. */
static int owner_at(const struct ring *ring, int step)
{
    const int ranks = ring->plan->context->ranks;

    return (ring->plan->context->rank + ranks - step % ranks) % ranks;
}

static const void *block_at(const struct ring *ring, int i, int step)
{
    return step == 0 ? ring->carried[i].own : ring->carried[i].coming[step % SLOTS];
}

/* The block of this step goes to the next rank while that of the next step comes. */
static clattn_status start_messages(struct ring *ring, int step)
{
    clattn_mpi_context *context = ring->plan->context;
    const int next = (context->rank + 1) % context->ranks,
              before = (context->rank + context->ranks - 1) % context->ranks;
    int64_t first, leaving, coming;

    ring->request_count = 0;
    block_of(ring, owner_at(ring, step), &first, &leaving);
    block_of(ring, owner_at(ring, step + 1), &first, &coming);
    for (int i = 0; i < CARRIED; i++) {
        struct carried *carried = &ring->carried[i];
        if (carried->row == 0)
            continue;
        TRY(note_mpi(context,
                     MPI_Irecv(carried->coming[(step + 1) % SLOTS], (int)(coming * ring->halves.batch), carried->rows,
                               before, i, context->comm, &ring->requests[ring->request_count++]),
                     "MPI_Irecv"));
        TRY(note_mpi(context,
                     MPI_Isend(block_at(ring, i, step), (int)(leaving * ring->halves.batch), carried->rows, next, i,
                               context->comm, &ring->requests[ring->request_count++]),
                     "MPI_Isend"));
    }
    return CLATTN_SUCCESS;
}

static void end_messages(struct ring *ring)
{
    note_mpi(ring->plan->context, MPI_Waitall(ring->request_count, ring->requests, MPI_STATUSES_IGNORE), "MPI_Waitall");
    ring->request_count = 0;
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------- */

static int reads_block(const struct ring *ring, int h, int owner)
{
    const struct half *half = &ring->halves.half[h];

    return half->count > 0 && half->number / HALVES >= owner;
}

/* Of the block's keys, those that a half may read: up to its end. */
static int64_t keys_of(const struct ring *ring, int h, int owner)
{
    const struct half *half = &ring->halves.half[h];
    int64_t first, count;

    block_of(ring, owner, &first, &count);
    return half->first + half->count < first + count ? half->first + half->count - first : count;
}

static clattn_status put_starts(struct ring *ring, struct slot *slot, int h, int owner)
{
    const int64_t keys = keys_of(ring, h, owner);
    struct part part = *ring->part;
    int64_t first, count;

    if (part.starts == NULL)
        return CLATTN_SUCCESS;
    block_of(ring, owner, &first, &count);
    for (int64_t n = 0; n <= part.sequences; n++) {
        const int64_t start = part.starts[n] - first;
        ring->starts[n] = (int32_t)(start < 0 ? 0 : start > keys ? keys : start);
    }
    part.device = &ring->transfers;
    ring->transfers.room = slot->starts[h];
    return part_put(ring->plan, &part, CLATTN_SEQLENS_KV, ring->starts,
                    ((size_t)part.sequences + 1) * sizeof *ring->starts);
}

static int has_own_block(const struct ring *ring, int h, int owner)
{
    return ring->halves.half[h].number / HALVES == owner;
}

/* Decays between a block and the queries after it */
static clattn_status put_shifts(struct ring *ring, struct part *part, const struct slot *slot, int h, int owner)
{
    const clattn_operand room = {.buffer = ring->transfers.workspace, .offset = slot->shifts[h]};

    if (!has_decays(ring->plan) || has_own_block(ring, h, owner))
        return CLATTN_SUCCESS;
    decays_between(&ring->decays, h, owner, ring->shifts);
    return part_write(ring->plan, part, &room, (size_t)ring->rows[h].rows * sizeof *ring->shifts, ring->shifts);
}

/* The slot may be read until what was enqueued for the block before the last is done. */
static clattn_status put_block(struct ring *ring, int step)
{
    struct slot *slot = &ring->slots[step % SLOTS];
    const int owner = owner_at(ring, step);
    struct part part = *ring->part;
    int64_t first, count;

    block_of(ring, owner, &first, &count);
    ring->transfers.n_wait = 1;
    ring->transfers.wait = slot->used != NULL ? &slot->used : &ring->begin;
    part.device = &ring->transfers;
    for (int i = 0; i < CARRIED; i++) {
        if (ring->carried[i].row == 0)
            continue;
        ring->transfers.room = slot->room[i];
        TRY(part_put(ring->plan, &part, carried_ids[i], (void *)(size_t)block_at(ring, i, step),
                     (size_t)(count * ring->halves.batch) * ring->carried[i].row));
    }
    for (int h = 0; h < HALVES; h++)
        if (reads_block(ring, h, owner)) {
            TRY(put_starts(ring, slot, h, owner));
            TRY(put_shifts(ring, &part, slot, h, owner));
        }
    return CLATTN_SUCCESS;
}

static void bind_block(struct ring *ring, struct part *part, int h, int step)
{
    const struct slot *slot = &ring->slots[step % SLOTS];
    const struct join_rows *rows = &ring->rows[h];
    const int owner = owner_at(ring, step);
    int64_t first, count;

    block_of(ring, owner, &first, &count);
    *part = ring->halves.half[h].part;
    part->call.kv_len = keys_of(ring, h, owner);
    set_operand(part, CLATTN_O, rows->part, 0);
    set_operand(part, CLATTN_LSE, rows->part_logs, 0);
    for (int i = 0; i < CARRIED; i++) {
        if (ring->carried[i].row == 0)
            continue;
        set_operand(part, carried_ids[i], slot->room[i], (size_t)(count * ring->halves.batch) * ring->carried[i].row);
        list_strides(part_operand(part, carried_ids[i]), &ring->carried[i].info, count);
    }
    if (part->starts != NULL)
        set_operand(part, CLATTN_SEQLENS_KV, slot->starts[h], ((size_t)part->sequences + 1) * sizeof *ring->starts);
}

static clattn_status attend(struct ring *ring, int h, int step)
{
    clattn_mpi_plan *plan = ring->plan;
    struct device_call *device = ring->part->device;
    const int is_own = has_own_block(ring, h, owner_at(ring, step));
    const struct log log = log_of(plan);
    struct part part;

    bind_block(ring, &part, h, step);
    if (!is_own)
        part_drop(&part, CLATTN_SINK);
    ring->rows[h].shifts = is_own ? NO_SHIFTS : ring->slots[step % SLOTS].shifts[h];
    TRY(note_failure(plan->context, part_compute(is_own ? plan->run : plan->before, &part), "the run failed"));
    return note_failure(plan->context,
                        join_add(&plan->join, &ring->rows[h], device->queue, device->workspace, &log, &device->done),
                        "parts are not joined");
}

static clattn_status mark_used(struct ring *ring, struct slot *slot)
{
    const struct log log = log_of(ring->plan);
    struct device_call *device = ring->part->device;

    if (slot->used != NULL)
        device->cl->ReleaseEvent(slot->used);
    slot->used = NULL;
    TRY_CL(&log, device->cl, EnqueueMarkerWithWaitList, device->queue, 1, &device->done, &slot->used);
    TRY_CL(&log, device->cl, Flush, device->queue);
    return CLATTN_SUCCESS;
}

static clattn_status read_block(struct ring *ring, int step)
{
    const int owner = owner_at(ring, step);
    int64_t first, count;

    block_of(ring, owner, &first, &count);
    if (count == 0 || (!reads_block(ring, 0, owner) && !reads_block(ring, 1, owner)))
        return CLATTN_SUCCESS;
    TRY(put_block(ring, step));
    for (int h = 0; h < HALVES; h++)
        if (reads_block(ring, h, owner))
            TRY(attend(ring, h, step));
    return note_failure(ring->plan->context, mark_used(ring, &ring->slots[step % SLOTS]), "no event of a block");
}

/* Whatever fails on this rank, the others' blocks pass. */
static clattn_status walk(struct ring *ring)
{
    const clattn_mpi_context *context = ring->plan->context;

    for (int step = 0; step < context->ranks; step++) {
        if (step + 1 < context->ranks)
            start_messages(ring, step);
        if (context->trouble.status == CLATTN_SUCCESS)
            read_block(ring, step);
        end_messages(ring);
    }
    return CLATTN_SUCCESS;
}

/* ---- Outputs ------------------------------------------------------------------------------------------------------ */

static clattn_status read_half(struct ring *ring, int h)
{
    clattn_mpi_plan *plan = ring->plan;
    struct device_call *device = ring->part->device;
    const struct traded *o = &ring->halves.traded[TRADED_O], *lse = &ring->halves.traded[TRADED_LSE];
    const size_t tokens = (size_t)(ring->halves.batch * ring->halves.half[h].count);
    const clattn_operand output = {.buffer = device->workspace, .offset = ring->rows[h].output},
                         logs = {.buffer = device->workspace, .offset = join_logs(&ring->rows[h])};
    const struct log log = log_of(plan);

    TRY(note_failure(plan->context,
                     join_end(&plan->join, &ring->rows[h], device->queue, device->workspace, &log, &device->done),
                     "parts are not joined"));
    TRY(part_read(plan, ring->part, &output, tokens * o->row, o->of[h]));
    return lse->row > 0 ? part_read(plan, ring->part, &logs, tokens * lse->row, lse->of[h]) : CLATTN_SUCCESS;
}

static clattn_status compute(struct ring *ring)
{
    clattn_mpi_context *context = ring->plan->context;

    for (int i = 0; i < CARRIED; i++) {
        if (ring->carried[i].row == 0)
            continue;
        TRY(note_mpi(context, MPI_Type_contiguous((int)ring->carried[i].row, MPI_BYTE, &ring->carried[i].rows),
                     "MPI_Type_contiguous"));
        MPI_Type_commit(&ring->carried[i].rows);
    }
    halves_send(&ring->halves);
    if (has_decays(ring->plan))
        decays_share(&ring->decays);
    if (context->trouble.status == CLATTN_SUCCESS)
        bind(ring);
    walk(ring);
    for (int h = 0; h < HALVES && context->trouble.status == CLATTN_SUCCESS; h++)
        if (ring->halves.half[h].count > 0)
            read_half(ring, h);
    TRY(agree(context));
    halves_return(&ring->halves);
    return CLATTN_SUCCESS;
}

static void end(struct ring *ring)
{
    const struct opencl *cl = opencl_get();

    for (int s = 0; s < SLOTS; s++)
        if (ring->slots[s].used != NULL)
            cl->ReleaseEvent(ring->slots[s].used);
    if (ring->begin != NULL)
        cl->ReleaseEvent(ring->begin);
    for (int i = 0; i < CARRIED; i++) {
        struct carried *carried = &ring->carried[i];
        pool_give(ring->plan, carried->copy);
        for (int s = 0; s < SLOTS; s++)
            pool_give(ring->plan, carried->coming[s]);
        if (carried->rows != MPI_DATATYPE_NULL)
            MPI_Type_free(&carried->rows);
    }
    free(ring->starts);
    free(ring->shifts);
    decays_free(&ring->decays);
    halves_free(&ring->halves);
    close_own(ring);
}

clattn_status run_ring(clattn_mpi_plan *plan, struct part *part)
{
    struct ring ring = {.plan = plan, .part = part};
    clattn_status status;

    for (int i = 0; i < CARRIED; i++)
        ring.carried[i].rows = MPI_DATATYPE_NULL;

    prepare(&ring);
    status = agree(plan->context);
    if (status == CLATTN_SUCCESS)
        status = compute(&ring);
    end(&ring);
    return status;
}
