/* The attention matrix: what each output has of each v. Every mode's o is its product with v; it is what the formulas of
 * the delta rule say; and rules whose value columns differ have none. With CLATTN_TEST_DEVICE=reference the oracle. */
#include "harness.h"

#include <math.h>
#include <stdio.h>

enum { TOKENS = 37, HEADS = 4, KEY = 12, VALUE = 20 };

static const int64_t cuts[] = {0, 0, 1, 17, TOKENS};

static clattn_plan_desc desc_of(clattn_rule rule)
{
    return (clattn_plan_desc){.rule = rule,
                              .flags = CLATTN_WITH_ATTN,
                              .batch = 2,
                              .seq_len = TOKENS,
                              .heads = HEADS,
                              .key_dim = KEY,
                              .value_dim = VALUE};
}

static int has_attn(const clattn_plan_desc *desc)
{
    const struct rule *rule = rule_get(desc->rule);

    return rule_has_matrix(rule) &&
           !(desc->flags & (CLATTN_VALUE_GATE | CLATTN_REVERSED | CLATTN_NONCAUSAL | CLATTN_NORM_OUTPUT)) &&
           (rule->erase != ERASE_KERNEL || test_is_reference());
}

/* attn v in double, in the place of o */
static void multiply(struct check_tensors *product)
{
    const clattn_plan_desc *desc = &product->desc;
    const clattn_operand_info *attn = &product->tensor[OP(ATTN)].info, *v = &product->tensor[OP(V)].info;
    int64_t columns = attn->dims[3], shared = attn->dims[1] / v->dims[2], V = desc->value_dim;

    for (int64_t row = 0; row < attn->dims[0] * attn->dims[1] * attn->dims[2]; row++) {
        int64_t t = row % attn->dims[2], h = row / attn->dims[2] % attn->dims[1],
                b = row / attn->dims[2] / attn->dims[1];
        for (int64_t c = 0; c < V; c++) {
            double sum = 0;
            for (int64_t j = 0; j < columns; j++)
                sum += test_get(product, OP(ATTN), row * columns + j) *
                       test_get(product, OP(V), ((b * columns + j) * v->dims[2] + h / shared) * V + c);
            test_set(product, OP(O), ((b * attn->dims[2] + t) * attn->dims[1] + h) * V + c, sum);
        }
    }
}

/* o of each mode that the rule has is attn v. */
static void check_modes(clattn_plan_desc desc, const int64_t *cu_seqlens, const char *what)
{
    struct check_tensors tensors, product;
    char name[128];
    int runs = 0;

    test_make(&tensors, &desc, CHECK_GATES_USUAL, cu_seqlens);
    test_make(&product, &desc, CHECK_GATES_USUAL, cu_seqlens);
    for (int mode = CLATTN_MODE_RECURRENT; mode <= CLATTN_MODE_CHUNK; mode++) {
        if (!check_mode_applies(desc.rule, (clattn_mode)mode))
            continue;
        tensors.desc.mode = (clattn_mode)mode;
        test_run(&tensors);
        test_copy(&product, OP(ATTN), &tensors, OP(ATTN));
        multiply(&product);
        snprintf(name, sizeof name, "%s %s, mode %d: attn v", test_rule_name(desc.rule), what, mode);
        test_compare(&tensors.tensor[OP(O)], &product.tensor[OP(O)], check_bound(CLATTN_F32), name);
        runs++;
    }
    test_ran(runs);
    check_free(&tensors);
    check_free(&product);
}

static void check_variants(clattn_rule rule)
{
    for (int variant = 0;; variant++) {
        clattn_plan_desc desc = desc_of(rule);
        const char *name = check_variant(rule, variant, &desc);
        desc.flags |= CLATTN_WITH_ATTN; /* a variant's fit may have dropped it */
        if (name == NULL)
            return;
        if (has_attn(&desc))
            check_modes(desc, NULL, name);
    }
}

/* All rules by the reference, to which test_rules holds each one's matrix; on a device some, for compiling takes long. */
static void test_modes(void **state)
{
    static const clattn_rule some[] = {CLATTN_RWKV6, CLATTN_GATED_DELTA_RULE, CLATTN_RWKV7, CLATTN_MLSTM,
                                       CLATTN_FORGETTING_ATTN};

    (void)state;
    for (clattn_rule rule = 1; rule < RULE_COUNT && test_is_reference(); rule++)
        check_variants(rule);
    for (size_t i = 0; i < COUNT(some) && !test_is_reference(); i++)
        check_variants(some[i]);
}

