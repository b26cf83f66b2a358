/* levels_tree on an emulated engine: lengths that end in a block, with one and with it, in blocks whose nodes are
 * merged. Against the reference. Arguments: the engine, and how many of the cases, as each compiles four kernels. */
#include "harness.h"

#include "plan/plan.h"
#include "tune/space.h"

#include <stdlib.h>
#include <string.h>

enum { K = 32, V = 16, L = 11 };

static const int64_t cuts[] = {0, 5, 5, 200, 201, 330};

static const struct test_options {
    const char *name;
    clattn_rule rule;
    clattn_plan_desc desc;
    int64_t batch, tokens;
    int block, packed;
} cases[] = {
    {"erased",
     CLATTN_LOG_LINEAR_GATED_DELTA_RULE,
     {.dtype = CLATTN_F16, .heads = 1, .flags = CLATTN_FINAL_STATE},
     1,
     340,
     64,
     0},
    {"shared",
     CLATTN_LOG_LINEAR_ATTN,
     {.dtype = CLATTN_BF16, .heads = 2, .qk_heads = 1, .flags = CLATTN_QK_L2NORM},
     2,
     129,
     64,
     0},
    {"packed",
     CLATTN_LOG_LINEAR_GATED_DELTA_RULE,
     {.dtype = CLATTN_BF16, .heads = 2, .flags = CLATTN_CU_SEQLENS | CLATTN_FINAL_STATE | CLATTN_STATE_VK},
     1,
     330,
     64,
     1},
    {"reversed",
     CLATTN_LOG_LINEAR_GATED_DELTA_RULE,
     {.dtype = CLATTN_F16, .heads = 2, .flags = CLATTN_REVERSED},
     1,
     65,
     64,
     0},
    {"one token", CLATTN_LOG_LINEAR_ATTN, {.dtype = CLATTN_F16, .heads = 2}, 2, 1, 64, 0},
    {"long", CLATTN_LOG_LINEAR_GATED_DELTA_RULE, {.dtype = CLATTN_F16, .heads = 2}, 1, 1000, 128, 0},
    {"long", CLATTN_LOG_LINEAR_ATTN, {.dtype = CLATTN_F16, .heads = 2, .flags = CLATTN_FINAL_STATE}, 2, 600, 128, 0},
};

static clattn_plan_desc desc_of(const struct test_options *option)
{
    clattn_plan_desc desc = option->desc;

    desc.rule = option->rule;
    desc.batch = option->batch;
    desc.seq_len = option->tokens;
    desc.sequences = option->packed ? COUNT(cuts) - 1 : 0;
    desc.key_dim = K;
    desc.value_dim = V;
    desc.levels = L;
    return desc;
}

static void check(const struct test_options *option)
{
    struct tuned tuned = tuned_default(space_find("levels_tree"));
    const clattn_plan_desc desc = desc_of(option);
    struct check_tensors with, expected;
    clattn_plan *plan = NULL;
    clattn_plan_info info;

    test_tuned_set(&tuned, "block", option->block);
    test_make(&with, &desc, CHECK_GATES_USUAL, option->packed ? cuts : NULL);
    assert_status(check_reference(&expected, &with, test_log, NULL), SUCCESS);
    test_log_clear();
    assert_status(plan_create(&plan, test_engine_device.context, &with.desc, &tuned), SUCCESS);
    assert_status(clattn_plan_get(plan, &info), SUCCESS);
    assert_string_equal(info.solver, "levels_tree");
    assert_status(check_run_plan(&with, &test_engine_device, plan, test_log, NULL), SUCCESS);
    test_compare_all(&with, &expected, check_bound(desc.dtype), option->name);
    clattn_plan_destroy(plan);
    check_free(&with), check_free(&expected);
}

static size_t case_count = COUNT(cases);

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases) && i < case_count; i++)
        check(&cases[i]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};

    test_engine = argc > 1 ? argv[1] : "nvidia_emulated";
    if (argc > 2)
        case_count = (size_t)strtoul(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, test_engine_open, test_engine_close);
}
