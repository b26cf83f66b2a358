/* Joins stretches of tokens: S <- M S + N for every sequence and head, on the host. M is what a stretch keeps of the
 * state before it, N what it adds; a summary has both (CLATTN_SUMMARY). Gradients go the other way: dS <- M^T dS + N. */
#include "base/thread.h"
#include "op/problem.h"

#include "base/sized.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct fold {
    const struct problem *problem;
    const clattn_state_parts *state, *summary;
    int64_t K, V, row, column; /* distances in a state from one row, and from one value column, to the next */
    atomic_int out_of_memory;
};

/* ---- One head: S is in place, N is what is added ------------------------------------------------------------------ */

static void add_all(const struct fold *fold, float *S, const float *N)
{
    for (int64_t i = 0; i < fold->K * fold->V; i++)
        S[i] += N[i];
}

static void scale_rows(const struct fold *fold, float *S, const float *M, const float *N)
{
    for (int64_t n = 0; n < fold->K; n++)
        for (int64_t c = 0; c < fold->V; c++) {
            const int64_t at = n * fold->row + c * fold->column;
            S[at] = M[n] * S[at] + N[at];
        }
}

static void scale_elements(const struct fold *fold, float *S, const float *M, const float *N)
{
    for (int64_t n = 0; n < fold->K; n++)
        for (int64_t c = 0; c < fold->V; c++) {
            const int64_t at = n * fold->row + c * fold->column;
            S[at] = M[n * fold->V + c] * S[at] + N[at];
        }
}

/* Complex numbers: the imaginary part of the one at `at` is `apart` behind it, in M `apart_in_factors`. */
static void turn_pair(float *S, const float *M, const float *N, int64_t at, int64_t apart, int64_t apart_in_factors)
{
    const float re = S[at], im = S[at + apart], cosine = M[0], sine = M[apart_in_factors];

    S[at] = cosine * re - sine * im + N[at];
    S[at + apart] = sine * re + cosine * im + N[at + apart];
}

static void turn_pairs(const struct fold *fold, float *S, const float *M, const float *N, int in_rows)
{
    for (int64_t n = 0; n < fold->K; n += 1 + in_rows)
        for (int64_t c = 0; c < fold->V; c += 2 - in_rows)
            turn_pair(S, M + n * fold->V + c, N, n * fold->row + c * fold->column, in_rows ? fold->row : fold->column,
                      in_rows ? fold->V : 1);
}

static void add_row(float *restrict sum, const float *restrict row, float factor, int64_t columns)
{
    for (int64_t c = 0; c < columns; c++)
        sum[c] += factor * row[c];
}

/* A state whose columns lie apart: its transpose's rows are columns. */
static void add_column(const struct fold *fold, float *sum, const float *S, float factor)
{
    for (int64_t c = 0; c < fold->V; c++)
        sum[c * fold->column] += factor * S[c * fold->column];
}

/* M S, or M^T S, into a copy */
static void multiply(struct fold *fold, float *S, const float *M, const float *N)
{
    const int64_t K = fold->K, V = fold->V, size = K * V;
    const int back = problem_is_backward(fold->problem);
    float *sum = malloc((size_t)size * sizeof *sum);

    if (sum == NULL) {
        atomic_store(&fold->out_of_memory, 1);
        return;
    }
    memcpy(sum, N, (size_t)size * sizeof *sum);
    for (int64_t n = 0; n < K; n++)
        for (int64_t k = 0; k < K; k++) {
            const float factor = back ? M[k * K + n] : M[n * K + k];
            if (fold->column == 1)
                add_row(sum + n * fold->row, S + k * fold->row, factor, V);
            else
                add_column(fold, sum + n * fold->row, S + k * fold->row, factor);
        }
    memcpy(S, sum, (size_t)size * sizeof *sum);
    free(sum);
}

/* mLSTM: states are stored times e^-m, of which the larger remains. */
static void add_stabilized(const struct fold *fold, int64_t head)
{
    float *m = fold->state->stabilizer + head;
    const float before = fold->summary->transition[head] + *m, added = fold->summary->stabilizer[head];
    const float after = fmaxf(before, added);
    const float keep = before > -INFINITY ? expf(before - after) : 0,
                write = added > -INFINITY ? expf(added - after) : 0;
    float *S = fold->state->state + head * fold->K * fold->V, *z = fold->state->normalizer + head * fold->K;
    const float *N = fold->summary->state + head * fold->K * fold->V, *n = fold->summary->normalizer + head * fold->K;

    for (int64_t i = 0; i < fold->K * fold->V; i++)
        S[i] = keep * S[i] + write * N[i];
    for (int64_t i = 0; i < fold->K; i++)
        z[i] = keep * z[i] + write * n[i];
    *m = after;
}

