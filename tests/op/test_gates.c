/* test_gates: of every rule that takes them, gates and strengths as models leave them: the reference's results are those
 * of log-decays and strengths that are made here, by the formulas of models' code. */
#include "harness.h"
#include "op/options.h"

#include <math.h>
#include <stdio.h>

static const struct {
    clattn_gate_map map;
    clattn_beta_map beta;
    double scale;
    int rated; /* takes a_log */
    double step_min, step_max;
} maps[] = {{CLATTN_GATE_MAP_LOG, CLATTN_BETA_SIGMOID, 0, 0, 0, 0},
            {CLATTN_GATE_MAP_SOFTPLUS, CLATTN_BETA_SIGMOID, 0, 1, 0, 0},
            {CLATTN_GATE_MAP_SIGMOID, CLATTN_BETA_TWICE_SIGMOID, 0, 1, 0, 0},
            {CLATTN_GATE_MAP_SIGMOID, CLATTN_BETA_STRENGTH, -0.606531, 0, 0, 0},
            {CLATTN_GATE_MAP_LOGSIGMOID, CLATTN_BETA_STRENGTH, 1.0 / 16, 0, 0, 0},
            {CLATTN_GATE_MAP_EXP, CLATTN_BETA_TWICE_SIGMOID, 0, 0, 0, 0},
            {CLATTN_GATE_MAP_SOFTPLUS, CLATTN_BETA_SOFTPLUS, 0, 1, 0, 0},
            {CLATTN_GATE_MAP_SOFTPLUS, CLATTN_BETA_SOFTPLUS, 0, 1, 0.05, 0.25},
            {CLATTN_GATE_MAP_SOFTPLUS, CLATTN_BETA_SOFTPLUS, 0, 1, 0, 0.1},
            {CLATTN_GATE_MAP_SOFTPLUS, CLATTN_BETA_SIGMOID, 0, 1, 0.1, 0}};
enum { TOKENS = 9, HEADS = 3, K = 5 };

static void make_plain(struct check_tensors *plain, const struct check_tensors *raw)
{
    clattn_plan_desc desc = raw->desc;

    desc.flags &= ~(CLATTN_WITH_A_LOG | CLATTN_WITH_DT_BIAS);
    desc.gate_map = CLATTN_GATE_MAP_LOG;
    desc.beta_map = CLATTN_BETA_STRENGTH;
    desc.gate_scale = desc.step_min = desc.step_max = 0;
    test_make(plain, &desc, CHECK_GATES_USUAL, NULL);
    for (int id = 1; id < OPERAND_COUNT; id++) {
        const struct check_tensor *to = &plain->tensor[id];
        if (to->data == NULL || to->info.output)
            continue;
        for (int64_t i = 0; i < check_count(&to->info); i++)
            test_set(plain, (clattn_operand_id)id, i, test_get_mapped(raw, (clattn_operand_id)id, i));
    }
}

static int takes_map(clattn_rule rule, size_t m)
{
    if (maps[m].beta == CLATTN_BETA_SOFTPLUS)
        return rule == CLATTN_SSD;
    return rule_takes(rule_get(rule), maps[m].map == CLATTN_GATE_MAP_LOG ? OPTION_beta_map : OPTION_gate_map);
}

static void check_map(clattn_rule rule, size_t m)
{
    const struct rule *row = rule_get(rule);
    uint64_t rated = maps[m].rated ? CLATTN_WITH_A_LOG : 0;
    clattn_plan_desc desc = {.rule = rule,
                             .batch = 2,
                             .seq_len = TOKENS,
                             .heads = HEADS,
                             .key_dim = K,
                             .value_dim = 4,
                             .gate_map = maps[m].map,
                             .beta_map = rule_takes(row, OPTION_beta_map) ? maps[m].beta : CLATTN_BETA_STRENGTH,
                             .gate_scale = maps[m].scale,
                             .step_min = maps[m].step_min,
                             .step_max = maps[m].step_max};
    struct check_tensors raw, plain, expected, actual;

    if (maps[m].map != CLATTN_GATE_MAP_LOG)
        desc.flags = rule_flags(row) & (rated | CLATTN_WITH_DT_BIAS);
    test_make(&raw, &desc, CHECK_GATES_USUAL, NULL);
    make_plain(&plain, &raw);
    assert_status(check_reference(&expected, &plain, test_log, NULL), SUCCESS);
    assert_status(check_reference(&actual, &raw, test_log, NULL), SUCCESS);
    test_compare(&actual.tensor[OP(O)], &expected.tensor[OP(O)], 1e-6, row->name);
    check_free(&raw), check_free(&plain), check_free(&expected), check_free(&actual);
}

