/* The backward pass of every rule of a state, row by row from the last: the oracle of gradients.
 *
 * A row is a write; the first of a token's rows has its decay, and the queries read after its last (or before its
 * first). With the state S- before a row, S' = D S- after the decay, and u = p^T S' (or p^T S- where the erase comes
 * first), a row computes S = S' - e u + kappa x^T, kappa = strength k. Let dX be the loss's gradient by X. From dS:
 *
 *     dkappa = dS x,  dx = dS^T kappa,  de = -dS u,  du = -dS^T e
 *     dS' = dS + p du^T,  dp = S' du            (erase first: dS- gains p du^T, and dp = S- du)
 *     dg = rowsum(S' o dS'),  dgv = colsum(S' o dS')
 *     dS- = D dS'
 *
 * and a read o = S^T q gives dq = S do and adds q do^T to dS. A denominator is one more column of the state, of values 1
 * (algebra of gradients: each term of dg carries its decay, so that a gate of -inf has the gradient 0).
 *
 * States are kept before every sqrt(R)-th of R rows, and those between are made again: 2 sqrt(R) K V numbers. */
#include "base/thread.h"
#include "reference/head.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What tokens or sequences share: a number for each sequence and head, which are added in order at the end. */
enum shared { SHARED_GATE, SHARED_BONUS, SHARED_RATE, SHARED_BIAS, SHARED_COUNT };

struct adjoint_task {
    struct task *task;
    double *sums[SHARED_COUNT]; /* [sequence][head][width]; NULL: nothing is shared */
    int64_t width[SHARED_COUNT];
};

/* One head of a sequence at work. */
struct adjoint {
    const struct adjoint_task *of;
    struct head head;
    int64_t K, V, columns, rows, stretch;   /* columns: V, and one of a denominator */
    double *kept;                           /* [stretches][K][columns]: states before the first row of each stretch */
    double *before;                         /* [stretch][K][columns]: before each row of one stretch */
    double *stabilizers;                    /* [rows]: m before each row */
    double *decayed, *after, *dS;           /* [K][columns]: S', S and dS */
    double *u, *du, *dx, *do_, *value_flow; /* [columns] */
    double *dkappa, *de, *dp, *flow, *dkey; /* [K] */
    double *dq, *dk, *dp_rows; /* of the heads that share q, k and p: [reads][tokens][K], [rows][K], [tokens][K] */
    double strength;
};

void task_leave(const struct task *task, clattn_operand_id id, int64_t at, double value)
{
    const struct tensor *tensor = &task->tensors[gradient_of(id)];

    if (problem_adds(task->problem, id))
        value += number_load(tensor->dtype, tensor->data, at);
    number_store(tensor->dtype, tensor->data, at, value);
}

static void put(const struct head *head, clattn_operand_id id, int64_t row, int64_t first, int64_t h, int64_t index,
                double value)
{
    const struct tensor *tensor = head_tensor(head, gradient_of(id));
    const struct view *view = &tensor->view;

    if (tensor->data != NULL)
        task_leave(head->task, id,
                   view->offset + head->batch * view->batch + (first + row) * view->token + h * view->head + index,
                   value);
}

static void add_shared(const struct adjoint *a, enum shared which, int64_t index, double value)
{
    const int64_t heads = problem_work_heads(a->of->task->problem), width = a->of->width[which];

    if (a->of->sums[which] != NULL)
        a->of->sums[which][(a->head.sequence * heads + a->head.head) * width + index] += value;
}

/* ---- Products with a state [K][columns] ---- */

/* y = S^T x, and y = S x */
static void rows_of(const struct adjoint *a, const double *S, const double *x, double *y)
{
    memset(y, 0, (size_t)a->columns * sizeof *y);
    for (int64_t n = 0; n < a->K; n++)
        for (int64_t c = 0; c < a->columns; c++)
            y[c] += S[n * a->columns + c] * x[n];
}

