/* Pieces by their definitions, and what they make of rules: a norm takes a denominator away; linear attention of random
 * features is softmax attention in the mean, which a grid in the place of random numbers shows. With
 * CLATTN_TEST_DEVICE=reference the oracle itself. */
#include "harness.h"

#include <math.h>
#include <stdio.h>

enum { BATCH = 2, TOKENS = 21, HEADS = 3, COLUMNS = 6 };

static double bound(void)
{
    return test_is_reference() ? 1e-6 : check_bound(CLATTN_F32);
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

/* Number c of a token's row of head h; 0 before the first token */
static double at(const struct check_tensors *tensors, clattn_operand_id id, int64_t batch, int64_t token, int64_t h,
                 int64_t c)
{
    if (token < 0)
        return 0;
    return test_get(tensors, id, ((batch * TOKENS + token) * HEADS + h) * tensors->desc.value_dim + c);
}

/* o of every number by the definition, in the place of what was drawn, against the run's. */
static void check_piece(const clattn_plan_desc *desc, const char *what,
                        double (*define)(const struct check_tensors *t, int64_t b, int64_t i, int64_t h, int64_t c))
{
    struct check_tensors tensors, expected;

    test_make(&tensors, desc, CHECK_GATES_USUAL, NULL);
    test_make(&expected, desc, CHECK_GATES_USUAL, NULL);
    test_run(&tensors);
    for (int64_t n = 0; n < check_count(&expected.tensor[OP(O)].info); n++) {
        int64_t c = n % desc->value_dim, h = n / desc->value_dim % HEADS, row = n / desc->value_dim / HEADS;
        test_set(&expected, OP(O), n, define(&expected, row / TOKENS, row % TOKENS, h, c));
    }
    test_compare(&tensors.tensor[OP(O)], &expected.tensor[OP(O)], bound(), what);
    check_free(&tensors);
    check_free(&expected);
}

static clattn_plan_desc piece(clattn_plan_desc desc)
{
    desc.batch = BATCH;
    desc.seq_len = TOKENS;
    desc.heads = HEADS;
    desc.value_dim = COLUMNS;
    return desc;
}

/* ---- short_conv ------------------------------------------------------------------------------------------------- */

/* act(sum of w_r v_(i-W+1+r) + bias) + v_i */
static double convolved(const struct check_tensors *t, int64_t b, int64_t i, int64_t h, int64_t c)
{
    const int64_t W = t->desc.taps, channel = h * COLUMNS + c;
    double sum = t->desc.flags & CLATTN_WITH_BIAS ? test_get(t, OP(BIAS), channel) : 0;

    for (int64_t back = 0; back < W; back++)
        sum += test_get(t, OP(W), channel * W + W - 1 - back) * at(t, OP(V), b, i - back, h, c);
    if (t->desc.activation == CLATTN_ACTIVATION_SILU)
        sum = silu(sum);
    return sum + (t->desc.flags & CLATTN_RESIDUAL ? at(t, OP(V), b, i, h, c) : 0);
}

static void test_short_conv(void **state)
{
    static const clattn_plan_desc descs[] = {
        {.taps = 1},
        {.taps = 4, .flags = CLATTN_WITH_BIAS},
        {.taps = 8, .activation = CLATTN_ACTIVATION_NONE},
        {.taps = 3,
         .activation = CLATTN_ACTIVATION_NONE,
         .flags = CLATTN_WITH_BIAS | CLATTN_RESIDUAL}, /* a Canon layer */
        {.taps = 2, .flags = CLATTN_RESIDUAL},
    };
    char what[64];

    (void)state;
    for (size_t n = 0; n < COUNT(descs); n++) {
        clattn_plan_desc desc = piece(descs[n]);
        desc.rule = CLATTN_SHORT_CONV;
        snprintf(what, sizeof what, "short_conv of %d taps", (int)desc.taps);
        check_piece(&desc, what, convolved);
    }
}

/* ---- rms_norm --------------------------------------------------------------------------------------------------- */

static double gate(const struct check_tensors *t, int64_t b, int64_t i, int64_t h, int64_t c, int before)
{
    if (!(t->desc.flags & CLATTN_WITH_Z) || before != (t->desc.gating == CLATTN_GATING_BEFORE))
        return 1;
    return t->desc.gating == CLATTN_GATING_SIGMOID ? 1 / (1 + exp(-at(t, OP(Z), b, i, h, c)))
                                                   : silu(at(t, OP(Z), b, i, h, c));
}

static double entering(const struct check_tensors *t, int64_t b, int64_t i, int64_t h, int64_t c)
{
    double x = at(t, OP(V), b, i, h, c);

    if (t->desc.flags & CLATTN_WITH_D)
        x += test_get(t, OP(D), h * COLUMNS + c) * at(t, OP(U), b, i, h, c);
    return x * gate(t, b, i, h, c, 1);
}

static double normed(const struct check_tensors *t, int64_t b, int64_t i, int64_t h, int64_t c)
{
    const int apart = t->desc.weighting == CLATTN_WEIGHTING_HEADS;
    double squares = 0, w = 1;

    for (int64_t n = 0; n < COLUMNS; n++)
        squares += entering(t, b, i, h, n) * entering(t, b, i, h, n);
    if (t->desc.weighting != CLATTN_WEIGHTING_NONE)
        w = test_get(t, OP(W), apart ? h * COLUMNS + c : c) + (t->desc.flags & CLATTN_CENTERED ? 1 : 0);
    squares /= COLUMNS;
    return w * entering(t, b, i, h, c) * gate(t, b, i, h, c, 0) /
           (t->desc.flags & CLATTN_EPS_OUTSIDE ? sqrt(squares) + t->desc.eps : sqrt(squares + t->desc.eps));
}

static void test_rms_norm(void **state)
{
    static const clattn_plan_desc descs[] = {
        {.eps = 1e-5},
        {.eps = 0.5, .weighting = CLATTN_WEIGHTING_NONE, .flags = CLATTN_WITH_Z},
        {.eps = 0.1, .weighting = CLATTN_WEIGHTING_HEADS, .flags = CLATTN_WITH_Z, .gating = CLATTN_GATING_BEFORE},
        {.eps = 0.1, .flags = CLATTN_WITH_Z | CLATTN_CENTERED, .gating = CLATTN_GATING_SIGMOID},
        {.eps = 0.1, .flags = CLATTN_WITH_Z | CLATTN_WITH_D, .gating = CLATTN_GATING_BEFORE},
        {.eps = 0.5, .flags = CLATTN_EPS_OUTSIDE},
    };
    char what[64];

    (void)state;
    for (size_t n = 0; n < COUNT(descs); n++) {
        clattn_plan_desc desc = piece(descs[n]);
        desc.rule = CLATTN_RMS_NORM;
        snprintf(what, sizeof what, "rms_norm, row %d", (int)n);
        check_piece(&desc, what, normed);
    }
}

/* ---- Denominators ----------------------------------------------------------------------------------------------- */

/* rms_norm of o, for all heads alike, into o's own place */
static void normalise(struct check_tensors *of)
{
    clattn_plan_desc desc = piece((clattn_plan_desc){.rule = CLATTN_RMS_NORM, .eps = 1e-30});
    struct check_tensors norm;

    desc.weighting = CLATTN_WEIGHTING_NONE;
    test_make(&norm, &desc, CHECK_GATES_USUAL, NULL);
    test_copy(&norm, OP(V), of, OP(O));
    test_run(&norm);
    test_copy(of, OP(O), &norm, OP(O));
    check_free(&norm);
}

/* Of one rule with and without what o is divided by */
static void compare_normed(struct check_tensors *divided, struct check_tensors *whole, const char *what)
{
    normalise(divided);
    normalise(whole);
    test_compare(&whole->tensor[OP(O)], &divided->tensor[OP(O)], 4 * bound(), what);
    check_free(divided);
    check_free(whole);
}

static clattn_plan_desc mixer(clattn_rule rule, uint64_t flags)
{
    clattn_plan_desc desc = piece((clattn_plan_desc){.rule = rule, .flags = flags});

    desc.key_dim = 8;
    return desc;
}

/* A norm takes it away: of o there and of o times the denominator. */
static void test_denominators(void **state)
{
    clattn_plan_desc desc = mixer(CLATTN_LINEAR_ATTN, CLATTN_NORMALIZE), plain = mixer(CLATTN_LINEAR_ATTN, 0);
    const clattn_plan_desc softmax = mixer(CLATTN_SOFTMAX_ATTN, CLATTN_WITH_LSE);
    struct check_tensors divided, whole;

    (void)state;
    desc.feature_map = plain.feature_map = CLATTN_FEATURE_ELU1;
    test_make(&divided, &desc, CHECK_GATES_USUAL, NULL);
    test_make(&whole, &plain, CHECK_GATES_USUAL, NULL);
    test_copy(&whole, OP(Q), &divided, OP(Q));
    test_copy(&whole, OP(K), &divided, OP(K));
    test_run(&divided);
    test_run(&whole);
    compare_normed(&divided, &whole, "linear_attn over its weights' sum");
    test_make(&divided, &softmax, CHECK_GATES_USUAL, NULL);
    test_make(&whole, &softmax, CHECK_GATES_USUAL, NULL);
    test_run(&divided);
    test_copy(&whole, OP(O), &divided, OP(O));
    for (int64_t i = 0; i < check_count(&whole.tensor[OP(O)].info); i++)
        test_set(&whole, OP(O), i, test_get(&divided, OP(O), i) * exp(test_get(&divided, OP(LSE), i / COLUMNS)));
    compare_normed(&divided, &whole, "softmax_attn over its weights' sum");
}

/* ---- Random features -------------------------------------------------------------------------------------------- */

enum { KEY = 2, GRID = 16, M = GRID * GRID }; /* M omegas, a point each of as many equally likely squares of a plane */

/* Where the normal distribution reaches p */
static double quantile(double p)
{
    double low = -9, high = 9;

    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        *(erfc(-middle / sqrt(2)) / 2 < p ? &low : &high) = middle;
    }
    return low;
}

