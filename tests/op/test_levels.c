/* Rules with levels: against the attention matrix of the rule without levels, weighed by its definition; cut anywhere;
 * levels of ones. */
#include "harness.h"

#include "device/opencl.h"

#include <math.h>
#include <stdio.h>

enum { B = 2, H = 2, K = 20, V = 12, L = 9 };

static const struct pair {
    clattn_rule rule, whole; /* with levels, without */
} pairs[] = {{CLATTN_LOG_LINEAR_ATTN, CLATTN_SIMPLE_GLA},
             {CLATTN_LOG_LINEAR_GATED_DELTA_RULE, CLATTN_GATED_DELTA_RULE}};

static const clattn_mode modes[] = {CLATTN_MODE_RECURRENT, CLATTN_MODE_CHUNK};

static clattn_plan_desc desc_of(clattn_rule rule, clattn_mode mode, int64_t tokens)
{
    return (clattn_plan_desc){.rule = rule,
                              .batch = B,
                              .seq_len = tokens,
                              .heads = H,
                              .key_dim = K,
                              .value_dim = V,
                              .scale = 0.25,
                              .mode = mode};
}

static clattn_plan_desc levels_of(const struct pair *pair, clattn_mode mode, int64_t tokens)
{
    clattn_plan_desc desc = desc_of(pair->rule, mode, tokens);

    desc.levels = L;
    return desc;
}

/* Everything that both problems have. */
static void copy_inputs(struct check_tensors *to, const struct check_tensors *from)
{
    for (int id = 1; id < OPERAND_COUNT; id++)
        if (to->tensor[id].data != NULL && from->tensor[id].data != NULL && !to->tensor[id].info.output)
            test_copy(to, (clattn_operand_id)id, from, (clattn_operand_id)id);
}

static int level_of(int64_t i, int64_t j)
{
    int level = 0;

    while ((i ^ j) >> level != 0)
        level++;
    return level;
}

/* o_i = sum_j levels_i[level(i, j)] attn_ij v_j, of the attention matrix that the reference gives without levels. */
static void expect(struct check_tensors *expected, const struct check_tensors *attn, const struct check_tensors *with)
{
    const int64_t T = with->desc.seq_len;

    for (int64_t n = 0; n < B * T * H * V; n++) {
        const int64_t c = n % V, h = n / V % H, i = n / (V * H) % T, b = n / (V * H * T);
        double sum = 0;
        for (int64_t j = 0; j <= i; j++)
            sum += test_get(with, OP(LEVELS), ((b * T + i) * H + h) * L + level_of(i, j)) *
                   test_get(attn, OP(ATTN), ((b * H + h) * T + i) * T + j) *
                   test_get(with, OP(V), ((b * T + j) * H + h) * V + c);
        test_set(expected, OP(O), n, sum);
    }
}

/* All levels, and one alone. */
static void check_definition(const struct pair *pair, clattn_mode mode, int64_t tokens, int alone)
{
    const clattn_plan_desc desc = levels_of(pair, mode, tokens);
    clattn_plan_desc whole = desc_of(pair->whole, CLATTN_MODE_AUTO, tokens);
    struct check_tensors with, without, attn, expected;
    char what[96];

    whole.flags = CLATTN_WITH_ATTN;
    test_make(&with, &desc, CHECK_GATES_USUAL, NULL);
    test_make(&without, &whole, CHECK_GATES_USUAL, NULL);
    assert_status(check_allocate(&expected, &with.desc), SUCCESS);
    copy_inputs(&without, &with);
    for (int64_t n = 0; n < B * tokens * H * L && alone >= 0; n++)
        test_set(&with, OP(LEVELS), n, n % L == alone);
    assert_status(check_reference(&attn, &without, test_log, NULL), SUCCESS);
    expect(&expected, &attn, &with);
    test_run(&with);
    snprintf(what, sizeof what, "%s, %d tokens, level %d", test_rule_name(pair->rule), (int)tokens, alone);
    test_compare(&with.tensor[OP(O)], &expected.tensor[OP(O)], 1e-5, what);
    check_free(&with), check_free(&without), check_free(&attn), check_free(&expected);
}

static void test_definition(void **state)
{
    static const int64_t lengths[] = {1, 15, 17, 75};

    (void)state;
    for (size_t p = 0; p < COUNT(pairs); p++)
        for (size_t m = 0; m < COUNT(modes); m++)
            for (size_t n = 0; n < COUNT(lengths); n++)
                check_definition(&pairs[p], modes[m], lengths[n], -1);
}

