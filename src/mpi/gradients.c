/* Tokens are cut: gradients by the states that ranks end with, which come from the ranks after them.
 *
 *     backward   each rank, from its initial state and without a gradient by its final one: N, that by its initial one
 *     exchange   all-gather of N
 *     fold       dS <- M^T dS + N, from the gradient by the final state, over the ranks after this, the last one first
 *     backward   again, with the gradient by its final state: all other gradients
 *
 * M is that of the summaries. N does not depend on the gradient by the final state, because a stretch is linear in the
 * state that it begins with. */
#include "mpi/states.h"

#include <stdlib.h>
#include <string.h>

enum { GRADIENTS = STABILIZER }; /* stabilizers are constants */

static const clattn_operand_id initial_ids[] = {CLATTN_STATE_IN, CLATTN_NORMALIZER_IN};
static const clattn_operand_id gradient_in_ids[] = {CLATTN_GRAD(CLATTN_STATE_IN), CLATTN_GRAD(CLATTN_NORMALIZER_IN)};
static const clattn_operand_id gradient_out_ids[] = {CLATTN_GRAD(CLATTN_STATE_OUT), CLATTN_GRAD(CLATTN_NORMALIZER_OUT)};

static size_t floats_of(const struct states *s)
{
    return s->layout.at[TRANSITION];
}

static clattn_status read_final(struct states *s)
{
    clattn_mpi_plan *plan = s->plan;

    for (int field = STATE; field < GRADIENTS; field++) {
        const clattn_operand *operand = part_operand(s->part, gradient_out_ids[field]);
        clattn_operand_info info;
        if (s->layout.count[field] == 0)
            continue;
        clattn_operand_describe(&plan->local, gradient_out_ids[field], &info);
        if (!has_memory(s->part, operand))
            return note_failure(plan->context, CLATTN_INVALID_OPERAND, "%s is missing on the rank that ends",
                                info.name);
        TRY(pack_field(s, operand, &info, field_of(s, s->gradient, field)));
    }
    return CLATTN_SUCCESS;
}

clattn_status gradients_begin(struct states *s)
{
    const size_t floats = floats_of(s), count = (size_t)s->plan->context->ranks + 2;

    s->back = pool_take(s->plan, floats * count * sizeof *s->back);
    if (s->back == NULL)
        return note_failure(s->plan->context, CLATTN_OUT_OF_MEMORY, "no memory for the gradients of %d ranks",
                            s->plan->context->ranks);
    memset(s->back, 0, 2 * floats * sizeof *s->back);
    s->gradient = s->back + floats;
    s->back_all = s->gradient + floats;
    return is_last(s->plan) && (s->plan->whole.flags & CLATTN_FINAL_STATE) ? read_final(s) : CLATTN_SUCCESS;
}

/* What other ranks' tokens add to the gradient by the state before this rank's. Its own memory is zero at first, as the
 * gradient by the final state must be, and because the plan may add to what is there. */
static clattn_status walk_back(struct states *s)
{
    struct device_call *device = s->part->device;
    const size_t room = device != NULL ? device->room : 0;
    struct part part;

    take_operands(s, &s->plan->local, &part);
    for (int field = STATE; field < GRADIENTS; field++) {
        if (s->layout.count[field] == 0)
            continue;
        TRY(part_put(s->plan, &part, initial_ids[field], field_of(s, s->state, field), field_bytes(s, field)));
        TRY(part_put(s->plan, &part, gradient_out_ids[field], field_of(s, s->unused, field), field_bytes(s, field)));
        TRY(part_put(s->plan, &part, gradient_in_ids[field], field_of(s, s->back, field), field_bytes(s, field)));
    }
    TRY(note_failure(s->plan->context, part_compute(s->plan->run, &part), "no gradient by its initial state"));
    for (int field = STATE; field < GRADIENTS; field++)
        if (s->layout.count[field] > 0)
            TRY(part_read(s->plan, &part, part_operand(&part, gradient_in_ids[field]), field_bytes(s, field),
                          field_of(s, s->back, field)));
    if (device != NULL)
        device->room = room; /* what was there is read */
    return CLATTN_SUCCESS;
}

