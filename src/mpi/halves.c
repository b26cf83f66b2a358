#include "mpi/halves.h"

static const clattn_operand_id traded_ids[TRADED] = {CLATTN_Q, CLATTN_G, CLATTN_O, CLATTN_LSE};

/* ---- Before the exchange ------------------------------------------------------------------------------------------ */

void halves_place(const struct halves *halves, int number, int64_t *first, int64_t *count)
{
    const int64_t total = halves->part->total;

    part_of(number, HALVES * halves->plan->context->ranks, total, token_unit(halves->plan, total), first, count);
}

/* Outputs are written to the caller's memory, or by way of a copy into its buffer. */
static clattn_status view_output(struct halves *halves, struct traded *traded, const clattn_operand *operand,
                                 size_t bytes)
{
    clattn_mpi_context *context = halves->plan->context;

    if (operand->size != 0 && operand->size < bytes)
        return note_failure(context, CLATTN_INVALID_OPERAND, "%s has %zu bytes, expected %zu", traded->info.name,
                            operand->size, bytes);
    if (operand->host != NULL) {
        traded->own = (char *)operand->host + operand->offset;
        return CLATTN_SUCCESS;
    }
    traded->own = traded->copy = pool_take(halves->plan, bytes);
    return traded->own != NULL
               ? CLATTN_SUCCESS
               : note_failure(context, CLATTN_OUT_OF_MEMORY, "no memory for %zu bytes of %s", bytes, traded->info.name);
}

static clattn_status view_own(struct halves *halves, struct traded *traded, clattn_operand_id id)
{
    const clattn_operand *operand = part_operand(halves->part, id);
    const size_t bytes = (size_t)(halves->batch * halves->part->count) * traded->row;

    TRY(check_contiguous(halves->plan, halves->part, operand, &traded->info));
    if (bytes == 0)
        return CLATTN_SUCCESS;
    if (traded->info.output)
        return view_output(halves, traded, operand, bytes);
    traded->own = (char *)(size_t)part_view(halves->plan, halves->part, operand, bytes, &traded->copy);
    return traded->own != NULL ? CLATTN_SUCCESS : halves->plan->context->trouble.status;
}

static clattn_status allocate(struct halves *halves, struct traded *traded)
{
    for (int h = 0; h < HALVES; h++) {
        const size_t bytes = (size_t)(halves->batch * halves->half[h].count) * traded->row;
        traded->of[h] = pool_take(halves->plan, bytes);
        if (traded->of[h] == NULL)
            return note_failure(halves->plan->context, CLATTN_OUT_OF_MEMORY, "no memory for %zu bytes of %s", bytes,
                                traded->info.name);
    }
    return CLATTN_SUCCESS;
}

clattn_status halves_prepare(struct halves *halves, clattn_mpi_plan *plan, struct part *part)
{
    const int rank = plan->context->rank, last = HALVES * plan->context->ranks - 1;

    *halves = (struct halves){.plan = plan, .part = part};
    halves->batch = plan->whole.flags & CLATTN_CU_SEQLENS ? 1 : part->sequences;
    for (int h = 0; h < HALVES; h++) {
        struct half *half = &halves->half[h];
        half->number = h == 0 ? rank : last - rank;
        halves_place(halves, half->number, &half->first, &half->count);
    }
    for (int i = 0; i < TRADED; i++) {
        struct traded *traded = &halves->traded[i];
        if (clattn_operand_describe(&plan->whole, traded_ids[i], &traded->info) != CLATTN_SUCCESS ||
            traded->info.rank == 0 || (i == TRADED_G && plan->exchange != EXCHANGE_RING))
            continue;
        traded->row = (size_t)row_of(&traded->info) * (size_t)traded->info.element_size;
        TRY(view_own(halves, traded, traded_ids[i]));
        TRY(allocate(halves, traded));
    }
    return CLATTN_SUCCESS;
}

/* ---- Exchange ----------------------------------------------------------------------------------------------------- */

/* Messages of an exchange: of the two halves that a rank has, and of the two that it computes. */
struct messages {
    MPI_Request requests[2 * HALVES];
    MPI_Datatype own[HALVES], rows;
    int count;
};

static int rank_of_half(const struct halves *halves, int number)
{
    const int ranks = halves->plan->context->ranks;

    return number < ranks ? number : HALVES * ranks - 1 - number;
}

static int message(struct messages *messages, int sends, void *at, int count, MPI_Datatype type, int rank, int number,
                   MPI_Comm comm)
{
    MPI_Request *request = &messages->requests[messages->count++];

    return sends ? MPI_Isend(at, count, type, rank, number, comm, request)
                 : MPI_Irecv(at, count, type, rank, number, comm, request);
}

/* Of the rank's own tokens, a half is a block of each batch element. */
static clattn_status start_own(struct halves *halves, const struct traded *traded, struct messages *messages, int h)
{
    clattn_mpi_context *context = halves->plan->context;
    const int number = HALVES * context->rank + h;
    int64_t first, count;

    halves_place(halves, number, &first, &count);
    messages->own[h] = MPI_DATATYPE_NULL;
    if (count * halves->batch == 0)
        return CLATTN_SUCCESS;
    TRY(note_mpi(
        context,
        MPI_Type_vector((int)halves->batch, (int)count, (int)halves->part->count, messages->rows, &messages->own[h]),
        "MPI_Type_vector"));
    MPI_Type_commit(&messages->own[h]);
    return note_mpi(context,
                    message(messages, !traded->info.output,
                            traded->own + (size_t)(first - halves->part->first) * traded->row, 1, messages->own[h],
                            rank_of_half(halves, number), number, context->comm),
                    "a message of its queries");
}

