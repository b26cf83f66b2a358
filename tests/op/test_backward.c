/* test_backward [one|some|all [TEST]]: gradients of a plan against those of the reference. `one`: one rule, for a
 * simulator; `some`: every rule once and options of each kind; `all`: every option of every rule, all types and
 * shapes.
 * test_backward engine ENGINE RULE...: of these rules, in chunks on an emulated matrix engine. */
#include "harness.h"

#include "plan/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int all_rows, one_rule;
static char **engine_rules; /* names, and NULL */

enum { BOTH = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE };

static clattn_plan_desc usual_desc(clattn_rule rule)
{
    clattn_plan_desc desc = {.rule = rule,
                             .batch = 2,
                             .seq_len = 19,
                             .heads = 4,
                             .qk_heads = 2,
                             .key_dim = 20,
                             .value_dim = 13,
                             .flags = BOTH,
                             .pass = CLATTN_PASS_BACKWARD};

    check_fit(&desc);
    return desc;
}

/* ---- Gradients against the reference ------------------------------------------------------------------------------
 */

/* No gate of -inf has a gradient: nothing of before it is remembered. */
static void check_forgotten(const struct check_tensors *tensors)
{
    const struct rule *rule = rule_get(tensors->desc.rule);
    const clattn_operand_id gate = rule->gate;
    const int reads_past = rule->erase == ERASE_LOW_RANK || rule->order == ERASE_FIRST;

    if (gate == NO_OPERAND || tensors->tensor[gate].data == NULL || tensors->desc.gate_map != CLATTN_GATE_MAP_LOG)
        return;
    for (int64_t i = 0; i < check_count(&tensors->tensor[gate].info) && !reads_past; i++)
        if (test_get(tensors, gate, i) == (double)-INFINITY)
            assert_true(test_get(tensors, gradient_of(gate), i) == 0);
}

/* Returns 0 for a desc that the rule does not take. */
static int try_desc(const clattn_plan_desc *desc, enum check_gates gates, const int64_t *cuts, const char *what)
{
    struct check_tensors actual, expected;
    clattn_plan_desc full;

    if (clattn_plan_desc_complete(&full, desc, NULL, NULL) != CLATTN_SUCCESS)
        return 0;
    test_make(&actual, desc, gates, cuts);
    test_run(&actual);
    assert_status(check_reference(&expected, &actual, test_log, NULL), SUCCESS);
    test_compare_all(&actual, &expected, check_bound_of(&actual.desc), what);
    check_forgotten(&actual);
    check_free(&actual);
    check_free(&expected);
    return 1;
}

/* Rules by the solver that the device chooses; one rule, which erases, by both. */
static void test_rules(void **state)
{
    clattn_plan_desc by_tokens = usual_desc(CLATTN_GATED_DELTA_RULE);
    int runs = 0;

    (void)state;
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++) {
        const clattn_plan_desc desc = usual_desc(rule);
        if (one_rule ? rule == CLATTN_GATED_DELTA_RULE : test_has_gradients(rule) && !test_is_piece(rule))
            runs += try_desc(&desc, CHECK_GATES_HARD, NULL, rule_get(rule)->name);
    }
    assert_int_equal(runs, one_rule ? 1 : 18);
    by_tokens.mode = CLATTN_MODE_RECURRENT;
    test_ran(try_desc(&by_tokens, CHECK_GATES_HARD, NULL, "token by token"));
}