static void columns_of(const struct adjoint *a, const double *S, const double *x, double *y)
{
    for (int64_t n = 0; n < a->K; n++) {
        y[n] = 0;
        for (int64_t c = 0; c < a->columns; c++)
            y[n] += S[n * a->columns + c] * x[c];
    }
}

/* S += factor x y^T */
static void add_outer(const struct adjoint *a, double *S, double factor, const double *x, const double *y)
{
    for (int64_t n = 0; n < a->K; n++)
        for (int64_t c = 0; c < a->columns; c++)
            S[n * a->columns + c] += factor * x[n] * y[c];
}

/* S <- D S; the column of a denominator has no decay of values. */
static void decay(const struct adjoint *a, double *S)
{
    for (int64_t n = 0; n < a->K; n++)
        for (int64_t c = 0; c < a->columns; c++)
            S[n * a->columns + c] *= a->head.decay[n] * (c < a->V ? a->head.value_decay[c] : 1);
}

/* ---- Forward ---- */

static int64_t steps_of(const struct adjoint *a)
{
    return a->of->task->problem->desc.steps;
}

static int erases(const struct adjoint *a)
{
    return a->of->task->problem->rule->erase != ERASE_NONE;
}

static int erases_first(const struct adjoint *a)
{
    return erases(a) && a->of->task->problem->rule->order == ERASE_FIRST;
}

/* The row's k, p, e, x, strength and decays; a->head.m is that before the row, and becomes that after it. */
static void load(struct adjoint *a, int64_t row)
{
    struct head *head = &a->head;
    const int64_t steps = steps_of(a), first = head->first * steps;

    head_factors(head, row / steps);
    for (int64_t n = 0; n < a->K && row % steps != 0; n++)
        head->decay[n] = 1;
    for (int64_t c = 0; c < a->V && row % steps != 0; c++)
        head->value_decay[c] = 1;
    head_load_key(head, CLATTN_K, row, first, head->key_head, head->k);
    a->strength = head_load_write(head, row, first);
    if (a->columns > a->V)
        head->x[a->V] = 1;
    head_load_erase(head, row, first, a->strength);
}

/* The row's S' into decayed and S into after, of the state before it; u is what it erases. */
static void advance(struct adjoint *a, const double *before)
{
    const size_t size = (size_t)(a->K * a->columns) * sizeof *before;

    memcpy(a->decayed, before, size);
    decay(a, a->decayed);
    memcpy(a->after, a->decayed, size);
    if (erases(a)) {
        rows_of(a, erases_first(a) ? before : a->decayed, a->head.p, a->u);
        add_outer(a, a->after, -1, a->head.e, a->u);
    }
    add_outer(a, a->after, a->strength, a->head.k, a->head.x);
}

/* Keeps the states before every stretch of rows; the last state is left in `after`. */
static void walk_forward(struct adjoint *a)
{
    const size_t size = (size_t)(a->K * a->columns) * sizeof *a->after;

    for (int64_t row = 0; row < a->rows; row++) {
        if (row % a->stretch == 0)
            memcpy(a->kept + row / a->stretch * a->K * a->columns, a->after, size);
        memcpy(a->before, a->after, size);
        a->stabilizers[row] = a->head.m;
        load(a, row);
        advance(a, a->before);
    }
}

/* The states before each row of a stretch. */
static void make_again(struct adjoint *a, int64_t stretch)
{
    const int64_t size = a->K * a->columns, first = stretch * a->stretch;

    memcpy(a->before, a->kept + stretch * size, (size_t)size * sizeof *a->before);
    for (int64_t i = 1; i < a->stretch && first + i < a->rows; i++) {
        a->head.m = a->stabilizers[first + i - 1];
        load(a, first + i - 1);
        advance(a, a->before + (i - 1) * size);
        memcpy(a->before + i * size, a->after, (size_t)size * sizeof *a->before);
    }
}

/* ---- Reads ---- */

