/* Tokens are cut: the states that ranks begin with.
 *
 *     summary    each rank: M and N of its stretch, S <- M S + N
 *     exchange   all-gather of M and N
 *     fold       from the initial state, in the order of tokens: the same bits on every run and on every rank
 *     run        the ordinary plan, from the state that the fold came to
 *
 * The state of short_conv is its last W inputs: M shifts them by the stretch's tokens. */
#include "mpi/states.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const clattn_operand_id initial_ids[] = {CLATTN_STATE_IN, CLATTN_NORMALIZER_IN, CLATTN_STABILIZER_IN};
static const clattn_operand_id final_ids[FIELDS] = {CLATTN_STATE_OUT, CLATTN_NORMALIZER_OUT, CLATTN_STABILIZER_OUT,
                                                    CLATTN_TRANSITION};

static struct layout layout_of(const clattn_mpi_plan *plan, int64_t sequences)
{
    struct layout layout = {.total = 0};

    for (int field = 0; field < FIELDS; field++) {
        clattn_operand_info info;
        size_t floats = (size_t)sequences;
        layout.at[field] = layout.total;
        if (clattn_operand_describe(&plan->summary_desc, final_ids[field], &info) != CLATTN_SUCCESS || info.rank == 0)
            continue;
        for (int i = 1; i < info.rank; i++)
            floats *= (size_t)info.dims[i];
        layout.count[field] = floats;
        layout.total += floats;
    }
    layout.row = sequences > 0 ? layout.count[STATE] / (size_t)sequences : 0;
    return layout;
}

float *field_of(const struct states *s, float *memory, int field)
{
    return s->layout.count[field] > 0 ? memory + s->layout.at[field] : NULL;
}

size_t field_bytes(const struct states *s, int field)
{
    return s->layout.count[field] * sizeof(float);
}

static clattn_state_parts parts_of(const struct states *s, float *memory)
{
    return (clattn_state_parts){.state = field_of(s, memory, STATE),
                                .normalizer = field_of(s, memory, NORMALIZER),
                                .stabilizer = field_of(s, memory, STABILIZER),
                                .transition = field_of(s, memory, TRANSITION)};
}

/* ---- Summary ------------------------------------------------------------------------------------------------------ */

void take_operands(const struct states *s, const clattn_plan_desc *desc, struct part *part)
{
    *part = *s->part;
    part->operand_count = 0;
    for (size_t i = 0; i < s->part->operand_count; i++) {
        const clattn_operand *operand = &s->part->operands[i];
        clattn_operand_info info;
        if (clattn_operand_describe(desc, operand->id, &info) == CLATTN_SUCCESS && info.rank > 0 && !info.output)
            part->operands[part->operand_count++] = *operand;
    }
}

/* The summary of short_conv is its ordinary plan, which has an o: the caller's, which the run writes again, or in the
 * backward pass one that nobody reads. */
static clattn_status add_output(struct states *s, struct part *summary)
{
    const size_t bytes = operand_bytes(&s->plan->summary_desc, CLATTN_O);
    const clattn_operand *o = part_operand(s->part, CLATTN_O);

    if (bytes == 0)
        return CLATTN_SUCCESS;
    if (o != NULL && s->plan->whole.pass == CLATTN_PASS_FORWARD) {
        summary->operands[summary->operand_count++] = *o;
        return CLATTN_SUCCESS;
    }
    s->output = pool_take(s->plan, bytes);
    if (s->output == NULL)
        return note_failure(s->plan->context, CLATTN_OUT_OF_MEMORY, "no memory for %zu bytes of o", bytes);
    return part_put_output(s->plan, summary, CLATTN_O, s->output, bytes);
}

static clattn_status summarize(struct states *s)
{
    struct part summary;

    take_operands(s, &s->plan->summary_desc, &summary);
    TRY(add_output(s, &summary));
    for (int field = 0; field < FIELDS; field++)
        if (s->layout.count[field] > 0)
            TRY(part_put_output(s->plan, &summary, final_ids[field], field_of(s, s->own, field),
                                field_bytes(s, field)));
    TRY(note_failure(s->plan->context, part_compute(s->plan->summary, &summary), "no summary of its tokens"));
    for (int field = 0; field < FIELDS; field++)
        if (s->layout.count[field] > 0)
            TRY(part_read(s->plan, &summary, part_operand(&summary, final_ids[field]), field_bytes(s, field),
                          field_of(s, s->own, field)));
    return CLATTN_SUCCESS;
}

/* ---- Exchange ----------------------------------------------------------------------------------------------------- */

