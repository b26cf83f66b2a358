/* test_rules RULE [PART]: the device against the reference, for every mode, storage type, variant and case that
 * applies. PART: "all" (default); "some", packed cases and those that run the variants, and of each type one at least;
 * "tiny", shapes small enough for a simulator; "one", the first of those without variants and in f32 alone, where
 * compiling is slow. */
#include "harness.h"

#include <stdio.h>
#include <string.h>

static const int64_t tiny_cuts[] = {0, 0, 1, 18};

static const struct check_case tiny_cases[] = {
    {.name = "tiny",
     .batch = 2,
     .seq_len = 19,
     .heads = 2,
     .qk_heads = 1,
     .key_dim = 12,
     .value_dim = 8,
     .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE,
     .gates = CHECK_GATES_HARD,
     .variants = 1,
     .dtypes = 1 << CLATTN_F32},
    {.name = "tiny packed",
     .batch = 1,
     .seq_len = 18,
     .heads = 1,
     .qk_heads = 1,
     .key_dim = 8,
     .value_dim = 12,
     .flags = CLATTN_FINAL_STATE | CLATTN_CU_SEQLENS | CLATTN_QK_L2NORM,
     .cu_seqlens = tiny_cuts,
     .sequences = 3,
     .dtypes = 1 << CLATTN_F32 | 1 << CLATTN_F16 | 1 << CLATTN_BF16},
    {.name = "tiny cache",
     .batch = 2,
     .seq_len = 3,
     .heads = 4,
     .qk_heads = 2,
     .key_dim = 12,
     .value_dim = 8,
     .flags = CLATTN_WITH_LSE,
     .gates = CHECK_GATES_HARD,
     .dtypes = 1 << CLATTN_F32,
     .kv_len = 70},
};

static const char *const mode_names[] = {"auto", "recurrent", "chunk"};
static const char *const dtype_names[] = {"f32", "f16", "bf16"};

static struct {
    clattn_rule rule;
    const struct check_case *cases;
    size_t count;
    int tiny, some, one;
} chosen;

/* Plans that ran on the same inputs: a simulator, which takes minutes, has each once, whatever the mode. */
static struct {
    char text[COUNT(mode_names)][4096];
    size_t count;
} ran;

static clattn_status run(struct check_tensors *tensors)
{
    char *text = ran.text[ran.count];
    clattn_plan *plan = NULL;
    clattn_status status = clattn_plan_create(&plan, test_device.context, &tensors->desc);
    int again = 0;

    if (status == CLATTN_SUCCESS)
        status = clattn_plan_describe(plan, text, sizeof ran.text[0]);
    for (size_t i = 0; i < ran.count && status == CLATTN_SUCCESS; i++)
        again |= strcmp(text, ran.text[i]) == 0;
    ran.count += chosen.tiny && status == CLATTN_SUCCESS && !again;
    if (status == CLATTN_SUCCESS && !again)
        status = check_run_plan(tensors, &test_device, plan, test_log, NULL);
    clattn_plan_destroy(plan);
    return status;
}

/* One plan; 0 when it fails, after a line that says what and by how much. */
static int passes(struct check_tensors *tensors, const struct check_tensors *expected, const char *what)
{
    clattn_operand_id worst = OP(O);
    double error;
    clattn_status status;

    test_log_clear();
    status = run(tensors);
    if (status != CLATTN_SUCCESS) {
        print_error("%s: %s\n%s", what, clattn_status_text(status), test_log_text);
        return 0;
    }
    error = check_error(tensors, expected, &worst);
    if (error <= check_bound_of(&tensors->desc))
        return 1;
    print_error("%s: relative error of %s is %.3g, bound %.3g\n", what, tensors->tensor[worst].info.name, error,
                check_bound_of(&tensors->desc));
    return 0;
}

/* Every mode on the same inputs; the number of failures, and so many runs more. */
static int run_modes(const struct check_case *c, const clattn_plan_desc *desc, const char *variant, int *runs)
{
    struct check_tensors tensors, expected;
    char what[160];
    int failures = 0;

    test_make(&tensors, desc, c->gates, c->cu_seqlens);
    assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
    ran.count = 0;
    for (int mode = CLATTN_MODE_AUTO; mode <= CLATTN_MODE_CHUNK; mode++) {
        if (!check_mode_applies(desc->rule, (clattn_mode)mode))
            continue;
        tensors.desc.mode = (clattn_mode)mode;
        snprintf(what, sizeof what, "%s%s%s, %s, %s, %s", test_rule_name(desc->rule), *variant ? " " : "", variant,
                 c->name, dtype_names[desc->dtype], mode_names[mode]);
        failures += !passes(&tensors, &expected, what);
        ++*runs;
    }
    check_free(&tensors);
    check_free(&expected);
    return failures;
}

/* Of "some" packed cases, and those that run the variants. */
static int is_chosen(const struct check_case *c)
{
    return !chosen.some || c->variants || c->cu_seqlens != NULL;
}

/* Every variant of the case that is for the rule and the type; so many runs more. */
static void run_case(const struct check_case *c, clattn_dtype dtype, int *runs, int *failures)
{
    for (int variant = 0; variant == 0 || !chosen.one; variant++) {
        clattn_plan_desc desc = check_case_desc(c, chosen.rule, dtype, CLATTN_MODE_AUTO);
        const char *name = check_variant(chosen.rule, variant, &desc);
        if (name == NULL)
            return;
        if (check_case_applies(c, chosen.rule, variant, dtype))
            *failures += run_modes(c, &desc, name, runs);
    }
}

static void test_dtype(void **state)
{
    clattn_dtype dtype = *(const clattn_dtype *)*state;
    int failures = 0, runs = 0;

    for (size_t i = 0; i < chosen.count; i++)
        if (is_chosen(&chosen.cases[i]))
            run_case(&chosen.cases[i], dtype, &runs, &failures);
    for (size_t i = 0; i < chosen.count && runs == 0; i++) /* what is chosen is not for the type: one of the others */
        run_case(&chosen.cases[i], dtype, &runs, &failures);
    test_ran(runs);
    if (failures > 0)
        fail_msg("%d of %d runs failed", failures, runs);
}

static int choose(int argc, char **argv)
{
    const char *part = argc > 2 ? argv[2] : "all";

    chosen.one = strcmp(part, "one") == 0;
    chosen.tiny = chosen.one || strcmp(part, "tiny") == 0;
    chosen.rule = argc > 1 ? clattn_rule_find(argv[1]) : CLATTN_RULE_NONE;
    chosen.cases = chosen.tiny ? tiny_cases : check_cases;
    chosen.count = chosen.one ? 1 : chosen.tiny ? COUNT(tiny_cases) : check_case_count;
    chosen.some = strcmp(part, "some") == 0;
    return chosen.rule != CLATTN_RULE_NONE && (chosen.tiny || chosen.some || strcmp(part, "all") == 0);
}

int main(int argc, char **argv)
{
    static clattn_dtype dtypes[] = {CLATTN_F32, CLATTN_F16, CLATTN_BF16};
    const struct CMUnitTest tests[] = {
        {"f32", test_dtype, NULL, NULL, &dtypes[0]},
        {"f16", test_dtype, NULL, NULL, &dtypes[1]},
        {"bf16", test_dtype, NULL, NULL, &dtypes[2]},
    };

    if (!choose(argc, argv)) {
        print_error("usage: test_rules RULE [all|some|tiny|one]\n");
        return 2;
    }
    return test_run_group(argv[1], tests, chosen.one ? 1 : COUNT(tests), test_device_open, test_device_close);
}