/* The cotangents of what a query reads: d_o over the divisor N, and of q.z
 *     -(d_o . o) / N, of mLSTM times the sign of q.n where that is the divisor, else 0. */
static void load_cotangents(struct adjoint *a, const double *S, int64_t token, int64_t h, const double *q)
{
    const struct problem *problem = a->of->task->problem;
    double sum = 0, divisor = 1, sign = 1, product = 0;

    if (a->columns > a->V) {
        for (int64_t n = 0; n < a->K; n++)
            sum += q[n] * S[n * a->columns + a->V];
        divisor = sum;
        if (problem_stabilized(problem)) {
            const double least = exp(-a->head.m);
            sign = fabs(sum) > least ? (sum > 0 ? 1 : -1) : 0;
            divisor = fmax(fabs(sum), least);
        }
        divisor += problem_eps(problem);
    }
    for (int64_t c = 0; c < a->V; c++) {
        const double cotangent = head_element(&a->head, gradient_of(CLATTN_O), token, a->head.first, h, c);
        if (a->columns > a->V)
            product += cotangent * head_element(&a->head, CLATTN_O, token, a->head.first, h, c);
        a->do_[c] = isinf(divisor) ? 0 : cotangent / divisor;
    }
    if (a->columns > a->V)
        a->do_[a->V] = isinf(divisor) || sign == 0 ? 0 : -sign * product / divisor;
}

/* What rwkv6's bonus, (q . (u o k)) v, gives beside. k and v of the token are loaded; dq gains, too. */
static void read_bonus_back(struct adjoint *a, int64_t token, const double *q, double *dq)
{
    const struct head *head = &a->head;
    double r = 0, weight = 0;

    for (int64_t c = 0; c < a->V; c++)
        r += a->do_[c] * head->x[c];
    for (int64_t n = 0; n < a->K; n++) {
        const double bonus = head_element(head, CLATTN_U, 0, 0, head->head, n);
        weight += q[n] * bonus * head->k[n];
        dq[n] += r * bonus * head->k[n];
        a->dk[token * a->K + n] += r * bonus * q[n];
        add_shared(a, SHARED_BONUS, n, r * q[n] * head->k[n]);
    }
    for (int64_t c = 0; c < a->V; c++)
        a->dx[c] += weight * a->do_[c];
}

/* A query's read of S: dq, and dS += q do^T. */
static void read_back(struct adjoint *a, const double *S, int64_t token, int64_t read)
{
    const struct problem *problem = a->of->task->problem;
    const int64_t h = head_of_read(&a->head, read);
    double *q = a->head.q, *dq = a->dkappa, *to = a->dq + (read * a->head.tokens + token) * a->K;

    head_load_key(&a->head, CLATTN_Q, token, a->head.first, problem_reads(problem) > 1 ? h : a->head.key_head, q);
    for (int64_t n = 0; n < a->K; n++)
        q[n] *= problem->desc.scale;
    load_cotangents(a, S, token, h, q);
    columns_of(a, S, a->do_, dq);
    add_outer(a, a->dS, 1, q, a->do_);
    if (problem->rule->read == READ_BONUS)
        read_bonus_back(a, token, q, dq);
    for (int64_t n = 0; n < a->K; n++)
        to[n] += problem->desc.scale * dq[n];
}

static void reads_back(struct adjoint *a, const double *S, int64_t token)
{
    for (int64_t read = 0; read < problem_reads(a->of->task->problem); read++)
        read_back(a, S, token, read);
}

/* ---- One row ---- */

/* dx and dp as the operands have them. */
static void leave_values(struct adjoint *a, int64_t row)
{
    const struct head *head = &a->head;
    const int64_t first = head->first * steps_of(a), h = head->head;
    const int gated = a->of->task->problem->rule->write == WRITE_GATED;

    for (int64_t c = 0; c < a->V; c++) {
        const double gate = gated ? head_element(head, CLATTN_W, row, first, h, c) : 1;
        put(head, CLATTN_V, row, first, h, c, gate * a->dx[c]);
        if (gated)
            put(head, CLATTN_W, row, first, h, c, head_element(head, CLATTN_V, row, first, h, c) * a->dx[c]);
    }
}