clattn_status pack_field(struct states *s, const clattn_operand *operand, const clattn_operand_info *info, float *to)
{
    const int64_t sequences = s->part->sequences, heads = info->dims[1];
    const int is_contiguous = operand->batch_stride == 0 && operand->token_stride == 0 && operand->head_stride == 0;
    int64_t inner = 1, head, sequence;
    const float *from;
    void *copy;

    for (int i = 2; i < info->rank; i++)
        inner *= info->dims[i];
    head = is_contiguous ? inner : operand->head_stride;
    sequence = is_contiguous ? heads * inner : operand->batch_stride;
    if (sequences == 0)
        return CLATTN_SUCCESS;
    from = part_view(s->plan, s->part, operand,
                     (size_t)((sequences - 1) * sequence + (heads - 1) * head + inner) * sizeof *from, &copy);
    if (from == NULL)
        return s->plan->context->trouble.status;
    for (int64_t n = 0; n < sequences; n++)
        for (int64_t h = 0; h < heads; h++)
            memcpy(to + (n * heads + h) * inner, from + n * sequence + h * head, (size_t)inner * sizeof *to);
    pool_give(s->plan, copy);
    return CLATTN_SUCCESS;
}

static void begin_with_nothing(struct states *s)
{
    memset(s->state, 0, s->layout.total * sizeof *s->state);
    for (size_t i = 0; i < s->layout.count[STABILIZER]; i++)
        field_of(s, s->state, STABILIZER)[i] = -INFINITY;
}

/* On the rank where sequences begin: the caller's initial state. */
static clattn_status read_initial(struct states *s)
{
    clattn_mpi_plan *plan = s->plan;

    for (int field = STATE; field < TRANSITION; field++) {
        const clattn_operand *operand = part_operand(s->part, initial_ids[field]);
        clattn_operand_info info;
        if (s->layout.count[field] == 0)
            continue;
        clattn_operand_describe(&plan->local, initial_ids[field], &info);
        if (!has_memory(s->part, operand))
            return note_failure(plan->context, CLATTN_INVALID_OPERAND, "%s is missing on the rank that begins",
                                info.name);
        TRY(pack_field(s, operand, &info, field_of(s, s->state, field)));
    }
    return CLATTN_SUCCESS;
}

static clattn_status floats_type(struct states *s, size_t count, MPI_Datatype *floats)
{
    TRY(note_mpi(s->plan->context, MPI_Type_contiguous((int)count, MPI_FLOAT, floats), "MPI_Type_contiguous"));
    MPI_Type_commit(floats);
    return CLATTN_SUCCESS;
}

clattn_status gather_floats(struct states *s, const float *own, float *all, size_t count)
{
    clattn_mpi_context *context = s->plan->context;
    MPI_Datatype floats;

    TRY(floats_type(s, count, &floats));
    note_mpi(context, MPI_Allgather(own, 1, floats, all, 1, floats, context->comm), "MPI_Allgather");
    MPI_Type_free(&floats);
    return CLATTN_SUCCESS;
}

clattn_status broadcast_floats(struct states *s, float *at, size_t count, int root)
{
    clattn_mpi_context *context = s->plan->context;
    MPI_Datatype floats;

    TRY(floats_type(s, count, &floats));
    note_mpi(context, MPI_Bcast(at, 1, floats, root, context->comm), "MPI_Bcast");
    MPI_Type_free(&floats);
    return CLATTN_SUCCESS;
}

static clattn_status exchange(struct states *s)
{
    const int reversed = (s->plan->whole.flags & CLATTN_REVERSED) != 0;

    TRY(gather_floats(s, s->own, s->all, s->layout.total));
    return s->plan->whole.flags & CLATTN_INITIAL_STATE
               ? broadcast_floats(s, s->state, s->layout.total, reversed ? s->plan->context->ranks - 1 : 0)
               : CLATTN_SUCCESS;
}

/* ---- Fold --------------------------------------------------------------------------------------------------------- */

int64_t tokens_on(const struct states *s, int rank, int64_t sequence)
{
    const int64_t *starts = s->part->starts;
    int64_t first, count, begin, end;

    part_of(rank, s->plan->context->ranks, s->part->total, token_unit(s->plan, s->part->total), &first, &count);
    if (starts == NULL)
        return count;
    begin = starts[sequence] > first ? starts[sequence] : first;
    end = starts[sequence + 1] < first + count ? starts[sequence + 1] : first + count;
    return end > begin ? end - begin : 0;
}

/* short_conv, [N,W,H,V]: the inputs move up by the rank's tokens, which take the last places. */
static void shift_inputs(const struct states *s, int rank)
{
    const int64_t taps = s->plan->whole.taps;
    const size_t row = s->layout.row / (size_t)taps;
    const float *added = s->all + (size_t)rank * s->layout.total;

    for (int64_t n = 0; n < s->part->sequences; n++) {
        const int64_t tokens = tokens_on(s, rank, n);
        float *to = s->state + (size_t)n * s->layout.row;
        for (int64_t w = 0; w < taps; w++)
            memcpy(to + (size_t)w * row,
                   w + tokens < taps ? to + (size_t)(w + tokens) * row
                                     : added + (size_t)n * s->layout.row + (size_t)w * row,
                   row * sizeof *to);
    }
}

/* Into no state at all, a stretch's own is the whole. */
static void take_first(struct states *s, int rank)
{
    memcpy(s->state, s->all + (size_t)rank * s->layout.total, s->layout.at[TRANSITION] * sizeof *s->state);
}