static void test_options(void **state)
{
    static const struct {
        const char *name;
        clattn_plan_desc desc;
        enum check_gates gates;
    } options[] = {
        {"normalize", {.rule = OP(LINEAR_ATTN), .flags = BOTH | OP(NORMALIZE), .feature_map = OP(FEATURE_ELU1)}, 0},
        {"noncausal, normalize, relu",
         {.rule = OP(LINEAR_ATTN), .flags = BOTH | OP(NORMALIZE) | OP(NONCAUSAL), .feature_map = OP(FEATURE_RELU)},
         0},
        {"reads of a state", {.rule = OP(RWKV6), .flags = BOTH, .qk_heads = 4, .kv_heads = 2}, CHECK_GATES_HARD},
        {"reads, tiled, normalised",
         {.rule = OP(MLSTM), .flags = BOTH | OP(HEADS_TILED) | OP(QK_L2NORM), .qk_heads = 4, .kv_heads = 2},
         CHECK_GATES_HARD},
        {"tiled, [V,K], normalised",
         {.rule = OP(COMBA), .flags = BOTH | OP(HEADS_TILED) | OP(STATE_VK) | OP(QK_L2NORM)},
         CHECK_GATES_HARD},
        {"two steps, reversed", {.rule = OP(GATED_DELTA_PRODUCT), .flags = BOTH | OP(REVERSED), .steps = 2}, 0},
        {"gv", {.rule = OP(GLA), .flags = BOTH | OP(VALUE_GATE)}, CHECK_GATES_HARD},
        {"gates of heads", {.rule = OP(GLA), .flags = BOTH | OP(GATE_PER_HEAD)}, 0},
        {"maps, limits",
         {.rule = OP(SSD),
          .flags = BOTH | OP(WITH_A_LOG) | OP(WITH_DT_BIAS),
          .gate_map = OP(GATE_MAP_SOFTPLUS),
          .beta_map = OP(BETA_SOFTPLUS),
          .step_min = 0.04,
          .step_max = 0.125},
         0},
        {"maps of channels",
         {.rule = OP(KDA),
          .flags = BOTH | OP(WITH_A_LOG) | OP(WITH_DT_BIAS) | OP(QK_L2NORM),
          .gate_map = OP(GATE_MAP_SIGMOID),
          .beta_map = OP(BETA_TWICE_SIGMOID)},
         0},
        {"rope",
         {.rule = OP(PRECOND_GATED_DELTA_RULE), .flags = BOTH | OP(WITH_ROPE) | OP(REVERSED), .rope_dim = 6},
         0},
        {"f16", {.rule = OP(GDN2), .flags = BOTH, .dtype = OP(F16), .gate_dtype = OP(F16)}, 0},
        {"bf16, states of f16",
         {.rule = OP(MLSTM),
          .flags = BOTH,
          .dtype = OP(BF16),
          .gate_dtype = OP(BF16),
          .operand_type_count = 1,
          .operand_types = {{OP(STATE_IN), OP(F16)}}},
         0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(options); i++) {
        clattn_plan_desc desc = usual_desc(options[i].desc.rule), given = options[i].desc;
        given.batch = desc.batch;
        given.seq_len = desc.seq_len;
        given.heads = desc.heads;
        given.qk_heads = given.qk_heads != 0 ? given.qk_heads : desc.qk_heads;
        given.key_dim = desc.key_dim;
        given.value_dim = desc.value_dim;
        given.pass = desc.pass;
        test_ran(try_desc(&given, options[i].gates, NULL, options[i].name));
    }
}

/* Widths, lengths and packed sequences */
static void test_shapes(void **state)
{
    static const int64_t cuts[] = {0, 0, 1, 130, 131};
    static const struct {
        const char *name;
        int64_t batch, seq_len, heads, qk_heads, key_dim, value_dim;
        uint64_t flags;
        const int64_t *cuts;
    } shapes[] = {
        {"one channel", 2, 15, 1, 1, 1, 1, BOTH, NULL},
        {"wide", 1, 33, 1, 1, 256, 256, BOTH, NULL},
        {"packed", 1, 131, 2, 1, 32, 40, BOTH | CLATTN_CU_SEQLENS, cuts},
        {"packed, reversed", 1, 131, 2, 1, 32, 40, BOTH | CLATTN_CU_SEQLENS | CLATTN_REVERSED, cuts},
        {"long", 1, 300, 1, 1, 16, 16, 0, NULL},
    };
    static const clattn_rule some[] = {CLATTN_GATED_DELTA_RULE, CLATTN_DPLR, CLATTN_GLA, CLATTN_MLSTM};

    (void)state;
    for (size_t i = 0; i < COUNT(shapes); i++)
        for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++) {
            clattn_plan_desc desc = {.rule = rule,
                                     .batch = shapes[i].batch,
                                     .seq_len = shapes[i].seq_len,
                                     .sequences = shapes[i].cuts != NULL ? 4 : 0,
                                     .heads = shapes[i].heads,
                                     .qk_heads = shapes[i].qk_heads,
                                     .key_dim = shapes[i].key_dim,
                                     .value_dim = shapes[i].value_dim,
                                     .flags = shapes[i].flags,
                                     .pass = CLATTN_PASS_BACKWARD};
            if (all_rows ? test_has_gradients(rule) && !test_is_piece(rule) : rule == some[i % COUNT(some)])
                test_ran(try_desc(&desc, CHECK_GATES_HARD, shapes[i].cuts, shapes[i].name));
        }
}

/* Every option of every rule in every type, in the layouts that a desc may ask for. */
static void test_variants(void **state)
{
    static const uint64_t layouts[] = {0, CLATTN_HEADS_TILED | CLATTN_STATE_VK, CLATTN_REVERSED | CLATTN_QK_L2NORM};
    int runs = 0;

    (void)state;
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT && all_rows; rule++)
        for (int variant = 0, more = test_has_gradients(rule) && !test_is_piece(rule); more; variant++) {
            clattn_plan_desc desc = usual_desc(rule);
            const char *name = check_variant(rule, variant, &desc);
            more = name != NULL;
            for (size_t i = 0; i < 3 * COUNT(layouts) && more && !(desc.flags & CLATTN_NORM_OUTPUT); i++) {
                clattn_plan_desc laid = desc;
                laid.flags |= layouts[i % COUNT(layouts)];
                laid.dtype = laid.gate_dtype = (clattn_dtype)(i / COUNT(layouts));
                check_fit(&laid);
                runs += try_desc(&laid, variant == 0 ? CHECK_GATES_HARD : CHECK_GATES_USUAL, NULL, name);
            }
        }
    assert_true(!all_rows || runs > 18 * 9);
}