/* Point n of a side, of points whose squares are 1 in the mean, as a normal number's */
static double point_of(int64_t n)
{
    double squares = 0;

    for (int i = 0; i < GRID; i++)
        squares += pow(quantile((i + 0.5) / GRID), 2) / GRID;
    return quantile(((double)n + 0.5) / GRID) / sqrt(squares);
}

/* Features of id of a rule that has KEY channels, into to's, which has the features' */
static void map_rows(struct check_tensors *to, const struct check_tensors *from, clattn_operand_id id,
                     clattn_features features)
{
    clattn_plan_desc desc = piece((clattn_plan_desc){.rule = CLATTN_FEATURES, .features = features, .eps = 1e-12});
    struct check_tensors mapped;

    desc.value_dim = KEY;
    desc.key_dim = to->desc.key_dim;
    test_make(&mapped, &desc, CHECK_GATES_USUAL, NULL);
    test_copy(&mapped, OP(V), from, id);
    for (int64_t i = 0; i < check_count(&mapped.tensor[OP(OMEGA)].info); i++) {
        int64_t point = i / KEY % M;
        test_set(&mapped, OP(OMEGA), i, point_of(i % KEY ? point / GRID : point % GRID));
    }
    test_run(&mapped);
    test_copy(to, id, &mapped, OP(O));
    check_free(&mapped);
}