/* Packed sequences, and heads that share a state or its queries and keys */
static void test_shapes(void **state)
{
    static const clattn_rule rules[] = {CLATTN_GATED_DELTA_PRODUCT, CLATTN_MLSTM, CLATTN_SOFTMAX_ATTN,
                                        CLATTN_PATH_ATTN};

    (void)state;
    for (size_t i = 0; i < COUNT(rules); i++) {
        clattn_plan_desc desc = desc_of(rules[i]), heads = desc;
        heads.kv_heads = 2;
        heads.steps = rules[i] == CLATTN_GATED_DELTA_PRODUCT ? 2 : 0;
        check_modes(heads, NULL, "shared");
        desc.flags |= CLATTN_CU_SEQLENS;
        desc.batch = 1;
        desc.sequences = COUNT(cuts) - 1;
        desc.steps = heads.steps;
        check_modes(desc, cuts, "packed");
    }
}

/* A call of fewer tokens than the plan's has a matrix of its own size. */
static void test_short_call(void **state)
{
    static const clattn_rule rules[] = {CLATTN_KDA, CLATTN_ALIBI_ATTN};

    (void)state;
    for (size_t i = 0; i < COUNT(rules) && !test_is_reference(); i++) {
        clattn_plan_desc desc = desc_of(rules[i]);
        struct check_tensors tensors, expected;
        clattn_plan *plan;
        assert_status(clattn_plan_create(&plan, test_device.context, &desc), SUCCESS);
        desc.seq_len = 19;
        test_make(&tensors, &desc, CHECK_GATES_HARD, NULL);
        assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
        assert_status(check_run_plan(&tensors, &test_device, plan, test_log, NULL), SUCCESS);
        test_compare_all(&tensors, &expected, check_bound(CLATTN_F32), "a short call");
        check_free(&tensors);
        check_free(&expected);
        clattn_plan_destroy(plan);
    }
}

/* Row by row: of (I + M) U = beta, M strictly lower, what A has of each v: A U. A, M [T][T]; head 0 of batch 0 */
static void solve(double A[TOKENS][TOKENS], double M[TOKENS][TOKENS], const double *beta, double to[TOKENS][TOKENS])
{
    static double U[TOKENS][TOKENS];

    for (int i = 0; i < TOKENS; i++)
        for (int c = 0; c < TOKENS; c++) {
            U[i][c] = i == c ? beta[i] : 0;
            for (int j = 0; j < i; j++)
                U[i][c] -= M[i][j] * U[j][c];
        }
    for (int i = 0; i < TOKENS; i++)
        for (int c = 0; c < TOKENS; c++) {
            to[i][c] = 0;
            for (int j = 0; j <= i; j++)
                to[i][c] += A[i][j] * U[j][c];
        }
}

static double dot(const struct check_tensors *x, clattn_operand_id a, int i, clattn_operand_id b, int j)
{
    double sum = 0;

    for (int n = 0; n < KEY; n++)
        sum += test_get(x, a, (int64_t)i * HEADS * KEY + n) * test_get(x, b, (int64_t)j * HEADS * KEY + n);
    return sum;
}

static void compare_matrix(const struct check_tensors *tensors, double matrix[TOKENS][TOKENS], const char *what)
{
    struct check_tensors own;

    assert_status(check_allocate(&own, &tensors->desc), SUCCESS);
    test_copy(&own, OP(ATTN), tensors, OP(ATTN));
    for (int64_t i = 0; i < (int64_t)TOKENS * TOKENS; i++)
        test_set(&own, OP(ATTN), i, matrix[i / TOKENS][i % TOKENS]);
    test_compare(&tensors->tensor[OP(ATTN)], &own.tensor[OP(ATTN)], check_bound(CLATTN_F32), what);
    check_free(&own);
}

/* gated_delta_rule's two forms, in double: the decay between the tokens, e^(G_i - G_j), in both products; and pulled out of
 * them, where diag(e^G) and diag(e^-G) stand around the matrix of delta_rule. Yang et al. 2024, arXiv:2412.06464. */
