/* mesa_net: what its solution must be. With CLATTN_TEST_DEVICE=reference the identities hold the oracle itself. */
#include "harness.h"

#include <math.h>
#include <string.h>

enum { TOKENS = 37, HEADS = 2, K = 12, V = 8, FORGOTTEN = 19, CUT = 21 };

/* All problems on the device have the same kernels. */
static clattn_plan_desc desc_of(clattn_mode mode)
{
    return (clattn_plan_desc){.rule = CLATTN_MESA_NET,
                              .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE,
                              .seq_len = TOKENS,
                              .heads = HEADS,
                              .key_dim = K,
                              .value_dim = V,
                              .mode = mode};
}

static double bound(void)
{
    return test_is_reference() ? 2e-6 : 1e-5;
}

/* In chunks, and token by token. */
static void in_both_modes(void (*check)(const clattn_plan_desc *desc))
{
    const clattn_plan_desc chunks = desc_of(CLATTN_MODE_CHUNK), tokens = desc_of(CLATTN_MODE_RECURRENT);

    check(&chunks);
    if (!test_is_reference())
        check(&tokens);
}

static void compare_o(const struct check_tensors *actual, const struct check_tensors *expected, const char *what)
{
    test_compare(&actual->tensor[OP(O)], &expected->tensor[OP(O)], bound(), what);
}

/* ---- A ridge of 10^9: the rule that reads by q, over the ridge ------------------------------------------------------ */

static void check_far(const clattn_plan_desc *desc)
{
    const double ridge = 1e9;
    clattn_plan_desc plain = *desc;
    struct check_tensors far, ssd;

    plain.rule = CLATTN_SSD;
    test_make(&far, desc, CHECK_GATES_HARD, NULL);
    test_make(&ssd, &plain, CHECK_GATES_HARD, NULL);
    test_set_all(&far, OP(RIDGE), ridge);
    test_run(&far);
    test_run(&ssd);
    for (int64_t i = 0; i < check_count(&far.tensor[OP(O)].info); i++)
        test_set(&far, OP(O), i, ridge * test_get(&far, OP(O), i));
    compare_o(&far, &ssd, "o times a large ridge");
    test_compare(&far.tensor[OP(STATE_OUT)], &ssd.tensor[OP(STATE_OUT)], bound(), "its state");
    check_free(&far);
    check_free(&ssd);
}

static void test_far(void **state)
{
    (void)state;
    in_both_modes(check_far);
}

/* ---- Without a decay: recursive least squares, which is ridge regression of v on k -------------------------------- */

struct regression {
    double P[K][K], W[K][V];
};

/* gain = beta P k / (1 + beta k P k);  W += gain (v - W k)^T;  P -= gain (P k)^T */
static void learn(struct regression *of, const struct check_tensors *in, int64_t row)
{
    const double beta = test_get(in, OP(BETA), row);
    double Pk[K] = {0}, divisor = 1, error[V];

    for (int n = 0; n < K; n++)
        for (int m = 0; m < K; m++)
            Pk[n] += of->P[n][m] * test_get(in, OP(K), row * K + m);
    for (int n = 0; n < K; n++)
        divisor += beta * test_get(in, OP(K), row * K + n) * Pk[n];
    for (int c = 0; c < V; c++) {
        error[c] = test_get(in, OP(V), row * V + c);
        for (int n = 0; n < K; n++)
            error[c] -= of->W[n][c] * test_get(in, OP(K), row * K + n);
    }
    for (int n = 0; n < K; n++) {
        for (int c = 0; c < V; c++)
            of->W[n][c] += beta * Pk[n] / divisor * error[c];
        for (int m = 0; m < K; m++)
            of->P[n][m] -= beta * Pk[n] / divisor * Pk[m];
    }
}

static void regress(const struct check_tensors *in, struct check_tensors *out, int head)
{
    struct regression of = {0};

    for (int n = 0; n < K; n++)
        of.P[n][n] = 1 / test_get(in, OP(RIDGE), head * K + n);
    for (int64_t token = 0; token < TOKENS; token++) {
        const int64_t row = token * HEADS + head;
        learn(&of, in, row);
        for (int c = 0; c < V; c++) {
            double o = 0;
            for (int n = 0; n < K; n++)
                o += of.W[n][c] * test_get(in, OP(Q), row * K + n);
            test_set(out, OP(O), row * V + c, o);
        }
    }
}

static void check_regression(const clattn_plan_desc *desc)
{
    struct check_tensors in, expected;

    test_make(&in, desc, CHECK_GATES_USUAL, NULL);
    test_set_all(&in, OP(G), 0);
    test_set_all(&in, OP(STATE_IN), 0);
    test_set_all(&in, OP(GRAM_IN), 0);
    assert_status(check_allocate(&expected, desc), SUCCESS);
    for (int head = 0; head < HEADS; head++)
        regress(&in, &expected, head);
    test_run(&in);
    compare_o(&in, &expected, "recursive least squares");
    check_free(&in);
    check_free(&expected);
}

static void test_regression(void **state)
{
    (void)state;
    in_both_modes(check_regression);
}

/* ---- Conditions up to 100, ridges from 0.01 on ------------------------------------------------------------------- */