static void leave_erase(struct adjoint *a, int64_t row)
{
    const struct head *head = &a->head;
    const int64_t first = head->first * steps_of(a), h = head->head;

    for (int64_t n = 0; n < a->K; n++)
        switch (a->of->task->problem->rule->erase) {
        case ERASE_NONE:
        case ERASE_POSITION:
        case ERASE_KERNEL: break;
        case ERASE_KEY: a->dkey[n] += a->dp[n]; break;
        case ERASE_OPERAND: a->dp_rows[row * a->K + n] += a->dp[n]; break;
        case ERASE_GATED:
            a->dkey[n] += head_element(head, CLATTN_B, row, first, h, n) * a->dp[n];
            put(head, CLATTN_B, row, first, h, n, head->k[n] * a->dp[n]);
            break;
        case ERASE_LOW_RANK:
            put(head, CLATTN_A, row, first, h, n, a->dp[n]);
            put(head, CLATTN_B, row, first, h, n, -a->de[n]);
            break;
        }
}

/* The gradient by the strength, as the operand that it is made of has it. */
static void leave_strength(struct adjoint *a, int64_t row, double gradient)
{
    const struct head *head = &a->head;
    const clattn_plan_desc *desc = &a->of->task->problem->desc;
    const int64_t first = head->first * desc->steps;
    const double beta = a->strength;

    switch (a->of->task->problem->rule->write) {
    case WRITE_VALUE:
    case WRITE_STEP:
    case WRITE_GATED: return;
    case WRITE_EXP: put(head, CLATTN_I, row, first, head->head, 0, gradient * beta); return;
    case WRITE_BETA: break;
    }
    switch (desc->beta_map) {
    case CLATTN_BETA_STRENGTH: break;
    case CLATTN_BETA_SIGMOID: gradient *= beta * (1 - beta); break;
    case CLATTN_BETA_TWICE_SIGMOID: gradient *= beta * (1 - beta / 2); break;
    case CLATTN_BETA_SOFTPLUS: /* softplus' = sigmoid = 1 - e^-softplus */
        gradient *= task_step_is_limited(desc, beta) ? 0 : -expm1(-beta);
        add_shared(a, SHARED_BIAS, 0, gradient);
        break;
    }
    put(head, CLATTN_BETA, row, first, head->head, 0, gradient);
}

/* Of the gradient by a log-decay that by the number it is made of, and what bias and rate gain. A decay that forgets
 * all has the gradient 0, whatever its number. */
static double gate_back(struct adjoint *a, int64_t token, int64_t n, double gradient)
{
    const struct head *head = &a->head;
    const clattn_plan_desc *desc = &a->of->task->problem->desc;
    double x = head_element(head, a->of->task->problem->rule->gate, token, head->first, head->head, n), rate = 1;
    struct gate_slopes slopes;

    if (desc->gate_map == CLATTN_GATE_MAP_LOG || gradient == 0)
        return gradient;
    if (desc->flags & CLATTN_WITH_DT_BIAS)
        x += head_element(head, CLATTN_DT_BIAS, 0, 0, head->head, n);
    if (desc->flags & CLATTN_WITH_A_LOG)
        rate = exp(head_element(head, CLATTN_A_LOG, 0, 0, head->head, 0));
    slopes = task_gate_slopes(desc, x, rate);
    add_shared(a, SHARED_RATE, 0, gradient * slopes.by_rate);
    gradient *= slopes.by_number;
    add_shared(a, SHARED_BIAS, n, gradient);
    return gradient;
}