static void add_to_state(struct fold *fold, int64_t head)
{
    const int64_t columns = problem_unit_columns(fold->problem), size = fold->K * fold->V;
    float *S = fold->state->state + head * size;
    const float *N = fold->summary->state + head * size;
    const float *M = columns > 0 ? fold->summary->transition + head * fold->K * columns : NULL;

    if (columns == 0) {
        add_all(fold, S, N);
        return;
    }
    switch (problem_unit(fold->problem)) {
    case UNIT_ONES:
        if (rule_has_chunks(fold->problem->rule) && !(fold->problem->desc.flags & CLATTN_VALUE_GATE))
            scale_rows(fold, S, M, N);
        else
            scale_elements(fold, S, M, N);
        break;
    case UNIT_DIAGONAL: multiply(fold, S, M, N); break;
    case UNIT_ROW_PAIRS: turn_pairs(fold, S, M, N, 1); break;
    case UNIT_COLUMN_PAIRS: turn_pairs(fold, S, M, N, 0); break;
    }
}

/* Without a decay: mLSTM's is with its state. */
static void add_normalizer(const struct fold *fold, int64_t head)
{
    for (int64_t i = head * fold->K; i < (head + 1) * fold->K; i++)
        fold->state->normalizer[i] += fold->summary->normalizer[i];
}

static void fold_head(void *user, int64_t head)
{
    struct fold *fold = user;

    if (problem_stabilized(fold->problem)) {
        add_stabilized(fold, head);
        return;
    }
    add_to_state(fold, head);
    if (problem_normalized(fold->problem))
        add_normalizer(fold, head);
}

/* ---- Checks ------------------------------------------------------------------------------------------------------- */

static clattn_status check_parts(const struct problem *problem, const clattn_state_parts *parts, int keeps,
                                 const char *what, const struct log *log)
{
    const char *missing = parts == NULL                                                       ? "itself"
                          : parts->state == NULL                                              ? "state"
                          : problem_normalized(problem) && parts->normalizer == NULL          ? "normalizer"
                          : problem_stabilized(problem) && parts->stabilizer == NULL          ? "stabilizer"
                          : keeps && problem_keeps_part(problem) && parts->transition == NULL ? "transition"
                                                                                              : NULL;

    return missing == NULL
               ? CLATTN_SUCCESS
               : FAIL(log, INVALID_ARGUMENT, "%s: of the %s %s is NULL", problem->rule->name, what, missing);
}

static clattn_status check_rule(const struct problem *problem, const struct log *log)
{
    if (problem->rule->op != OP_MIXER || rule_has_list(problem->rule) || rule_has_levels(problem->rule))
        return FAIL(log, UNSUPPORTED, "%s has no state that stretches of tokens are folded into", problem->rule->name);
    if (problem_is_backward(problem) && problem_stabilized(problem))
        return FAIL(log, UNSUPPORTED, "%s: gradients by stabilized states are not folded", problem->rule->name);
    return CLATTN_SUCCESS;
}

clattn_status clattn_state_fold_sized(const clattn_plan_desc *desc, size_t desc_size, const clattn_state_parts *state,
                                      const clattn_state_parts *summary, clattn_log_fn log, void *log_user)
{
    const struct log sink = {log, log_user};
    struct problem problem;
    struct fold fold = {.problem = &problem, .state = state, .summary = summary};
    int is_vk;

    TRY(problem_read(&problem, desc, desc_size, &sink));
    TRY(check_rule(&problem, &sink));
    TRY(check_parts(&problem, state, 0, "state", &sink));
    TRY(check_parts(&problem, summary, 1, "summary", &sink));
    is_vk = (problem.desc.flags & CLATTN_STATE_VK) != 0;
    fold.K = problem.desc.key_dim;
    fold.V = problem.desc.value_dim;
    fold.row = is_vk ? 1 : fold.V;
    fold.column = is_vk ? fold.K : 1;
    atomic_init(&fold.out_of_memory, 0);
    parallel_for(problem_heads(&problem), fold_head, &fold);
    return atomic_load(&fold.out_of_memory) ? FAIL(&sink, OUT_OF_MEMORY, "no memory for a state that is folded")
                                            : CLATTN_SUCCESS;
}