static void test_two_forms(void **state)
{
    static double A[TOKENS][TOKENS], M[TOKENS][TOKENS], between[TOKENS][TOKENS], around[TOKENS][TOKENS];
    clattn_plan_desc desc = desc_of(CLATTN_GATED_DELTA_RULE);
    double beta[TOKENS], G[TOKENS], sum = 0;
    struct check_tensors tensors;

    (void)state;
    test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
    test_run(&tensors);
    for (int i = 0; i < TOKENS; i++) {
        beta[i] = test_get(&tensors, OP(BETA), i * HEADS);
        G[i] = sum += test_get(&tensors, OP(G), i * HEADS);
    }
    for (int pulled = 0; pulled < 2; pulled++) {
        for (int i = 0; i < TOKENS; i++)
            for (int j = 0; j <= i; j++) {
                double decay = pulled ? 1 : exp(G[i] - G[j]);
                A[i][j] = decay * tensors.desc.scale * dot(&tensors, OP(Q), i, OP(K), j);
                M[i][j] = decay * beta[i] * dot(&tensors, OP(K), i, OP(K), j);
            }
        solve(A, M, beta, pulled ? around : between);
    }
    for (int i = 0; i < TOKENS; i++)
        for (int j = 0; j < TOKENS; j++)
            around[i][j] *= exp(G[i] - G[j]);
    compare_matrix(&tensors, between, "decay between");
    compare_matrix(&tensors, around, "decay around");
    check_free(&tensors);
}

/* Softmax's rows sum to 1, and a window has nothing outside. */
static void test_softmax(void **state)
{
    clattn_plan_desc desc = desc_of(CLATTN_SOFTMAX_ATTN);
    struct check_tensors tensors;

    (void)state;
    desc.window = 5;
    test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
    test_run(&tensors);
    for (int64_t row = 0; row < 2 * HEADS * TOKENS; row++) {
        double sum = 0;
        for (int64_t j = 0; j < TOKENS; j++) {
            double x = test_get(&tensors, OP(ATTN), row * TOKENS + j);
            int64_t behind = row % TOKENS - j;
            assert_true(behind >= 0 && behind < desc.window ? x > 0 : x == 0);
            sum += x;
        }
        assert_true(fabs(sum - 1) < 1e-6);
    }
    check_free(&tensors);
}

static void test_none(void **state)
{
    static const struct {
        clattn_rule rule;
        uint64_t flags;
        int64_t tokens, steps;
        const char *says;
    } none[] = {{CLATTN_GDN2, 0, TOKENS, 0, "gdn2: each value column has an attention matrix of its own: no attn"},
                {CLATTN_GLA, CLATTN_VALUE_GATE, TOKENS, 0, "gla with gv: each value column"},
                {CLATTN_HGRN, 0, TOKENS, 0, "hgrn: each"},
                {CLATTN_LRU, 0, TOKENS, 0, "lru: each"},
                {CLATTN_MAMBA, 0, TOKENS, 0, "mamba: each"},
                {CLATTN_FULL_GATE, 0, TOKENS, 0, "full_gate: each"},
                {CLATTN_KDA, 0, 8193, 0, "with attn, seq_len times steps is 8193, expected 1 to 8192"},
                {CLATTN_GATED_DELTA_PRODUCT, 0, 4097, 2, "seq_len times steps is 8194"},
                {CLATTN_SOFTMAX_ATTN, 0, 8193, 0, "with attn, the keys is 8193"}};

    (void)state;
    for (size_t i = 0; i < COUNT(none); i++) {
        clattn_plan_desc desc = desc_of(none[i].rule), full;
        desc.flags |= none[i].flags;
        desc.seq_len = none[i].tokens;
        desc.steps = (int32_t)none[i].steps;
        desc.key_dim = none[i].rule == CLATTN_HGRN || none[i].rule == CLATTN_LRU ? 0 : KEY;
        test_log_clear();
        assert_status(clattn_plan_desc_complete(&full, &desc, test_log, NULL), INVALID_DESC);
        assert_logged(none[i].says);
    }
}

/* What deltaformer writes is made by launches that follow each other. */
static void test_reference_alone(void **state)
{
    clattn_plan_desc desc = desc_of(CLATTN_DELTAFORMER);
    clattn_plan *plan;

    (void)state;
    if (test_is_reference())
        return;
    test_log_clear();
    assert_status(clattn_plan_create(&plan, test_device.context, &desc), UNSUPPORTED);
    assert_logged("deltaformer: only the reference computes attn");
    assert_status(clattn_supports(test_device.context, &desc), UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_modes),          cmocka_unit_test(test_shapes),
                                       cmocka_unit_test(test_short_call),     cmocka_unit_test(test_two_forms),
                                       cmocka_unit_test(test_softmax),        cmocka_unit_test(test_none),
                                       cmocka_unit_test(test_reference_alone)};

    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
