/* ttt_linear, ttt_mlp, titans and titans_mlp in double precision, token by token. One job is one sequence and head.
 *
 * A batch's gradients are those at the weights W' before it:    G_j = x_j D_j^T of each layer
 *     M_i = m_i M_(i-1) - theta_i sum_(i - omega < j <= i) gamma_j G_j,   W_i = (1 - alpha_i) W_(i-1) + M_i
 * or, with eta:   W_i = W' - eta_i sum_(j <= i) theta_j G_j */
#include "op/op.h"
#include "reference/muon.h"
#include "reference/number.h"
#include "reference/task.h"

#include <math.h>
#include <stdlib.h>

enum { LAYERS = 2 };

/* [inputs + 1 with a bias, whose input is 1][outputs] each */
struct layer {
    int64_t inputs, outputs, rows; /* rows: inputs, and one of the bias */
    double *w, *before, *moment;   /* W, W' and M; with eta M is the sum over the batch */
    double *step;                  /* Muon's result */
    double *x, *d;                 /* [rows of a batch][rows], [rows of a batch][outputs]: the factors of gradients */
};

struct ttt {
    const struct task *task;
    const clattn_plan_desc *desc;
    const struct rule *rule;
    int64_t sequence, head, K, V, F, tokens;
    int64_t first, count; /* the batch at hand */
    int layers, bias, has_eta;
    struct layer layer[LAYERS];
    double *k, *v, *z, *h, *q; /* rows: [K], [V], [V], [F + 1], [K + 1] */
    double *weight, *shift;    /* of LN */
    double *square[MUON_SCRATCH];
};

/* ---- Numbers of the call ------------------------------------------------------------------------------------------
 */

static int64_t place_of(const struct ttt *ttt, clattn_operand_id id, int64_t token)
{
    const struct view *view = &ttt->task->tensors[id].view;

    return view->offset + ttt->sequence * view->batch + token * view->token + ttt->head * view->head;
}

static void load(const struct ttt *ttt, clattn_operand_id id, int64_t token, int64_t skip, int64_t count, double *to)
{
    const struct tensor *tensor = &ttt->task->tensors[id];

    for (int64_t i = 0; i < count; i++)
        to[i] = number_load(tensor->dtype, tensor->data, place_of(ttt, id, token) + skip + i);
}

static void store(const struct ttt *ttt, clattn_operand_id id, int64_t token, int64_t skip, int64_t count,
                  const double *from)
{
    const struct tensor *tensor = &ttt->task->tensors[id];

    for (int64_t i = 0; i < count && tensor->data != NULL; i++)
        number_store(tensor->dtype, tensor->data, place_of(ttt, id, token) + skip + i, from[i]);
}

/* A token's number of an operand that the problem may lack */
static double gate(const struct ttt *ttt, clattn_operand_id id, int64_t token, double absent)
{
    double x = absent;

    if (ttt->task->tensors[id].data != NULL)
        load(ttt, id, token, 0, 1, &x);
    return x;
}

static void load_key(const struct ttt *ttt, clattn_operand_id id, int64_t token, double *to)
{
    load(ttt, id, token, 0, ttt->K, to);
    task_turn_key(ttt->task, id, ttt->sequence, token, to);
}

/* ---- The model ----------------------------------------------------------------------------------------------------
 */

static double gelu_tanh(double x)
{
    return tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
}

static double gelu(double x)
{
    return 0.5 * x * (1 + gelu_tanh(x));
}