static clattn_status start_computed(struct halves *halves, const struct traded *traded, struct messages *messages,
                                    int h)
{
    clattn_mpi_context *context = halves->plan->context;
    const struct half *half = &halves->half[h];

    if (half->count * halves->batch == 0)
        return CLATTN_SUCCESS;
    return note_mpi(context,
                    message(messages, traded->info.output, traded->of[h], (int)(half->count * halves->batch),
                            messages->rows, half->number / HALVES, half->number, context->comm),
                    "a message of queries");
}

static clattn_status exchange(struct halves *halves, const struct traded *traded)
{
    clattn_mpi_context *context = halves->plan->context;
    struct messages messages = {.count = 0};

    TRY(note_mpi(context, MPI_Type_contiguous((int)traded->row, MPI_BYTE, &messages.rows), "MPI_Type_contiguous"));
    MPI_Type_commit(&messages.rows);
    for (int h = 0; h < HALVES; h++) {
        start_computed(halves, traded, &messages, h);
        start_own(halves, traded, &messages, h);
    }
    note_mpi(context, MPI_Waitall(messages.count, messages.requests, MPI_STATUSES_IGNORE), "MPI_Waitall");
    for (int h = 0; h < HALVES; h++)
        if (messages.own[h] != MPI_DATATYPE_NULL)
            MPI_Type_free(&messages.own[h]);
    MPI_Type_free(&messages.rows);
    return CLATTN_SUCCESS;
}

static clattn_status trade(struct halves *halves, int outputs)
{
    for (int i = 0; i < TRADED; i++)
        if (halves->traded[i].row > 0 && halves->traded[i].info.output == outputs)
            TRY(exchange(halves, &halves->traded[i]));
    return CLATTN_SUCCESS;
}

clattn_status halves_send(struct halves *halves)
{
    return trade(halves, 0);
}

clattn_status halves_return(struct halves *halves)
{
    TRY(trade(halves, 1));
    for (int i = 0; i < TRADED; i++) {
        const struct traded *traded = &halves->traded[i];
        const size_t bytes = (size_t)(halves->batch * halves->part->count) * traded->row;
        if (bytes > 0 && traded->info.output && traded->copy != NULL)
            TRY(part_write(halves->plan, halves->part, part_operand(halves->part, traded_ids[i]), bytes, traded->own));
    }
    return CLATTN_SUCCESS;
}

/* ---- Run ---------------------------------------------------------------------------------------------------------- */

static clattn_status bind(struct halves *halves, int h)
{
    struct half *half = &halves->half[h];

    half->part = *halves->part;
    TRY(part_place(halves->plan, &half->part, half->first, half->count));
    half->part.call.kv_len = half->first + half->count;
    if (half->part.starts != NULL)
        TRY(part_put(halves->plan, &half->part, CLATTN_SEQLENS_KV, half->part.local_keys,
                     ((size_t)half->part.sequences + 1) * sizeof *half->part.local_keys));
    for (int i = 0; i < TRADED; i++) {
        const struct traded *traded = &halves->traded[i];
        const size_t bytes = (size_t)(halves->batch * half->count) * traded->row;
        if (traded->row > 0)
            TRY((traded->info.output ? part_put_output : part_put)(halves->plan, &half->part, traded_ids[i],
                                                                   traded->of[h], bytes));
    }
    return CLATTN_SUCCESS;
}

static clattn_status read_outputs(struct halves *halves, int h)
{
    struct half *half = &halves->half[h];

    for (int i = 0; i < TRADED; i++) {
        const struct traded *traded = &halves->traded[i];
        if (traded->row > 0 && traded->info.output)
            TRY(part_read(halves->plan, &half->part, part_operand(&half->part, traded_ids[i]),
                          (size_t)(halves->batch * half->count) * traded->row, traded->of[h]));
    }
    return CLATTN_SUCCESS;
}

clattn_status halves_run(struct halves *halves)
{
    for (int h = 0; h < HALVES; h++)
        if (halves->half[h].count > 0)
            TRY(bind(halves, h));
    for (int h = 0; h < HALVES; h++)
        if (halves->half[h].count > 0)
            TRY(note_failure(halves->plan->context, part_compute(halves->plan->run, &halves->half[h].part),
                             "the run failed"));
    for (int h = 0; h < HALVES; h++)
        if (halves->half[h].count > 0)
            TRY(read_outputs(halves, h));
    return CLATTN_SUCCESS;
}

void halves_free(struct halves *halves)
{
    for (int i = 0; i < TRADED; i++) {
        pool_give(halves->plan, halves->traded[i].copy);
        for (int h = 0; h < HALVES; h++)
            pool_give(halves->plan, halves->traded[i].of[h]);
    }
    for (int h = 0; h < HALVES; h++)
        part_displace(&halves->half[h].part);
}