/* dg and dgv of a token: rows and columns of S' o dS', S' being a->decayed. */
static void leave_gates(struct adjoint *a, int64_t token)
{
    const struct head *head = &a->head;
    const struct problem *problem = a->of->task->problem;
    const clattn_operand_id gate = problem->rule->gate;
    const int channels = problem_decay(problem) == DECAY_CHANNEL;
    double all = 0;

    memset(a->value_flow, 0, (size_t)a->columns * sizeof *a->value_flow);
    for (int64_t n = 0; n < a->K; n++) {
        a->flow[n] = 0;
        for (int64_t c = 0; c < a->columns; c++) {
            const double flow = a->decayed[n * a->columns + c] * a->dS[n * a->columns + c];
            a->flow[n] += flow;
            a->value_flow[c] += flow;
        }
        all += a->flow[n];
    }
    for (int64_t c = 0; c < a->V; c++)
        put(head, CLATTN_GV, token, head->first, head->head, c, a->value_flow[c]);
    if (gate == NO_OPERAND || head_tensor(head, gate)->data == NULL)
        return;
    for (int64_t n = 0; n < (channels ? a->K : 1); n++) {
        const double gradient = gate_back(a, token, n, channels ? a->flow[n] : all);
        if (problem->desc.flags & CLATTN_GATE_PER_HEAD)
            add_shared(a, SHARED_GATE, n, gradient);
        else
            put(head, gate, token, head->first, head->head, n, gradient);
    }
}

/* The row's own part, which is loaded, of the state before it. dS becomes the gradient by that state. */
static void row_back(struct adjoint *a, int64_t row, const double *before)
{
    const struct head *head = &a->head;
    const int64_t steps = steps_of(a);
    double strength = 0;

    columns_of(a, a->dS, head->x, a->dkappa);
    rows_of(a, a->dS, head->k, a->dx);
    for (int64_t c = 0; c < a->columns; c++)
        a->dx[c] *= a->strength;
    memset(a->de, 0, (size_t)a->K * sizeof *a->de);
    if (erases(a)) {
        columns_of(a, a->dS, a->u, a->de);
        rows_of(a, a->dS, head->e, a->du);
        for (int64_t n = 0; n < a->K; n++)
            a->de[n] = -a->de[n];
        for (int64_t c = 0; c < a->columns; c++)
            a->du[c] = -a->du[c];
        columns_of(a, erases_first(a) ? before : a->decayed, a->du, a->dp);
        if (!erases_first(a))
            add_outer(a, a->dS, 1, head->p, a->du);
    }
    for (int64_t n = 0; n < a->K; n++) {
        const int by_key = erases(a) && a->of->task->problem->rule->erase != ERASE_LOW_RANK; /* e = strength k */
        const double both = a->dkappa[n] + (by_key ? a->de[n] : 0);
        strength += head->k[n] * both;
        a->dkey[n] = a->strength * both;
    }
    leave_strength(a, row, strength);
    leave_erase(a, row);
    for (int64_t n = 0; n < a->K; n++)
        a->dk[row * a->K + n] += a->dkey[n];
    if (row % steps == 0)
        leave_gates(a, row / steps);
    decay(a, a->dS);
    if (erases_first(a))
        add_outer(a, a->dS, 1, head->p, a->du);
}

static void token_row_back(struct adjoint *a, int64_t row, const double *before)
{
    const struct problem *problem = a->of->task->problem;
    const int64_t steps = steps_of(a), token = row / steps;
    const int reads_before = read_is_before(problem->rule->read);

    a->head.m = a->stabilizers[row];
    load(a, row);
    advance(a, before);
    if (row % steps == steps - 1 && !reads_before && !problem_reads_whole(problem))
        reads_back(a, a->after, token);
    row_back(a, row, before);
    if (row % steps == 0 && reads_before)
        reads_back(a, before, token);
    leave_values(a, row);
}

/* ---- A head ---- */

