/* What the matrix scan's heuristic takes for shapes that were measured, on an H100: columns of a group and segments. */
#include "harness.h"

#include "device/engine.h"
#include "solve/matrix_scan/matrix_scan.h"
#include "tune/device_facts.h"

extern const struct solver solver_matrix_scan;

static const char *facts_file;

static void test_shapes(void **state)
{
    static const struct {
        clattn_rule rule;
        int64_t batch, tokens, heads, qk_heads;
        int columns, segments;
    } shapes[] = {{CLATTN_GATED_DELTA_RULE, 1, 32768, 16, 16, 64, 4},
                  {CLATTN_GATED_DELTA_RULE, 2, 16384, 16, 16, 32, 1},
                  {CLATTN_GATED_DELTA_RULE, 1, 32768, 8, 8, 64, 8},
                  {CLATTN_GATED_DELTA_RULE, 1, 16384, 16, 16, 64, 4},
                  {CLATTN_GATED_DELTA_RULE, 4, 8192, 32, 16, 64, 1},
                  {CLATTN_GATED_DELTA_RULE, 1, 8192, 48, 16, 64, 1},
                  {CLATTN_KDA, 1, 8192, 12, 12, 64, 4},
                  {CLATTN_KDA, 1, 8192, 96, 96, 128, 1}};
    struct device device = {.info = {.compute_units = 132, .max_work_group = 1024, .local_memory = 49152}};
    const struct log log = {.fn = test_log};

    (void)state;
    assert_status(device_facts_read(facts_file, &device, &log), SUCCESS);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const clattn_plan_desc desc = {.rule = shapes[i].rule,
                                       .dtype = CLATTN_BF16,
                                       .batch = shapes[i].batch,
                                       .seq_len = shapes[i].tokens,
                                       .heads = shapes[i].heads,
                                       .qk_heads = shapes[i].qk_heads,
                                       .key_dim = 128,
                                       .value_dim = 128,
                                       .flags = CLATTN_QK_L2NORM};
        const struct device_facts facts = {.device = &device, .engine = engine_get("nvidia"), .most_group = 1024};
        struct matrix_scan_tiles tiles;
        struct problem problem;

        assert_status(problem_init(&problem, &desc, &log), SUCCESS);
        assert_status(solver_tiles(&solver_matrix_scan, &facts, &problem, NULL, &tiles), SUCCESS);
        if (tiles.scan[PASS_OUTPUTS].block_v != shapes[i].columns ||
            tiles.scan[PASS_OUTPUTS].segments != shapes[i].segments)
            fail_msg("shape %zu: %d columns and %d segments, expected %d and %d", i, tiles.scan[PASS_OUTPUTS].block_v,
                     tiles.scan[PASS_OUTPUTS].segments, shapes[i].columns, shapes[i].segments);
    }
}

int main(int count, char **words)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes)};

    facts_file = count > 1 ? words[1] : NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
