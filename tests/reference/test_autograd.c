/* Gradients of the reference, or of the device under test, against those of PyTorch's autograd:
 * tests/data/make_gradients.py. */
#include "harness.h"

#include "cli/io/safetensors.h"

#include <stdio.h>
#include <string.h>

static struct safetensors file;

struct named_desc {
    const char *name;
    clattn_plan_desc desc;
};

static const struct named_desc options[] = {
    {"normalized", {.rule = CLATTN_LINEAR_ATTN, .flags = CLATTN_NORMALIZE, .feature_map = CLATTN_FEATURE_ELU1}},
    {"normalised_keys", {.rule = CLATTN_COMBA, .flags = CLATTN_QK_L2NORM}},
    {"value_gate", {.rule = CLATTN_GLA, .flags = CLATTN_VALUE_GATE}},
    {"two_steps", {.rule = CLATTN_GATED_DELTA_PRODUCT, .steps = 2}},
    {"shared_states", {.rule = CLATTN_GATED_DELTA_RULE, .qk_heads = 4, .kv_heads = 2}},
    {"softplus",
     {.rule = CLATTN_GATED_DELTA_RULE,
      .flags = CLATTN_QK_L2NORM | CLATTN_WITH_A_LOG | CLATTN_WITH_DT_BIAS,
      .gate_map = CLATTN_GATE_MAP_SOFTPLUS,
      .beta_map = CLATTN_BETA_SIGMOID}},
    {"sigmoid",
     {.rule = CLATTN_KDA, .flags = CLATTN_WITH_A_LOG | CLATTN_WITH_DT_BIAS, .gate_map = CLATTN_GATE_MAP_SIGMOID}},
};

static const struct named_desc pieces[] = {
    {"short_conv", {.rule = CLATTN_SHORT_CONV}},
    {"conv_of_eight",
     {.rule = CLATTN_SHORT_CONV,
      .flags = CLATTN_WITH_BIAS | CLATTN_RESIDUAL,
      .taps = 8,
      .activation = CLATTN_ACTIVATION_NONE}},
    {"rms_norm", {.rule = CLATTN_RMS_NORM}},
    {"norm_gated", {.rule = CLATTN_RMS_NORM, .flags = CLATTN_WITH_Z, .weighting = CLATTN_WEIGHTING_HEADS}},
    {"norm_before",
     {.rule = CLATTN_RMS_NORM,
      .flags = CLATTN_WITH_Z | CLATTN_WITH_D,
      .weighting = CLATTN_WEIGHTING_NONE,
      .gating = CLATTN_GATING_BEFORE}},
    {"norm_sigmoid",
     {.rule = CLATTN_RMS_NORM, .flags = CLATTN_WITH_Z | CLATTN_CENTERED, .gating = CLATTN_GATING_SIGMOID, .eps = 0.5}},
    {"norm_outside", {.rule = CLATTN_RMS_NORM, .flags = CLATTN_EPS_OUTSIDE, .eps = 0.5}},
    {"gates", {.rule = CLATTN_GATES, .flags = CLATTN_WITH_A_LOG | CLATTN_WITH_DT_BIAS}},
    {"gates_sigmoid",
     {.rule = CLATTN_GATES, .flags = CLATTN_WITH_A_LOG, .gate_map = CLATTN_GATE_MAP_SIGMOID, .gate_scale = -5}},
    {"gates_logsigmoid",
     {.rule = CLATTN_GATES,
      .flags = CLATTN_WITH_DT_BIAS,
      .gate_map = CLATTN_GATE_MAP_LOGSIGMOID,
      .gate_scale = 1.0 / 16}},
    {"gates_exp", {.rule = CLATTN_GATES, .flags = CLATTN_WITH_DT_BIAS, .gate_map = CLATTN_GATE_MAP_EXP}},
    {"rope", {.rule = CLATTN_ROPE}},
    {"rope_interleaved", {.rule = CLATTN_ROPE, .flags = CLATTN_INTERLEAVED}},
    {"features", {.rule = CLATTN_FEATURES}},
    {"favor_of_queries", {.rule = CLATTN_FEATURES, .flags = CLATTN_OF_QUERIES}},
    {"rfa", {.rule = CLATTN_FEATURES, .features = CLATTN_FEATURES_RFA}},
    {"hedgehog", {.rule = CLATTN_FEATURES, .features = CLATTN_FEATURES_HEDGEHOG}},
};

static const struct safetensor *find(const char *name, clattn_operand_id id)
{
    char key[96];

    snprintf(key, sizeof key, "%s.%s", name, operand_name(id));
    return safetensors_find(&file, key);
}

static void take(const struct check_tensor *tensor, const struct safetensor *from)
{
    assert_non_null(from);
    assert_int_equal(from->bytes, tensor->bytes);
    for (int i = 0; i < tensor->info.rank; i++)
        assert_int_equal(from->dims[i], tensor->info.dims[i]);
    memcpy(tensor->data, from->data, from->bytes);
}

/* How many gradients were compared. */
static int check_case(const char *name, clattn_plan_desc desc)
{
    struct check_tensors actual, expected;
    int compared = 0;

    desc.batch = 2;
    desc.seq_len = 7;
    desc.heads = 4;
    desc.qk_heads = desc.qk_heads != 0 ? desc.qk_heads : 2;
    desc.key_dim = 4;
    desc.value_dim = 3;
    desc.pass = CLATTN_PASS_BACKWARD;
    desc.flags |= CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE;
    check_fit(&desc);
    assert_status(check_allocate(&actual, &desc), SUCCESS);
    assert_status(check_allocate(&expected, &desc), SUCCESS);
    for (int id = 1; id < OPERAND_COUNT; id++) {
        struct check_tensors *to = actual.tensor[id].info.output ? &expected : &actual;
        if (to->tensor[id].data != NULL)
            take(&to->tensor[id], find(name, (clattn_operand_id)id));
    }
    test_run(&actual);
    for (int id = 1; id < OPERAND_COUNT; id++)
        if (actual.tensor[id].data != NULL && actual.tensor[id].info.output) {
            test_compare(&actual.tensor[id], &expected.tensor[id], test_is_reference() ? 2e-7 : 1e-6, name);
            compared++;
        }
    check_free(&actual);
    check_free(&expected);
    return compared;
}

static void test_rules(void **state)
{
    int rules = 0;

    (void)state;
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++)
        if (find(rule_get(rule)->name, CLATTN_Q) != NULL) {
            rules++;
            assert_true(check_case(rule_get(rule)->name, (clattn_plan_desc){.rule = rule}) >= 4);
        }
    assert_int_equal(rules, 18);
}

static void test_options(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        test_ran(check_case(options[i].name, options[i].desc));
}

static void test_pieces(void **state)
{
    (void)state;
    if (!test_is_reference()) /* devices are held to the reference: test_backward */
        skip();
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        test_ran(check_case(pieces[i].name, pieces[i].desc));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules), cmocka_unit_test(test_options),
                                       cmocka_unit_test(test_pieces)};
    char error[256] = "no file is named";
    int failed;

    if (argc < 2 || safetensors_read(argv[1], &file, error, sizeof error) != 0) {
        fprintf(stderr, "test_autograd: %s\n", error);
        return 2;
    }
    if (argc > 2)
        test_filter(argv[2]);
    failed = cmocka_run_group_tests(tests, test_device_open, test_device_close);
    safetensors_free(&file);
    return failed;
}