/* Index of an element of a sequence's state, or of its gradient. */
static int64_t state_at(const struct head *head, const struct tensor *tensor, int64_t state, int64_t n, int64_t c)
{
    const int turned = (head->task->problem->desc.flags & CLATTN_STATE_VK) != 0;

    return tensor->view.offset + state * tensor->view.batch + head->head * tensor->view.head +
           (turned ? c * head->K + n : n * head->V + c);
}

static int64_t normalizer_at(const struct head *head, const struct tensor *tensor, int64_t state, int64_t n)
{
    return tensor->view.offset + state * tensor->view.batch + head->head * tensor->view.head + n;
}

/* A state with its normalizer, of the operands that have them; zero where there is none. */
static void get_state(const struct adjoint *a, clattn_operand_id matrix, clattn_operand_id vector, int64_t state,
                      double *S)
{
    const struct head *head = &a->head;
    const struct tensor *whole = head_tensor(head, matrix), *sums = head_tensor(head, vector);

    for (int64_t n = 0; n < a->K; n++) {
        for (int64_t c = 0; c < a->V; c++)
            S[n * a->columns + c] = state >= 0 && whole->data
                                        ? number_load(whole->dtype, whole->data, state_at(head, whole, state, n, c))
                                        : 0;
        if (a->columns > a->V)
            S[n * a->columns + a->V] =
                state >= 0 && sums->data ? number_load(CLATTN_F32, sums->data, normalizer_at(head, sums, state, n)) : 0;
    }
}

static void begin(struct adjoint *a)
{
    const struct head *head = &a->head;
    const struct tensor *m = head_tensor(head, CLATTN_STABILIZER_IN);

    get_state(a, CLATTN_STATE_IN, CLATTN_NORMALIZER_IN, head->state, a->after);
    a->head.m = head->state >= 0 && m->data ? number_load(CLATTN_F32, m->data, normalizer_at(head, m, head->state, 0))
                                            : (double)-INFINITY;
}

/* The gradient by the state that the sequence began with: 0 where it has none in the pool. */
static void leave_initial(const struct adjoint *a)
{
    const struct head *head = &a->head;
    const struct tensor *whole = head_tensor(head, gradient_of(CLATTN_STATE_IN));
    const struct tensor *sums = head_tensor(head, gradient_of(CLATTN_NORMALIZER_IN));
    const double is_there = head->state >= 0;

    for (int64_t n = 0; n < a->K; n++) {
        for (int64_t c = 0; c < a->V && whole->data; c++)
            task_leave(head->task, CLATTN_STATE_IN, state_at(head, whole, head->sequence, n, c),
                       is_there * a->dS[n * a->columns + c]);
        if (sums->data)
            task_leave(head->task, CLATTN_NORMALIZER_IN, normalizer_at(head, sums, head->sequence, n),
                       is_there * a->dS[n * a->columns + a->V]);
    }
}

static void walk(struct adjoint *a)
{
    const struct problem *problem = a->of->task->problem;

    begin(a);
    walk_forward(a);
    get_state(a, gradient_of(CLATTN_STATE_OUT), gradient_of(CLATTN_NORMALIZER_OUT),
              a->head.state >= 0 ? a->head.sequence : -1, a->dS);
    for (int64_t token = 0; token < a->head.tokens && problem_reads_whole(problem); token++)
        reads_back(a, a->after, token);
    for (int64_t stretch = (a->rows + a->stretch - 1) / a->stretch - 1; stretch >= 0; stretch--) {
        const int64_t first = stretch * a->stretch;
        make_again(a, stretch);
        for (int64_t i = a->stretch - 1; i >= 0; i--)
            if (first + i < a->rows)
                token_row_back(a, first + i, a->before + i * a->K * a->columns);
    }
    leave_initial(a);
}

/* ---- Heads that share queries and keys ---- */

