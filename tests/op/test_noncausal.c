/* Tokens that read what comes after them, too. All tokens of a sequence read its last state: the definition, from the
 * operands. A decay in both directions is a run forward, one reversed, less a token's own term. With
 * CLATTN_TEST_DEVICE=reference both hold the oracle. */
#include "harness.h"

#include "device/opencl.h"

#include <math.h>
#include <stdio.h>

enum { TOKENS = 75, HEADS = 4, SHARED = 2, KEY = 20, VALUE = 12 };

static const int64_t cuts[] = {0, 0, 1, 40, TOKENS};

static double bound(void)
{
    return test_is_reference() ? 1e-6 : check_bound(CLATTN_F32);
}

static clattn_plan_desc desc_of(clattn_rule rule, uint64_t flags)
{
    return (clattn_plan_desc){.rule = rule,
                              .flags = flags,
                              .seq_len = TOKENS,
                              .heads = HEADS,
                              .kv_heads = SHARED,
                              .key_dim = KEY,
                              .value_dim = VALUE,
                              .scale = 0.25};
}

/* elu(x) + 1, where the desc asks for it, of a token of [1,T,heads,KEY] */
static double feature(const struct check_tensors *tensors, clattn_operand_id id, int64_t token, int64_t h, int64_t n)
{
    const int64_t heads = tensors->tensor[id].info.dims[2];
    const double x = test_get(tensors, id, (token * heads + h) * KEY + n);

    if (tensors->desc.feature_map != CLATTN_FEATURE_ELU1)
        return x;
    return x > 0 ? x + 1 : exp(x);
}

static double product(const struct check_tensors *tensors, int64_t i, int64_t j, int64_t h)
{
    double sum = 0;

    for (int64_t n = 0; n < KEY; n++)
        sum += feature(tensors, OP(Q), i, h, n) * feature(tensors, OP(K), j, h / (HEADS / SHARED), n);
    return tensors->desc.scale * sum;
}

static double value(const struct check_tensors *tensors, int64_t j, int64_t h, int64_t c)
{
    return test_get(tensors, OP(V), (j * SHARED + h / (HEADS / SHARED)) * VALUE + c);
}

/* What a row reads of the state before the first token: of sequence n */
static double initial(const struct check_tensors *tensors, int64_t n, int64_t i, int64_t h, int64_t c)
{
    const int vk = (tensors->desc.flags & CLATTN_STATE_VK) != 0, sums = c == VALUE;
    const clattn_operand_id id = sums ? OP(NORMALIZER_IN) : OP(STATE_IN);
    const int64_t state = n * SHARED + h / (HEADS / SHARED);
    double sum = 0;

    for (int64_t l = 0; l < KEY && tensors->tensor[id].data != NULL; l++)
        sum += feature(tensors, OP(Q), i, h, l) * test_get(tensors, id,
                                                           sums ? state * KEY + l
                                                           : vk ? (state * VALUE + c) * KEY + l
                                                                : (state * KEY + l) * VALUE + c);
    return tensors->desc.scale * sum;
}

/* o of token i of sequence n, from its tokens first … end - 1 */
static void define(struct check_tensors *expected, int64_t n, int64_t first, int64_t end, int64_t i)
{
    for (int64_t h = 0; h < HEADS; h++) {
        double row[VALUE + 1]; /* the last is the sum of weights */
        for (int64_t c = 0; c <= VALUE; c++) {
            row[c] = initial(expected, n, i, h, c);
            for (int64_t j = first; j < end; j++)
                row[c] += product(expected, i, j, h) * (c == VALUE ? 1 : value(expected, j, h, c));
        }
        for (int64_t c = 0; c < VALUE; c++)
            test_set(expected, OP(O), (i * HEADS + h) * VALUE + c,
                     row[c] / (expected->desc.flags & CLATTN_NORMALIZE ? row[VALUE] + 1e-10 : 1));
    }
}

