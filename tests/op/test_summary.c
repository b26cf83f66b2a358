/* Stretches of a sequence, computed apart and joined: S <- M S + N. Every rule of a state with its options: a summary on
 * the device is the reference's, and the states of stretches, folded, are those of the whole. With
 * CLATTN_TEST_DEVICE=reference the second holds the oracle. */
#include "harness.h"

#include "op/options.h"
#include "op/problem.h"

#include <stdio.h>
#include <string.h>

enum { TOKENS = 47, HEADS = 2, KEY = 12, VALUE = 20, MOST_VARIANTS = 100 };

/* Where stretches end: the second has one token, the fourth none. */
static const int64_t ends[] = {19, 20, 33, 33, TOKENS};

static char **chosen;

static int is_chosen(clattn_rule rule)
{
    int is_named = *chosen == NULL;

    for (char **name = chosen; *name != NULL; name++)
        is_named |= strcmp(*name, rule_get(rule)->name) == 0;
    return is_named && rule_takes(rule_get(rule), OPTION_summary);
}

static clattn_plan_desc desc_of(clattn_rule rule)
{
    const int has_keys = rule_has_keys(rule_get(rule));

    return (clattn_plan_desc){.rule = rule,
                              .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE,
                              .batch = 2,
                              .seq_len = TOKENS,
                              .heads = HEADS,
                              .key_dim = has_keys ? KEY : 0,
                              .value_dim = VALUE};
}

/* Inputs of the same tokens, with other options */
static void copy_inputs(struct check_tensors *to, const struct check_tensors *from)
{
    for (int id = 1; id < OPERAND_COUNT; id++)
        if (to->tensor[id].data != NULL && from->tensor[id].data != NULL && !to->tensor[id].info.output)
            test_copy(to, (clattn_operand_id)id, from, (clattn_operand_id)id);
}

static void summarize(struct check_tensors *summary, const struct check_tensors *part)
{
    clattn_plan_desc desc = part->desc;

    desc.flags = (desc.flags & ~CLATTN_INITIAL_STATE) | CLATTN_SUMMARY;
    test_make(summary, &desc, CHECK_GATES_USUAL, NULL);
    copy_inputs(summary, part);
}

static clattn_state_parts parts_of(const struct check_tensors *tensors, int initial)
{
    return (clattn_state_parts){
        .state = tensors->tensor[initial ? CLATTN_STATE_IN : CLATTN_STATE_OUT].data,
        .normalizer = tensors->tensor[initial ? CLATTN_NORMALIZER_IN : CLATTN_NORMALIZER_OUT].data,
        .stabilizer = tensors->tensor[initial ? CLATTN_STABILIZER_IN : CLATTN_STABILIZER_OUT].data,
        .transition = tensors->tensor[CLATTN_TRANSITION].data};
}

/* Tokens first … first + count - 1 of all batch elements */
static void take_stretch(struct check_tensors *part, const struct check_tensors *whole, int64_t first, int64_t count)
{
    clattn_plan_desc desc = whole->desc;
    struct problem problem;

    desc.seq_len = count;
    test_make(part, &desc, CHECK_GATES_USUAL, NULL);
    assert_status(problem_init(&problem, &whole->desc, NULL), SUCCESS);
    for (int i = 0; i < problem.operand_count; i++) {
        const struct operand_row *row = &problem.operands[i];
        const int64_t steps = row->dims[1] == 'S' ? whole->desc.steps : 1;
        if (whole->tensor[row->id].info.output)
            continue;
        if (test_has_tokens(row))
            test_copy_tokens(part, 0, whole, first * steps, count * steps, row->id);
        else
            test_copy(part, row->id, whole, row->id);
    }
    for (int64_t n = 0; n < desc.batch && part->tensor[CLATTN_POSITION].data != NULL; n++)
        ((int32_t *)part->tensor[CLATTN_POSITION].data)[n] += (int32_t)first;
}

/* Folds the stretch into the state. Reversed, tokens are counted from the last. */
static void fold_stretch(const struct check_tensors *whole, const clattn_state_parts *state, int64_t first,
                         int64_t count)
{
    struct check_tensors part, summary;
    const int reversed = (whole->desc.flags & CLATTN_REVERSED) != 0;

    if (count == 0)
        return;
    take_stretch(&part, whole, reversed ? TOKENS - first - count : first, count);
    summarize(&summary, &part);
    test_run(&summary);
    const clattn_state_parts added = parts_of(&summary, 0);
    assert_status(clattn_state_fold(&summary.desc, state, &added, test_log, NULL), SUCCESS);
    check_free(&part);
    check_free(&summary);
}

static void compare_state(const struct check_tensors *folded, const struct check_tensors *whole, const char *what)
{
    static const struct {
        clattn_operand_id initial, final;
    } states[] = {{CLATTN_STATE_IN, CLATTN_STATE_OUT},
                  {CLATTN_NORMALIZER_IN, CLATTN_NORMALIZER_OUT},
                  {CLATTN_STABILIZER_IN, CLATTN_STABILIZER_OUT}};

    for (size_t i = 0; i < COUNT(states); i++)
        if (whole->tensor[states[i].final].data != NULL)
            test_compare(&folded->tensor[states[i].initial], &whole->tensor[states[i].final], 1e-5, what);
}

