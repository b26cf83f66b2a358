/* test_cross FILE [ENGINE]: attention that is not causal, cross attention and softcap against PyTorch's
 * scaled_dot_product_attention in double precision (tests/data/make_attention.py), by the reference or by each solver that
 * takes the problem. */
#include "harness.h"

#include "cli/io/safetensors.h"
#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

static struct safetensors file;

enum {
    LSE = CLATTN_WITH_LSE,
    ALL = CLATTN_NONCAUSAL | LSE,
    CUTS = CLATTN_CU_SEQLENS | CLATTN_CU_SEQLENS_KV,
    HEADS = 2,
    WIDTH = 8
};

static const struct {
    const char *name;
    clattn_plan_desc desc;
    int on_engines; /* whose kernels take long to compile where they are emulated */
} cases[] = {
    {"both_sides", {.rule = CLATTN_SOFTMAX_ATTN, .flags = ALL, .batch = 2, .seq_len = 37}, 0},
    {"cross", {.rule = CLATTN_SOFTMAX_ATTN, .flags = ALL, .batch = 2, .seq_len = 5, .kv_len = 70}, 0},
    {"few_keys", {.rule = CLATTN_SOFTMAX_ATTN, .flags = ALL, .seq_len = 41, .kv_len = 9}, 0},
    {"lengths",
     {.rule = CLATTN_SOFTMAX_ATTN, .flags = ALL | CLATTN_WITH_KV_LENS, .batch = 3, .seq_len = 19, .kv_len = 40},
     1},
    {"packed", {.rule = CLATTN_SOFTMAX_ATTN, .flags = ALL | CUTS, .seq_len = 30, .kv_len = 60, .sequences = 4}, 0},
    {"near", {.rule = CLATTN_SOFTMAX_ATTN, .flags = ALL, .seq_len = 40, .kv_len = 50, .window = 9}, 0},
    {"alibi", {.rule = CLATTN_ALIBI_ATTN, .flags = ALL, .batch = 2, .seq_len = 37}, 0},
    {"alibi_cross", {.rule = CLATTN_ALIBI_ATTN, .flags = ALL, .seq_len = 21, .kv_len = 40}, 0},
    {"alibi_few_keys", {.rule = CLATTN_ALIBI_ATTN, .flags = ALL, .seq_len = 40, .kv_len = 21}, 1},
    {"capped", {.rule = CLATTN_SOFTMAX_ATTN, .flags = LSE, .seq_len = 37, .softcap = 1.5}, 0},
    {"capped_both_sides", {.rule = CLATTN_SOFTMAX_ATTN, .flags = ALL, .seq_len = 11, .kv_len = 50, .softcap = 1.5}, 1},
    {"capped_alibi", {.rule = CLATTN_ALIBI_ATTN, .flags = LSE, .seq_len = 37, .softcap = 1.5}, 0},
};

static clattn_plan_desc desc_of(size_t number, clattn_dtype dtype)
{
    clattn_plan_desc desc = cases[number].desc;

    desc.dtype = dtype;
    desc.heads = HEADS;
    desc.kv_heads = 1;
    desc.key_dim = desc.value_dim = WIDTH;
    return desc;
}

static void take(struct check_tensors *tensors, const char *name, clattn_operand_id id)
{
    const struct check_tensor *tensor = &tensors->tensor[id];
    const struct safetensor *from;
    char key[96];

    snprintf(key, sizeof key, "%s.%s", name, operand_name(id));
    from = safetensors_find(&file, key);
    assert_non_null(from);
    for (int i = 0; i < tensor->info.rank; i++)
        assert_int_equal(from->dims[i], tensor->info.dims[i]);
    if (operand_is_index(id))
        memcpy(tensor->data, from->data, tensor->bytes);
    for (int64_t i = 0; i < check_count(&tensor->info) && !operand_is_index(id); i++)
        test_set(tensors, id, i, (double)((const float *)from->data)[i]);
}

/* Operands of a case with its inputs, and what is expected of it */
static void load(size_t number, clattn_dtype dtype, struct check_tensors *actual, struct check_tensors *expected)
{
    const clattn_plan_desc desc = desc_of(number, dtype);

    assert_status(check_allocate(actual, &desc), SUCCESS);
    assert_status(check_allocate(expected, &desc), SUCCESS);
    for (int id = 1; id < OPERAND_COUNT; id++)
        if (actual->tensor[id].data != NULL) {
            take(actual, cases[number].name, (clattn_operand_id)id);
            take(expected, cases[number].name, (clattn_operand_id)id);
        }
}

static void compute(struct check_tensors *tensors, const char *solver)
{
    struct check_device *device = strcmp(test_engine, "none") != 0 ? &test_engine_device : &test_device;
    struct arguments operands;
    struct tuned tuned;
    clattn_plan *plan;

    if (test_is_reference()) {
        check_operands(&operands, tensors);
        assert_status(check_compute(&tensors->desc, &operands, test_log, NULL), SUCCESS);
        return;
    }
    tuned = tuned_default(space_find(solver));
    assert_status(plan_create(&plan, device->context, &tensors->desc, &tuned), SUCCESS);
    assert_status(check_run_plan(tensors, device, plan, test_log, NULL), SUCCESS);
    clattn_plan_destroy(plan);
}

static void check_solver(const char *solver, clattn_dtype dtype)
{
    const double bound = test_is_reference() ? 1e-6 : check_bound(dtype);
    char what[96];

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct check_tensors actual, expected;
        if (strcmp(test_engine, "none") != 0 && !cases[i].on_engines)
            continue;
        load(i, dtype, &actual, &expected);
        test_set_all(&actual, OP(O), 99);
        compute(&actual,
                actual.desc.rule == CLATTN_ALIBI_ATTN && strcmp(solver, "flash_team") == 0 ? "flash_matrix" : solver);
        snprintf(what, sizeof what, "%s, %s", solver, cases[i].name);
        test_compare_all(&actual, &expected, bound, what);
        check_free(&actual);
        check_free(&expected);
    }
}

static void test_floats(void **state)
{
    static const char *const solvers[] = {"flash", "flash_blocks", "decode"};

    (void)state;
    for (size_t i = 0; i < (test_is_reference() ? 1 : COUNT(solvers)); i++)
        check_solver(solvers[i], CLATTN_F32);
}

static int has_team(void)
{
    return test_engine_device.context->engine->team != FILE_nothing;
}

/* NVIDIA's products of floats, which are emulated for minutes, are of the same words. */
static void test_engine_floats(void **state)
{
    (void)state;
    if (test_engine_device.context->engine->exact == FILE_nothing || has_team())
        skip();
    check_solver("flash_matrix_blocks", CLATTN_F32);
}

static void test_narrow(void **state)
{
    (void)state;
    check_solver(has_team() ? "flash_team" : "flash_matrix", CLATTN_BF16);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_floats)};
    const struct CMUnitTest engine_tests[] = {cmocka_unit_test(test_engine_floats), cmocka_unit_test(test_narrow)};
    char error[256] = "no file is named";
    int failed;

    test_engine = argc > 2 ? argv[2] : test_engine;
    if (argc < 2 || safetensors_read(argv[1], &file, error, sizeof error) != 0) {
        fprintf(stderr, "test_cross: %s\n", error);
        return 2;
    }
    if (argc > 2)
        failed = cmocka_run_group_tests(engine_tests, test_engine_open, test_engine_close);
    else
        failed = cmocka_run_group_tests(tests, test_device_open, test_device_close);
    safetensors_free(&file);
    return failed;
}
