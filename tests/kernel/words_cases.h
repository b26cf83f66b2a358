/* What the words of cl/ do, in doubles. A word works on tiles D, X, Y, Z in local memory and on G (read) and H
 * (written) in global memory: fill_… writes what it needs there before, expect_… what it leaves in D and H. */
#ifndef CLATTN_TESTS_WORDS_CASES_H
#define CLATTN_TESTS_WORDS_CASES_H

#include "harness.h"

#include "reference/number.h"
#include "solve/solve.h"

#include <math.h>
#include <string.h>

struct config {
    const char *name;
    struct {
        int group, vec, pad, chunk, block_k, block_v;
    } tiles;
    int key_dim, value_dim, steps, cu_stride, state_vk, l2norm, feature;
    clattn_dtype dtype;
};

enum { GLOBAL = 8192, VALUES = 2048, TRIALS = 8, TRIAL_INTS = 64, TRIAL_ROWS = 512, TRIAL_TOKENS = 150 };
enum { CONFIG_TYPE = -1 };

/* What one word has before it, and what it must leave in d and h. */
struct sheet {
    const struct config *c;
    int chunk, bk, bv, rp, cp, kp, count, stride;
    int with;                  /* of the case */
    float *X, *Y, *Z, *g;      /* before, to be filled; g as the storage type of the case */
    double *d, *x, *y, *z, *h; /* the same for expect, h: NaN where nothing is written */
};

static double draw(void)
{
    static uint32_t state = 1;

    state = state * 1664525u + 1013904223u;
    return ((double)(state >> 8) + 0.5) / (1 << 23) - 1;
}

/* ---- Products
 * -------------------------------------------------------------------------------------------------------- */

static void expect_ab(struct sheet *s)
{
    for (int i = 0; i < s->chunk; i++)
        for (int n = 0; n < s->bv; n++)
            for (int k = 0; k < s->bk; k++)
                s->d[i * s->bv + n] += s->x[i * s->rp + k] * s->y[k * s->bv + n];
}

enum { FACTOR_NONE, FACTOR_ONE, FACTOR_ROWS };

static void expect_atb(struct sheet *s)
{
    for (int k = 0; k < s->bk; k++)
        for (int n = 0; n < s->bv; n++) {
            if (s->with != FACTOR_NONE)
                s->d[k * s->bv + n] *= s->z[s->with == FACTOR_ONE ? 0 : k];
            for (int i = 0; i < s->chunk; i++)
                s->d[k * s->bv + n] += s->x[i * s->rp + k] * s->y[i * s->bv + n];
        }
}

/* What is above the diagonal is not read. */
static void fill_lower(struct sheet *s)
{
    for (int i = 0; i < s->chunk; i++)
        for (int j = i + 1; j < s->cp; j++)
            s->X[i * s->cp + j] = NAN;
}

static void expect_lower(struct sheet *s)
{
    for (int i = 0; i < s->chunk; i++)
        for (int n = 0; n < s->bv; n++)
            for (int j = 0; j <= i; j++)
                s->d[i * s->bv + n] += s->x[i * s->cp + j] * s->y[j * s->bv + n];
}

static void expect_abt(struct sheet *s)
{
    for (int i = 0; i < s->chunk; i++)
        for (int j = 0; j <= i - s->with; j++)
            for (int n = 0; n < s->bk; n++)
                s->d[i * s->cp + j] += s->x[i * s->rp + n] * s->y[j * s->rp + n];
}

/* M small below its diagonal, NaN on and above it. */
static void fill_inverse(struct sheet *s)
{
    for (int i = 0; i < s->chunk; i++)
        for (int j = 0; j < s->cp; j++)
            s->X[i * s->cp + j] = j < i ? s->X[i * s->cp + j] / 4 : NAN;
}

static void expect_inverse(struct sheet *s)
{
    for (int i = 0; i < s->chunk; i++)
        for (int c = 0; c < s->cp; c++) {
            s->d[i * s->cp + c] = i == c;
            for (int j = 0; j < i; j++)
                s->d[i * s->cp + c] -= s->x[i * s->cp + j] * s->d[j * s->cp + c];
        }
}

/* ---- Rows
 * ------------------------------------------------------------------------------------------------------------ */

