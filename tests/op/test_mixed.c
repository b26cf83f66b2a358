/* test_mixed: operands with types of their own on the device, against the reference: gates in f32 beside a beta in bf16,
 * outputs in f32, one vector in f32 among others in 16 bits. */
#include "harness.h"

#include <stdio.h>
#include <string.h>

#define TYPE(NAME, type)                                                                                               \
    {                                                                                                                  \
        CLATTN_##NAME, CLATTN_##type                                                                                   \
    }
#define TYPES(count, ...) .operand_type_count = count, .operand_types = {__VA_ARGS__}
#define RULE(NAME) .rule = CLATTN_##NAME, .dtype = CLATTN_BF16

static const struct row {
    clattn_plan_desc desc;
    const char *engine;
} rows[] = {
    /* flash-linear-attention's usual call, token by token and in chunks */
    {{RULE(GATED_DELTA_RULE), TYPES(2, TYPE(BETA, BF16), TYPE(O, F32)), .mode = CLATTN_MODE_RECURRENT}, "none"},
    {{RULE(GATED_DELTA_RULE), TYPES(2, TYPE(BETA, BF16), TYPE(O, F32)), .mode = CLATTN_MODE_CHUNK}, "none"},
    {{RULE(GATED_DELTA_RULE), TYPES(2, TYPE(BETA, BF16), TYPE(O, F32)), .mode = CLATTN_MODE_CHUNK},
     "amd_cdna_emulated"},
    {{RULE(KDA), TYPES(2, TYPE(BETA, F16), TYPE(V, F32)), .flags = CLATTN_CU_SEQLENS}, "none"},
    {{RULE(DELTA_RULE), TYPES(1, TYPE(BETA, BF16))}, "none"},
    {{RULE(GLA), TYPES(2, TYPE(GV, F16), TYPE(Q, F32)), .flags = CLATTN_VALUE_GATE, .kv_heads = 2}, "none"},
    {{RULE(SIMPLE_GLA), TYPES(1, TYPE(K, F16)), .flags = CLATTN_WITH_ROPE | CLATTN_REVERSED}, "none"},
    {{RULE(GATED_DELTA_PRODUCT), TYPES(2, TYPE(K, F32), TYPE(G, F16)), .steps = 2}, "none"},
    {{RULE(RWKV6), TYPES(2, TYPE(U, BF16), TYPE(O, F32))}, "none"},
    {{RULE(RWKV7), TYPES(2, TYPE(A, F32), TYPE(B, F16)), .flags = CLATTN_CU_SEQLENS}, "none"},
    {{RULE(GDN2), TYPES(2, TYPE(W, BF16), TYPE(O, F16))}, "none"},
    {{RULE(MLSTM), TYPES(2, TYPE(I, BF16), TYPE(O, F32))}, "none"},
    {{RULE(MAMBA), TYPES(2, TYPE(DT, F32), TYPE(O, F32)), .flags = CLATTN_WITH_Z}, "none"},
    {{RULE(FULL_GATE), TYPES(1, TYPE(O, F32))}, "none"},
    {{RULE(SOFTMAX_ATTN), TYPES(2, TYPE(Q, F32), TYPE(O, F32)), .kv_len = 50}, "none"},
    {{RULE(FORGETTING_ATTN), TYPES(1, TYPE(O, F32)), .flags = CLATTN_CU_SEQLENS}, "none"},
    {{RULE(PATH_ATTN), TYPES(2, TYPE(BETA, BF16), TYPE(O, F32)), .kv_len = 50, .tail = 44}, "none"},
    {{RULE(DELTAFORMER), TYPES(1, TYPE(P, F16)), .flags = CLATTN_WITH_P}, "none"},
    {{RULE(SHORT_CONV), TYPES(2, TYPE(BIAS, BF16), TYPE(O, F32)), .flags = CLATTN_WITH_BIAS}, "none"},
    {{RULE(RMS_NORM), TYPES(2, TYPE(Z, F32), TYPE(O, F32)), .flags = CLATTN_WITH_Z}, "none"},
    {{RULE(GATES), TYPES(1, TYPE(O, F16))}, "none"},
};

static clattn_plan_desc desc_of(const struct row *row)
{
    const int packed = (row->desc.flags & CLATTN_CU_SEQLENS) != 0;
    clattn_plan_desc desc = row->desc;

    desc.batch = packed ? 1 : 2;
    desc.sequences = packed ? 2 : 0;
    desc.seq_len = 37;
    desc.heads = 4;
    desc.key_dim = 20;
    desc.value_dim = 12;
    check_fit(&desc);
    return desc;
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct test_kind kind = {.name = "mixed", .engine = rows[i].engine};
        const clattn_plan_desc desc = desc_of(&rows[i]);
        struct check_device device = test_kind_device(&kind);
        struct check_tensors tensors, expected;
        clattn_plan *plan;
        char what[96];

        snprintf(what, sizeof what, "%s, row %zu", test_rule_name(desc.rule), i);
        test_log_clear();
        if (clattn_plan_create(&plan, device.context, &desc) != CLATTN_SUCCESS)
            fail_msg("%s: no plan\n%s", what, test_log_text);
        test_make(&tensors, &desc, CHECK_GATES_SLOW, NULL);
        assert_int_equal(tensors.tensor[desc.operand_types[0].id].info.dtype, desc.operand_types[0].dtype);
        assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
        if (check_run_plan(&tensors, &device, plan, test_log, NULL) != CLATTN_SUCCESS)
            fail_msg("%s: %s", what, test_log_text);
        test_compare_all(&tensors, &expected, check_bound(CLATTN_BF16), what);
        check_free(&tensors), check_free(&expected);
        clattn_plan_destroy(plan);
        clattn_context_destroy(device.context);
    }
}

/* A beta in bf16 is read as it is, and an output in f32 is not rounded to bf16. */
static void test_direct(void **state)
{
    const clattn_plan_desc desc = desc_of(&rows[0]);
    struct check_tensors tensors, expected;
    clattn_plan_info info;
    clattn_plan *plan;

    (void)state;
    assert_status(clattn_plan_create(&plan, test_device.context, &desc), SUCCESS);
    assert_status(clattn_plan_get(plan, &info), SUCCESS);
    assert_int_equal(info.launches, 1);
    test_make(&tensors, &desc, CHECK_GATES_SLOW, NULL);
    assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
    assert_status(check_run_plan(&tensors, &test_device, plan, test_log, NULL), SUCCESS);
    test_compare_all(&tensors, &expected, check_bound(CLATTN_F32), "o in f32");
    check_free(&tensors), check_free(&expected);
    clattn_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_direct), cmocka_unit_test(test_rows)};

    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