/* The whole's initial state, with all stretches folded into it, is its final one. */
static void check_fold(const clattn_plan_desc *desc, const char *what)
{
    struct check_tensors whole, folded;

    test_make(&whole, desc, CHECK_GATES_USUAL, NULL);
    test_make(&folded, desc, CHECK_GATES_USUAL, NULL);
    test_run(&whole);
    const clattn_state_parts state = parts_of(&folded, 1);
    for (size_t i = 0; i < COUNT(ends); i++)
        fold_stretch(&whole, &state, i > 0 ? ends[i - 1] : 0, ends[i] - (i > 0 ? ends[i - 1] : 0));
    compare_state(&folded, &whole, what);
    check_free(&whole);
    check_free(&folded);
}

/* The device's summary of packed sequences, one of them empty, is the reference's. */
static void check_summary(clattn_plan_desc desc, const char *what)
{
    static const int64_t cuts[] = {0, 1, 1, 30, TOKENS};
    struct check_tensors summary, expected;

    if (test_is_reference())
        return;
    desc.batch = 1;
    desc.sequences = COUNT(cuts) - 1;
    desc.flags = (desc.flags & ~CLATTN_INITIAL_STATE) | CLATTN_SUMMARY | CLATTN_CU_SEQLENS;
    test_make(&summary, &desc, CHECK_GATES_HARD, cuts);
    test_run(&summary);
    assert_status(check_reference(&expected, &summary, test_log, NULL), SUCCESS);
    test_compare_all(&summary, &expected, check_bound(CLATTN_F32), what);
    check_free(&summary);
    check_free(&expected);
}

static void check_rule(clattn_rule rule, int most_variants, int *runs)
{
    const char *variant;
    char what[128];

    for (int i = 0; i <= most_variants; i++) {
        clattn_plan_desc desc = desc_of(rule);
        desc.flags |= i % 2 ? CLATTN_STATE_VK : 0;
        variant = check_variant(rule, i, &desc);
        if (variant == NULL)
            return;
        if (desc.flags & CLATTN_NONCAUSAL)
            continue;
        if (desc.flags & CLATTN_WITH_ROPE)
            desc.flags |= CLATTN_WITH_POSITION;
        snprintf(what, sizeof what, "%s %s", rule_get(rule)->name, variant);
        check_fold(&desc, what);
        check_summary(desc, what);
        ++*runs;
    }
}

static void test_rules(void **state)
{
    int runs = 0;

    (void)state;
    for (clattn_rule rule = 1; rule < RULE_COUNT; rule++)
        if (is_chosen(rule))
            check_rule(rule, *chosen == NULL ? MOST_VARIANTS : 0, &runs);
    test_ran(runs);
}

/* Heads that share a state; wide matrices; a type of 16 bits. */
static void test_shapes(void **state)
{
    clattn_plan_desc desc = desc_of(CLATTN_GATED_DELTA_RULE);

    (void)state;
    desc.heads = 4;
    desc.kv_heads = 2;
    desc.mode = CLATTN_MODE_RECURRENT;
    check_fold(&desc, "shared states, token by token");
    desc = desc_of(CLATTN_KDA);
    desc.qk_heads = 1;
    desc.key_dim = 70;
    desc.mode = CLATTN_MODE_CHUNK;
    check_fold(&desc, "shared keys, in chunks");
}

static void expect_refused(clattn_plan_desc desc, clattn_status status, const char *named)
{
    clattn_plan_desc full;

    desc.flags = (desc.flags & ~CLATTN_INITIAL_STATE) | CLATTN_SUMMARY;
    test_log_clear();
    test_assert_status(clattn_plan_desc_complete(&full, &desc, test_log, NULL), status, named, __FILE__, __LINE__);
    assert_logged(named);
}

static void test_refusals(void **state)
{
    clattn_plan_desc desc = desc_of(CLATTN_GLA), full;
    float number = 0;
    const clattn_state_parts parts = {.state = &number}, none = {0};

    (void)state;
    desc.flags |= CLATTN_SUMMARY;
    assert_status(clattn_plan_desc_complete(&full, &desc, test_log, NULL), INVALID_DESC);
    assert_logged("initial_state");
    desc = desc_of(CLATTN_GLA);
    desc.flags |= CLATTN_WITH_ATTN;
    expect_refused(desc, CLATTN_INVALID_DESC, "attn");
    desc = desc_of(CLATTN_GLA);
    desc.state_every = 5;
    expect_refused(desc, CLATTN_INVALID_DESC, "states on the way");
    expect_refused(
        (clattn_plan_desc){.rule = CLATTN_SOFTMAX_ATTN, .seq_len = 1, .heads = 1, .key_dim = 1, .value_dim = 1},
        CLATTN_INVALID_DESC, "summary");
    desc = desc_of(CLATTN_GLA);
    assert_status(clattn_state_fold(&desc, &parts, &parts, test_log, NULL), INVALID_ARGUMENT);
    assert_logged("transition");
    assert_status(clattn_state_fold(&desc, &none, &parts, test_log, NULL), INVALID_ARGUMENT);
    assert_logged("state");
    desc = (clattn_plan_desc){.rule = CLATTN_SHORT_CONV, .seq_len = 1, .heads = 1, .value_dim = 1};
    assert_status(clattn_state_fold(&desc, &parts, &parts, test_log, NULL), UNSUPPORTED);
    assert_logged("short_conv");
}

/* The arguments are rules, each without its options; none: all of them with all options. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refusals), cmocka_unit_test(test_rules),
                                       cmocka_unit_test(test_shapes)};

    chosen = argv + (argc > 0);
    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