static void expect_zero(struct sheet *s)
{
    for (int i = 0; i < s->chunk * s->bv; i++)
        s->d[i] = 0;
}

static void expect_scaled(struct sheet *s)
{
    for (int i = 0; i < s->chunk * s->bv; i++)
        s->d[i] *= s->z[i / s->bv];
}

static void expect_matrix_scaled(struct sheet *s)
{
    for (int i = 0; i < s->chunk * s->cp; i++)
        s->d[i] *= -s->z[i / s->cp];
}

static void expect_difference(struct sheet *s)
{
    for (int i = 0; i < s->chunk * s->bv; i++)
        s->d[i] = s->x[i] - s->z[i / s->bv] * s->d[i];
}

static clattn_dtype type_of(const struct sheet *s)
{
    return s->with == CONFIG_TYPE ? s->c->dtype : (clattn_dtype)s->with;
}

static void fill_data(struct sheet *s)
{
    for (int i = 0; i < GLOBAL; i++)
        number_store(type_of(s), s->g, i, draw());
}

static void fill_gates(struct sheet *s)
{
    for (int i = 0; i < GLOBAL; i++)
        number_store(type_of(s), s->g, i, i % 7 == 3 ? -HUGE_VAL : 4 * draw() - 4);
}

static double element(const struct sheet *s, int row, int n)
{
    return number_load(type_of(s), s->g, row * s->stride + n);
}

/* A channel of a row, gathered by slices(): the last slice stays in D. */
static void expect_channel(struct sheet *s, int i, int n, double value)
{
    int last = s->kp - s->bk;

    s->h[i * s->kp + n] = value;
    if (n >= last)
        s->d[i * s->rp + n - last] = value;
}

static void expect_rows(struct sheet *s)
{
    for (int i = 0; i < s->chunk; i++)
        for (int n = 0; n < s->kp; n++)
            expect_channel(s, i, n, i < s->count && n < s->c->key_dim ? element(s, i, n) : 0);
}

static double mapped(const struct sheet *s, double x, double norm)
{
    if (s->c->l2norm)
        x *= norm;
    if (s->c->feature == CLATTN_FEATURE_ELU1)
        return x > 0 ? x + 1 : exp(x);
    return s->c->feature == CLATTN_FEATURE_RELU && x < 0 ? 0 : x;
}

static void expect_keys(struct sheet *s)
{
    for (int i = 0; i < s->chunk; i++)
        for (int n = 0; n < s->kp; n++)
            expect_channel(s, i, n, i < s->count && n < s->c->key_dim ? mapped(s, element(s, i, n), s->z[i]) : 0);
}

/* The chunk's rows start at row CHUNK. */
static void expect_queries(struct sheet *s)
{
    int steps = s->c->steps;

    for (int i = 0; i < s->chunk; i++)
        for (int n = 0; n < s->kp; n++) {
            int row = s->chunk + i, read = i < s->count && row % steps == steps - 1 && n < s->c->key_dim;
            expect_channel(s, i, n, read ? 0.75 * mapped(s, element(s, row / steps, n), s->z[i]) : 0);
        }
}

static void expect_norms(struct sheet *s)
{
    for (int i = 0; i < s->chunk; i++) {
        double sum = 1e-6;
        for (int n = 0; n < s->c->key_dim && i < s->count; n++)
            sum += pow(element(s, (s->chunk + i) / s->c->steps, n), 2);
        s->d[i] = s->c->l2norm ? 1 / sqrt(sum) : 1;
    }
}

static int last_column(const struct sheet *s)
{
    return (s->c->value_dim - 1) / s->bv * s->bv;
}

static void expect_values(struct sheet *s)
{
    for (int i = 0; i < s->chunk; i++)
        for (int n = 0; n < s->bv; n++) {
            int c = last_column(s) + n;
            s->d[i * s->bv + n] = i < s->count && c < s->c->value_dim ? s->z[i] * element(s, i, c) : 0;
        }
}

/* ---- States
 * ---------------------------------------------------------------------------------------------------------- */

