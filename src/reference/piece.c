/* Pieces in double precision. One job is one sequence and one head. */
#include "reference/piece.h"

#include "op/op.h"
#include "reference/number.h"

#include <math.h>
#include <stdlib.h>

double rows_load(const struct rows *rows, clattn_operand_id id, int64_t batch, int64_t row, int64_t index)
{
    const struct tensor *tensor = &rows->task->tensors[id];
    const struct view *view = &tensor->view;

    return number_load(tensor->dtype, tensor->data,
                       view->offset + batch * view->batch + row * view->token + rows->head * view->head + index);
}

static void store(const struct rows *rows, clattn_operand_id id, int64_t batch, int64_t row, int64_t index, double x)
{
    const struct tensor *tensor = &rows->task->tensors[id];
    const struct view *view = &tensor->view;

    number_store(tensor->dtype, tensor->data,
                 view->offset + batch * view->batch + row * view->token + rows->head * view->head + index, x);
}

int rows_has(const struct rows *rows, clattn_operand_id id)
{
    return rows->task->tensors[id].data != NULL;
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

/* ---- short_conv ---- */

double conv_input(const struct rows *rows, int64_t token, int64_t c)
{
    if (token >= 0)
        return rows_load(rows, CLATTN_V, rows->batch, rows->first + token, c);
    if (rows->state < 0 || rows->start < 0 || !rows_has(rows, CLATTN_STATE_IN))
        return 0;
    return rows_load(rows, CLATTN_STATE_IN, rows->state, (rows->start + 1) * rows->desc->taps + token, c);
}

double conv_sum(const struct rows *rows, int64_t token, int64_t c)
{
    int taps = rows->desc->taps;
    double sum = rows_has(rows, CLATTN_BIAS) ? rows_load(rows, CLATTN_BIAS, 0, 0, c) : 0;

    for (int r = 0; r < taps; r++)
        sum += rows_load(rows, CLATTN_W, 0, 0, c * taps + r) * conv_input(rows, token - taps + 1 + r, c);
    return sum;
}

static double convolved(const struct rows *rows, int64_t token, int64_t c)
{
    double sum = conv_sum(rows, token, c);

    if (rows->desc->activation == CLATTN_ACTIVATION_SILU)
        sum = silu(sum);
    return rows->desc->flags & CLATTN_RESIDUAL ? sum + conv_input(rows, token, c) : sum;
}

/* The states on the way, which may overwrite the initial one: nothing reads that any more but they, and a state's rows
 * are gathered before they are written. */
static void leave_states(const struct rows *rows, int64_t c)
{
    enum { MOST_TAPS = 8 };
    const int in_pool = (rows->desc->flags & CLATTN_WITH_ACCEPTED) != 0, taps = rows->desc->taps;
    const int64_t state = in_pool ? rows->state : rows->sequence;
    double before[MOST_TAPS];

    for (int r = 0; r < taps; r++)
        before[r] = conv_input(rows, r - taps, c);
    for (int64_t done = 1; done <= rows->tokens && state >= 0 && rows_has(rows, CLATTN_STATES); done++) {
        const int64_t number = task_snapshot(rows->task, rows->tokens, done);
        for (int r = 0; r < taps && number >= 0; r++) {
            const int64_t token = done - taps + r;
            store(rows, CLATTN_STATES, state, number * taps + r, c,
                  token >= 0 ? conv_input(rows, token, c) : before[taps + token]);
        }
    }
}

/* Writes outputs, then the states. The final one may overwrite the initial one, whose row r is not read after row r is
 * written. */
static void run_short_conv(const struct rows *rows)
{
    for (int64_t c = 0; c < rows->desc->value_dim; c++) {
        for (int64_t token = 0; token < rows->tokens; token++)
            store(rows, CLATTN_O, rows->batch, rows->first + token, c, convolved(rows, token, c));
        if (!(rows->desc->flags & CLATTN_WITH_ACCEPTED))
            leave_states(rows, c);
        for (int r = 0; r < rows->desc->taps && rows->state >= 0 && rows_has(rows, CLATTN_STATE_OUT); r++)
            store(rows, CLATTN_STATE_OUT, rows->state, r, c, conv_input(rows, rows->tokens - rows->desc->taps + r, c));
        if (rows->desc->flags & CLATTN_WITH_ACCEPTED)
            leave_states(rows, c);
    }
}

/* ---- rms_norm ---- */

double norm_gate(const struct rows *rows, int64_t token, int64_t c, clattn_gating where)
{
    double z;

    if (!rows_has(rows, CLATTN_Z) || rows->desc->gating != where)
        return 1;
    z = rows_load(rows, CLATTN_Z, rows->batch, token, c);
    return where == CLATTN_GATING_SIGMOID ? 1 / (1 + exp(-z)) : silu(z);
}

double norm_input(const struct rows *rows, int64_t token, int64_t c)
{
    double x = rows_load(rows, CLATTN_V, rows->batch, token, c);

    if (rows_has(rows, CLATTN_D))
        x += rows_load(rows, CLATTN_D, 0, 0, c) * rows_load(rows, CLATTN_U, rows->batch, token, c);
    return x;
}

double norm_divisor(const clattn_plan_desc *desc, double mean)
{
    return desc->flags & CLATTN_EPS_OUTSIDE ? sqrt(mean) + desc->eps : sqrt(mean + desc->eps);
}

/* Works in place: every column is read before it is written. */
static void norm_row(const struct rows *rows, int64_t token)
{
    int64_t V = rows->desc->value_dim;
    double sum = 0;

    for (int64_t c = 0; c < V; c++)
        sum += pow(norm_input(rows, token, c) * norm_gate(rows, token, c, CLATTN_GATING_BEFORE), 2);
    for (int64_t c = 0; c < V; c++) {
        double y = norm_input(rows, token, c) / norm_divisor(rows->desc, sum / (double)V);
        for (int where = CLATTN_GATING_AFTER; where <= CLATTN_GATING_SIGMOID; where++)
            y *= norm_gate(rows, token, c, (clattn_gating)where);
        if (rows_has(rows, CLATTN_W))
            y *= rows_load(rows, CLATTN_W, 0, 0, c) + (rows->desc->flags & CLATTN_CENTERED ? 1 : 0);
        store(rows, CLATTN_O, rows->batch, token, c, y);
    }
}

static void run_rms_norm(const struct rows *rows)
{
    for (int64_t token = 0; token < rows->tokens; token++)
        norm_row(rows, rows->first + token);
}

/* ---- gates ---- */

static void run_gates(const struct rows *rows)
{
    double rate = rows_has(rows, CLATTN_A_LOG) ? exp(rows_load(rows, CLATTN_A_LOG, 0, 0, 0)) : 1;

    for (int64_t token = rows->first; token < rows->first + rows->tokens; token++)
        for (int64_t c = 0; c < rows->desc->value_dim; c++) {
            double x = rows_load(rows, CLATTN_V, rows->batch, token, c);
            if (rows_has(rows, CLATTN_DT_BIAS))
                x += rows_load(rows, CLATTN_DT_BIAS, 0, 0, c);
            store(rows, CLATTN_O, rows->batch, token, c, rows->desc->scale * task_gate(rows->desc, x, rate));
        }
}

/* ---- rope ---- */

/* Works in place: a row is read before it is written. */
static void run_rope(const struct rows *rows)
{
    enum { MOST = 1024 };
    double row[MOST];
    int64_t dim = rows->desc->rope_dim;

    for (int64_t token = 0; token < rows->tokens; token++) {
        int64_t at = rows->first + token;
        for (int64_t c = 0; c < dim; c++)
            row[c] = rows_load(rows, CLATTN_V, rows->batch, at, c);
        task_turn(rows->task, rows->sequence, token, row);
        for (int64_t c = 0; c < rows->desc->value_dim; c++)
            store(rows, CLATTN_O, rows->batch, at, c, c < dim ? row[c] : rows_load(rows, CLATTN_V, rows->batch, at, c));
    }
}

/* ---- features ---- */

int64_t features_count(const clattn_plan_desc *desc)
{
    return desc->features == CLATTN_FEATURES_FAVOR ? desc->key_dim : desc->key_dim / 2;
}

double features_scale(const clattn_plan_desc *desc)
{
    return desc->features == CLATTN_FEATURES_FAVOR ? pow((double)desc->value_dim, -0.25) : 1;
}

double features_project(const struct rows *rows, int64_t token, double scale, int64_t m, double *y)
{
    double squares = 0;

    for (int64_t j = 0; j < m; j++)
        y[j] = 0;
    for (int64_t c = 0; c < rows->desc->value_dim; c++) {
        double x = scale * rows_load(rows, CLATTN_V, rows->batch, token, c);
        squares += x * x;
        for (int64_t j = 0; j < m; j++)
            y[j] += x * rows_load(rows, CLATTN_OMEGA, 0, 0, j * rows->desc->value_dim + c);
    }
    return squares;
}

double features_soft(const double *y, int64_t m, int64_t j, double sign)
{
    double sum = 0;

    for (int64_t i = 0; i < m; i++)
        sum += exp(sign * (y[i] - y[j]));
    return 1 / sum;
}

static double feature(const struct rows *rows, const double *y, int64_t m, double squares, int64_t n)
{
    double unit = 1 / sqrt((double)m), top = y[0];

    switch (rows->desc->features) {
    case CLATTN_FEATURES_RFA:
        return unit * (n < m ? sin(y[n] / sqrt(squares + 1e-6)) : cos(y[n - m] / sqrt(squares + 1e-6)));
    case CLATTN_FEATURES_HEDGEHOG: return n < m ? features_soft(y, m, n, 1) : features_soft(y, m, n - m, -1);
    case CLATTN_FEATURES_FAVOR: break;
    }
    for (int64_t j = 0; j < m; j++)
        top = fmax(top, y[j]);
    return unit * (exp(y[n] - squares / 2 - (rows->desc->flags & CLATTN_OF_QUERIES ? top : 0)) + rows->desc->eps);
}

static void run_features(const struct rows *rows)
{
    const clattn_plan_desc *desc = rows->desc;
    double y[MAX_DIM], scale = features_scale(desc);
    int64_t m = features_count(desc);

    for (int64_t token = rows->first; token < rows->first + rows->tokens; token++) {
        double squares = features_project(rows, token, scale, m, y);
        for (int64_t n = 0; n < desc->key_dim; n++)
            store(rows, CLATTN_O, rows->batch, token, n, feature(rows, y, m, squares, n));
    }
}

/* ---- Jobs ---- */

struct rows rows_of_job(const struct task *task, int64_t job)
{
    int64_t heads = task->problem->desc.heads, sequence = job / heads;
    const struct tensor *cu = &task->tensors[CLATTN_SEQLENS];
    struct rows rows = {.task = task,
                        .desc = &task->problem->desc,
                        .head = job % heads,
                        .sequence = sequence,
                        .state = task_state(task, sequence),
                        .start = task_start(task, sequence)};

    rows.batch = cu->data != NULL ? 0 : sequence;
    rows.first = cu->data != NULL ? task_cut(task->problem, cu, sequence) : 0;
    rows.tokens = (cu->data != NULL ? task_cut(task->problem, cu, sequence + 1) : task->extent.seq_len) - rows.first;
    return rows;
}

void piece_head(void *user, int64_t job)
{
#define PIECE(value, name) [PIECE_##value] = run_##name,
    static void (*const pieces[])(const struct rows *rows) = {
#include "op/words.def"
    };
    const struct task *task = user;
    const struct rows rows = rows_of_job(task, job);

    pieces[task->problem->rule->piece](&rows);
}