static int is_too_wide(clattn_rule rule, int64_t value_dim)
{
    return value_dim > 1024 && (rule == CLATTN_ROPE || rule == CLATTN_FEATURES);
}

static clattn_plan_desc piece_desc(clattn_rule rule, clattn_dtype dtype, int64_t batch, int64_t seq_len, int64_t heads,
                                   int64_t value_dim)
{
    return (clattn_plan_desc){.rule = rule,
                              .dtype = dtype,
                              .gate_dtype = rule == CLATTN_GATES ? CLATTN_F32 : dtype,
                              .batch = batch,
                              .seq_len = seq_len,
                              .heads = heads,
                              .key_dim = 10,
                              .value_dim = value_dim,
                              .flags = BOTH,
                              .pass = CLATTN_PASS_BACKWARD};
}

/* Pieces: packed sequences, also empty ones; types, and more columns than registers keep. In the gate two shapes, each with
 * one option of every piece. */
static void test_pieces(void **state)
{
    enum { NONE = -1 };
    static const int64_t cuts[] = {0, 0, 3, 70, 71, 71};
    static const struct {
        const char *name;
        int64_t batch, seq_len, heads, value_dim;
        clattn_dtype dtype;
        const int64_t *cuts;
        int variant; /* of the gate */
    } shapes[] = {
        {"usual", 2, 19, 3, 13, CLATTN_F32, NULL, NONE},        {"packed", 1, 71, 3, 14, CLATTN_F32, cuts, 1},
        {"bf16, runs", 2, 300, 2, 32, CLATTN_BF16, NULL, NONE}, {"f16, wide", 1, 5, 1, 1100, CLATTN_F16, NULL, 3},
        {"one token", 3, 1, 1, 2, CLATTN_F32, NULL, NONE},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(shapes); i++)
        for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++)
            for (int variant = 0, more = test_is_piece(rule) && !is_too_wide(rule, shapes[i].value_dim); more;
                 variant++) {
                clattn_plan_desc desc = piece_desc(rule, shapes[i].dtype, shapes[i].batch, shapes[i].seq_len,
                                                   shapes[i].heads, shapes[i].value_dim);
                const char *name;
                char what[64];
                if (shapes[i].cuts != NULL) {
                    desc.flags |= CLATTN_CU_SEQLENS;
                    desc.sequences = 5;
                }
                name = check_variant(rule, variant, &desc);
                more = name != NULL;
                if (!more || !(all_rows || test_is_reference() || variant == shapes[i].variant))
                    continue;
                snprintf(what, sizeof what, "%s, %s, %s", rule_get(rule)->name, shapes[i].name, name);
                test_ran(try_desc(&desc, CHECK_GATES_USUAL, shapes[i].cuts, what));
            }
}

/* ---- What must hold -----------------------------------------------------------------------------------------------
 */

static void run(clattn_plan *plan, const struct arguments *operands)
{
    clattn_operand list[OPERAND_COUNT];
    const clattn_call call = arguments_call(operands, list);

    assert_status(clattn_run(plan, &call), SUCCESS);
}

/* Gradients are added where the desc says so, and left out where a call does; two runs give the same bits. */
static void check_added(clattn_plan_desc desc, const clattn_operand_id added[3], const clattn_operand_id left_out[2])
{
    struct check_tensors tensors, again;
    struct arguments operands;
    clattn_plan *plan;

    test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
    test_make(&again, &desc, CHECK_GATES_USUAL, NULL);
    test_run(&tensors);
    for (int i = 0; i < 3; i++) {
        desc.added_gradients |= (int64_t)1 << added[i];
        test_set_all(&again, gradient_of(added[i]), 8);
    }
    assert_status(clattn_plan_create(&plan, test_device.context, &desc), SUCCESS);
    check_operands(&operands, &again);
    for (int i = 0; i < 2; i++)
        operands.of[gradient_of(left_out[i])].host = NULL;
    run(plan, &operands);
    clattn_plan_destroy(plan);
    for (int id = (int)OPERAND_IDS + 1; id < OPERAND_COUNT; id++) {
        const clattn_operand_id gradient = (clattn_operand_id)id, base = (clattn_operand_id)(id - (int)OPERAND_IDS);
        const int is_added = base == added[0] || base == added[1] || base == added[2];
        if (!tensors.tensor[id].info.output || tensors.tensor[id].data == NULL)
            continue;
        for (int64_t i = 0; i < check_count(&tensors.tensor[id].info); i++)
            if (base == left_out[0] || base == left_out[1])
                assert_true(isnan(test_get(&again, gradient, i)));
            else
                assert_true(test_get(&again, gradient, i) == (is_added
                                                                  ? (double)((float)test_get(&tensors, gradient, i) + 8)
                                                                  : test_get(&tensors, gradient, i)));
    }
    check_free(&tensors);
    check_free(&again);
}

