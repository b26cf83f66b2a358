/* The backward pass of pieces in double precision: the oracle of their gradients. One job is one sequence and one head.
 * What tokens share (weights, biases, rates) is summed by each job, and the jobs' sums are added in their order. */
#include "reference/piece.h"

#include "base/thread.h"
#include "op/op.h"
#include "reference/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The gradient by an operand that tokens share. */
struct share {
    clattn_operand_id id;
    int by_head;   /* each head has numbers of its own */
    int64_t width; /* numbers of a head */
    double *sums;  /* [sequence][head][width] */
};

enum { MOST_SHARES = 2 };

struct piece_task {
    struct task *task;
    struct share shares[MOST_SHARES];
    int count;
};

struct back {
    const struct piece_task *of;
    struct rows rows;
    double *row, *more; /* work space: room_of numbers each */
};

/* ---- Access ---- */

static double get(const struct back *b, clattn_operand_id id, int64_t token, int64_t index)
{
    return rows_load(&b->rows, id, b->rows.batch, b->rows.first + token, index);
}

/* An element of the gradient by o */
static double cotangent(const struct back *b, int64_t token, int64_t index)
{
    return get(b, gradient_of(CLATTN_O), token, index);
}

static void put_at(const struct back *b, clattn_operand_id id, int64_t batch, int64_t row, int64_t index, double x)
{
    const struct tensor *tensor = &b->rows.task->tensors[gradient_of(id)];
    const struct view *view = &tensor->view;

    if (tensor->data != NULL)
        task_leave(b->rows.task, id,
                   view->offset + batch * view->batch + row * view->token + b->rows.head * view->head + index, x);
}

static void put(const struct back *b, clattn_operand_id id, int64_t token, int64_t index, double x)
{
    put_at(b, id, b->rows.batch, b->rows.first + token, index, x);
}

