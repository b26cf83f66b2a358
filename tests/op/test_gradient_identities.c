/* Gradients that must be the same numbers: one rule is a special case of another, a gradient is the rule itself with
 * other operands, and all are linear in the gradients of outputs. With CLATTN_TEST_DEVICE=reference the identities hold the
 * oracle itself. */
#include "harness.h"

#include <math.h>

enum { BATCH = 2, TOKENS = 75, HEADS = 2, KEY = 20, VALUE = 12 };
static const double SCALE = 0.25, BOUND = 2e-5;

static clattn_plan_desc desc_of(clattn_rule rule)
{
    return (clattn_plan_desc){.rule = rule,
                              .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE,
                              .batch = BATCH,
                              .seq_len = TOKENS,
                              .heads = HEADS,
                              .key_dim = KEY,
                              .value_dim = VALUE,
                              .scale = SCALE,
                              .pass = CLATTN_PASS_BACKWARD};
}

/* Whatever both problems read and shape alike. */
static void copy_common(struct check_tensors *to, const struct check_tensors *from)
{
    for (int id = 1; id < OPERAND_COUNT; id++) {
        const struct check_tensor *a = &to->tensor[id], *b = &from->tensor[id];
        if (a->data != NULL && b->data != NULL && !a->info.output && check_count(&a->info) == check_count(&b->info))
            test_copy(to, (clattn_operand_id)id, from, (clattn_operand_id)id);
    }
}

static double gradient(const struct check_tensors *tensors, clattn_operand_id id, int64_t i)
{
    return test_get(tensors, gradient_of(id), i);
}

static void compare(const struct check_tensors *general, const struct check_tensors *special, clattn_operand_id id,
                    const char *what)
{
    test_compare(&general->tensor[gradient_of(id)], &special->tensor[gradient_of(id)], BOUND, what);
}

/* q, k, v and the initial state */
static void compare_usual(const struct check_tensors *general, const struct check_tensors *special, const char *what)
{
    compare(general, special, OP(Q), what);
    compare(general, special, OP(K), what);
    compare(general, special, OP(V), what);
    compare(general, special, OP(STATE_IN), what);
}

/* The sum of `width` neighbours of a gradient */
static double sum_of(const struct check_tensors *tensors, clattn_operand_id id, int64_t at, int64_t width)
{
    double sum = 0;

    for (int64_t n = 0; n < width; n++)
        sum += gradient(tensors, id, at * width + n);
    return sum;
}

struct error {
    double difference, size;
};
static void add_error(struct error *error, double actual, double expected)
{
    error->difference = fmax(error->difference, fabs(actual - expected));
    error->size = fmax(error->size, fabs(expected));
}
static void assert_small(const struct error *error, const char *what)
{
    assert_true(error->size > 0);
    if (!(error->difference <= BOUND * error->size))
        fail_msg("%s: an error of %g in numbers to %g", what, error->difference, error->size);
}

/* ---- Rules that are cases of others -------------------------------------------------------------------------------
 */

typedef void build_t(struct check_tensors *general, const struct check_tensors *special);

/* The general rule's inputs are made of the special one's, and both have run. */
static void run_both(struct check_tensors *general, clattn_rule general_rule, struct check_tensors *special,
                     clattn_rule special_rule, build_t *build)
{
    const clattn_plan_desc general_desc = desc_of(general_rule), special_desc = desc_of(special_rule);

    test_make(special, &special_desc, CHECK_GATES_USUAL, NULL);
    test_make(general, &general_desc, CHECK_GATES_USUAL, NULL);
    copy_common(general, special);
    build(general, special);
    test_run(general);
    test_run(special);
}

static void free_both(struct check_tensors *general, struct check_tensors *special)
{
    check_free(general);
    check_free(special);
}

static void equal_channels(struct check_tensors *general, const struct check_tensors *special)
{
    test_spread(general, OP(G), special, OP(G), KEY);
}

/* The gradient of a row's decay is the sum of its channels'. */
static void test_equal_channels(void **state)
{
    static const clattn_rule rules[][2] = {{CLATTN_KDA, CLATTN_GATED_DELTA_RULE}, {CLATTN_GLA, CLATTN_SIMPLE_GLA}};

    (void)state;
    for (size_t i = 0; i < COUNT(rules); i++) {
        struct check_tensors channels, scalar;
        struct error error = {0, 0};
        run_both(&channels, rules[i][0], &scalar, rules[i][1], equal_channels);
        compare_usual(&channels, &scalar, "equal channels");
        for (int64_t row = 0; row < BATCH * TOKENS * HEADS; row++)
            add_error(&error, sum_of(&channels, OP(G), row, KEY), gradient(&scalar, OP(G), row));
        assert_small(&error, "equal channels, g");
        free_both(&channels, &scalar);
    }
}

static void all_beta(struct check_tensors *general, const struct check_tensors *special)
{
    test_spread(general, OP(B), special, OP(BETA), KEY);
    test_spread(general, OP(W), special, OP(BETA), VALUE);
}

