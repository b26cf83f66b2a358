/* test_threads [rows | mistakes | plain]: kernels on a device that runs every work-item by itself (tests/threads): matrix kernels as
 * NVIDIA runs them, with sub-groups that load, read and compute; plain kernels in groups that share tiles. Every barrier that they
 * need is needed: with each left out in turn the device reports what goes wrong. */
#include "threads/threads.h"

#include "device/opencl.h"
#include "plan/plan.h"
#include "op/rule.h"

#include <stdio.h>
#include <string.h>

enum { BOTH = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE, NORM = CLATTN_QK_L2NORM, CU = CLATTN_CU_SEQLENS };

static const int64_t gaps[] = {0, 0, 1, 52, 53};

/* clang-format off */
static const struct check_case
    tail   = { "tail",   1,  75, 1, 1, 32, 32, BOTH,        CHECK_GATES_USUAL, NULL, 0, 0, 0, 0, 0 },
    odd    = { "odd",    1,  45, 2, 1, 40, 20, BOTH | NORM, CHECK_GATES_HARD,  NULL, 0, 0, 1, 0, 0 },
    packed = { "packed", 1,  53, 1, 1, 32, 32, BOTH | CU,   CHECK_GATES_USUAL, gaps, 4, 0, 0, 0, 0 },
    spans  = { "spans",  1, 530, 1, 1, 32, 32, BOTH,        CHECK_GATES_SLOW,  NULL, 0, 0, 0, 0, 0 }; /* long enough for segments */

struct row {
    const char *engine, *rule;
    int variant;
    clattn_dtype dtype;
    int32_t chunk;
    const struct check_case *shape;
    const char *point; /* parameters of the solver; the others by rule of thumb */
    const char *plan;  /* what the plan's description must say */
};

#define ENGINE "nvidia_threads"
static const struct row rows[] = {
    { ENGINE, "gated_delta_rule", 0, CLATTN_BF16, 32, &tail,   "scan.block_v 32 scan.readers 1",               "readers 2, loaders 4, depth 2, stages 2" },
    { ENGINE, "gated_delta_rule", 0, CLATTN_F16,  16, &packed, "scan.block_v 32 scan.readers 0 scan.stages 1", "readers 0, loaders 4, depth 1, stages 1" },
    { ENGINE, "gated_delta_rule", 0, CLATTN_BF16, 16, &spans,  "scan.block_v 32 scan.segments 4",              "segments 4, gathers" },
    { ENGINE, "simple_gla",       0, CLATTN_BF16, 16, &spans,  "scan.block_v 32 scan.segments 4",              "segments 4, gathers" },
    { ENGINE, "kda",              0, CLATTN_F16,  16, &odd,    "scan.block_v 32 scan.readers 1 scan.depth 3",  "readers 2, loaders 4, depth 3, stages 2" },
    { ENGINE, "rwkv7",            0, CLATTN_BF16, 16, &tail,   "scan.block_v 32 scan.readers 1",               "readers 2, loaders 4, depth 2, stages 2" },
};

static struct check_device device;

static int open_device(void **state)
{
    (void)state;
    threads_install(test_folder());
    return 0;
}

static void set_point(struct tuned *tuned, const char *point)
{
    char name[32];
    int value, used;

    while (sscanf(point, "%31s %d%n", name, &value, &used) == 2) {
        test_tuned_set(tuned, name, value);
        point += used;
    }
}

static clattn_status run(const struct row *row, struct check_tensors *tensors)
{
    struct tuned tuned = tuned_default(strcmp(row->engine, "none") == 0 ? &solver_chunk_scan : &solver_matrix_scan);
    clattn_context_desc desc = {.log = test_log, .engine = row->engine};
    char text[4096];
    clattn_plan *plan;
    clattn_status status;
    cl_int error;

    memset(&device, 0, sizeof device);
    assert_status(clattn_context_create(&device.context, &desc), SUCCESS);
    assert_status(clattn_context_get(device.context, &device.cl, &device.device), SUCCESS);
    device.queue = opencl_get()->CreateCommandQueue(device.cl, device.device, 0, &error);
    set_point(&tuned, row->point);
    status = plan_create(&plan, device.context, &tensors->desc, &tuned, NULL);
    if (status == CLATTN_SUCCESS) {
        assert_status(clattn_plan_describe(plan, text, sizeof text), SUCCESS);
        if (strstr(text, row->plan) == NULL)
            fail_msg("not \"%s\": %s", row->plan, text);
        status = check_run_plan(tensors, &device, plan, test_log, NULL);
        clattn_plan_destroy(plan);
    }
    clattn_context_destroy(device.context);
    return status;
}

static void test_row(void **state)
{
    const struct row *row = *state;
    struct check_tensors tensors, expected;
    clattn_plan_desc desc = check_case_desc(row->shape, clattn_rule_find(row->rule), row->dtype, CLATTN_MODE_CHUNK);

    assert_non_null(check_variant(desc.rule, row->variant, &desc));
    desc.chunk = row->chunk;
    test_make(&tensors, &desc, row->shape->gates, row->shape->cu_seqlens);
    assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
    test_log_clear();
    threads_clear();
    if (run(row, &tensors) != CLATTN_SUCCESS || *threads_report() != '\0') {
        print_error("%s%s", threads_report(), test_log_text);
        fail_msg("%s, %s", row->rule, row->shape->name);
    }
    test_compare_all(&tensors, &expected, check_bound(row->dtype), row->rule);
    check_free(&tensors);
    check_free(&expected);
}

int main(void)
{
    struct CMUnitTest tests[COUNT(rows)];
    size_t count = 0;

    for (size_t i = 0; i < COUNT(rows); i++)
        tests[count++] = (struct CMUnitTest){rows[i].rule, test_row, NULL, NULL, (void *)(uintptr_t)&rows[i]};
    return _cmocka_run_group_tests("threads", tests, count, open_device, NULL);
}
