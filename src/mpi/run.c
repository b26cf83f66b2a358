/* A call of this rank's plan, made from the whole's. */
#include "mpi/mpi.h"

#include <stdlib.h>
#include <string.h>

int is_first(const clattn_mpi_plan *plan)
{
    const int reversed = (plan->whole.flags & CLATTN_REVERSED) != 0;

    return plan->context->rank == (reversed ? plan->context->ranks - 1 : 0);
}

int is_last(const clattn_mpi_plan *plan)
{
    const int reversed = (plan->whole.flags & CLATTN_REVERSED) != 0;

    return plan->context->rank == (reversed ? 0 : plan->context->ranks - 1);
}

static int64_t lower(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t higher(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- Packed sequences --------------------------------------------------------------------------------------------- */

static int64_t start_at(const clattn_mpi_plan *plan, const void *cuts, int64_t n)
{
    const char *at = cuts;
    int64_t wide = 0;
    int32_t narrow = 0;

    if (plan->whole.flags & CLATTN_CU_SEQLENS_INT64)
        memcpy(&wide, at + n * 8, sizeof wide);
    else
        memcpy(&narrow, at + n * 4, sizeof narrow);
    return plan->whole.flags & CLATTN_CU_SEQLENS_INT64 ? wide : narrow;
}

static clattn_status check_starts(clattn_mpi_plan *plan, const struct part *part)
{
    int64_t before = 0;

    for (int64_t n = 0; n <= part->sequences; n++) {
        const int64_t start = part->starts[n];
        if (start < before || start > part->total || (n == 0 && start != 0) ||
            (n == part->sequences && start != part->total))
            return note_failure(plan->context, CLATTN_INVALID_OPERAND,
                                "cu_seqlens[%lld] is %lld, expected %lld to the %lld tokens of all ranks", (long long)n,
                                (long long)start, (long long)before, (long long)part->total);
        before = start;
    }
    return CLATTN_SUCCESS;
}

static clattn_status read_starts(clattn_mpi_plan *plan, struct part *part)
{
    const clattn_operand *cuts = part_operand(part, CLATTN_SEQLENS);
    const size_t size = plan->whole.flags & CLATTN_CU_SEQLENS_INT64 ? 8 : 4;
    const void *at;
    void *copy;

    if (cuts == NULL || (cuts->host == NULL && !has_memory(part, cuts)))
        return note_failure(plan->context, CLATTN_INVALID_OPERAND, "cu_seqlens is missing: every rank has all of it");
    at = part_view(plan, part, cuts, ((size_t)part->sequences + 1) * size, &copy);
    if (at == NULL)
        return plan->context->trouble.status;
    for (int64_t n = 0; n <= part->sequences; n++)
        part->starts[n] = start_at(plan, at, n);
    pool_give(plan, copy);
    return check_starts(plan, part);
}

static clattn_status no_memory_for_sequences(clattn_mpi_plan *plan, const struct part *part)
{
    return note_failure(plan->context, CLATTN_OUT_OF_MEMORY, "no memory for %lld sequences",
                        (long long)part->sequences);
}

static clattn_status cut_sequences(clattn_mpi_plan *plan, struct part *part)
{
    part->starts = malloc(((size_t)part->sequences + 1) * sizeof *part->starts);
    return part->starts != NULL ? read_starts(plan, part) : no_memory_for_sequences(plan, part);
}

/* Where each sequence begins within the tokens, and within the keys up to them. */
static clattn_status place_sequences(clattn_mpi_plan *plan, struct part *part, int64_t first, int64_t count)
{
    const size_t entries = (size_t)part->sequences + 1;

    part->local_starts = malloc(entries * sizeof *part->local_starts);
    part->local_keys = malloc(entries * sizeof *part->local_keys);
    if (part->local_starts == NULL || part->local_keys == NULL)
        return no_memory_for_sequences(plan, part);
    for (size_t n = 0; n < entries; n++) {
        part->local_starts[n] = (int32_t)lower(higher(part->starts[n] - first, 0), count);
        part->local_keys[n] = (int32_t)lower(part->starts[n], first + count);
    }
    return part_put(plan, part, CLATTN_SEQLENS, part->local_starts, entries * sizeof *part->local_starts);
}

/* The positions that the caller gives, or 0. */
static clattn_status read_positions(clattn_mpi_plan *plan, struct part *part)
{
    const clattn_operand *given = part_operand(part, CLATTN_POSITION);
    const size_t bytes = (size_t)part->sequences * sizeof *part->positions;

    part->positions = calloc(1, bytes + 1);
    if (part->positions == NULL)
        return note_failure(plan->context, CLATTN_OUT_OF_MEMORY, "no memory for %lld positions",
                            (long long)part->sequences);
    if (!(plan->whole.flags & CLATTN_WITH_POSITION))
        return CLATTN_SUCCESS;
    if (given == NULL || (given->host == NULL && !has_memory(part, given)))
        return note_failure(plan->context, CLATTN_INVALID_OPERAND, "position is missing: every rank has all of it");
    return part_read(plan, part, given, bytes, part->positions);
}

/* The position of each sequence's first of the tokens. */
static clattn_status place_positions(clattn_mpi_plan *plan, struct part *part, int64_t first)
{
    TRY(read_positions(plan, part));
    for (int64_t n = 0; n < part->sequences; n++)
        part->positions[n] += (int32_t)(part->starts != NULL ? higher(first - part->starts[n], 0) : first);
    return part_put(plan, part, CLATTN_POSITION, part->positions, (size_t)part->sequences * sizeof *part->positions);
}

clattn_status part_place(clattn_mpi_plan *plan, struct part *part, int64_t first, int64_t count)
{
    part->call.seq_len = count;
    if (part->starts != NULL)
        TRY(place_sequences(plan, part, first, count));
    return plan->local.flags & CLATTN_WITH_POSITION ? place_positions(plan, part, first) : CLATTN_SUCCESS;
}

void part_displace(struct part *part)
{
    free(part->local_starts);
    free(part->local_keys);
    free(part->positions);
    part->local_starts = part->local_keys = part->positions = NULL;
}

/* ---- The part of a call ------------------------------------------------------------------------------------------- */

static clattn_status cut_tokens(clattn_mpi_plan *plan, struct part *part, const clattn_call *call)
{
    const clattn_plan_desc *whole = &plan->whole;
    const int packed = (whole->flags & CLATTN_CU_SEQLENS) != 0;

    part->total = call->seq_len == CLATTN_WHOLE ? whole->seq_len : call->seq_len;
    part->call.batch = call->batch;
    part->call.sequences = call->sequences;
    part->sequences = packed ? (call->sequences != 0 ? call->sequences : whole->sequences)
                             : (call->batch != 0 ? call->batch : whole->batch);
    if (part->total < 0 || part->total > whole->seq_len || part->sequences < 0 ||
        part->sequences > (packed ? whole->sequences : whole->batch))
        return note_failure(plan->context, CLATTN_INVALID_OPERAND,
                            "a call of %lld tokens and %lld sequences: the plan has up to %lld and %lld",
                            (long long)part->total, (long long)part->sequences, (long long)whole->seq_len,
                            (long long)(packed ? whole->sequences : whole->batch));
    clattn_mpi_plan_local(plan, part->total, &part->first, &part->count);
    if (packed)
        TRY(cut_sequences(plan, part));
    return plan->trades ? CLATTN_SUCCESS : part_place(plan, part, part->first, part->count);
}

static clattn_status cut(clattn_mpi_plan *plan, struct part *part, const clattn_call *call)
{
    enum { ROOM = 8 }; /* for operands that the library adds */

    if (call == NULL || (call->operands == NULL && call->operand_count > 0))
        return note_failure(plan->context, CLATTN_INVALID_ARGUMENT, "the call or its operands are NULL");
    if (call->operand_count > MOST_OPERANDS - ROOM)
        return note_failure(plan->context, CLATTN_INVALID_OPERAND, "%zu operands, expected up to %d",
                            call->operand_count, MOST_OPERANDS - ROOM);
    part->call = *call;
    if (call->operand_count > 0)
        memcpy(part->operands, call->operands, call->operand_count * sizeof *part->operands);
    part->operand_count = call->operand_count;
    if (plan->split == CLATTN_MPI_TOKENS)
        return cut_tokens(plan, part, call);
    if (plan->split == CLATTN_MPI_BATCH) {
        clattn_mpi_plan_local(plan, call->batch, &part->first, &part->count);
        part->call.batch = part->count;
    } else
        part->count = plan->local.heads;
    return CLATTN_SUCCESS;
}

static void free_part(struct part *part)
{
    free(part->starts);
    part_displace(part);
}

/* Without any exchange */
static clattn_status run_alone(clattn_mpi_plan *plan, struct part *part)
{
    if (part->count > 0)
        note_failure(plan->context, part_compute(plan->run, part), "the run failed");
    return CLATTN_SUCCESS;
}

static clattn_status run_part(clattn_mpi_plan *plan, struct part *part)
{
    switch (plan->exchange) {
    case EXCHANGE_NOTHING: break;
    case EXCHANGE_STATES:
    case EXCHANGE_INPUTS: return run_states(plan, part);
    case EXCHANGE_KEYS: return run_keys(plan, part);
    case EXCHANGE_RING: return run_ring(plan, part);
    }
    return run_alone(plan, part);
}

static clattn_status compute(clattn_mpi_plan *plan, struct part *part, const clattn_call *call)
{
    clattn_status status;

    if (plan->context->trouble.status == CLATTN_SUCCESS)
        cut(plan, part, call);
    status = agree(plan->context);
    if (status == CLATTN_SUCCESS)
        status = run_part(plan, part);
    if (status == CLATTN_SUCCESS)
        status = agree(plan->context);
    free_part(part);
    return status;
}

clattn_status clattn_mpi_run(clattn_mpi_plan *plan, const clattn_call *call)
{
    struct part part = {.device = NULL};

    return plan != NULL ? compute(plan, &part, call) : CLATTN_INVALID_ARGUMENT;
}

clattn_status clattn_mpi_enqueue(clattn_mpi_plan *plan, cl_command_queue queue, const clattn_call *call,
                                 uint32_t n_wait, const cl_event *wait, cl_event *event)
{
    struct device_call device = {.queue = queue, .n_wait = n_wait, .wait = wait};
    struct part part = {.device = &device};

    if (event != NULL)
        *event = NULL;
    if (plan == NULL)
        return CLATTN_INVALID_ARGUMENT;
    device_begin(plan, &device, call);
    return device_end(plan, &device, compute(plan, &part, call), event);
}