static void test_formulas(void **state)
{
    int rules = 0;

    (void)state;
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++) {
        const struct rule *row = rule_get(rule);
        if (row->op != OP_MIXER || !(rule_takes(row, OPTION_gate_map) || rule_takes(row, OPTION_beta_map)))
            continue;
        for (size_t m = 0; m < COUNT(maps); m++)
            if (takes_map(rule, m))
                check_map(rule, m);
        rules++;
    }
    assert_int_equal(rules, 19);
}

/* What a map says of numbers too large for its formula: nothing is forgotten, or all, and nothing is no number. */
static void test_ends(void **state)
{
    static const struct {
        clattn_gate_map map;
        double x, log_decay;
    } ends[] = {{CLATTN_GATE_MAP_SOFTPLUS, 1e30, (double)-INFINITY},    {CLATTN_GATE_MAP_SOFTPLUS, -1e30, 0},
                {CLATTN_GATE_MAP_SIGMOID, (double)INFINITY, -5},        {CLATTN_GATE_MAP_SIGMOID, (double)-INFINITY, 0},
                {CLATTN_GATE_MAP_LOGSIGMOID, -1e30, (double)-INFINITY}, {CLATTN_GATE_MAP_LOGSIGMOID, 1e30, 0},
                {CLATTN_GATE_MAP_EXP, 1e30, (double)-INFINITY},         {CLATTN_GATE_MAP_EXP, (double)-INFINITY, 0}};

    (void)state;
    for (size_t i = 0; i < COUNT(ends); i++) {
        const clattn_plan_desc desc = {.rule = CLATTN_SIMPLE_GLA,
                                       .seq_len = 2,
                                       .heads = 1,
                                       .key_dim = 1,
                                       .value_dim = 1,
                                       .flags = CLATTN_FINAL_STATE,
                                       .gate_map = ends[i].map};
        struct check_tensors tensors;
        test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
        test_set_all(&tensors, OP(G), ends[i].x);
        test_set_all(&tensors, OP(K), 1);
        test_set_all(&tensors, OP(V), 1);
        test_run(&tensors);
        if (!(fabs(test_get(&tensors, OP(STATE_OUT), 0) - 1 - exp(ends[i].log_decay)) < 1e-6))
            fail_msg("map %d of %g: the state is %g", (int)ends[i].map, ends[i].x,
                     test_get(&tensors, OP(STATE_OUT), 0));
        check_free(&tensors);
    }
}

/* The piece writes what rules make of the same numbers, times scale: heads of one number, of vectors, of more and fewer. */
static void test_piece(void **state)
{
    static const int64_t widths[] = {1, 5, 16, 40};

    (void)state;
    for (size_t m = 1; m < COUNT(maps); m++)
        for (size_t w = 0; w < COUNT(widths); w++) {
            const clattn_plan_desc desc = {.rule = CLATTN_GATES,
                                           .batch = 2,
                                           .seq_len = TOKENS,
                                           .heads = HEADS,
                                           .value_dim = widths[w],
                                           .scale = w % 2 == 0 ? 1 : -0.75,
                                           .flags = CLATTN_WITH_DT_BIAS | (maps[m].rated ? CLATTN_WITH_A_LOG : 0),
                                           .gate_map = maps[m].map,
                                           .gate_scale = maps[m].scale,
                                           .step_min = maps[m].step_min,
                                           .step_max = maps[m].step_max};
            struct check_tensors tensors;
            test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
            test_run(&tensors);
            for (int64_t i = 0; i < check_count(&tensors.tensor[OP(O)].info); i++) {
                double expected = desc.scale * test_get_mapped(&tensors, OP(V), i), is = test_get(&tensors, OP(O), i);
                if (!(fabs(is - expected) <= 1e-5 * (1 + fabs(expected))))
                    fail_msg("map %d, %d numbers a head, number %d: %g, expected %g", (int)desc.gate_map,
                             (int)widths[w], (int)i, is, expected);
            }
            check_free(&tensors);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_formulas), cmocka_unit_test(test_ends),
                                       cmocka_unit_test(test_piece)};

    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