static void add_share(const struct back *b, clattn_operand_id id, int64_t index, double x)
{
    for (int i = 0; i < b->of->count; i++) {
        const struct share *share = &b->of->shares[i];
        if (share->id == id)
            share->sums[(b->rows.sequence * b->rows.desc->heads + b->rows.head) * share->width + index] += x;
    }
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double silu_slope(double x)
{
    return sigmoid(x) * (1 + x * sigmoid(-x));
}

/* ---- short_conv ----
 *
 * With x the rows of the initial state followed by the tokens, y_t = bias + sum_r w_r x_(t+1+r) and dy = do act'(y):
 * dw_r = sum_t dy_t x_(t+1+r), dx_(t+1+r) += w_r dy_t; the last rows of x are the final state, too. */

static void short_conv_token(const struct back *b, int64_t token, int64_t c, double *dx)
{
    const clattn_plan_desc *desc = b->rows.desc;
    const double d_o = cotangent(b, token, c);
    const int silu = desc->activation == CLATTN_ACTIVATION_SILU;
    const double dy = silu ? d_o * silu_slope(conv_sum(&b->rows, token, c)) : d_o;

    for (int r = 0; r < desc->taps; r++) {
        dx[token + 1 + r] += rows_load(&b->rows, CLATTN_W, 0, 0, c * desc->taps + r) * dy;
        add_share(b, CLATTN_W, c * desc->taps + r, dy * conv_input(&b->rows, token - desc->taps + 1 + r, c));
    }
    add_share(b, CLATTN_BIAS, c, dy);
    if (desc->flags & CLATTN_RESIDUAL)
        dx[token + desc->taps] += d_o;
}

static void back_short_conv(struct back *b)
{
    const struct rows *rows = &b->rows;
    const int taps = rows->desc->taps, has_state = rows->state >= 0;
    double *dx = b->row;

    for (int64_t c = 0; c < rows->desc->value_dim; c++) {
        memset(dx, 0, (size_t)(rows->tokens + taps) * sizeof *dx);
        for (int64_t token = 0; token < rows->tokens; token++)
            short_conv_token(b, token, c, dx);
        for (int r = 0; r < taps && has_state && rows_has(rows, gradient_of(CLATTN_STATE_OUT)); r++)
            dx[rows->tokens + r] += rows_load(rows, gradient_of(CLATTN_STATE_OUT), rows->sequence, r, c);
        for (int r = 0; r < taps; r++)
            put_at(b, CLATTN_STATE_IN, rows->sequence, r, c, has_state ? dx[r] : 0);
        for (int64_t token = 0; token < rows->tokens; token++)
            put(b, CLATTN_V, token, c, dx[taps + token]);
    }
}

/* ---- rms_norm ----
 *
 * With x what is normalised, r its factor, h = r x, w' = w + centered: dw = sum dn h where dn is do times the gate of
 * the output, and dx = r dh - x times a dot product, dh = w' dn. */

static double weight_of(const struct back *b, int64_t c)
{
    const double centered = b->rows.desc->flags & CLATTN_CENTERED ? 1 : 0;

    return rows_has(&b->rows, CLATTN_W) ? rows_load(&b->rows, CLATTN_W, 0, 0, c) + centered : 1;
}

/* The factor of the output that z gives, and its slope. */
static double gate_after(const struct back *b, int64_t token, int64_t c, double *slope)
{
    const clattn_gating gating = b->rows.desc->gating;
    double z, s;

    *slope = 0;
    if (!rows_has(&b->rows, CLATTN_Z) || gating == CLATTN_GATING_BEFORE)
        return 1;
    z = get(b, CLATTN_Z, token, c);
    s = sigmoid(z);
    *slope = gating == CLATTN_GATING_SIGMOID ? s * (1 - s) : silu_slope(z);
    return norm_gate(&b->rows, b->rows.first + token, c, gating);
}

/* From the gradient by the number that was normalised to those by what it is made of. */
static void norm_input_back(const struct back *b, int64_t token, int64_t c, double dx)
{
    const int before = rows_has(&b->rows, CLATTN_Z) && b->rows.desc->gating == CLATTN_GATING_BEFORE;

    if (before) {
        put(b, CLATTN_Z, token, c,
            dx * norm_input(&b->rows, b->rows.first + token, c) * silu_slope(get(b, CLATTN_Z, token, c)));
        dx *= norm_gate(&b->rows, b->rows.first + token, c, CLATTN_GATING_BEFORE);
    }
    put(b, CLATTN_V, token, c, dx);
    if (!rows_has(&b->rows, CLATTN_D))
        return;
    put(b, CLATTN_U, token, c, dx * rows_load(&b->rows, CLATTN_D, 0, 0, c));
    add_share(b, CLATTN_D, c, dx * get(b, CLATTN_U, token, c));
}

/* Of d r / d x = - curve x: with eps under the root r^3 / V, else r^2 / (V root). */
static double norm_curve(const clattn_plan_desc *desc, double mean, double factor)
{
    const double width = (double)desc->value_dim;

    if (!(desc->flags & CLATTN_EPS_OUTSIDE))
        return factor * factor * factor / width;
    return mean > 0 ? factor * factor / (sqrt(mean) * width) : 0;
}

static void norm_row_back(const struct back *b, int64_t token)
{
    const int64_t V = b->rows.desc->value_dim, at = b->rows.first + token;
    double *x = b->row, *dh = b->more, mean = 0, dot = 0, factor, curve;

    for (int64_t c = 0; c < V; c++) {
        x[c] = norm_input(&b->rows, at, c) * norm_gate(&b->rows, at, c, CLATTN_GATING_BEFORE);
        mean += x[c] * x[c] / (double)V;
    }
    factor = 1 / norm_divisor(b->rows.desc, mean);
    curve = norm_curve(b->rows.desc, mean, factor);
    for (int64_t c = 0; c < V; c++) {
        const double d_o = cotangent(b, token, c), h = factor * x[c], weight = weight_of(b, c);
        double slope;
        const double dn = d_o * gate_after(b, token, c, &slope);
        if (b->rows.desc->gating != CLATTN_GATING_BEFORE)
            put(b, CLATTN_Z, token, c, d_o * h * weight * slope);
        add_share(b, CLATTN_W, c, dn * h);
        dh[c] = weight * dn;
        dot += dh[c] * x[c];
    }
    for (int64_t c = 0; c < V; c++)
        norm_input_back(b, token, c, factor * dh[c] - curve * dot * x[c]);
}

static void back_rms_norm(struct back *b)
{
    for (int64_t token = 0; token < b->rows.tokens; token++)
        norm_row_back(b, token);
}

/* ---- gates ---- */

static void back_gates(struct back *b)
{
    const clattn_plan_desc *desc = b->rows.desc;
    const double rate = rows_has(&b->rows, CLATTN_A_LOG) ? exp(rows_load(&b->rows, CLATTN_A_LOG, 0, 0, 0)) : 1;

    for (int64_t token = 0; token < b->rows.tokens; token++)
        for (int64_t c = 0; c < desc->value_dim; c++) {
            const double bias = rows_has(&b->rows, CLATTN_DT_BIAS) ? rows_load(&b->rows, CLATTN_DT_BIAS, 0, 0, c) : 0;
            const double dy = desc->scale * cotangent(b, token, c);
            const struct gate_slopes slopes = task_gate_slopes(desc, get(b, CLATTN_V, token, c) + bias, rate);
            put(b, CLATTN_V, token, c, dy * slopes.by_number);
            add_share(b, CLATTN_DT_BIAS, c, dy * slopes.by_number);
            add_share(b, CLATTN_A_LOG, 0, dy * slopes.by_rate);
        }
}

/* ---- rope ---- */

static void back_rope(struct back *b)
{
    for (int64_t token = 0; token < b->rows.tokens; token++) {
        for (int64_t c = 0; c < b->rows.desc->value_dim; c++)
            b->row[c] = cotangent(b, token, c);
        task_turn_back(b->rows.task, b->rows.sequence, token, b->row);
        for (int64_t c = 0; c < b->rows.desc->value_dim; c++)
            put(b, CLATTN_V, token, c, b->row[c]);
    }
}

/* ---- features ---- */

/* From d_phi in d to the gradient by y of favor, e_n = m^(-1/2) e^(y_n - |x|^2 / 2 - c). Returns what x gains times -x. */
static double favor_back(const struct back *b, const double *y, double squares, double *d)
{
    const int64_t m = features_count(b->rows.desc);
    double sum = 0;
    int64_t top = 0;

    for (int64_t n = 1; n < m; n++)
        top = y[n] > y[top] ? n : top;
    for (int64_t n = 0; n < m; n++) {
        d[n] *= exp(y[n] - squares / 2 - (b->rows.desc->flags & CLATTN_OF_QUERIES ? y[top] : 0)) / sqrt((double)m);
        sum += d[n];
    }
    if (b->rows.desc->flags & CLATTN_OF_QUERIES)
        d[top] -= sum;
    return sum;
}

/* Of rfa: of y over the norm of v. */
static void rfa_back(const struct back *b, const double *y, double squares, double *d)
{
    const int64_t m = features_count(b->rows.desc);

    for (int64_t n = 0; n < m; n++) {
        const double t = y[n] / sqrt(squares + 1e-6);
        d[n] = (cos(t) * d[n] - sin(t) * d[m + n]) / sqrt((double)m);
    }
}

static void hedgehog_back(const struct back *b, const double *y, double *d)
{
    const int64_t m = features_count(b->rows.desc);
    double first = 0, second = 0;

    for (int64_t n = 0; n < m; n++) {
        first += features_soft(y, m, n, 1) * d[n];
        second += features_soft(y, m, n, -1) * d[m + n];
    }
    for (int64_t n = 0; n < m; n++)
        d[n] = features_soft(y, m, n, 1) * (d[n] - first) - features_soft(y, m, n, -1) * (d[m + n] - second);
}

/* From the gradient d by y = omega x to those by omega and by v, where x = scale v, and of rfa v over its norm. */
static void projection_back(const struct back *b, int64_t token, const double *d, double squares, double own)
{
    const clattn_plan_desc *desc = b->rows.desc;
    const int normed = desc->features == CLATTN_FEATURES_RFA;
    const double factor = normed ? 1 / sqrt(squares + 1e-6) : features_scale(desc);
    const int64_t m = features_count(desc), V = desc->value_dim;
    double dot = 0, *dx = b->row;

    for (int64_t c = 0; c < V; c++) {
        const double x = factor * get(b, CLATTN_V, token, c);
        dx[c] = -own * x;
        for (int64_t n = 0; n < m; n++) {
            dx[c] += rows_load(&b->rows, CLATTN_OMEGA, 0, 0, n * V + c) * d[n];
            add_share(b, CLATTN_OMEGA, n * V + c, d[n] * x);
        }
        dot += dx[c] * x;
    }
    for (int64_t c = 0; c < V; c++)
        put(b, CLATTN_V, token, c, factor * (dx[c] - (normed ? dot * factor * get(b, CLATTN_V, token, c) : 0)));
}

static void back_features(struct back *b)
{
    const clattn_plan_desc *desc = b->rows.desc;
    const double scale = features_scale(desc);
    const int64_t m = features_count(desc);
    double y[MAX_DIM];

    for (int64_t token = 0; token < b->rows.tokens; token++) {
        const double squares = features_project(&b->rows, b->rows.first + token, scale, m, y);
        double own = 0;
        for (int64_t n = 0; n < desc->key_dim; n++)
            b->more[n] = cotangent(b, token, n);
        switch (desc->features) {
        case CLATTN_FEATURES_FAVOR: own = favor_back(b, y, squares, b->more); break;
        case CLATTN_FEATURES_RFA: rfa_back(b, y, squares, b->more); break;
        case CLATTN_FEATURES_HEDGEHOG: hedgehog_back(b, y, b->more); break;
        }
        projection_back(b, token, b->more, squares, own);
    }
}

/* ---- Jobs ---- */

/* Numbers that a job may need in each of its two arrays. */
static int64_t room_of(const struct rows *rows)
{
    int64_t room = rows->tokens + rows->desc->taps;

    room = room > rows->desc->value_dim ? room : rows->desc->value_dim;
    return room > rows->desc->key_dim ? room : rows->desc->key_dim;
}

static void run_job(void *user, int64_t job)
{
#define PIECE(value, name) [PIECE_##value] = back_##name,
    static void (*const pieces[])(struct back * b) = {
#include "op/words.def"
    };
    const struct piece_task *of = user;
    struct back b = {.of = of, .rows = rows_of_job(of->task, job)};
    const int64_t room = room_of(&b.rows);

    b.row = calloc((size_t)(2 * room), sizeof *b.row);
    if (b.row == NULL) {
        atomic_store(&of->task->out_of_memory, 1);
        return;
    }
    b.more = b.row + room;
    pieces[of->task->problem->rule->piece](&b);
    free(b.row);
}

/* ---- What tokens share ---- */

/* The shares of the problem, each with room for all jobs. 0: no memory. */
static int open_shares(struct piece_task *of)
{
    const struct problem *problem = of->task->problem;
    const struct extent *extent = &of->task->extent;

    for (int i = 0; i < problem->operand_count; i++) {
        const struct operand_row *row = &problem->operands[i];
        struct share *share = &of->shares[of->count];
        if (strchr("BTNMP", row->dims[0]) != NULL || (int)row->id > (int)OPERAND_IDS ||
            of->task->tensors[gradient_of(row->id)].data == NULL)
            continue;
        *share = (struct share){.id = row->id, .by_head = row->dims[0] == 'H', .width = 1};
        for (const char *letter = row->dims + share->by_head; *letter != '\0'; letter++)
            share->width *= problem_dim(&problem->desc, extent, *letter);
        share->sums = calloc((size_t)(extent->sequences * problem->desc.heads * share->width + 1), sizeof(double));
        if (share->sums == NULL)
            return 0;
        of->count++;
    }
    return 1;
}

/* The sum of the jobs of a head, or of all heads, in their order. */
static double total_of(const struct piece_task *of, const struct share *share, int64_t head, int64_t index)
{
    const int64_t heads = of->task->problem->desc.heads;
    double sum = 0;

    for (int64_t job = 0; job < of->task->extent.sequences * heads; job++)
        if (!share->by_head || job % heads == head)
            sum += share->sums[job * share->width + index];
    return sum;
}

static void leave_shares(const struct piece_task *of)
{
    for (int i = 0; i < of->count; i++) {
        const struct share *share = &of->shares[i];
        const struct view *view = &of->task->tensors[gradient_of(share->id)].view;
        for (int64_t head = 0; head < (share->by_head ? of->task->problem->desc.heads : 1); head++)
            for (int64_t n = 0; n < share->width; n++)
                task_leave(of->task, share->id, view->offset + head * view->head + n, total_of(of, share, head, n));
    }
}

clattn_status piece_back_run(struct task *task, const struct log *log)
{
    struct piece_task of = {.task = task};

    atomic_init(&task->out_of_memory, !open_shares(&of));
    if (!atomic_load(&task->out_of_memory)) {
        parallel_for(task->extent.sequences * task->problem->desc.heads, run_job, &of);
        leave_shares(&of);
    }
    for (int i = 0; i < of.count; i++)
        free(of.shares[i].sums);
    if (atomic_load(&task->out_of_memory))
        return FAIL(log, OUT_OF_MEMORY, "no memory for the gradients of the reference");
    return CLATTN_SUCCESS;
}
