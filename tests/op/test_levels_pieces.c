/* levels_pieces, whatever a device prefers: rules with levels in pieces, which another rule computes. Against the
 * reference. On an emulated engine, which takes long to compile, one length of one rule. Argument: the engine, or none. */
#include "harness.h"

#include "plan/plan.h"
#include "tune/space.h"

#include <stdio.h>
#include <string.h>

enum { H = 2, K = 20, V = 12, L = 11 };

static const clattn_rule rules[] = {CLATTN_LOG_LINEAR_ATTN, CLATTN_LOG_LINEAR_GATED_DELTA_RULE};

static const int64_t cuts[] = {0, 5, 5, 70, 71, 199};

struct length {
    int64_t batch, tokens;
    int piece, few;
};

/* Those in the smallest pieces come first. */
enum { FEW = 6 };
static const struct length lengths[] = {{2, 100, 16, 5}, {2, 64, 16, 5}, {2, 15, 16, 5}, {2, 16, 16, 5},
                                        {2, 1, 16, 5},   {2, 17, 16, 5}, {1, 63, 64, 7}, {1, 300, 64, 7}};

static const struct test_options {
    const char *name;
    clattn_plan_desc desc;
    int packed;
} options[] = {
    {"final states", {.dtype = CLATTN_F32, .flags = CLATTN_FINAL_STATE}, 0},
    {"packed", {.dtype = CLATTN_BF16, .flags = CLATTN_FINAL_STATE | CLATTN_STATE_VK | CLATTN_CU_SEQLENS}, 1},
    {"shared", {.dtype = CLATTN_BF16, .qk_heads = 1, .flags = CLATTN_QK_L2NORM | CLATTN_REVERSED}, 0},
};

static clattn_plan_desc desc_of(clattn_rule rule, const struct test_options *option, const struct length *length)
{
    clattn_plan_desc desc = option->desc;

    desc.rule = rule;
    desc.batch = option->packed ? 1 : length->batch;
    desc.seq_len = option->packed ? cuts[COUNT(cuts) - 1] : length->tokens;
    desc.sequences = option->packed ? COUNT(cuts) - 1 : 0;
    desc.heads = H;
    desc.key_dim = K;
    desc.value_dim = V;
    desc.scale = 0.25;
    desc.levels = L;
    return desc;
}

static void check(clattn_rule rule, const struct test_options *option, const struct length *length)
{
    struct tuned tuned = tuned_default(space_find("levels_pieces"));
    const clattn_plan_desc desc = desc_of(rule, option, length);
    struct check_tensors with, expected;
    clattn_plan *plan = NULL;
    clattn_plan_info info;
    char what[128];

    test_tuned_set(&tuned, "piece", length->piece);
    test_tuned_set(&tuned, "few", length->few);
    test_make(&with, &desc, CHECK_GATES_USUAL, option->packed ? cuts : NULL);
    assert_status(check_reference(&expected, &with, test_log, NULL), SUCCESS);
    test_log_clear();
    assert_status(plan_create(&plan, test_engine_device.context, &with.desc, &tuned), SUCCESS);
    assert_status(clattn_plan_get(plan, &info), SUCCESS);
    assert_string_equal(info.solver, "levels_pieces");
    assert_status(check_run_plan(&with, &test_engine_device, plan, test_log, NULL), SUCCESS);
    snprintf(what, sizeof what, "%s, %s, %d tokens in pieces of %d", test_rule_name(rule), option->name,
             (int)desc.seq_len, length->piece);
    test_compare_all(&with, &expected, check_bound(desc.dtype), what);
    clattn_plan_destroy(plan);
    check_free(&with), check_free(&expected);
}

/* Which rule has which options, of how many lengths: each piece and option is another program. */
static const struct {
    int rule, option, first, count;
} cases[] = {{0, 0, 0, FEW}, {0, 2, 0, FEW}, {1, 0, 0, FEW}, {1, 0, FEW, COUNT(lengths) - FEW}, {1, 1, 0, 1}};

static void test_lengths(void **state)
{
    (void)state;
    if (strcmp(test_engine, "none") != 0) {
        check(rules[1], &options[2], &lengths[0]);
        return;
    }
    for (size_t c = 0; c < COUNT(cases); c++)
        for (int n = 0; n < cases[c].count; n++)
            check(rules[cases[c].rule], &options[cases[c].option], &lengths[cases[c].first + n]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lengths)};

    if (argc > 1)
        test_engine = argv[1];
    return cmocka_run_group_tests(tests, test_engine_open, test_engine_close);
}