/* gdn2 with b = w = beta is kda: both gates together have the gradient of beta. */
static void test_gates_of_one_strength(void **state)
{
    struct check_tensors gated, kda;
    struct error error = {0, 0};

    (void)state;
    run_both(&gated, CLATTN_GDN2, &kda, CLATTN_KDA, all_beta);
    compare_usual(&gated, &kda, "gdn2");
    compare(&gated, &kda, OP(G), "gdn2, g");
    for (int64_t row = 0; row < BATCH * TOKENS * HEADS; row++)
        add_error(&error, sum_of(&gated, OP(B), row, KEY) + sum_of(&gated, OP(W), row, VALUE),
                  gradient(&kda, OP(BETA), row));
    assert_small(&error, "gdn2, b and w");
    free_both(&gated, &kda);
}

static void decayed_p(struct check_tensors *general, const struct check_tensors *special)
{
    for (int64_t i = 0; i < check_count(&general->tensor[OP(P)].info); i++)
        test_set(general, OP(P), i, test_get(special, OP(P), i) * exp(test_get(special, OP(G), i / KEY)));
}

/* comba erases before the decay what precond_gated_delta_rule does after it, with p' = e^g p: dp = e^g dp', and g has what p'
 * has of it. */
static void test_erase_before(void **state)
{
    struct check_tensors before, after;
    struct error keys = {0, 0}, gates = {0, 0};

    (void)state;
    run_both(&before, CLATTN_COMBA, &after, CLATTN_PRECOND_GATED_DELTA_RULE, decayed_p);
    compare_usual(&before, &after, "comba");
    compare(&before, &after, OP(BETA), "comba, beta");
    for (int64_t row = 0; row < BATCH * TOKENS * HEADS; row++) {
        double decay = exp(test_get(&after, OP(G), row)), by_p = 0;
        for (int64_t i = row * KEY; i < (row + 1) * KEY; i++) {
            add_error(&keys, decay * gradient(&before, OP(P), i), gradient(&after, OP(P), i));
            by_p += test_get(&before, OP(P), i) * gradient(&before, OP(P), i);
        }
        add_error(&gates, gradient(&before, OP(G), row) + by_p, gradient(&after, OP(G), row));
    }
    assert_small(&keys, "comba, p");
    assert_small(&gates, "comba, g");
    free_both(&before, &after);
}

static void ones(struct check_tensors *general, const struct check_tensors *special)
{
    (void)special;
    test_set_all(general, OP(BETA), 1);
}

static void test_strength_of_one(void **state)
{
    struct check_tensors ssd, plain;

    (void)state;
    run_both(&ssd, CLATTN_SSD, &plain, CLATTN_SIMPLE_GLA, ones);
    compare_usual(&ssd, &plain, "ssd");
    compare(&ssd, &plain, OP(G), "ssd, g");
    free_both(&ssd, &plain);
}

/* ---- Gradients that are the rule itself ---------------------------------------------------------------------------
 */

/* Element k, v of each head's state to v, k */
static void turn_states(struct check_tensors *to, const struct check_tensors *from, clattn_operand_id id, double factor)
{
    for (int64_t i = 0; i < BATCH * HEADS * KEY * VALUE; i++) {
        int64_t head = i / (KEY * VALUE), n = i / VALUE % KEY, c = i % VALUE;
        test_set(to, OP(STATE_IN), (head * VALUE + c) * KEY + n, factor * test_get(from, id, i));
    }
}

/* dq = s S do reads the states of the rule with k and v changed over. */
static void test_read_by_gradients(void **state)
{
    const clattn_plan_desc desc = desc_of(CLATTN_SIMPLE_GLA);
    clattn_plan_desc turned = desc;
    struct check_tensors gradients, forward;

    (void)state;
    turned.pass = CLATTN_PASS_FORWARD;
    turned.key_dim = VALUE;
    turned.value_dim = KEY;
    test_make(&gradients, &desc, CHECK_GATES_HARD, NULL);
    test_make(&forward, &turned, CHECK_GATES_HARD, NULL);
    test_copy(&forward, OP(Q), &gradients, gradient_of(OP(O)));
    test_copy(&forward, OP(K), &gradients, OP(V));
    test_copy(&forward, OP(V), &gradients, OP(K));
    test_copy(&forward, OP(G), &gradients, OP(G));
    turn_states(&forward, &gradients, OP(STATE_IN), 1);
    test_run(&gradients);
    test_run(&forward);
    test_compare(&gradients.tensor[gradient_of(OP(Q))], &forward.tensor[OP(O)], BOUND, "dq");
    free_both(&gradients, &forward);
}