/* Eigenvalues of the first gram matrix from 0 to 99 times the ridge. */
static void check_ridge(const clattn_plan_desc *desc, double ridge)
{
    struct check_tensors in, expected;

    test_make(&in, desc, CHECK_GATES_USUAL, NULL);
    test_set_all(&in, OP(RIDGE), ridge);
    test_set_all(&in, OP(G), 0);
    for (int64_t i = 0; i < HEADS * K * K; i++)
        test_set(&in, OP(GRAM_IN), i, i / K % K == i % K ? 99 * ridge * (double)(i % K) / (K - 1) : 0);
    for (int64_t i = 0; i < TOKENS * HEADS; i++)
        test_set(&in, OP(BETA), i, fmin(ridge, 1) * test_get(&in, OP(BETA), i) / TOKENS);
    assert_status(check_reference(&expected, &in, test_log, NULL), SUCCESS);
    test_run(&in);
    compare_o(&in, &expected, "a condition of 100");
    check_free(&in);
    check_free(&expected);
}

static void check_ridges(const clattn_plan_desc *desc)
{
    const double ridges[] = {1e-2, 1, 1e3, 1e9};

    for (size_t i = 0; i < COUNT(ridges); i++)
        check_ridge(desc, ridges[i]);
}

static void test_conditions(void **state)
{
    (void)state;
    in_both_modes(check_ridges);
}

/* ---- Sequences in parts ------------------------------------------------------------------------------------------ */

static void copy_state(struct check_tensors *to, const struct check_tensors *from)
{
    test_copy(to, OP(STATE_IN), from, OP(STATE_OUT));
    test_copy(to, OP(GRAM_IN), from, OP(GRAM_OUT));
}

static void compare_end(const struct check_tensors *part, const struct check_tensors *whole, const char *what)
{
    const int64_t first = check_count(&whole->tensor[OP(O)].info) - check_count(&part->tensor[OP(O)].info);
    struct check_tensor end = whole->tensor[OP(O)];

    end.info = part->tensor[OP(O)].info;
    end.data = (float *)end.data + first;
    test_compare(&part->tensor[OP(O)], &end, bound(), what);
    test_compare(&part->tensor[OP(STATE_OUT)], &whole->tensor[OP(STATE_OUT)], bound(), what);
    test_compare(&part->tensor[OP(GRAM_OUT)], &whole->tensor[OP(GRAM_OUT)], bound(), what);
}

/* A sequence that is cut goes on from its state, */
static void check_cut(const clattn_plan_desc *desc)
{
    struct check_tensors whole, first, second;

    test_make(&whole, desc, CHECK_GATES_USUAL, NULL);
    test_run(&whole);
    test_take(&first, &whole, (struct test_slice){0, 0, 0, CUT});
    test_take(&second, &whole, (struct test_slice){0, 0, CUT, TOKENS - CUT});
    test_run(&first);
    copy_state(&second, &first);
    test_run(&second);
    compare_end(&second, &whole, "the second part of a sequence");
    check_free(&whole);
    check_free(&first);
    check_free(&second);
}

/* and a decay of 0 leaves what a token begins with an empty state: a gram matrix of one key. */
static void check_forgotten(const clattn_plan_desc *desc)
{
    struct check_tensors whole, fresh;

    test_make(&whole, desc, CHECK_GATES_USUAL, NULL);
    for (int head = 0; head < HEADS; head++)
        test_set(&whole, OP(G), FORGOTTEN * HEADS + head, (double)-INFINITY);
    test_run(&whole);
    test_take(&fresh, &whole, (struct test_slice){0, 0, FORGOTTEN, TOKENS - FORGOTTEN});
    test_set_all(&fresh, OP(STATE_IN), 0);
    test_set_all(&fresh, OP(GRAM_IN), 0);
    test_run(&fresh);
    compare_end(&fresh, &whole, "what follows a decay of 0");
    check_free(&whole);
    check_free(&fresh);
}

static void test_parts(void **state)
{
    (void)state;
    in_both_modes(check_cut);
    in_both_modes(check_forgotten);
}

/* What there is not is refused in a line that names it. */
static void test_refused(void **state)
{
    static const struct {
        clattn_plan_desc desc;
        const char *said;
    } bad[] = {
        {{.cg_steps = 257}, "cg_steps is 257, expected 0 to 256"},
        {{.cg_steps = -1}, "cg_steps is -1, expected 0 to 256"},
        {{.pass = CLATTN_PASS_BACKWARD}, "mesa_net takes no option pass"},
        {{.flags = CLATTN_NORMALIZE}, "mesa_net takes no option normalize"},
        {{.flags = CLATTN_NORM_OUTPUT}, "mesa_net takes no option norm"},
        {{.qk_heads = 3}, "qk_heads is 3"},
        {{.rule = CLATTN_GLA, .cg_steps = 3}, "gla takes no option cg_steps"},
    };

    (void)state;
    for (size_t n = 0; n < COUNT(bad); n++) {
        clattn_plan_desc desc = desc_of(CLATTN_MODE_AUTO), full;
        desc.rule = bad[n].desc.rule != CLATTN_RULE_NONE ? bad[n].desc.rule : desc.rule;
        desc.cg_steps = bad[n].desc.cg_steps;
        desc.pass = bad[n].desc.pass;
        desc.flags |= bad[n].desc.flags;
        desc.qk_heads = bad[n].desc.qk_heads;
        test_log_clear();
        assert_status(clattn_plan_desc_complete(&full, &desc, test_log, NULL), INVALID_DESC);
        assert_logged(bad[n].said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_far), cmocka_unit_test(test_regression),
                                       cmocka_unit_test(test_conditions), cmocka_unit_test(test_parts),
                                       cmocka_unit_test(test_refused)};

    return test_run_group("mesa", tests, COUNT(tests), test_device_open, test_device_close);
}