static void test_added(void **state)
{
    clattn_plan_desc norm = piece_desc(OP(RMS_NORM), OP(F32), 2, 19, 3, 13), conv = norm;

    (void)state;
    if (test_is_reference())
        return;
    check_added(usual_desc(OP(KDA)), (clattn_operand_id[]){OP(V), OP(G), OP(STATE_IN)},
                (clattn_operand_id[]){OP(K), OP(BETA)});
    if (!all_rows)
        return;
    norm.flags = OP(WITH_Z) | OP(WITH_D);
    norm.gating = OP(GATING_BEFORE);
    norm.key_dim = 1;
    check_added(norm, (clattn_operand_id[]){OP(U), OP(W), OP(D)}, (clattn_operand_id[]){OP(V), OP(Z)});
    conv.rule = OP(SHORT_CONV);
    conv.flags = BOTH | OP(WITH_BIAS);
    conv.key_dim = 1;
    check_added(conv, (clattn_operand_id[]){OP(V), OP(W), OP(STATE_IN)}, (clattn_operand_id[]){OP(BIAS), OP(BIAS)});
}

/* Two chunks of 64 rows; hard gates within each. */
static void on_engine(clattn_rule rule, int key_dim, int value_dim, const char *kernel)
{
    const clattn_plan_desc desc = {.rule = rule,
                                   .dtype = CLATTN_BF16,
                                   .gate_dtype = CLATTN_F32,
                                   .batch = 1,
                                   .seq_len = 70,
                                   .heads = 1,
                                   .key_dim = key_dim,
                                   .value_dim = value_dim,
                                   .flags = BOTH,
                                   .mode = CLATTN_MODE_CHUNK,
                                   .pass = CLATTN_PASS_BACKWARD};
    struct check_tensors actual, expected;
    struct tuned tuned = tuned_default(space_find("matrix_backward"));
    clattn_plan *plan;
    char *text;

    assert_status(plan_create(&plan, test_engine_device.context, &desc, &tuned), SUCCESS);
    text = plan_text(plan);
    assert_true(kernel == NULL || strstr(text, kernel) != NULL);
    free(text);
    test_make(&actual, &desc, CHECK_GATES_HARD, NULL);
    assert_status(check_run_plan(&actual, &test_engine_device, plan, test_log, NULL), SUCCESS);
    assert_status(check_reference(&expected, &actual, test_log, NULL), SUCCESS);
    test_compare_all(&actual, &expected, check_bound_of(&actual.desc), rule_get(rule)->name);
    check_forgotten(&actual);
    clattn_plan_destroy(plan);
    check_free(&actual);
    check_free(&expected);
}

/* Of sizes that are not whole tiles; NVIDIA's also of those that its own kernel has, with two groups for the channels. */
static void test_on_engine(void **state)
{
    const int is_nvidia = strncmp(test_engine, "nvidia", strlen("nvidia")) == 0;

    (void)state;
    for (; *engine_rules != NULL; engine_rules++) {
        const clattn_rule rule = clattn_rule_find(*engine_rules);
        on_engine(rule, 16, 16, NULL);
        if (is_nvidia && rule_get(rule)->decay != DECAY_CHANNEL)
            on_engine(rule, 128, 32, rule == OP(COMBA) || rule == OP(IPLR) ? "scalar_gradients" : "engine_gradients");
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest engine_tests[] = {cmocka_unit_test(test_on_engine)};
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules),  cmocka_unit_test(test_options),
                                       cmocka_unit_test(test_shapes), cmocka_unit_test(test_variants),
                                       cmocka_unit_test(test_pieces), cmocka_unit_test(test_added)};

    if (argc > 3 && strcmp(argv[1], "engine") == 0) {
        test_engine = argv[2];
        engine_rules = argv + 3;
        return cmocka_run_group_tests(engine_tests, test_engine_open, test_engine_close);
    }
    all_rows = argc > 1 && strcmp(argv[1], "all") == 0;
    if (argc == 2 && strcmp(argv[1], "one") == 0)
        one_rule = 1, test_filter("test_rules");
    if (argc > 2)
        test_filter(argv[2]);
    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
