/* Learners in double precision: a network whose weights are trained by each batch of tokens. One job is one sequence
 * and head.
 *
 * f(x) = w1 (silu(w0 x) o (w2 x)), loss -v.f(k)      a batch is first read, o = f(q), and then learned from */
#include "op/op.h"
#include "reference/number.h"
#include "reference/muon.h"
#include "reference/task.h"

#include <math.h>
#include <stdlib.h>

enum { W0, W1, W2, WEIGHTS };

/* One weight matrix of the network, with the memory of its steps: [rows][columns] each. */
struct weight {
    int64_t rows, columns;
    double *w, *sum;                    /* sum: the initial weights plus all steps, not normalised */
    double *step, *before, *orthogonal; /* the step D, the step of the previous batch, and the result of Muon for D */
    double *norms;                      /* [rows], of the initial weights */
};

/* [F] each, for the current token */
struct hidden {
    double *a, *c, *h, *dh, *da, *dc;
};

struct learner {
    const struct task *task;
    const clattn_plan_desc *desc;
    int64_t sequence, head, K, V, F;
    struct weight weights[WEIGHTS];
    struct hidden hidden;
    double *x, *y;                /* [K], [V]: a row of q or k; a row of v or o */
    double *square[MUON_SCRATCH]; /* Muon's matrices; their sides are at most the largest of K, V and F */
};

/* ---- Tokens -------------------------------------------------------------------------------------------------------
 */

static double load(const struct learner *learner, clattn_operand_id id, int64_t token, int64_t index)
{
    const struct tensor *tensor = &learner->task->tensors[id];
    const struct view *view = &tensor->view;

    return number_load(tensor->dtype, tensor->data,
                       view->offset + learner->sequence * view->batch + token * view->token +
                           learner->head * view->head + index);
}

static void load_row(const struct learner *learner, clattn_operand_id id, int64_t token, int64_t count, double *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = load(learner, id, token, i);
}