static void test_one_level(void **state)
{
    (void)state;
    for (size_t p = 0; p < COUNT(pairs); p++)
        for (int level = 0; level < 7; level++)
            check_definition(&pairs[p], level % 2 == 0 ? CLATTN_MODE_CHUNK : CLATTN_MODE_RECURRENT, 75, level);
}

/* Levels of ones are the rule without levels. */
static void test_ones(void **state)
{
    (void)state;
    for (size_t p = 0; p < COUNT(pairs); p++)
        for (size_t m = 0; m < COUNT(modes); m++) {
            const clattn_plan_desc desc = levels_of(&pairs[p], modes[m], 75);
            const clattn_plan_desc whole = desc_of(pairs[p].whole, CLATTN_MODE_AUTO, 75);
            struct check_tensors with, without, expected;
            test_make(&with, &desc, CHECK_GATES_HARD, NULL);
            test_make(&without, &whole, CHECK_GATES_HARD, NULL);
            copy_inputs(&without, &with);
            test_set_all(&with, OP(LEVELS), 1);
            assert_status(check_reference(&expected, &without, test_log, NULL), SUCCESS);
            test_run(&with);
            test_compare(&with.tensor[OP(O)], &expected.tensor[OP(O)], 1e-5, test_rule_name(pairs[p].rule));
            check_free(&with), check_free(&without), check_free(&expected);
        }
}

/* ---- Cuts ---------------------------------------------------------------------------------------------------------
 */

static int32_t position_of(const struct check_tensors *tensors, clattn_operand_id id, int64_t sequence)
{
    return ((const int32_t *)tensors->tensor[id].data)[sequence];
}

static void copy_positions(struct check_tensors *to, const struct check_tensors *from, clattn_operand_id id)
{
    for (int64_t n = 0; n < to->tensor[OP(POSITION)].info.dims[0]; n++)
        ((int32_t *)to->tensor[OP(POSITION)].data)[n] = position_of(from, id, n);
}

/* `count` tokens from `first` on, of the whole's inputs, which goes on from the states of `before`. */
static struct check_tensors part_of(const struct check_tensors *whole, int64_t first, int64_t count,
                                    const struct check_tensors *before)
{
    clattn_plan_desc desc = whole->desc;
    struct check_tensors part;

    desc.seq_len = count;
    test_make(&part, &desc, CHECK_GATES_USUAL, NULL);
    for (int id = 1; id < OPERAND_COUNT; id++)
        if (part.tensor[id].data != NULL && part.tensor[id].info.rank > 2 && part.tensor[id].info.dims[1] == count)
            test_copy_tokens(&part, 0, whole, first, count, (clattn_operand_id)id);
    test_copy(&part, OP(STATE_IN), before != NULL ? before : whole, before != NULL ? OP(STATE_OUT) : OP(STATE_IN));
    copy_positions(&part, before != NULL ? before : whole, before != NULL ? OP(POSITION_OUT) : OP(POSITION));
    return part;
}

/* Two calls give what one gives, wherever it is cut, from any position. */
static void check_cut(const struct pair *pair, clattn_mode mode, int64_t tokens, int64_t cut)
{
    clattn_plan_desc desc = levels_of(pair, mode, tokens);
    struct check_tensors whole, one, two, outputs;
    char what[96];

    desc.flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE;
    test_make(&whole, &desc, CHECK_GATES_USUAL, NULL);
    assert_status(check_reference(&outputs, &whole, test_log, NULL), SUCCESS);
    one = part_of(&whole, 0, cut, NULL);
    test_run(&one);
    two = part_of(&whole, cut, tokens - cut, &one);
    test_run(&two);
    test_copy_tokens(&whole, 0, &one, 0, cut, OP(O));
    test_copy_tokens(&whole, cut, &two, 0, tokens - cut, OP(O));
    snprintf(what, sizeof what, "%s, cut after %d", test_rule_name(pair->rule), (int)cut);
    test_compare(&whole.tensor[OP(O)], &outputs.tensor[OP(O)], 1e-5, what);
    test_compare(&two.tensor[OP(STATE_OUT)], &outputs.tensor[OP(STATE_OUT)], 1e-5, what);
    for (int64_t n = 0; n < B; n++)
        assert_int_equal(position_of(&two, OP(POSITION_OUT), n), position_of(&whole, OP(POSITION), n) + (int)tokens);
    check_free(&whole), check_free(&one), check_free(&two), check_free(&outputs);
}