/* Where the element of D's row n, column c lies in a state; -1 outside. */
static int state_at(const struct sheet *s, int n, int c)
{
    c += last_column(s);
    if (n >= s->c->key_dim || c >= s->c->value_dim)
        return -1;
    return s->c->state_vk ? c * s->c->key_dim + n : n * s->c->value_dim + c;
}

static void expect_state(struct sheet *s)
{
    for (int i = 0; i < s->kp * s->bv; i++) {
        int at = state_at(s, i / s->bv, i % s->bv);
        s->d[i] = s->with && at >= 0 ? (double)s->g[at] : 0;
    }
}

static void expect_stored(struct sheet *s)
{
    for (int i = 0; i < s->kp * s->bv; i++)
        if (s->with && state_at(s, i / s->bv, i % s->bv) >= 0)
            s->h[state_at(s, i / s->bv, i % s->bv)] = s->d[i];
}

/* ---- Decay: Z holds logs
 * --------------------------------------------------------------------------------------------- */

static void fill_logs(struct sheet *s)
{
    for (int i = 0; i < s->chunk * s->rp; i++)
        s->Z[i] = i % 11 == 5 ? -INFINITY : s->Z[i] - 1;
}

/* Σ of Z[m step] for from <= m < until. */
static double log_sum(const struct sheet *s, int from, int until, int step, int n)
{
    double sum = 0;

    for (int m = from; m < until; m++)
        sum += s->z[m * step + n];
    return sum;
}

static void expect_between(struct sheet *s)
{
    for (int i = 0; i < s->chunk; i++)
        for (int j = 0; j < s->chunk; j++)
            s->d[i * s->cp + j] *= exp2(log_sum(s, j + 1, i + 1 - s->with, 1, 0));
}

static void expect_sums(struct sheet *s)
{
    for (int i = 0; i < s->chunk; i++) {
        s->h[i] = exp2(log_sum(s, 0, i + 1, 1, 0));
        s->h[s->chunk + i] = exp2(log_sum(s, 0, i, 1, 0));
        s->h[2 * s->chunk + i] = exp2(log_sum(s, i + 1, s->chunk, 1, 0));
        s->h[3 * s->chunk + i] = exp2(log_sum(s, 0, s->chunk, 1, 0));
    }
}

static void expect_scores(struct sheet *s)
{
    for (int i = 0; i < s->chunk; i++)
        for (int j = 0; j <= i - s->with; j++)
            for (int n = 0; n < s->bk; n++)
                s->d[i * s->cp + j] +=
                    s->x[i * s->rp + n] * s->y[j * s->rp + n] * exp2(log_sum(s, j + 1, i + 1 - s->with, s->rp, n));
}

static void expect_prefix(struct sheet *s)
{
    for (int i = 0; i < s->chunk; i++)
        for (int n = 0; n < s->bk; n++)
            s->h[i * s->bk + n] = log_sum(s, 0, i + 1, s->rp, n);
}

static void expect_suffix(struct sheet *s)
{
    for (int n = 0; n < s->bk; n++) {
        for (int i = 0; i < s->chunk; i++)
            s->h[i * s->bk + n] = log_sum(s, i + 1, s->chunk, s->rp, n);
        s->d[n] = exp2(log_sum(s, 0, s->chunk, s->rp, n));
    }
}

static void expect_rows_by(struct sheet *s)
{
    for (int i = s->with; i < s->chunk; i++)
        for (int n = 0; n < s->bk; n++)
            s->d[i * s->rp + n] *= exp2(s->z[(i - s->with) * s->rp + n]);
}

static double row_log(const struct sheet *s, int i, int n)
{
    int row = s->chunk + i;

    return i < s->count && row % s->c->steps == 0 ? element(s, row / s->c->steps, n) / log(2) : 0;
}

static void expect_chunk_logs(struct sheet *s)
{
    for (int i = 0; i < s->chunk; i++)
        s->d[i] = row_log(s, i, 0);
}

static void expect_row_logs(struct sheet *s)
{
    for (int i = 0; i < s->chunk; i++)
        for (int n = 0; n < s->kp; n++)
            expect_channel(s, i, n, n < s->c->key_dim ? row_log(s, i, n) : 0);
}

/* ---- Storage
 * --------------------------------------------------------------------------------------------------------- */

