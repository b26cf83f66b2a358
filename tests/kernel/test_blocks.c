/* test_blocks RULE [CASE|sums|- [ENGINE]]: the kernels of register blocks against the reference on any device, by every case that
 * applies: with tiles by rule of thumb, and of a few cases with the sequence cut into stretches and segments, and other tiles.
 * With an engine that multiplies floats the products are its. sums: long ones alone. */
#include "harness.h"

#include "op/problem.h"
#include "op/rule.h"
#include "plan/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static clattn_rule rule;
static const char *only; /* a case, for a simulator; NULL: all */

static int on_engine(void)
{
    return strcmp(test_engine, "none") != 0;
}

static int is_list(void)
{
    return rule_has_list(rule_get(rule));
}

/* Numbers of a point of the solver's space */
struct point {
    const char *what;
    struct {
        const char *name;
        int value;
    } set[5];
    int additive; /* only where nothing is erased */
    int lanes;    /* only on engines of narrower sub-groups: 1 is of multiply-adds alone */
};

static const struct point thumb = {"by rule of thumb", {{NULL, 0}}, 0, 0};
static const struct point points[] = {
    {"stretches", {{"chunk", 16}, {"stretch", 4}}, 0, 0},
    {"stretches in segments", {{"chunk", 16}, {"stretch", 4}, {"segments", 2}}, 1, 0},
    {"segments", {{"chunk", 32}, {"segments", 8}}, 1, 0},
    {"wide tiles", {{"chunk", 64}, {"states.block_v", 64}, {"states.block_k", 16}, {"states.split", 1}}, 0, 0},
    {"narrow tiles", {{"chunk", 16}, {"states.block_v", 16}, {"outputs.block_v", 32}, {"outputs.block_k", 8}}, 0, 1},
    {"a slice ahead", {{"chunk", 32}, {"states.block_v", 16}, {"states.tokens", 32}, {"states.ahead", 1}}, 0, 0},
    {"slices ahead", {{"chunk", 64}, {"states.tokens", 32}, {"states.ahead", 8}}, 0, 0},
};
/* Parts that meet in local memory: a simulator, which takes one case, sees where that ends */
static const struct point parts = {
    "two parts", {{"chunk", 32}, {"states.block_v", 32}, {"states.tokens", 32}, {"states.split", 2}}, 1, 0};
/* Of a list, which is in no stretches */
static const struct point list_points[] = {
    {"short chunks", {{"chunk", 32}, {"group", 64}, {"block_v", 64}}, 0, 64},
    {"long chunks", {{"chunk", 128}, {"group", 256}, {"block_v", 64}, {"tokens", 32}}, 0, 0},
    {"rows of a lane", {{"chunk", 64}, {"group", 128}, {"block_k", 32}, {"tokens", 64}}, 0, 0},
    {"narrow slices", {{"chunk", 64}, {"group", 64}, {"block_k", 8}, {"block_v", 64}, {"tokens", 8}}, 0, 1},
};
static const char *const cut_cases[] = {"longer", "packed uneven", "odd"};

static struct tuned tuned_of(const struct point *point)
{
    static const char *const spaces[2][2] = {{"chunk_blocks", "matrix_blocks"},
                                             {"flash_blocks", "flash_matrix_blocks"}};
    struct tuned tuned = tuned_default(space_find(spaces[is_list()][on_engine()]));

    for (size_t i = 0; i < COUNT(point->set) && point->set[i].name != NULL; i++)
        test_tuned_set(&tuned, point->set[i].name, point->set[i].value);
    return tuned;
}

/* 0 when it fails, after a line that says what and by how much. */
static int passes(struct check_tensors *tensors, const struct check_tensors *expected, const struct point *point,
                  const char *what)
{
    const struct tuned tuned = tuned_of(point);
    clattn_operand_id worst = OP(O);
    clattn_plan *plan = NULL;
    clattn_status status;
    double error;

    test_log_clear();
    status = plan_create(&plan, test_engine_device.context, &tensors->desc, &tuned);
    if (status == CLATTN_SUCCESS)
        status = check_run_plan(tensors, &test_engine_device, plan, test_log, NULL);
    clattn_plan_destroy(plan);
    error = status == CLATTN_SUCCESS ? check_error(tensors, expected, &worst) : HUGE_VAL;
    if (error <= check_bound(tensors->desc.dtype))
        return 1;
    print_error("%s, %s: %s, error %.3g of %s, bound %.3g\n%s", what, point->what, clattn_status_text(status), error,
                tensors->tensor[worst].info.name, check_bound(tensors->desc.dtype), test_log_text);
    return 0;
}

static int is_cut(const struct check_case *c)
{
    for (size_t i = 0; i < COUNT(cut_cases); i++)
        if (strcmp(c->name, cut_cases[i]) == 0)
            return 1;
    return 0;
}

