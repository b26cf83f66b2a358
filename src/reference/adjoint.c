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
#include "reference/adjoint.h"

#include <math.h>
#include <string.h>

void task_leave(const struct task *task, clattn_operand_id id, int64_t at, double value)
{
    const struct tensor *tensor = &task->tensors[gradient_of(id)];

    if (problem_adds(task->problem, id))
        value += number_load(tensor->dtype, tensor->data, at);
    number_store(tensor->dtype, tensor->data, at, value);
}

void adjoint_put(const struct head *head, clattn_operand_id id, int64_t row, int64_t first, int64_t h, int64_t index,
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

int64_t adjoint_steps(const struct adjoint *a)
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
    const int64_t steps = adjoint_steps(a), first = head->first * steps;

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
void adjoint_forward(struct adjoint *a)
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
void adjoint_again(struct adjoint *a, int64_t stretch)
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

void adjoint_reads_back(struct adjoint *a, const double *S, int64_t token)
{
    for (int64_t read = 0; read < problem_reads(a->of->task->problem); read++)
        read_back(a, S, token, read);
}

/* ---- One row ---- */

/* dx and dp as the operands have them. */
static void leave_values(struct adjoint *a, int64_t row)
{
    const struct head *head = &a->head;
    const int64_t first = head->first * adjoint_steps(a), h = head->head;
    const int gated = a->of->task->problem->rule->write == WRITE_GATED;

    for (int64_t c = 0; c < a->V; c++) {
        const double gate = gated ? head_element(head, CLATTN_W, row, first, h, c) : 1;
        adjoint_put(head, CLATTN_V, row, first, h, c, gate * a->dx[c]);
        if (gated)
            adjoint_put(head, CLATTN_W, row, first, h, c, head_element(head, CLATTN_V, row, first, h, c) * a->dx[c]);
    }
}

static void leave_erase(struct adjoint *a, int64_t row)
{
    const struct head *head = &a->head;
    const int64_t first = head->first * adjoint_steps(a), h = head->head;

    for (int64_t n = 0; n < a->K; n++)
        switch (a->of->task->problem->rule->erase) {
        case ERASE_NONE:
        case ERASE_POSITION:
        case ERASE_KERNEL: break;
        case ERASE_KEY: a->dkey[n] += a->dp[n]; break;
        case ERASE_OPERAND: a->dp_rows[row * a->K + n] += a->dp[n]; break;
        case ERASE_GATED:
            a->dkey[n] += head_element(head, CLATTN_B, row, first, h, n) * a->dp[n];
            adjoint_put(head, CLATTN_B, row, first, h, n, head->k[n] * a->dp[n]);
            break;
        case ERASE_LOW_RANK:
            adjoint_put(head, CLATTN_A, row, first, h, n, a->dp[n]);
            adjoint_put(head, CLATTN_B, row, first, h, n, -a->de[n]);
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
    case WRITE_EXP: adjoint_put(head, CLATTN_I, row, first, head->head, 0, gradient * beta); return;
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
    adjoint_put(head, CLATTN_BETA, row, first, head->head, 0, gradient);
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
        adjoint_put(head, CLATTN_GV, token, head->first, head->head, c, a->value_flow[c]);
    if (gate == NO_OPERAND || head_tensor(head, gate)->data == NULL)
        return;
    for (int64_t n = 0; n < (channels ? a->K : 1); n++) {
        const double gradient = gate_back(a, token, n, channels ? a->flow[n] : all);
        if (problem->desc.flags & CLATTN_GATE_PER_HEAD)
            add_shared(a, SHARED_GATE, n, gradient);
        else
            adjoint_put(head, gate, token, head->first, head->head, n, gradient);
    }
}

/* The row's own part, which is loaded, of the state before it. dS becomes the gradient by that state. */
static void row_back(struct adjoint *a, int64_t row, const double *before)
{
    const struct head *head = &a->head;
    const int64_t steps = adjoint_steps(a);
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

void adjoint_row_back(struct adjoint *a, int64_t row, const double *before)
{
    const struct problem *problem = a->of->task->problem;
    const int64_t steps = adjoint_steps(a), token = row / steps;
    const int reads_before = read_is_before(problem->rule->read);

    a->head.m = a->stabilizers[row];
    load(a, row);
    advance(a, before);
    if (row % steps == steps - 1 && !reads_before && !problem_reads_whole(problem))
        adjoint_reads_back(a, a->after, token);
    row_back(a, row, before);
    if (row % steps == 0 && reads_before)
        adjoint_reads_back(a, before, token);
    leave_values(a, row);
}
