/* There are sums only and no differences, so that -inf forgets. Where a sequence begins between a block and a query, the
 * block has no key of the query's sequence, and what is added does not count. */
#include "mpi/decays.h"

#include "op/alibi.h"

#include <stdlib.h>

static int has_gates(const struct decays *decays)
{
    return decays->halves->traded[TRADED_G].row > 0;
}

static const clattn_plan_desc *desc_of(const struct decays *decays)
{
    return &decays->halves->plan->whole;
}

/* to[batch][head] = Σ of rows of g, of which a batch element has `stride`: those from `first` on, `count` of them */
static void sum_rows(const struct decays *decays, const float *g, int64_t stride, int64_t first, int64_t count,
                     float *to)
{
    const int64_t heads = decays->heads;

    for (int64_t n = 0; n < decays->halves->batch; n++)
        for (int64_t h = 0; h < heads; h++) {
            double sum = 0;
            for (int64_t i = first; i < first + count; i++)
                sum += (double)g[(n * stride + i) * heads + h];
            to[n * heads + h] = (float)sum;
        }
}

static void sum_up(const struct decays *decays, const float *g, int64_t count, float *up_to)
{
    const int64_t heads = decays->heads;

    for (int64_t n = 0; n < decays->halves->batch; n++)
        for (int64_t h = 0; h < heads; h++) {
            double sum = 0;
            for (int64_t i = n * count; i < (n + 1) * count; i++)
                up_to[i * heads + h] = (float)(sum += (double)g[i * heads + h]);
        }
}

clattn_status decays_prepare(struct decays *decays, const struct halves *halves)
{
    clattn_mpi_context *context = halves->plan->context;
    const size_t row = (size_t)(halves->batch * halves->plan->whole.heads) + 1;
    int is_missing;

    *decays = (struct decays){.halves = halves, .heads = halves->plan->whole.heads};
    if (!has_gates(decays))
        return CLATTN_SUCCESS;
    decays->totals = calloc(row * HALVES * (size_t)context->ranks, sizeof *decays->totals);
    decays->own = calloc(row * HALVES, sizeof *decays->own);
    is_missing = decays->totals == NULL || decays->own == NULL;
    for (int h = 0; h < HALVES; h++) {
        decays->up_to[h] = malloc(row * ((size_t)halves->half[h].count + 1) * sizeof *decays->up_to[h]);
        is_missing |= decays->up_to[h] == NULL;
    }
    return is_missing ? note_failure(context, CLATTN_OUT_OF_MEMORY, "no memory for sums of g") : CLATTN_SUCCESS;
}

void decays_free(struct decays *decays)
{
    free(decays->totals);
    free(decays->own);
    for (int h = 0; h < HALVES; h++)
        free(decays->up_to[h]);
}

clattn_status decays_share(struct decays *decays)
{
    const struct halves *halves = decays->halves;
    const struct traded *g = &halves->traded[TRADED_G];
    clattn_mpi_context *context = halves->plan->context;
    const int64_t row = halves->batch * decays->heads;
    int64_t first, count;

    if (!has_gates(decays))
        return CLATTN_SUCCESS;
    for (int h = 0; h < HALVES; h++) {
        halves_place(halves, HALVES * context->rank + h, &first, &count);
        sum_rows(decays, (const float *)(const void *)g->own, halves->part->count, first - halves->part->first, count,
                 decays->own + h * row);
        sum_up(decays, (const float *)(const void *)g->of[h], halves->half[h].count, decays->up_to[h]);
    }
    return note_mpi(context,
                    MPI_Allgather(decays->own, (int)(HALVES * row), MPI_FLOAT, decays->totals, (int)(HALVES * row),
                                  MPI_FLOAT, context->comm),
                    "MPI_Allgather");
}

/* Σ of g between the block and the half's first token, of each batch element and head in turn */
static double total_between(const struct decays *decays, int h, int owner, int64_t of)
{
    double sum = 0;

    for (int number = HALVES * (owner + 1); number < decays->halves->half[h].number; number++)
        sum += (double)decays->totals[number * decays->halves->batch * decays->heads + of];
    return sum;
}

static void sums_between(const struct decays *decays, int h, int owner, float *between)
{
    const int64_t heads = decays->heads, count = decays->halves->half[h].count;

    for (int64_t of = 0; of < decays->halves->batch * heads; of++) {
        const double before = total_between(decays, h, owner, of);
        for (int64_t i = 0; i < count; i++) {
            const int64_t at = (of / heads * count + i) * heads + of % heads;
            between[at] = (float)(before + (double)decays->up_to[h][at]);
        }
    }
}

static void distances_between(const struct decays *decays, int h, int owner, float *between)
{
    const int64_t heads = decays->heads, count = decays->halves->half[h].count;
    int64_t first, last;

    halves_place(decays->halves, HALVES * (owner + 1), &first, &last); /* the last key is the one before */
    for (int64_t head = 0; head < heads; head++) {
        const double decay = alibi_decay(desc_of(decays), head);
        for (int64_t row = 0; row < decays->halves->batch * count; row++)
            between[row * heads + head] =
                (float)(decay * (double)(decays->halves->half[h].first + row % count - (first - 1)));
    }
}

void decays_between(const struct decays *decays, int h, int owner, float *between)
{
    (has_gates(decays) ? sums_between : distances_between)(decays, h, owner, between);
}