static void check_definition(clattn_plan_desc desc, const char *what)
{
    const int packed = (desc.flags & CLATTN_CU_SEQLENS) != 0;
    struct check_tensors tensors, expected;

    desc.sequences = packed ? COUNT(cuts) - 1 : 0;
    test_make(&tensors, &desc, CHECK_GATES_USUAL, packed ? cuts : NULL);
    test_make(&expected, &desc, CHECK_GATES_USUAL, packed ? cuts : NULL);
    test_run(&tensors);
    for (int64_t n = 0; n < (packed ? desc.sequences : 1); n++)
        for (int64_t i = packed ? cuts[n] : 0; i < (packed ? cuts[n + 1] : TOKENS); i++)
            define(&expected, n, packed ? cuts[n] : 0, packed ? cuts[n + 1] : TOKENS, i);
    test_compare(&tensors.tensor[OP(O)], &expected.tensor[OP(O)], bound(), what);
    check_free(&tensors);
    check_free(&expected);
}

static void test_definition(void **state)
{
    static const uint64_t flags[] = {0, CLATTN_NORMALIZE | CLATTN_FINAL_STATE,
                                     CLATTN_CU_SEQLENS | CLATTN_INITIAL_STATE | CLATTN_NORMALIZE,
                                     CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE | CLATTN_STATE_VK | CLATTN_REVERSED};
    char what[64];

    (void)state;
    for (int mode = CLATTN_MODE_RECURRENT; mode <= CLATTN_MODE_CHUNK; mode++)
        for (size_t i = 0; i < COUNT(flags); i++) {
            clattn_plan_desc desc = desc_of(CLATTN_LINEAR_ATTN, CLATTN_NONCAUSAL | flags[i]);
            desc.mode = (clattn_mode)mode;
            desc.feature_map = flags[i] & CLATTN_NORMALIZE ? CLATTN_FEATURE_ELU1 : CLATTN_FEATURE_IDENTITY;
            snprintf(what, sizeof what, "mode %d, flags 0x%x", mode, (unsigned)flags[i]);
            check_definition(desc, what);
        }
}

/* The state is that of the rule which reads as it goes, to the bit. */
static void test_state(void **state)
{
    const uint32_t both = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE;
    clattn_plan_desc causal = desc_of(CLATTN_LINEAR_ATTN, both), whole = causal;
    struct check_tensors tensors, expected;

    (void)state;
    causal.mode = whole.mode = CLATTN_MODE_CHUNK;
    whole.flags |= CLATTN_NONCAUSAL;
    test_make(&expected, &causal, CHECK_GATES_USUAL, NULL);
    test_make(&tensors, &whole, CHECK_GATES_USUAL, NULL);
    test_run(&expected);
    test_run(&tensors);
    test_compare(&tensors.tensor[OP(STATE_OUT)], &expected.tensor[OP(STATE_OUT)], 0, "the state");
    check_free(&tensors);
    check_free(&expected);
}

static void take(const struct check_tensors *tensors, const struct arguments *from, clattn_operand_id id)
{
    const struct check_tensor *tensor = &tensors->tensor[id];

    assert_int_equal(opencl_get()->EnqueueReadBuffer(test_device.queue, from->of[id].buffer, CL_TRUE, 0, tensor->bytes,
                                                     tensor->data, 0, NULL, NULL),
                     CL_SUCCESS);
}

/* The last state in the memory of the first, which several heads of queries read one after the other. */
static void test_in_place(void **state)
{
    const clattn_plan_desc desc =
        desc_of(CLATTN_LINEAR_ATTN, CLATTN_NONCAUSAL | CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE);
    struct check_tensors tensors, expected;
    struct arguments own, shared;
    clattn_plan *plan;

    (void)state;
    if (test_is_reference())
        return;
    test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
    assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
    assert_status(clattn_plan_create(&plan, test_device.context, &desc), SUCCESS);
    own = shared = test_operands(&tensors, plan);
    shared.of[OP(STATE_OUT)].buffer = own.of[OP(STATE_IN)].buffer;
    assert_status(check_enqueue(plan, test_device.queue, &shared, 0, NULL, NULL), SUCCESS);
    take(&tensors, &shared, OP(O));
    take(&tensors, &shared, OP(STATE_OUT));
    test_compare_all(&tensors, &expected, check_bound(CLATTN_F32), "in place");
    test_operands_free(&own);
    clattn_plan_destroy(plan);
    check_free(&tensors);
    check_free(&expected);
}