/* The mean of e^(w.q - |q|^2/2) e^(w.k - |k|^2/2) is e^(q.k). The points' fourth moment is 2.4, not 3: of numbers up to
 * 1/2 a channel's part of a weight is off by (3 - 2.4) / 24 (2^(3/4) / 2)^4 = 1.2 % at the most. */
static void test_performer(void **state)
{
    clattn_plan_desc softmax = mixer(CLATTN_SOFTMAX_ATTN, 0), linear = mixer(CLATTN_LINEAR_ATTN, CLATTN_NORMALIZE);
    struct check_tensors exact, mapped;

    (void)state;
    softmax.key_dim = KEY;
    linear.key_dim = M;
    linear.scale = 1;
    test_make(&exact, &softmax, CHECK_GATES_USUAL, NULL);
    test_make(&mapped, &linear, CHECK_GATES_USUAL, NULL);
    for (int64_t i = 0; i < check_count(&exact.tensor[OP(Q)].info); i++) {
        test_set(&exact, OP(Q), i, fmax(-0.5, fmin(0.5, test_get(&exact, OP(Q), i))));
        test_set(&exact, OP(K), i, fmax(-0.5, fmin(0.5, test_get(&exact, OP(K), i))));
    }
    map_rows(&mapped, &exact, OP(Q), CLATTN_FEATURES_FAVOR);
    map_rows(&mapped, &exact, OP(K), CLATTN_FEATURES_FAVOR);
    test_run(&exact);
    test_run(&mapped);
    test_compare(&mapped.tensor[OP(O)], &exact.tensor[OP(O)], 0.02, "softmax_attn by features");
    check_free(&exact);
    check_free(&mapped);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_short_conv), cmocka_unit_test(test_rms_norm),
                                       cmocka_unit_test(test_denominators), cmocka_unit_test(test_performer)};

    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