static int run_points(const struct check_case *c, const clattn_plan_desc *desc, const char *what)
{
    struct check_tensors tensors, expected;
    int failures, additive = rule_get(rule)->erase == ERASE_NONE;

    test_make(&tensors, desc, c->gates, c->cu_seqlens);
    assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
    failures = !passes(&tensors, &expected, &thumb, what);
    for (size_t i = 0; i < (is_list() ? COUNT(list_points) : COUNT(points)) && is_cut(c) && desc->dtype == CLATTN_F32;
         i++) {
        const struct point *point = is_list() ? &list_points[i] : &points[i];
        if ((additive || !point->additive) &&
            !(on_engine() && point->lanes && test_engine_device.context->engine->lanes >= point->lanes))
            failures += !passes(&tensors, &expected, point, what);
    }
    if (additive && !is_list() && desc->dtype == CLATTN_F32 && (is_cut(c) || only != NULL))
        failures += !passes(&tensors, &expected, &parts, what);
    check_free(&tensors);
    check_free(&expected);
    return failures;
}

/* A decay of the value columns, and weights without a denominator, are for the other solvers. */
static int takes(const struct check_case *c, int variant, const clattn_plan_desc *desc)
{
    if (only != NULL && strcmp(only, c->name) != 0)
        return 0;
    return !(desc->flags & CLATTN_VALUE_GATE) && desc->kernel == CLATTN_WEIGHTS_SOFTMAX &&
           check_case_applies(c, rule, variant, desc->dtype);
}

static void test_dtype(void **state)
{
    clattn_dtype dtype = *(const clattn_dtype *)*state;
    int failures = 0, runs = 0;

    for (size_t i = 0; i < check_case_count; i++)
        for (int variant = 0;; variant++) {
            clattn_plan_desc desc = check_case_desc(&check_cases[i], rule, dtype, CLATTN_MODE_CHUNK);
            const char *name = check_variant(rule, variant, &desc);
            char what[160];
            if (name == NULL)
                break;
            snprintf(what, sizeof what, "%s %s, %s", test_rule_name(rule), name, check_cases[i].name);
            if (!takes(&check_cases[i], variant, &desc))
                continue;
            failures += run_points(&check_cases[i], &desc, what);
            runs++;
        }
    test_ran(runs);
    if (failures > 0)
        fail_msg("%d runs failed", failures);
}

/* What the kernels do not have is refused, not computed otherwise. */
static void test_refused(void **state)
{
    clattn_plan_desc desc = {.rule = CLATTN_GATED_DELTA_RULE,
                             .batch = 1,
                             .seq_len = 64,
                             .heads = 1,
                             .key_dim = 16,
                             .value_dim = 16,
                             .mode = CLATTN_MODE_CHUNK};
    const struct point segments = {"segments", {{"chunk", 16}, {"segments", 2}}, 0, 0};
    struct tuned tuned = tuned_of(&segments);
    clattn_plan *plan = NULL;

    (void)state;
    assert_status(plan_create(&plan, test_engine_device.context, &desc, &tuned), UNSUPPORTED);
    desc.rule = CLATTN_GLA;
    desc.flags = CLATTN_VALUE_GATE;
    tuned = tuned_of(&thumb);
    assert_status(plan_create(&plan, test_engine_device.context, &desc, &tuned), UNSUPPORTED);
}

static void test_refused_lists(void **state)
{
    clattn_plan_desc desc = {.rule = CLATTN_SOFTMAX_ATTN,
                             .batch = 1,
                             .seq_len = 64,
                             .heads = 1,
                             .key_dim = 16,
                             .value_dim = 16,
                             .kernel = CLATTN_WEIGHTS_RELU,
                             .mode = CLATTN_MODE_CHUNK};
    const struct point uneven = {"more than registers hold", {{"chunk", 128}, {"group", 64}}, 0, 0};
    struct tuned tuned = tuned_of(&thumb);
    clattn_plan *plan = NULL;

    (void)state;
    assert_status(plan_create(&plan, test_engine_device.context, &desc, &tuned), UNSUPPORTED);
    desc.kernel = CLATTN_WEIGHTS_SOFTMAX;
    desc.chunk = 16;
    assert_status(plan_create(&plan, test_engine_device.context, &desc, &tuned), UNSUPPORTED);
    desc.chunk = 0;
    tuned = tuned_of(&uneven);
    assert_status(plan_create(&plan, test_engine_device.context, &desc, &tuned), UNSUPPORTED);
}

/* An engine multiplies floats alone; multiply-adds take every type. */
static void test_refused_types(void **state)
{
    clattn_plan_desc desc = {.rule = is_list() ? rule : CLATTN_SIMPLE_GLA,
                             .dtype = CLATTN_BF16,
                             .batch = 1,
                             .seq_len = 64,
                             .heads = 1,
                             .key_dim = 16,
                             .value_dim = 16,
                             .mode = CLATTN_MODE_CHUNK};
    struct tuned tuned = tuned_of(&thumb);
    clattn_plan *plan = NULL;

    (void)state;
    assert_int_equal(plan_create(&plan, test_engine_device.context, &desc, &tuned),
                     on_engine() ? CLATTN_UNSUPPORTED : CLATTN_SUCCESS);
    clattn_plan_destroy(plan);
}