/* A call of fewer tokens than the plan's, and of none. */
static void test_short_call(void **state)
{
    clattn_plan_desc desc = desc_of(CLATTN_LINEAR_ATTN, CLATTN_NONCAUSAL | CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE);
    clattn_plan *plan;

    (void)state;
    if (test_is_reference())
        return;
    assert_status(clattn_plan_create(&plan, test_device.context, &desc), SUCCESS);
    for (desc.seq_len = 19; desc.seq_len > 0; desc.seq_len -= 18) {
        struct check_tensors tensors, expected;
        test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
        assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
        assert_status(check_run_plan(&tensors, &test_device, plan, test_log, NULL), SUCCESS);
        test_compare_all(&tensors, &expected, check_bound(CLATTN_F32), "a short call");
        check_free(&tensors);
        check_free(&expected);
    }
    clattn_plan_destroy(plan);
}

static void test_unsupported(void **state)
{
    clattn_plan_desc desc = desc_of(CLATTN_LINEAR_ATTN, CLATTN_NONCAUSAL | CLATTN_FINAL_STATE);

    (void)state;
    if (test_is_reference())
        return;
    assert_status(clattn_supports(test_device.context, &desc), SUCCESS);
    desc.operand_types[0] = (clattn_operand_type){OP(STATE_OUT), CLATTN_BF16};
    desc.operand_type_count = 1;
    test_log_clear();
    assert_status(clattn_supports(test_device.context, &desc), UNSUPPORTED);
    assert_logged("linear_attn: only the reference computes noncausal with states other than f32");
}

/* ---- Both directions ------------------------------------------------------------------------------------------- */

/* The log-decay between tokens i and j: of those after the earlier one up to the later, as each direction meets them */
static double between(const struct check_tensors *tensors, int64_t i, int64_t j, int64_t h)
{
    double sum = 0;

    for (int64_t m = j < i ? j + 1 : i; m < (j < i ? i + 1 : j) && tensors->tensor[OP(G)].data != NULL; m++)
        sum += test_get(tensors, OP(G), m * SHARED + h / (HEADS / SHARED));
    return sum;
}

static void define_both(struct check_tensors *expected)
{
    for (int64_t i = 0; i < TOKENS; i++)
        for (int64_t h = 0; h < HEADS; h++)
            for (int64_t c = 0; c < VALUE; c++) {
                double sum = 0;
                for (int64_t j = 0; j < TOKENS; j++)
                    sum += exp(between(expected, i, j, h)) * product(expected, i, j, h) * value(expected, j, h, c);
                test_set(expected, OP(O), (i * HEADS + h) * VALUE + c, sum);
            }
}

/* forward + reversed - own */
static void add_both(struct check_tensors *sum, const struct check_tensors *forward,
                     const struct check_tensors *reversed)
{
    for (int64_t at = 0; at < TOKENS * HEADS * VALUE; at++) {
        const int64_t i = at / VALUE / HEADS, h = at / VALUE % HEADS;
        test_set(sum, OP(O), at,
                 test_get(forward, OP(O), at) + test_get(reversed, OP(O), at) -
                     product(forward, i, i, h) * value(forward, i, h, at % VALUE));
    }
}

static void check_both(clattn_rule rule, clattn_mode mode)
{
    clattn_plan_desc desc = desc_of(rule, 0), back = desc_of(rule, CLATTN_REVERSED);
    struct check_tensors forward, reversed, expected;

    desc.mode = back.mode = mode;
    test_make(&forward, &desc, CHECK_GATES_HARD, NULL);
    test_make(&reversed, &back, CHECK_GATES_HARD, NULL);
    test_make(&expected, &desc, CHECK_GATES_HARD, NULL);
    test_run(&forward);
    test_run(&reversed);
    add_both(&forward, &forward, &reversed);
    define_both(&expected);
    test_compare(&forward.tensor[OP(O)], &expected.tensor[OP(O)], 2 * bound(), test_rule_name(rule));
    check_free(&forward);
    check_free(&reversed);
    check_free(&expected);
}

/* Without a decay it is what all tokens read of the last state. */
static void test_both_directions(void **state)
{
    (void)state;
    for (int mode = CLATTN_MODE_RECURRENT; mode <= CLATTN_MODE_CHUNK; mode++) {
        check_both(CLATTN_SIMPLE_GLA, (clattn_mode)mode);
        check_both(CLATTN_LINEAR_ATTN, (clattn_mode)mode);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_definition),  cmocka_unit_test(test_state),
                                       cmocka_unit_test(test_in_place),    cmocka_unit_test(test_short_call),
                                       cmocka_unit_test(test_unsupported), cmocka_unit_test(test_both_directions)};

    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