/* dv is the rule from the last token to the first, with q and k changed over and each gate one token earlier. */
static void test_written_from_the_end(void **state)
{
    const clattn_plan_desc desc = desc_of(CLATTN_SIMPLE_GLA);
    clattn_plan_desc back = desc;
    struct check_tensors gradients, forward;

    (void)state;
    back.pass = CLATTN_PASS_FORWARD;
    back.flags |= CLATTN_REVERSED;
    test_make(&gradients, &desc, CHECK_GATES_HARD, NULL);
    test_make(&forward, &back, CHECK_GATES_HARD, NULL);
    test_copy(&forward, OP(Q), &gradients, OP(K));
    test_copy(&forward, OP(K), &gradients, OP(Q));
    test_copy(&forward, OP(V), &gradients, gradient_of(OP(O)));
    for (int64_t i = 0; i < BATCH * TOKENS * HEADS; i++) {
        int last = i / HEADS % TOKENS == TOKENS - 1;
        test_set(&forward, OP(G), i, last ? 0 : test_get(&gradients, OP(G), i + HEADS));
    }
    for (int64_t i = 0; i < BATCH * HEADS * KEY * VALUE; i++)
        test_set(&forward, OP(STATE_IN), i, test_get(&gradients, gradient_of(OP(STATE_OUT)), i) / SCALE);
    test_run(&gradients);
    test_run(&forward);
    test_compare(&gradients.tensor[gradient_of(OP(V))], &forward.tensor[OP(O)], BOUND, "dv");
    free_both(&gradients, &forward);
}

/* ---- The gradients that are given -----------------------------------------------------------------------------------
 */

static const clattn_rule of_each_kind[] = {CLATTN_GATED_DELTA_RULE, CLATTN_GLA, CLATTN_MLSTM, CLATTN_DPLR};

/* Where no output is read from a token on, what it and later ones write has the gradient 0. */
static void test_unread(void **state)
{
    enum { UNREAD = 40 };

    (void)state;
    for (size_t r = 0; r < COUNT(of_each_kind); r++) {
        const clattn_plan_desc desc = desc_of(of_each_kind[r]);
        const struct rule *rule = rule_get(desc.rule);
        const clattn_operand_id ids[] = {OP(K), OP(V), rule->gate, OP(BETA), OP(I)};
        const clattn_operand_id ends[] = {OP(STATE_OUT), OP(NORMALIZER_OUT)};
        struct check_tensors tensors;
        test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
        for (size_t i = 0; i < COUNT(ends); i++)
            if (tensors.tensor[gradient_of(ends[i])].data != NULL)
                test_set_all(&tensors, gradient_of(ends[i]), 0);
        for (int64_t i = 0; i < BATCH * TOKENS * HEADS * VALUE; i++)
            if (i / (HEADS * VALUE) % TOKENS >= UNREAD)
                test_set(&tensors, gradient_of(OP(O)), i, 0);
        test_run(&tensors);
        for (size_t j = 0; j < COUNT(ids); j++) {
            const struct check_tensor *tensor = &tensors.tensor[gradient_of(ids[j])];
            int64_t row = tensor->data != NULL ? check_count(&tensor->info) / (BATCH * TOKENS) : 0;
            for (int64_t i = 0; i < row * BATCH * TOKENS; i++)
                if (i / row % TOKENS >= UNREAD)
                    assert_true(gradient(&tensors, ids[j], i) == 0);
        }
        check_free(&tensors);
    }
}

/* Gradients by outputs and by final states add up. */
static void test_linear(void **state)
{
    (void)state;
    for (size_t r = 0; r < COUNT(of_each_kind); r++) {
        const clattn_plan_desc desc = desc_of(of_each_kind[r]);
        struct check_tensors all, parts[2];
        test_make(&all, &desc, CHECK_GATES_HARD, NULL);
        for (int part = 0; part < 2; part++) {
            const clattn_operand_id ends[] = {OP(STATE_OUT), OP(NORMALIZER_OUT)};
            test_make(&parts[part], &desc, CHECK_GATES_HARD, NULL);
            copy_common(&parts[part], &all);
            if (part == 1)
                test_set_all(&parts[part], gradient_of(OP(O)), 0);
            for (size_t i = 0; i < COUNT(ends) && part == 0; i++)
                if (all.tensor[gradient_of(ends[i])].data != NULL)
                    test_set_all(&parts[part], gradient_of(ends[i]), 0);
            test_run(&parts[part]);
        }
        test_run(&all);
        for (int id = (int)OPERAND_IDS + 1; id < OPERAND_COUNT; id++) {
            const struct check_tensor *tensor = &all.tensor[id];
            struct error error = {0, 0};
            if (tensor->data == NULL || !tensor->info.output)
                continue;
            for (int64_t i = 0; i < check_count(&tensor->info); i++)
                add_error(&error,
                          test_get(&parts[0], (clattn_operand_id)id, i) + test_get(&parts[1], (clattn_operand_id)id, i),
                          test_get(&all, (clattn_operand_id)id, i));
            assert_small(&error, test_rule_name(desc.rule));
        }
        check_free(&all);
        free_both(&parts[0], &parts[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_channels),
        cmocka_unit_test(test_gates_of_one_strength),
        cmocka_unit_test(test_erase_before),
        cmocka_unit_test(test_strength_of_one),
        cmocka_unit_test(test_read_by_gradients),
        cmocka_unit_test(test_written_from_the_end),
        cmocka_unit_test(test_unread),
        cmocka_unit_test(test_linear),
    };

    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