/* A row of q or k */
static void load_key(struct learner *learner, clattn_operand_id id, int64_t token)
{
    load_row(learner, id, token, learner->K, learner->x);
    task_turn_key(learner->task, id, learner->sequence, token, learner->x);
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double silu_slope(double x)
{
    double s = 1 / (1 + exp(-x));

    return s * (1 + x * (1 - s));
}

/* a = w0 x, c = w2 x, h = silu(a) o c */
static void feed(struct learner *learner)
{
    const struct hidden *hidden = &learner->hidden;

    for (int64_t i = 0; i < learner->F; i++) {
        hidden->a[i] = row_dot(learner->K, learner->weights[W0].w + i * learner->K, learner->x);
        hidden->c[i] = row_dot(learner->K, learner->weights[W2].w + i * learner->K, learner->x);
        hidden->h[i] = silu(hidden->a[i]) * hidden->c[i];
    }
}

static void read_token(struct learner *learner, int64_t token)
{
    const struct tensor *o = &learner->task->tensors[CLATTN_O];
    int64_t at =
        o->view.offset + learner->sequence * o->view.batch + token * o->view.token + learner->head * o->view.head;

    load_key(learner, CLATTN_Q, token);
    feed(learner);
    for (int64_t c = 0; c < learner->V; c++)
        number_store(o->dtype, o->data, at + c,
                     row_dot(learner->F, learner->weights[W1].w + c * learner->F, learner->hidden.h));
}

/* dw1 += lr1 v h^T, dw0 += lr0 da k^T, dw2 += lr2 dc k^T */
static void add_gradients(struct learner *learner, int64_t token)
{
    const struct hidden *hidden = &learner->hidden;
    struct weight *weights = learner->weights;
    double lr0 = load(learner, CLATTN_LR0, token, 0), lr1 = load(learner, CLATTN_LR1, token, 0),
           lr2 = load(learner, CLATTN_LR2, token, 0);

    for (int64_t c = 0; c < learner->V; c++)
        row_add(learner->F, lr1 * learner->y[c], hidden->h, weights[W1].step + c * learner->F);
    for (int64_t i = 0; i < learner->F; i++) {
        row_add(learner->K, lr0 * hidden->da[i], learner->x, weights[W0].step + i * learner->K);
        row_add(learner->K, lr2 * hidden->dc[i], learner->x, weights[W2].step + i * learner->K);
    }
}

/* dh = w1^T v, da = dh o c o silu'(a), dc = dh o silu(a) */
static void learn_token(struct learner *learner, int64_t token)
{
    const struct hidden *hidden = &learner->hidden;

    load_key(learner, CLATTN_K, token);
    load_row(learner, CLATTN_V, token, learner->V, learner->y);
    feed(learner);
    row_clear(learner->F, hidden->dh);
    for (int64_t c = 0; c < learner->V; c++)
        row_add(learner->F, learner->y[c], learner->weights[W1].w + c * learner->F, hidden->dh);
    for (int64_t i = 0; i < learner->F; i++) {
        hidden->da[i] = hidden->dh[i] * hidden->c[i] * silu_slope(hidden->a[i]);
        hidden->dc[i] = hidden->dh[i] * silu(hidden->a[i]);
    }
    add_gradients(learner, token);
}

/* ---- Batches ------------------------------------------------------------------------------------------------------
 */

/* w <- w + step, or the sum of all steps; each row keeps its initial norm. */
static void apply_step(const struct learner *learner, struct weight *weight)
{
    double *sum = learner->desc->flags & CLATTN_PRE_NORM ? weight->sum : weight->w, *step = weight->step;

    if (learner->desc->muon != CLATTN_MUON_NONE)
        muon_orthogonalize(learner->desc->muon, weight->rows, weight->columns, weight->step, learner->square,
                           step = weight->orthogonal);
    row_add(weight->rows * weight->columns, 1, step, sum);
    for (int64_t i = 0; i < weight->rows; i++) {
        double *row = sum + i * weight->columns, *to = weight->w + i * weight->columns;
        double factor = weight->norms[i] / (sqrt(row_dot(weight->columns, row, row)) + 1e-5);
        for (int64_t j = 0; j < weight->columns; j++)
            to[j] = row[j] * factor;
    }
}

static double mean_momentum(const struct learner *learner, int64_t first, int64_t last)
{
    double sum = 0;

    for (int64_t token = first; token < last && (learner->desc->flags & CLATTN_WITH_MOMENTUM); token++)
        sum += load(learner, CLATTN_MOMENTUM, token, 0);
    return sum / (double)(last - first);
}

static void learn(struct learner *learner, int64_t first, int64_t last)
{
    double kept = mean_momentum(learner, first, last);

    for (int i = 0; i < WEIGHTS; i++)
        row_clear(learner->weights[i].rows * learner->weights[i].columns, learner->weights[i].step);
    for (int64_t token = first; token < last; token++)
        learn_token(learner, token);
    for (int i = 0; i < WEIGHTS; i++) {
        struct weight *weight = &learner->weights[i];
        int64_t count = weight->rows * weight->columns;
        row_add(count, kept, weight->before, weight->step);
        row_clear(count, weight->before);
        row_add(count, 1, weight->step, weight->before);
        apply_step(learner, weight);
    }
}

static void read_tokens(struct learner *learner, int64_t first, int64_t last)
{
    for (int64_t token = first; token < last; token++)
        read_token(learner, token);
}

/* Learns from a complete batch only if a later batch or a later call reads the result. */
static void run_batches(struct learner *learner)
{
    int64_t tokens = learner->task->extent.seq_len, batch = learner->desc->mini_batch;
    int has_next_call = (learner->desc->flags & CLATTN_FINAL_STATE) != 0;

    for (int64_t first = 0; first < tokens; first += batch) {
        int64_t remaining = tokens - first;
        read_tokens(learner, first, first + (remaining < batch ? remaining : batch));
        if (remaining > batch || (remaining == batch && has_next_call))
            learn(learner, first, first + batch);
    }
}

static void run(struct learner *learner)
{
    int64_t tokens = learner->task->extent.seq_len;

    if (!(learner->desc->flags & CLATTN_NONCAUSAL)) {
        run_batches(learner);
    } else if (tokens > 0) {
        learn(learner, 0, tokens);
        read_tokens(learner, 0, tokens);
    }
}

/* ---- Weights ------------------------------------------------------------------------------------------------------
 */

static const clattn_operand_id first_ids[] = {CLATTN_W0, CLATTN_W1, CLATTN_W2};
static const clattn_operand_id last_ids[] = {CLATTN_FINAL_W0, CLATTN_FINAL_W1, CLATTN_FINAL_W2};

static void load_weights(struct learner *learner)
{
    for (int i = 0; i < WEIGHTS; i++) {
        struct weight *weight = &learner->weights[i];
        load_row(learner, first_ids[i], 0, weight->rows * weight->columns, weight->w);
        row_add(weight->rows * weight->columns, 1, weight->w, weight->sum);
        for (int64_t row = 0; row < weight->rows; row++) {
            const double *x = weight->w + row * weight->columns;
            weight->norms[row] = sqrt(row_dot(weight->columns, x, x));
        }
    }
}

static void store_weights(const struct learner *learner)
{
    for (int i = 0; i < WEIGHTS; i++) {
        const struct weight *weight = &learner->weights[i];
        const struct tensor *to = &learner->task->tensors[last_ids[i]];
        int64_t at = to->view.offset + learner->sequence * to->view.batch + learner->head * to->view.head;
        for (int64_t j = 0; j < weight->rows * weight->columns && to->data != NULL; j++)
            number_store(to->dtype, to->data, at + j, weight->w[j]);
    }
}

static double *carve(double **memory, int64_t count)
{
    double *at = *memory;

    *memory += count;
    return at;
}

/* The number of elements of one of Muon's matrices. */
static int64_t square_of(const struct learner *learner)
{
    int64_t most = learner->K > learner->V ? learner->K : learner->V;

    most = learner->F > most ? learner->F : most;
    return learner->desc->muon != CLATTN_MUON_NONE ? most * most : 0;
}

enum { MATRICES = 5 /* for each weight; the last one for Muon */ };

static int64_t numbers_of(const struct learner *learner)
{
    const int64_t K = learner->K, V = learner->V, F = learner->F;

    return MATRICES * F * (2 * K + V) + 2 * F + V + 6 * F + K + V + MUON_SCRATCH * square_of(learner);
}

static void lay_out(struct learner *learner, double *memory)
{
    const int64_t F = learner->F, rows[] = {F, learner->V, F}, columns[] = {learner->K, F, learner->K};
    double **const hidden[] = {&learner->hidden.a,  &learner->hidden.c,  &learner->hidden.h,
                               &learner->hidden.dh, &learner->hidden.da, &learner->hidden.dc};

    for (int i = 0; i < WEIGHTS; i++) {
        struct weight *weight = &learner->weights[i];
        int64_t count = rows[i] * columns[i];
        double **const matrices[MATRICES] = {&weight->w, &weight->sum, &weight->step, &weight->before,
                                             &weight->orthogonal};
        *weight = (struct weight){.rows = rows[i], .columns = columns[i]};
        for (int m = 0; m < MATRICES; m++)
            *matrices[m] = carve(&memory, count);
        weight->norms = carve(&memory, rows[i]);
    }
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        *hidden[i] = carve(&memory, F);
    learner->x = carve(&memory, learner->K);
    learner->y = carve(&memory, learner->V);
    for (int i = 0; i < MUON_SCRATCH; i++)
        learner->square[i] = carve(&memory, square_of(learner));
}

void learner_head(void *user, int64_t job)
{
    struct task *task = user;
    const clattn_plan_desc *desc = &task->problem->desc;
    struct learner learner = {.task = task,
                              .desc = desc,
                              .sequence = job / desc->heads,
                              .head = job % desc->heads,
                              .K = desc->key_dim,
                              .V = desc->value_dim,
                              .F = desc->hidden_dim};
    double *memory = calloc((size_t)numbers_of(&learner), sizeof *memory);

    if (memory == NULL) {
        atomic_store(&task->out_of_memory, 1);
        return;
    }
    lay_out(&learner, memory);
    load_weights(&learner);
    run(&learner);
    store_weights(&learner);
    free(memory);
}