/* Sums over a whole sequence, all of one sign, stay within the bound where an engine cuts what it adds. */
static void test_long_sums(void **state)
{
    const clattn_plan_desc desc = {.rule = is_list() ? CLATTN_SOFTMAX_ATTN : CLATTN_LINEAR_ATTN,
                                   .batch = 1,
                                   .seq_len = is_list() ? 2600 : 3000,
                                   .heads = is_list() ? 1 : 8, /* that leave no segments */
                                   .key_dim = 16,
                                   .value_dim = 16,
                                   .feature_map = is_list() ? CLATTN_FEATURE_IDENTITY : CLATTN_FEATURE_RELU,
                                   .mode = CLATTN_MODE_CHUNK};
    struct check_tensors tensors, expected;
    int passed;

    (void)state;
    if (only != NULL || rule != desc.rule)
        skip(); /* another rule's test has it; a simulator takes minutes */
    test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
    for (int64_t i = 0; i < desc.seq_len * desc.heads * 16; i++)
        ((float *)tensors.tensor[OP(V)].data)[i] = fabsf(((float *)tensors.tensor[OP(V)].data)[i]);
    assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
    passed = passes(&tensors, &expected, &thumb, "long sums");
    check_free(&tensors);
    check_free(&expected);
    assert_true(passed);
}

/* What is not finite in a chunk of a head reaches no other: slices are as wide as a chunk at most. */
static void test_chunks_apart(void **state)
{
    const struct point short_chunks = {"short chunks", {{"chunk", 16}}, 0, 0};
    const clattn_plan_desc desc = {
        .rule = rule, .batch = 1, .seq_len = 40, .heads = 2, .key_dim = 64, .value_dim = 32, .mode = CLATTN_MODE_CHUNK};
    const struct tuned tuned = tuned_of(&short_chunks);
    struct check_tensors clean, spoiled;
    clattn_plan *plan;

    (void)state;
    if (is_list() || (only != NULL && !on_engine())) /* a simulator takes minutes */
        skip();
    assert_status(plan_create(&plan, test_engine_device.context, &desc, &tuned), SUCCESS);
    test_make(&clean, &desc, CHECK_GATES_USUAL, NULL);
    test_make(&spoiled, &desc, CHECK_GATES_USUAL, NULL);
    test_spoil(&spoiled, OP(Q), 20, (double)NAN);
    assert_status(check_run_plan(&clean, &test_engine_device, plan, test_log, NULL), SUCCESS);
    assert_status(check_run_plan(&spoiled, &test_engine_device, plan, test_log, NULL), SUCCESS);
    test_compare_beyond(&spoiled, &clean, (struct test_reach){1, 16, 32}, test_rule_name(rule));
    check_free(&clean);
    check_free(&spoiled);
    clattn_plan_destroy(plan);
}

/* Whether the cases that are to run have any of the type. */
static int has_type(clattn_dtype dtype)
{
    int found = only == NULL;

    for (size_t i = 0; i < check_case_count && only != NULL; i++)
        found |= strcmp(check_cases[i].name, only) == 0 && check_cases[i].dtypes >> dtype & 1;
    return found;
}

static int run_every(void)
{
    static clattn_dtype dtypes[] = {CLATTN_F16, CLATTN_BF16, CLATTN_F32};
    static const char *const names[] = {"f16", "bf16", "f32"};
    const struct CMUnitTest others[] = {cmocka_unit_test(test_refused_types), cmocka_unit_test(test_long_sums),
                                        cmocka_unit_test(test_chunks_apart)};
    struct CMUnitTest tests[COUNT(dtypes) + COUNT(others) + 1];
    size_t count = 0;

    for (size_t i = on_engine() ? 2 : 0; i < COUNT(dtypes); i++) /* engines multiply floats here */
        if (has_type(dtypes[i]))
            tests[count++] = (struct CMUnitTest){names[i], test_dtype, NULL, NULL, &dtypes[i]};
    if (!on_engine())
        tests[count++] =
            (struct CMUnitTest){"refused", is_list() ? test_refused_lists : test_refused, NULL, NULL, NULL};
    for (size_t i = 0; i < COUNT(others); i++)
        tests[count++] = others[i];
    return test_run_group("blocks", tests, count, test_engine_open, test_engine_close);
}

int main(int argc, char **argv)
{
    rule = argc > 1 ? clattn_rule_find(argv[1]) : CLATTN_RULE_NONE;
    only = argc > 2 && strcmp(argv[2], "-") != 0 ? argv[2] : NULL;
    if (only != NULL && strcmp(only, "sums") == 0) {
        test_filter("test_long_sums");
        only = NULL;
    }
    test_engine = argc > 3 ? argv[3] : test_engine;
    if (rule == CLATTN_RULE_NONE) {
        print_error("usage: test_blocks RULE [CASE|sums|- [ENGINE]]\n");
        return 2;
    }
    return run_every();
}