/* dy by a row as the state has it, to that by the operand: y = map(x r), r the norm, and x turned. */
static void map_back(struct adjoint *a, clattn_operand_id id, int64_t row, int64_t first, int64_t h, double *dy)
{
    const clattn_plan_desc *desc = &a->of->task->problem->desc;
    struct head *head = &a->head;
    double *x = head->q, factor, dot = 0;

    if (head_tensor(head, id)->data == NULL)
        return;
    head_load_turned(head, id, row, first, h, x);
    factor = head_norm(head, x);
    for (int64_t n = 0; n < a->K; n++) {
        x[n] *= factor;
        switch (desc->feature_map) {
        case CLATTN_FEATURE_IDENTITY: break;
        case CLATTN_FEATURE_ELU1: dy[n] *= x[n] > 0 ? 1 : exp(x[n]); break;
        case CLATTN_FEATURE_RELU: dy[n] *= x[n] > 0; break;
        }
        dot += x[n] * dy[n];
    }
    for (int64_t n = 0; n < a->K && desc->flags & CLATTN_QK_L2NORM; n++)
        dy[n] = factor * (dy[n] - x[n] * dot);
    task_turn_back(head->task, head->sequence, head_token(head, id, row), dy);
    for (int64_t n = 0; n < a->K; n++)
        put(head, id, row, first, h, n, dy[n]);
}

static void leave_shared_rows(struct adjoint *a)
{
    const struct head *head = &a->head;
    const int64_t reads = problem_reads(a->of->task->problem), tokens = head->tokens;

    for (int64_t i = 0; i < reads * tokens; i++)
        map_back(a, CLATTN_Q, i % tokens, head->first, reads > 1 ? head_of_read(head, i / tokens) : head->key_head,
                 a->dq + i * a->K);
    for (int64_t row = 0; row < a->rows; row++)
        map_back(a, CLATTN_K, row, head->first * steps_of(a), head->key_head, a->dk + row * a->K);
    for (int64_t token = 0; token < tokens; token++)
        map_back(a, CLATTN_P, token, head->first, head->key_head, a->dp_rows + token * a->K);
}

/* Room for a sequence's rows; NULL without memory. */
static double *share_out(struct adjoint *a)
{
    const int64_t K = a->K, columns = a->columns, state = K * columns, tokens = a->head.tokens;
    const int64_t reads = problem_reads(a->of->task->problem), stretches = (a->rows + a->stretch - 1) / a->stretch;
    struct head *head = &a->head;
    struct {
        double **to;
        int64_t count;
    } parts[] = {{&a->kept, stretches * state},
                 {&a->before, a->stretch * state},
                 {&a->stabilizers, a->rows},
                 {&a->decayed, state},
                 {&a->after, state},
                 {&a->dS, state},
                 {&a->u, columns},
                 {&a->du, columns},
                 {&a->dx, columns},
                 {&a->do_, columns},
                 {&a->value_flow, columns},
                 {&a->dkappa, K},
                 {&a->de, K},
                 {&a->dp, K},
                 {&a->flow, K},
                 {&a->dkey, K},
                 {&a->dq, reads * tokens * K},
                 {&a->dk, a->rows * K},
                 {&a->dp_rows, tokens * K},
                 {&head->q, K},
                 {&head->k, K},
                 {&head->p, K},
                 {&head->e, K},
                 {&head->decay, K},
                 {&head->value_decay, columns},
                 {&head->x, columns},
                 {&head->step, columns}};
    int64_t count = 0;
    double *memory;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        count += parts[i].count;
    memory = calloc((size_t)count, sizeof *memory);
    count = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && memory != NULL; i++) {
        *parts[i].to = memory + count;
        count += parts[i].count;
    }
    return memory;
}

static int64_t key_head_of(const clattn_plan_desc *desc, int64_t head)
{
    return desc->flags & CLATTN_HEADS_TILED ? head % desc->qk_heads : head / (desc->heads / desc->qk_heads);
}

/* How many heads of keys there are. */
static int64_t key_heads(const struct problem *problem)
{
    const int64_t states = problem_work_heads(problem);

    return states < problem->desc.qk_heads ? states : problem->desc.qk_heads;
}

