/* Tokens of a list are cut: each rank gets the keys and values of all, and the queries that it computes read those up to
 * their own. */
#include "mpi/halves.h"

#include <limits.h>
#include <stdlib.h>

static const clattn_operand_id gathered_ids[] = {CLATTN_K, CLATTN_V, CLATTN_G};
enum { GATHERED = sizeof gathered_ids / sizeof *gathered_ids };

struct keys {
    clattn_mpi_plan *plan;
    struct part *part;
    void *memory[GATHERED]; /* NULL: the rule has no such operand */
    size_t bytes[GATHERED];
    const void *own[GATHERED];           /* this rank's, on the host; NULL: it has none */
    void *copies[GATHERED];              /* of those in buffers, owned */
    clattn_operand_info infos[GATHERED]; /* [B,TK,H,…] */
    int *counts, *firsts;                /* tokens of the ranks */
    struct halves halves;                /* of a plan that trades */
};

int64_t row_of(const clattn_operand_info *info)
{
    int64_t row = 1;

    for (int i = 2; i < info->rank; i++)
        row *= info->dims[i];
    return row;
}

clattn_status check_contiguous(const clattn_mpi_plan *plan, const struct part *part, const clattn_operand *operand,
                               const clattn_operand_info *info)
{
    clattn_mpi_context *context = plan->context;

    if (part->count > 0 && !has_memory(part, operand))
        return note_failure(context, CLATTN_INVALID_OPERAND, "%s is missing", info->name);
    if (operand != NULL && (operand->batch_stride != 0 || operand->token_stride != 0 || operand->head_stride != 0))
        return note_failure(context, CLATTN_INVALID_OPERAND, "%s has strides, expected a contiguous tensor of a list",
                            info->name);
    return CLATTN_SUCCESS;
}

void list_strides(clattn_operand *operand, const clattn_operand_info *info, int64_t tokens)
{
    operand->token_stride = row_of(info);
    operand->batch_stride = tokens * operand->token_stride;
    operand->head_stride = info->rank > 3 ? info->dims[3] : 1;
}

static clattn_status allocate(struct keys *keys, int i)
{
    const int64_t tokens = keys->part->sequences > 0 ? keys->part->total : 0, batch = keys->plan->whole.batch;
    const size_t bytes = (size_t)(batch * tokens * row_of(&keys->infos[i])) * (size_t)keys->infos[i].element_size;

    keys->bytes[i] = bytes;
    keys->memory[i] = pool_take(keys->plan, bytes);
    return keys->memory[i] != NULL
               ? CLATTN_SUCCESS
               : note_failure(keys->plan->context, CLATTN_OUT_OF_MEMORY, "no memory for %s of all ranks, %zu bytes",
                              keys->infos[i].name, bytes);
}

/* This rank's own rows. */
static clattn_status view_own(struct keys *keys, int i)
{
    const clattn_operand *operand = part_operand(keys->part, gathered_ids[i]);
    const int64_t rows = keys->part->total > 0 ? keys->part->count : 0;
    const size_t bytes = keys->part->total > 0 ? keys->bytes[i] / (size_t)keys->part->total * (size_t)rows : 0;

    if (bytes == 0)
        return CLATTN_SUCCESS;
    keys->own[i] = part_view(keys->plan, keys->part, operand, bytes, &keys->copies[i]);
    return keys->own[i] != NULL ? CLATTN_SUCCESS : keys->plan->context->trouble.status;
}

/* Every rank's tokens: their own parts are what each says. */
static clattn_status prepare(struct keys *keys)
{
    clattn_mpi_context *context = keys->plan->context;

    if (keys->part->total > INT_MAX)
        return note_failure(context, CLATTN_UNSUPPORTED, "%lld keys, expected up to %d", (long long)keys->part->total,
                            INT_MAX);
    keys->counts = calloc(2 * (size_t)context->ranks, sizeof *keys->counts);
    if (keys->counts == NULL)
        return note_failure(context, CLATTN_OUT_OF_MEMORY, "no memory for the parts of %d ranks", context->ranks);
    keys->firsts = keys->counts + context->ranks;
    for (int i = 0; i < GATHERED; i++) {
        if (clattn_operand_describe(&keys->plan->local, gathered_ids[i], &keys->infos[i]) != CLATTN_SUCCESS ||
            keys->infos[i].rank == 0)
            continue;
        TRY(check_contiguous(keys->plan, keys->part, part_operand(keys->part, gathered_ids[i]), &keys->infos[i]));
        TRY(allocate(keys, i));
        TRY(view_own(keys, i));
    }
    return keys->plan->trades ? halves_prepare(&keys->halves, keys->plan, keys->part) : CLATTN_SUCCESS;
}