static double gelu_slope(double x)
{
    double t = gelu_tanh(x);

    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

/* z = w^T x */
static void apply(const struct layer *layer, const double *w, const double *x, double *z)
{
    row_clear(layer->outputs, z);
    for (int64_t i = 0; i < layer->rows; i++)
        row_add(layer->outputs, x[i], w + i * layer->outputs, z);
}

/* h = LN(z) without weight and shift; the standard deviation */
static double norm(int64_t count, const double *z, double *h)
{
    double mean = 0, variance = 0;

    for (int64_t i = 0; i < count; i++)
        mean += z[i] / (double)count;
    for (int64_t i = 0; i < count; i++)
        variance += (z[i] - mean) * (z[i] - mean) / (double)count;
    for (int64_t i = 0; i < count; i++)
        h[i] = (z[i] - mean) / sqrt(variance + 1e-6);
    return sqrt(variance + 1e-6);
}

/* The gradient of |LN(z) - (v - k)|^2 / 2, in the place of z */
static void ln_gradient(const struct ttt *ttt, double *z)
{
    const double count = (double)ttt->V, deviation = norm(ttt->V, z, z);
    double sum = 0, along = 0;

    for (int64_t i = 0; i < ttt->V; i++) {
        double e = (ttt->weight[i] * z[i] + ttt->shift[i] - (ttt->v[i] - ttt->k[i])) * ttt->weight[i];
        ttt->z[i] = e;
        sum += e;
        along += e * z[i];
    }
    for (int64_t i = 0; i < ttt->V; i++)
        z[i] = (count * ttt->z[i] - sum - z[i] * along) / (count * deviation);
}

/* The gradient of the token's loss by z, in its place */
static void loss_gradient(const struct ttt *ttt, double *z)
{
    switch (ttt->desc->loss) {
    case CLATTN_LOSS_RULE: return;
    case CLATTN_LOSS_LN: ln_gradient(ttt, z); return;
    case CLATTN_LOSS_L2: row_add(ttt->V, -1, ttt->v, z); return;
    case CLATTN_LOSS_DOT:
        row_clear(ttt->V, z);
        row_add(ttt->V, -1, ttt->v, z);
        return;
    }
}

/* The factors x and D of a token's gradients, at W' */
static void find_gradient(struct ttt *ttt, int64_t token, int64_t row)
{
    const struct layer *first = &ttt->layer[0], *last = &ttt->layer[ttt->layers - 1];
    double *x = first->x + row * first->rows, *z = first->d + row * first->outputs;

    load_key(ttt, CLATTN_K, token, ttt->k);
    load(ttt, CLATTN_V, token, 0, ttt->V, ttt->v);
    for (int64_t i = 0; i < first->rows; i++)
        x[i] = i < ttt->K ? ttt->k[i] : 1;
    apply(first, first->before, x, z);
    if (ttt->layers == 1) {
        loss_gradient(ttt, z);
        return;
    }
    x = last->x + row * last->rows;
    for (int64_t i = 0; i < last->rows; i++)
        x[i] = i < ttt->F ? gelu(z[i]) : 1;
    apply(last, last->before, x, last->d + row * ttt->V);
    loss_gradient(ttt, last->d + row * ttt->V);
    for (int64_t i = 0; i < ttt->F; i++)
        z[i] = gelu_slope(z[i]) * row_dot(ttt->V, last->before + i * ttt->V, last->d + row * ttt->V);
}

static void read_token(struct ttt *ttt, int64_t token)
{
    const clattn_readout readout = ttt->desc->readout;
    double *z = ttt->z;

    load_key(ttt, CLATTN_Q, token, ttt->q);
    for (int64_t i = 0; i < ttt->K; i++)
        ttt->q[i] *= ttt->desc->scale;
    ttt->q[ttt->K] = 1;
    apply(&ttt->layer[0], ttt->layer[0].w, ttt->q, ttt->layers == 1 ? z : ttt->h);
    if (ttt->layers > 1) {
        for (int64_t i = 0; i <= ttt->F; i++)
            ttt->h[i] = i < ttt->F ? gelu(ttt->h[i]) : 1;
        apply(&ttt->layer[1], ttt->layer[1].w, ttt->h, z);
    }
    if (readout != CLATTN_READOUT_NONE) {
        norm(ttt->V, z, ttt->v);
        for (int64_t i = 0; i < ttt->V; i++)
            z[i] = (readout == CLATTN_READOUT_Q ? ttt->q[i] : z[i]) + ttt->weight[i] * ttt->v[i] + ttt->shift[i];
    }
    store(ttt, CLATTN_O, token, 0, ttt->V, z);
}

/* ---- Steps --------------------------------------------------------------------------------------------------------
 */

/* to += factor x_row D_row^T */
static void add_gradient(const struct layer *layer, int64_t row, double factor, double *to)
{
    for (int64_t i = 0; i < layer->rows; i++)
        row_add(layer->outputs, factor * layer->x[row * layer->rows + i], layer->d + row * layer->outputs,
                to + i * layer->outputs);
}

static int64_t row_of(const struct ttt *ttt, int64_t token)
{
    return token - ttt->first + ttt->desc->omega - 1;
}

static void step_with_eta(const struct ttt *ttt, struct layer *layer, int64_t token)
{
    const int64_t count = layer->rows * layer->outputs;

    if (token == ttt->first)
        row_clear(count, layer->moment);
    add_gradient(layer, row_of(ttt, token), gate(ttt, CLATTN_THETA, token, 1), layer->moment);
    row_clear(count, layer->w);
    row_add(count, 1, layer->before, layer->w);
    row_add(count, -gate(ttt, CLATTN_ETA, token, 1), layer->moment, layer->w);
}

static void step(const struct ttt *ttt, struct layer *layer, int64_t token)
{
    const int64_t count = layer->rows * layer->outputs;
    const double kept = gate(ttt, CLATTN_MOMENTUM, token, 0), left = 1 - gate(ttt, CLATTN_ALPHA, token, 0);
    double *taken = layer->moment;

    for (int64_t i = 0; i < count; i++)
        layer->moment[i] *= kept;
    for (int64_t j = token - ttt->desc->omega + 1; j <= token; j++)
        if (j >= 0)
            add_gradient(layer, row_of(ttt, j), -gate(ttt, CLATTN_THETA, token, 1) * gate(ttt, CLATTN_GAMMA, j, 1),
                         layer->moment);
    if (ttt->desc->muon != CLATTN_MUON_NONE) {
        taken = layer->step;
        row_clear(count, taken);
        row_add(count, 1, layer->moment, taken);
        muon_orthogonalize(ttt->desc->muon, layer->inputs, layer->outputs, layer->moment, ttt->square, taken);
    }
    for (int64_t i = 0; i < count; i++)
        layer->w[i] = left * layer->w[i] + taken[i];
}

static void run_batch(struct ttt *ttt)
{
    const int64_t begin = ttt->first - ttt->desc->omega + 1;

    for (int i = 0; i < ttt->layers; i++) {
        struct layer *layer = &ttt->layer[i];
        row_clear(layer->rows * layer->outputs, layer->before);
        row_add(layer->rows * layer->outputs, 1, layer->w, layer->before);
    }
    for (int64_t token = begin < 0 ? 0 : begin; token < ttt->first + ttt->count; token++)
        find_gradient(ttt, token, row_of(ttt, token));
    for (int64_t token = ttt->first; token < ttt->first + ttt->count; token++) {
        for (int i = 0; i < ttt->layers; i++)
            (ttt->has_eta ? step_with_eta : step)(ttt, &ttt->layer[i], token);
        read_token(ttt, token);
    }
}

static int64_t batch_rows(const struct ttt *ttt)
{
    return ttt->desc->mini_batch < ttt->tokens ? ttt->desc->mini_batch : ttt->tokens;
}

static void run(struct ttt *ttt)
{
    for (ttt->first = 0; ttt->first < ttt->tokens; ttt->first += ttt->count) {
        ttt->count = ttt->tokens - ttt->first;
        ttt->count = ttt->count < ttt->desc->mini_batch ? ttt->count : ttt->desc->mini_batch;
        run_batch(ttt);
    }
}

/* ---- States -------------------------------------------------------------------------------------------------------
 */

/* The operands of a layer's matrix and of its bias, before and after the call */
struct ids {
    clattn_operand_id matrix, bias, final_matrix, final_bias;
};

static struct ids ids_of(const struct ttt *ttt, int layer)
{
    static const struct ids linear = {CLATTN_STATE_IN, CLATTN_INITIAL_BIAS, CLATTN_STATE_OUT, CLATTN_FINAL_BIAS},
                            mlp[] = {{CLATTN_W1, CLATTN_B1, CLATTN_FINAL_W1, CLATTN_FINAL_B1},
                                     {CLATTN_W2, CLATTN_B2, CLATTN_FINAL_W2, CLATTN_FINAL_B2}};

    return ttt->layers == 1 ? linear : mlp[layer];
}

static void load_state(struct ttt *ttt)
{
    int64_t moments = 0;

    for (int i = 0; i < ttt->layers; i++) {
        const struct layer *layer = &ttt->layer[i];
        const struct ids ids = ids_of(ttt, i);
        const int64_t count = layer->inputs * layer->outputs, all = layer->rows * layer->outputs;
        if (ttt->task->tensors[ids.matrix].data != NULL)
            load(ttt, ids.matrix, 0, 0, count, layer->w);
        if (ttt->bias)
            load(ttt, ids.bias, 0, 0, layer->outputs, layer->w + count);
        if (ttt->task->tensors[CLATTN_INITIAL_MOMENTUM].data != NULL)
            load(ttt, CLATTN_INITIAL_MOMENTUM, 0, moments, all, layer->moment);
        moments += all;
    }
    if (learner_has_norm(ttt->desc)) {
        const struct tensor *weight = &ttt->task->tensors[CLATTN_LN_WEIGHT];
        const struct tensor *shift = &ttt->task->tensors[CLATTN_LN_BIAS];
        for (int64_t i = 0; i < ttt->V; i++) {
            ttt->weight[i] =
                number_load(weight->dtype, weight->data, weight->view.offset + ttt->head * weight->view.head + i);
            ttt->shift[i] =
                number_load(shift->dtype, shift->data, shift->view.offset + ttt->head * shift->view.head + i);
        }
    }
}

static void store_state(const struct ttt *ttt)
{
    int64_t moments = 0;

    for (int i = 0; i < ttt->layers; i++) {
        const struct layer *layer = &ttt->layer[i];
        const struct ids ids = ids_of(ttt, i);
        const int64_t count = layer->inputs * layer->outputs, all = layer->rows * layer->outputs;
        store(ttt, ids.final_matrix, 0, 0, count, layer->w);
        store(ttt, ids.final_bias, 0, 0, layer->outputs, layer->w + count);
        store(ttt, CLATTN_FINAL_MOMENTUM, 0, moments, all, layer->moment);
        moments += all;
    }
}

static int64_t square_of(const struct ttt *ttt)
{
    int64_t most = ttt->K > ttt->V ? ttt->K : ttt->V;

    most = ttt->layers > 1 && ttt->F > most ? ttt->F : most;
    return ttt->desc->muon != CLATTN_MUON_NONE ? most * most : 0;
}

/* A piece of memory: `base` NULL only counts. */
struct carving {
    double *base;
    int64_t used;
};

static double *carve(struct carving *from, int64_t count)
{
    double *at = from->base != NULL ? from->base + from->used : NULL;

    from->used += count;
    return at;
}

/* Places everything in memory; NULL: only counts. Returns the number of elements. */
static int64_t lay_out(struct ttt *ttt, double *memory)
{
    const int64_t rows = batch_rows(ttt) + ttt->desc->omega - 1;
    struct carving at = {memory, 0};

    for (int i = 0; i < ttt->layers; i++) {
        struct layer *layer = &ttt->layer[i];
        double **const matrices[] = {&layer->w, &layer->before, &layer->moment, &layer->step};
        layer->inputs = i == 0 ? ttt->K : ttt->F;
        layer->outputs = i == ttt->layers - 1 ? ttt->V : ttt->F;
        layer->rows = layer->inputs + ttt->bias;
        for (size_t m = 0; m < sizeof matrices / sizeof *matrices; m++)
            *matrices[m] = carve(&at, layer->rows * layer->outputs);
        layer->x = carve(&at, rows * layer->rows);
        layer->d = carve(&at, rows * layer->outputs);
    }
    ttt->k = carve(&at, ttt->K);
    ttt->q = carve(&at, ttt->K + 1);
    ttt->h = carve(&at, ttt->F + 1);
    ttt->v = carve(&at, ttt->V);
    ttt->z = carve(&at, ttt->V);
    ttt->weight = carve(&at, ttt->V);
    ttt->shift = carve(&at, ttt->V);
    for (int i = 0; i < MUON_SCRATCH; i++)
        ttt->square[i] = carve(&at, square_of(ttt));
    return at.used;
}

void ttt_head(void *user, int64_t job)
{
    struct task *task = user;
    const struct problem *problem = task->problem;
    const clattn_plan_desc *desc = &problem->desc;
    struct ttt ttt = {.task = task,
                      .desc = desc,
                      .rule = problem->rule,
                      .sequence = job / desc->heads,
                      .head = job % desc->heads,
                      .K = desc->key_dim,
                      .V = desc->value_dim,
                      .F = desc->hidden_dim,
                      .tokens = task->extent.seq_len,
                      .layers = problem->rule->model == MODEL_MLP ? 2 : 1,
                      .bias = problem->rule->bias,
                      .has_eta = problem->rule->rates == RATES_ETA || (desc->flags & CLATTN_WITH_ETA)};
    double *memory = calloc((size_t)lay_out(&ttt, NULL), sizeof *memory);

    if (memory == NULL) {
        atomic_store(&task->out_of_memory, 1);
        return;
    }
    lay_out(&ttt, memory);
    load_state(&ttt);
    run(&ttt);
    store_state(&ttt);
    free(memory);
}