/* Bit patterns over the whole type: subnormals, infinities, NaN. */
static void fill_patterns(struct sheet *s)
{
    uint32_t step = s->with == CLATTN_F32 ? UINT32_C(1) << 21 : 32;

    for (uint32_t i = 0; i < VALUES; i++) {
        uint32_t bits = i * step + (i % 2 ? i % 32 : 0);
        uint16_t half = (uint16_t)bits;
        if (s->with == CLATTN_F32)
            memcpy(s->g + i, &bits, sizeof bits);
        else
            memcpy((char *)s->g + i * sizeof half, &half, sizeof half);
    }
}

static void expect_loaded(struct sheet *s)
{
    for (int i = 0; i < VALUES; i++)
        s->h[i] = s->h[VALUES + i] = number_load((clattn_dtype)s->with, s->g, i);
}

/* Numbers halfway between two of the type, their neighbours, and those where the type ends. */
static void fill_ties(struct sheet *s)
{
    static const float ends[] = {65504,         65519.996f,    65520,        0x1p-25f,     0x1.000002p-25f,
                                 0x1p-24f,      0x1.ffcp-15f,  0x1.ffep-15f, 0x1.fffp-15f, 3.4e38f,
                                 3.3961775e38f, 3.3895314e38f, 0x1p-134f,    0x1.8p-133f,  0x1p-149f};
    float *value = s->g;

    fill_patterns(s);
    if (s->with == CLATTN_F32)
        return;
    for (int i = VALUES - 1; i >= 0; i--) {
        uint16_t pair[2] = {(uint16_t)(i * 32 + i % 32), (uint16_t)(i * 32 + i % 32 + 1)};
        double low = number_load((clattn_dtype)s->with, pair, 0), high = number_load((clattn_dtype)s->with, pair, 1);
        float middle = (float)((low + high) / 2);
        value[i] = i % 3 == 0 ? middle : nextafterf(middle, i % 3 == 1 ? INFINITY : -INFINITY);
    }
    for (size_t i = 0; i < 2 * COUNT(ends); i++)
        value[i] = i % 2 ? -ends[i / 2] : ends[i / 2];
}

static void expect_put(struct sheet *s)
{
    for (int i = 0; i < VALUES; i++) {
        uint32_t one = 0;
        number_store((clattn_dtype)s->with, &one, 0, (double)s->g[i]);
        s->h[i] = s->h[VALUES + i] = number_load((clattn_dtype)s->with, &one, 0);
    }
}

/* ---- Sequences: a trial is {sequences, seq_len, cu[CU_STRIDE each]…} in G
 * ------------------------------------------------ */

static int chance(int count)
{
    return (int)((draw() + 1) / 2 * count);
}

static void fill_trial(const struct config *c, int32_t *trial)
{
    int sequences = 1 + chance(20), at = 0;

    trial[0] = sequences;
    trial[1] = c->cu_stride ? 1 + chance(TRIAL_TOKENS) : TRIAL_TOKENS / sequences;
    for (int i = 0; i <= sequences && c->cu_stride; i++) { /* some empty; the last ends the row or leaves tokens over */
        trial[2 + i * c->cu_stride] = at;
        at += chance(3) ? chance(trial[1] - at + 1) / 2 : 0;
        at = i == sequences - 1 && chance(2) ? trial[1] : at;
    }
}

static void fill_trials(struct sheet *s)
{
    memset(s->g, 0, GLOBAL * sizeof(float));
    for (int t = 0; t < TRIALS; t++)
        fill_trial(s->c, (int32_t *)(void *)(s->g + t * TRIAL_INTS));
}

/* Each row once by the slots in order, and once by its sequence's chunks. */
static void expect_covered(struct sheet *s)
{
    for (int t = 0; t < TRIALS; t++) {
        const int32_t *trial = (const int32_t *)(const void *)(s->g + t * TRIAL_INTS);
        int rows = trial[0] * trial[1] * s->c->steps;
        if (s->c->cu_stride)
            rows = trial[2 + trial[0] * s->c->cu_stride] * s->c->steps;
        for (int i = 0; i < TRIAL_ROWS; i++)
            s->h[2 * t * TRIAL_ROWS + i] = s->h[(2 * t + 1) * TRIAL_ROWS + i] = i < rows;
    }
}

#endif