static clattn_status fold_rank(struct states *s, int rank, int is_first_of_all)
{
    clattn_mpi_context *context = s->plan->context;
    const clattn_state_parts state = parts_of(s, s->state),
                             added = parts_of(s, s->all + (size_t)rank * s->layout.total);

    if (is_first_of_all && !(s->plan->whole.flags & CLATTN_INITIAL_STATE)) {
        take_first(s, rank);
        return CLATTN_SUCCESS;
    }
    if (s->plan->exchange == EXCHANGE_INPUTS) {
        shift_inputs(s, rank);
        return CLATTN_SUCCESS;
    }
    return note_failure(context, clattn_state_fold(&s->desc, &state, &added, rank_log, context),
                        "the state of rank %d is not folded", rank);
}

/* The ranks before this one in the order of tokens; all others where tokens see those after them. */
static clattn_status fold(struct states *s)
{
    const clattn_mpi_context *context = s->plan->context;
    const int reversed = (s->plan->whole.flags & CLATTN_REVERSED) != 0;
    const int noncausal = (s->plan->whole.flags & CLATTN_NONCAUSAL) != 0;

    for (int i = 0; i < context->ranks; i++) {
        const int rank = reversed ? context->ranks - 1 - i : i;
        if (rank == context->rank && !noncausal)
            break;
        if (rank != context->rank)
            TRY(fold_rank(s, rank, i == 0));
    }
    return CLATTN_SUCCESS;
}

/* ---- Run ---------------------------------------------------------------------------------------------------------- */

static clattn_status run_from_state(struct states *s)
{
    clattn_mpi_plan *plan = s->plan;
    const int is_backward = plan->whole.pass == CLATTN_PASS_BACKWARD;
    const int ends = (plan->local.flags & CLATTN_FINAL_STATE) != 0 && !is_backward;

    for (int field = STATE; field < TRANSITION; field++) {
        if (s->layout.count[field] == 0)
            continue;
        TRY(part_put(plan, s->part, initial_ids[field], field_of(s, s->state, field), field_bytes(s, field)));
        if (ends && !is_last(plan))
            TRY(part_put_output(plan, s->part, final_ids[field], field_of(s, s->unused, field), field_bytes(s, field)));
    }
    if (is_backward)
        TRY(gradients_bind(s, s->part));
    return note_failure(plan->context, part_compute(plan->run, s->part), "the run failed");
}

static clattn_status allocate(struct states *s)
{
    const clattn_mpi_context *context = s->plan->context;
    const size_t total = s->layout.total, count = (size_t)context->ranks + 3;

    if (total > INT_MAX)
        return note_failure(s->plan->context, CLATTN_UNSUPPORTED, "states of %zu floats a rank, expected up to %d",
                            total, INT_MAX);
    s->own = pool_take(s->plan, total * count * sizeof *s->own);
    if (s->own == NULL)
        return note_failure(s->plan->context, CLATTN_OUT_OF_MEMORY, "no memory for the states of %d ranks, %zu bytes",
                            context->ranks, total * count * sizeof *s->own);
    memset(s->own, 0, total * sizeof *s->own);
    s->state = s->own + total;
    s->unused = s->state + total;
    s->all = s->unused + total;
    return CLATTN_SUCCESS;
}

/* In the forward pass nobody begins after the last rank's tokens. */
static int is_summary_read(const struct states *s)
{
    return !is_last(s->plan) || s->plan->whole.pass == CLATTN_PASS_BACKWARD ||
           (s->plan->whole.flags & CLATTN_NONCAUSAL) != 0;
}

/* Until the exchange: what may fail on one rank alone. */
static void prepare(struct states *s)
{
    if (allocate(s) != CLATTN_SUCCESS)
        return;
    begin_with_nothing(s);
    if (is_first(s->plan) && (s->plan->whole.flags & CLATTN_INITIAL_STATE) && read_initial(s) != CLATTN_SUCCESS)
        return;
    if (s->plan->whole.pass == CLATTN_PASS_BACKWARD && gradients_begin(s) != CLATTN_SUCCESS)
        return;
    if (s->plan->context->ranks > 1 && is_summary_read(s))
        summarize(s);
}

static clattn_status exchange_and_run(struct states *s)
{
    if (s->plan->context->ranks > 1) {
        TRY(exchange(s));
        TRY(agree(s->plan->context));
        fold(s);
        if (s->plan->whole.pass == CLATTN_PASS_BACKWARD)
            TRY(gradients_fold(s));
    }
    if (s->plan->context->trouble.status == CLATTN_SUCCESS)
        run_from_state(s);
    return CLATTN_SUCCESS;
}

clattn_status run_states(clattn_mpi_plan *plan, struct part *part)
{
    struct states s = {.plan = plan, .part = part, .layout = layout_of(plan, part->sequences)};
    clattn_status status;

    s.desc = plan->summary_desc;
    *(plan->whole.flags & CLATTN_CU_SEQLENS ? &s.desc.sequences : &s.desc.batch) = part->sequences;
    prepare(&s);
    status = agree(plan->context);
    if (status == CLATTN_SUCCESS)
        status = exchange_and_run(&s);
    pool_give(plan, s.own);
    pool_give(plan, s.back);
    pool_give(plan, s.output);
    return status;
}