/* short_conv, [N,W,H,V]: what an input had after the rank's tokens it had as many places later before them. */
static void shift_back(const struct states *s, int rank)
{
    const int64_t taps = s->plan->whole.taps;
    const size_t row = s->layout.row / (size_t)taps;
    const float *added = s->back_all + (size_t)rank * floats_of(s);

    for (int64_t n = 0; n < s->part->sequences; n++) {
        const int64_t tokens = tokens_on(s, rank, n);
        float *sequence = s->gradient + (size_t)n * s->layout.row;
        for (int64_t w = taps - 1; w >= 0; w--)
            for (size_t i = 0; i < row; i++)
                sequence[(size_t)w * row + i] = (w >= tokens ? sequence[(size_t)(w - tokens) * row + i] : 0) +
                                                added[(size_t)n * s->layout.row + (size_t)w * row + i];
    }
}

static clattn_status fold_rank(struct states *s, int rank)
{
    clattn_mpi_context *context = s->plan->context;
    float *const added = s->back_all + (size_t)rank * floats_of(s);
    float *const summary = s->all + (size_t)rank * s->layout.total;
    const clattn_state_parts after = {.state = field_of(s, s->gradient, STATE),
                                      .normalizer = field_of(s, s->gradient, NORMALIZER)},
                             stretch = {.state = field_of(s, added, STATE),
                                        .normalizer = field_of(s, added, NORMALIZER),
                                        .transition = field_of(s, summary, TRANSITION)};
    clattn_plan_desc desc = s->plan->local;

    if (s->plan->exchange == EXCHANGE_INPUTS) {
        shift_back(s, rank);
        return CLATTN_SUCCESS;
    }
    *(desc.flags & CLATTN_CU_SEQLENS ? &desc.sequences : &desc.batch) = s->part->sequences;
    return note_failure(context, clattn_state_fold(&desc, &after, &stretch, rank_log, context),
                        "the gradient of rank %d is not folded", rank);
}

/* The ranks after this one in the order of tokens, the last one first; all others where tokens see those after them. */
static clattn_status fold(struct states *s)
{
    const clattn_mpi_context *context = s->plan->context;
    const int reversed = (s->plan->whole.flags & CLATTN_REVERSED) != 0;
    const int noncausal = (s->plan->whole.flags & CLATTN_NONCAUSAL) != 0;

    for (int i = 0; i < context->ranks; i++) {
        const int rank = reversed ? i : context->ranks - 1 - i;
        if (rank == context->rank && !noncausal)
            break;
        if (rank != context->rank)
            TRY(fold_rank(s, rank));
    }
    return CLATTN_SUCCESS;
}

clattn_status gradients_fold(struct states *s)
{
    clattn_mpi_context *context = s->plan->context;
    const int reversed = (s->plan->whole.flags & CLATTN_REVERSED) != 0;

    memset(s->unused, 0, floats_of(s) * sizeof *s->unused);
    if (context->trouble.status == CLATTN_SUCCESS)
        walk_back(s);
    TRY(agree(context));
    TRY(gather_floats(s, s->back, s->back_all, floats_of(s)));
    if (s->plan->whole.flags & CLATTN_FINAL_STATE)
        TRY(broadcast_floats(s, s->gradient, floats_of(s), reversed ? 0 : context->ranks - 1));
    TRY(agree(context));
    fold(s);
    return CLATTN_SUCCESS;
}

clattn_status gradients_bind(struct states *s, struct part *part)
{
    for (int field = STATE; field < GRADIENTS; field++) {
        if (!is_first(s->plan))
            part_drop(part, gradient_in_ids[field]);
        if (s->layout.count[field] > 0)
            TRY(part_put(s->plan, part, gradient_out_ids[field], field_of(s, s->gradient, field),
                         field_bytes(s, field)));
    }
    return CLATTN_SUCCESS;
}