/* A job: a sequence, and the heads that share one head of queries and keys, in their order. */
static void run_heads(void *user, int64_t job)
{
    const struct adjoint_task *of = user;
    const struct problem *problem = of->task->problem;
    const clattn_plan_desc *desc = &problem->desc;
    struct adjoint a = {
        .of = of, .K = desc->key_dim, .V = desc->value_dim, .columns = desc->value_dim + problem_normalized(problem)};
    const int64_t shared = job % key_heads(problem);
    double *memory;

    a.head =
        (struct head){.task = of->task, .sequence = job / key_heads(problem), .K = a.K, .V = a.V, .key_head = shared};
    head_place(&a.head);
    a.rows = a.head.tokens * desc->steps;
    a.stretch = (int64_t)ceil(sqrt((double)a.rows)) + 1;
    memory = share_out(&a);
    if (memory == NULL) {
        atomic_store(&of->task->out_of_memory, 1);
        return;
    }
    for (int64_t h = 0; h < problem_work_heads(problem); h++)
        if (key_head_of(desc, h) == shared) {
            a.head.head = h;
            walk(&a);
        }
    a.head.head = shared;
    leave_shared_rows(&a);
    free(memory);
}

/* ---- What tokens and sequences share ---- */

static clattn_operand_id shared_operand(const struct problem *problem, enum shared which)
{
    switch (which) {
    case SHARED_GATE: return problem->desc.flags & CLATTN_GATE_PER_HEAD ? problem->rule->gate : NO_OPERAND;
    case SHARED_BONUS: return CLATTN_U;
    case SHARED_RATE: return CLATTN_A_LOG;
    case SHARED_BIAS: return CLATTN_DT_BIAS;
    case SHARED_COUNT: break;
    }
    return NO_OPERAND;
}

static int open_sums(struct adjoint_task *of)
{
    const struct problem *problem = of->task->problem;
    const int64_t heads = problem_work_heads(problem);

    for (enum shared i = 0; i < SHARED_COUNT; i++) {
        const clattn_operand_id id = shared_operand(problem, i);
        of->width[i] = i == SHARED_BONUS || (i != SHARED_RATE && problem->rule->decay == DECAY_CHANNEL)
                           ? problem->desc.key_dim
                           : 1;
        if (id == NO_OPERAND || of->task->tensors[gradient_of(id)].data == NULL)
            continue;
        of->sums[i] = calloc((size_t)(of->task->extent.sequences * heads * of->width[i] + 1), sizeof *of->sums[i]);
        if (of->sums[i] == NULL)
            return 0;
    }
    return 1;
}

/* Sums over sequences, in their order. */
static void leave_sums(const struct adjoint_task *of)
{
    const struct problem *problem = of->task->problem;
    const int64_t heads = problem_work_heads(problem);
    const struct head head = {.task = of->task};

    for (enum shared i = 0; i < SHARED_COUNT; i++)
        for (int64_t n = 0; n < heads * of->width[i] && of->sums[i] != NULL; n++) {
            double sum = 0;
            for (int64_t sequence = 0; sequence < of->task->extent.sequences; sequence++)
                sum += of->sums[i][sequence * heads * of->width[i] + n];
            put(&head, shared_operand(problem, i), 0, 0, n / of->width[i], n % of->width[i], sum);
        }
}

clattn_status adjoint_run(struct task *task, const struct log *log)
{
    struct adjoint_task of = {.task = task};

    atomic_init(&task->out_of_memory, !open_sums(&of));
    if (!atomic_load(&task->out_of_memory)) {
        parallel_for(task->extent.sequences * key_heads(task->problem), run_heads, &of);
        leave_sums(&of);
    }
    for (enum shared i = 0; i < SHARED_COUNT; i++)
        free(of.sums[i]);
    if (atomic_load(&task->out_of_memory))
        return FAIL(log, OUT_OF_MEMORY, "no memory for the states of the reference");
    return CLATTN_SUCCESS;
}