static void test_cuts(void **state)
{
    static const int64_t cuts[] = {1, 16, 31, 39};

    (void)state;
    for (size_t p = 0; p < COUNT(pairs); p++)
        for (size_t n = 0; n < COUNT(cuts); n++)
            check_cut(&pairs[p], modes[n % 2], 40, cuts[n]);
}

/* The output in the memory of the input. */
static void put_in_place(struct arguments *operands, clattn_operand_id output, clattn_operand_id input)
{
    struct opencl *cl = test_opencl_table();

    cl->ReleaseMemObject(operands->of[output].buffer);
    operands->of[output].buffer = operands->of[input].buffer;
    cl->RetainMemObject(operands->of[input].buffer);
}

static void read_back(struct check_tensors *to, clattn_operand_id id, const struct arguments *operands)
{
    assert_status(opencl_read(&(struct log){test_log, NULL}, test_opencl_table(), test_device.queue,
                              operands->of[id].buffer, 0, to->tensor[id].bytes, to->tensor[id].data),
                  SUCCESS);
}

/* A token of decoding, whose states and position stay where they are. */
static void test_in_place(void **state)
{
    const struct pair *pair = &pairs[1];
    clattn_plan_desc desc = levels_of(pair, CLATTN_MODE_AUTO, 1);
    struct check_tensors step, expected;
    struct arguments operands;
    clattn_plan *plan;

    (void)state;
    if (test_is_reference())
        return;
    desc.flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE;
    test_make(&step, &desc, CHECK_GATES_USUAL, NULL);
    ((int32_t *)step.tensor[OP(POSITION)].data)[0] = 7;
    assert_status(check_reference(&expected, &step, test_log, NULL), SUCCESS);
    assert_status(clattn_plan_create(&plan, test_device.context, &step.desc), SUCCESS);
    operands = test_operands(&step, plan);
    put_in_place(&operands, OP(STATE_OUT), OP(STATE_IN));
    put_in_place(&operands, OP(POSITION_OUT), OP(POSITION));
    assert_status(check_enqueue(plan, test_device.queue, &operands, 0, NULL, NULL), SUCCESS);
    read_back(&step, OP(STATE_OUT), &operands);
    read_back(&step, OP(POSITION_OUT), &operands);
    test_compare(&step.tensor[OP(STATE_OUT)], &expected.tensor[OP(STATE_OUT)], 1e-5, "states in place");
    assert_int_equal(position_of(&step, OP(POSITION_OUT), 0), 8);
    test_operands_free(&operands);
    clattn_plan_destroy(plan);
    check_free(&step), check_free(&expected);
}

/* ---- What there is not --------------------------------------------------------------------------------------------
 */

static void test_refused(void **state)
{
    static const struct {
        clattn_plan_desc desc;
        const char *said;
    } bad[] = {
        {{.levels = 3}, "log_linear_attn: levels is 3, expected 5 or more for seq_len 9"},
        {{.levels = 33}, "levels is 33, expected 1 to 32"},
        {{.state_window = 1}, "log_linear_attn takes no option state_window"},
        {{.flags = CLATTN_WITH_ROPE | CLATTN_WITH_POSITION}, "position is a part of initial_state, which is absent"},
        {{.flags = CLATTN_WITH_ROPE | CLATTN_INITIAL_STATE | CLATTN_WITH_STATE_INDICES}, "rope with state_indices"},
        {{.pass = CLATTN_PASS_BACKWARD}, "log_linear_attn takes no option pass"},
    };
    clattn_plan_desc full;

    (void)state;
    for (size_t n = 0; n < COUNT(bad); n++) {
        clattn_plan_desc desc = bad[n].desc;
        desc.rule = CLATTN_LOG_LINEAR_ATTN, desc.seq_len = 9, desc.heads = 1, desc.key_dim = K, desc.value_dim = V;
        test_log_clear();
        assert_status(clattn_plan_desc_complete(&full, &desc, test_log, NULL), INVALID_DESC);
        assert_logged(bad[n].said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_definition), cmocka_unit_test(test_one_level), cmocka_unit_test(test_ones),
        cmocka_unit_test(test_cuts),       cmocka_unit_test(test_in_place),  cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
