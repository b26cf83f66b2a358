/* A call of this rank's plan, made from the whole's. */
#include "mpi/mpi.h"

#include <stdlib.h>
#include <string.h>

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

void part_put(struct part *part, clattn_operand_id id, void *host, size_t size)
{
    part_drop(part, id);
    part->operands[part->operand_count++] = (clattn_operand){.id = id, .host = host, .size = size};
}

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

static int64_t start_at(const clattn_mpi_plan *plan, const clattn_operand *cuts, int64_t n)
{
    const char *at = (const char *)cuts->host + cuts->offset;
    int64_t wide = 0;
    int32_t narrow = 0;

    if (plan->whole.flags & CLATTN_CU_SEQLENS_INT64)
        memcpy(&wide, at + n * 8, sizeof wide);
    else
        memcpy(&narrow, at + n * 4, sizeof narrow);
    return plan->whole.flags & CLATTN_CU_SEQLENS_INT64 ? wide : narrow;
}

static clattn_status read_starts(clattn_mpi_plan *plan, struct part *part)
{
    const clattn_operand *cuts = part_operand(part, CLATTN_SEQLENS);
    int64_t before = 0;

    if (cuts == NULL || cuts->host == NULL)
        return note_failure(plan->context, CLATTN_INVALID_OPERAND, "cu_seqlens is missing: every rank has all of it");
    for (int64_t n = 0; n <= part->sequences; n++) {
        const int64_t start = part->starts[n] = start_at(plan, cuts, n);
        if (start < before || start > part->total || (n == 0 && start != 0) ||
            (n == part->sequences && start != part->total))
            return note_failure(plan->context, CLATTN_INVALID_OPERAND,
                                "cu_seqlens[%lld] is %lld, expected %lld to the %lld tokens of all ranks", (long long)n,
                                (long long)start, (long long)before, (long long)part->total);
        before = start;
    }
    return CLATTN_SUCCESS;
}

/* Where each sequence begins within this rank's tokens, and within the keys up to them. */
static clattn_status cut_sequences(clattn_mpi_plan *plan, struct part *part)
{
    const size_t count = (size_t)part->sequences + 1;

    part->starts = malloc(count * sizeof *part->starts);
    part->local_starts = malloc(count * sizeof *part->local_starts);
    part->local_keys = malloc(count * sizeof *part->local_keys);
    if (part->starts == NULL || part->local_starts == NULL || part->local_keys == NULL)
        return note_failure(plan->context, CLATTN_OUT_OF_MEMORY, "no memory for %lld sequences",
                            (long long)part->sequences);
    TRY(read_starts(plan, part));
    for (size_t n = 0; n < count; n++) {
        part->local_starts[n] = (int32_t)lower(higher(part->starts[n] - part->first, 0), part->count);
        part->local_keys[n] = (int32_t)lower(part->starts[n], part->first + part->count);
    }
    part_put(part, CLATTN_SEQLENS, part->local_starts, count * sizeof *part->local_starts);
    return CLATTN_SUCCESS;
}

/* The position of each sequence's first token on this rank. */
static clattn_status add_positions(clattn_mpi_plan *plan, struct part *part)
{
    const clattn_operand *given = part_operand(part, CLATTN_POSITION);
    const int is_given = (plan->whole.flags & CLATTN_WITH_POSITION) != 0;

    if (is_given && (given == NULL || given->host == NULL))
        return note_failure(plan->context, CLATTN_INVALID_OPERAND, "position is missing: every rank has all of it");
    part->positions = malloc((size_t)part->sequences * sizeof *part->positions);
    if (part->positions == NULL)
        return note_failure(plan->context, CLATTN_OUT_OF_MEMORY, "no memory for %lld positions",
                            (long long)part->sequences);
    for (int64_t n = 0; n < part->sequences; n++) {
        int32_t before = 0;
        if (is_given)
            memcpy(&before, (const char *)given->host + given->offset + n * 4, sizeof before);
        part->positions[n] =
            before + (int32_t)(part->starts != NULL ? higher(part->first - part->starts[n], 0) : part->first);
    }
    part_put(part, CLATTN_POSITION, part->positions, (size_t)part->sequences * sizeof *part->positions);
    return CLATTN_SUCCESS;
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
    part->call.seq_len = part->count;
    if (packed)
        TRY(cut_sequences(plan, part));
    return plan->local.flags & CLATTN_WITH_POSITION ? add_positions(plan, part) : CLATTN_SUCCESS;
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
    free(part->local_starts);
    free(part->local_keys);
    free(part->positions);
}

/* Without any exchange */
static clattn_status run_alone(clattn_mpi_plan *plan, struct part *part)
{
    part->call.operands = part->operands;
    part->call.operand_count = part->operand_count;
    if (part->count > 0)
        note_failure(plan->context, clattn_run(plan->run, &part->call), "the run failed");
    return CLATTN_SUCCESS;
}

static clattn_status run_part(clattn_mpi_plan *plan, struct part *part)
{
    switch (plan->exchange) {
    case EXCHANGE_NOTHING: break;
    case EXCHANGE_STATES:
    case EXCHANGE_INPUTS: return run_states(plan, part);
    case EXCHANGE_KEYS: return run_keys(plan, part);
    }
    return run_alone(plan, part);
}

clattn_status clattn_mpi_run(clattn_mpi_plan *plan, const clattn_call *call)
{
    struct part part = {.count = 0};
    clattn_status status;

    if (plan == NULL)
        return CLATTN_INVALID_ARGUMENT;
    cut(plan, &part, call);
    status = agree(plan->context);
    if (status == CLATTN_SUCCESS)
        status = run_part(plan, &part);
    if (status == CLATTN_SUCCESS)
        status = agree(plan->context);
    free_part(&part);
    return status;
}
