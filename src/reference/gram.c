/* mesa_net: the gram matrix of the keys, R <- e^g R + beta k k^T, and what reads the state in the place of q: x with
 * (R + diag(ridge)) x = q. von Oswald et al. 2025, MesaNet, arXiv:2506.05233. */
#include "reference/head.h"

#include <math.h>
#include <string.h>

/* Behind R in memory: the factor of Cholesky's decomposition, or rows of conjugate gradients. */
enum { ROWS = 4 };

int64_t head_gram_memory(const struct problem *problem)
{
    const int64_t K = problem->desc.key_dim;

    return rule_is_solved(problem->rule) ? 2 * K * K + ROWS * K : 0;
}

void head_gram_update(struct head *head, double strength)
{
    const int64_t K = head->K;

    for (int64_t n = 0; n < K; n++)
        for (int64_t m = 0; m < K; m++)
            head->R[n * K + m] = head->decay[n] * head->R[n * K + m] + strength * (head->k[n] * head->k[m]);
}

static double ridge(const struct head *head, int64_t n)
{
    return head_element(head, CLATTN_RIDGE, 0, 0, head->head, n);
}

/* L L^T = R + diag(ridge), by rows */
static void factor(const struct head *head, double *L)
{
    const int64_t K = head->K;

    for (int64_t n = 0; n < K; n++)
        for (int64_t m = 0; m <= n; m++) {
            double sum = head->R[n * K + m] + (n == m ? ridge(head, n) : 0);
            for (int64_t i = 0; i < m; i++)
                sum -= L[n * K + i] * L[m * K + i];
            L[n * K + m] = n == m ? sqrt(sum) : sum / L[m * K + m];
        }
}

static void solve(const struct head *head, double *L, double *x)
{
    const int64_t K = head->K;

    factor(head, L);
    for (int64_t n = 0; n < K; n++) {
        for (int64_t m = 0; m < n; m++)
            x[n] -= L[n * K + m] * x[m];
        x[n] /= L[n * K + n];
    }
    for (int64_t n = K - 1; n >= 0; n--) {
        for (int64_t m = n + 1; m < K; m++)
            x[n] -= L[m * K + n] * x[m];
        x[n] /= L[n * K + n];
    }
}

static double dot(const double *x, const double *y, int64_t count)
{
    double sum = 0;

    for (int64_t n = 0; n < count; n++)
        sum += x[n] * y[n];
    return sum;
}

/* y = (R + diag(ridge)) p */
static void multiply(const struct head *head, const double *p, double *y)
{
    for (int64_t n = 0; n < head->K; n++)
        y[n] = dot(head->R + n * head->K, p, head->K) + ridge(head, n) * p[n];
}

/* Steps from x = 0. Where nothing is left of the residual, a step changes nothing. */
static void take_steps(const struct head *head, double *rows, double *q)
{
    const int64_t K = head->K;
    double *x = rows, *r = rows + K, *p = rows + 2 * K, *y = rows + 3 * K, left = dot(q, q, K);

    memset(x, 0, (size_t)K * sizeof *x);
    memcpy(r, q, (size_t)K * sizeof *r);
    memcpy(p, q, (size_t)K * sizeof *p);
    for (int step = 0; step < head->task->problem->desc.cg_steps; step++) {
        double along, length, before = left;
        multiply(head, p, y);
        along = dot(p, y, K);
        length = along <= 0 ? 0 : left / along;
        for (int64_t n = 0; n < K; n++) {
            x[n] += length * p[n];
            r[n] -= length * y[n];
        }
        left = dot(r, r, K);
        for (int64_t n = 0; n < K; n++)
            p[n] = r[n] + (before <= 0 ? 0 : left / before) * p[n];
    }
    memcpy(q, x, (size_t)K * sizeof *q);
}

void head_solve(struct head *head)
{
    double *work = head->R + head->K * head->K;

    if (head->task->problem->desc.cg_steps > 0)
        take_steps(head, work, head->q);
    else
        solve(head, work, head->q);
}