static clattn_status share_counts(struct keys *keys)
{
    clattn_mpi_context *context = keys->plan->context;
    int count = (int)keys->part->count, first = (int)keys->part->first;

    TRY(note_mpi(context, MPI_Allgather(&count, 1, MPI_INT, keys->counts, 1, MPI_INT, context->comm), "MPI_Allgather"));
    return note_mpi(context, MPI_Allgather(&first, 1, MPI_INT, keys->firsts, 1, MPI_INT, context->comm),
                    "MPI_Allgather");
}

/* All ranks' rows of a batch element, and the next ones. */
static clattn_status gather_rows(struct keys *keys, int i, const char *from, size_t row)
{
    clattn_mpi_context *context = keys->plan->context;
    const int64_t batch = keys->plan->whole.flags & CLATTN_CU_SEQLENS ? 1 : keys->part->sequences;
    MPI_Datatype rows;

    TRY(note_mpi(context, MPI_Type_contiguous((int)row, MPI_BYTE, &rows), "MPI_Type_contiguous"));
    MPI_Type_commit(&rows);
    for (int64_t b = 0; b < batch; b++)
        note_mpi(context,
                 MPI_Allgatherv(from != NULL ? from + (size_t)(b * keys->part->count) * row : NULL,
                                (int)keys->part->count, rows,
                                (char *)keys->memory[i] + (size_t)(b * keys->part->total) * row, keys->counts,
                                keys->firsts, rows, context->comm),
                 "MPI_Allgatherv");
    MPI_Type_free(&rows);
    return CLATTN_SUCCESS;
}

static clattn_status bind(struct keys *keys)
{
    for (int i = 0; i < GATHERED; i++) {
        if (keys->memory[i] == NULL)
            continue;
        TRY(part_put(keys->plan, keys->part, gathered_ids[i], keys->memory[i], keys->bytes[i]));
        list_strides(part_operand(keys->part, gathered_ids[i]), &keys->infos[i], keys->part->total);
    }
    return CLATTN_SUCCESS;
}

static clattn_status bind_sequences(struct keys *keys)
{
    struct part *part = keys->part;
    const int noncausal = (keys->plan->whole.flags & CLATTN_NONCAUSAL) != 0;

    if (part->starts == NULL)
        return CLATTN_SUCCESS;
    for (int64_t n = 0; n <= part->sequences && noncausal; n++)
        part->local_keys[n] = (int32_t)part->starts[n];
    return part_put(keys->plan, part, CLATTN_SEQLENS_KV, part->local_keys,
                    ((size_t)part->sequences + 1) * sizeof *part->local_keys);
}

static clattn_status run(struct keys *keys)
{
    clattn_mpi_plan *plan = keys->plan;
    struct part *part = keys->part;

    if (part->count == 0)
        return CLATTN_SUCCESS;
    TRY(bind(keys));
    TRY(bind_sequences(keys));
    part->call.kv_len = plan->whole.flags & CLATTN_NONCAUSAL ? part->total : part->first + part->count;
    return note_failure(plan->context, part_compute(plan->run, part), "the run failed");
}

static clattn_status run_halves(struct keys *keys)
{
    TRY(bind(keys));
    return halves_run(&keys->halves);
}

static clattn_status gather_and_run(struct keys *keys)
{
    const int trades = keys->plan->trades;

    TRY(share_counts(keys));
    for (int i = 0; i < GATHERED; i++)
        if (keys->memory[i] != NULL)
            gather_rows(keys, i, keys->own[i], (size_t)row_of(&keys->infos[i]) * (size_t)keys->infos[i].element_size);
    if (trades)
        halves_send(&keys->halves);
    TRY(agree(keys->plan->context));
    if (!trades) {
        run(keys);
        return CLATTN_SUCCESS;
    }
    run_halves(keys);
    TRY(agree(keys->plan->context));
    halves_return(&keys->halves);
    return CLATTN_SUCCESS;
}

clattn_status run_keys(clattn_mpi_plan *plan, struct part *part)
{
    struct keys keys = {.plan = plan, .part = part};
    clattn_status status;

    prepare(&keys);
    status = agree(plan->context);
    if (status == CLATTN_SUCCESS)
        status = gather_and_run(&keys);
    for (int i = 0; i < GATHERED; i++) {
        pool_give(plan, keys.memory[i]);
        pool_give(plan, keys.copies[i]);
    }
    free(keys.counts);
    halves_free(&keys.halves);
    return status;
}
