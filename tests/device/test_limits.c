/* A device whose groups may have fewer work-items in a dimension than in all (CL_DEVICE_MAX_WORK_ITEM_SIZES): no launch has
 * more, and all are right. */
#include "harness.h"

#include "device/context.h"
#include "ledger.h"
#include "lies.h"

#include <stdio.h>
#include <string.h>

static const struct limit {
    const char *lies;
    size_t group, sizes[3];
} limits[] = {
    {"type=gpu;group=4096;items=16,4096,4096", 4096, {16, 4096, 4096}},
    {"type=gpu;group=256;items=4096,1,1", 256, {4096, 1, 1}},
    {"type=gpu;group=4096;items=1,1,1", 4096, {1, 1, 1}},
};
static const struct limit *limit;
static struct opencl real;
static int launches, largest;

static cl_int CL_API_CALL check_launch(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
                                       const size_t *global, const size_t *local, cl_uint n, const cl_event *wait,
                                       cl_event *event)
{
    size_t group = 1;

    for (cl_uint i = 0; i < dims; i++) {
        if (local[i] > limit->sizes[i])
            fail_msg("%s: a launch has %zu work-items in dimension %u", limit->lies, local[i], i);
        group *= local[i];
    }
    assert_true(group <= limit->group);
    launches++;
    largest = (int)group > largest ? (int)group : largest;
    return real.EnqueueNDRangeKernel(queue, kernel, dims, offset, global, local, n, wait, event);
}

/* The first is for an engine. */
static const clattn_plan_desc problems[] = {
    {TEST_ENGINE_PROBLEM},
    {.rule = CLATTN_GLA, .seq_len = 9, .heads = 2, .key_dim = 24, .value_dim = 20, .mode = CLATTN_MODE_RECURRENT},
    {.rule = CLATTN_SOFTMAX_ATTN, .seq_len = 1, .kv_len = 70, .heads = 2, .key_dim = 24, .value_dim = 20},
    {.rule = CLATTN_RMS_NORM, .seq_len = 40, .heads = 1, .value_dim = 300},
};

static void run(const char *engine, size_t problem_count)
{
    struct check_device device;
    clattn_device_info info;
    size_t count;

    assert_status(clattn_devices(&info, 1, &count), SUCCESS);
    setenv("CLATTN_ENGINE", engine, 1);
    assert_status(check_device_open(&device, info.device, test_log, NULL), SUCCESS);
    for (size_t i = 0; i < problem_count; i++) {
        struct check_tensors tensors, expected;
        char what[128];
        snprintf(what, sizeof what, "%s, engine %s: %s", limit->lies, engine, test_rule_name(problems[i].rule));
        test_make(&tensors, &problems[i], CHECK_GATES_USUAL, NULL);
        assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
        test_log_clear();
        assert_status(check_run(&tensors, &device, NULL, 0, test_log, NULL), SUCCESS);
        test_compare_all(&tensors, &expected, check_bound(problems[i].dtype), what);
        check_free(&tensors);
        check_free(&expected);
    }
    check_device_close(&device);
}

static void test_launches(void **state)
{
    struct opencl *cl = test_opencl_table();

    (void)state;
    for (size_t i = 0; i < COUNT(limits); i++) {
        limit = &limits[i];
        launches = largest = 0;
        assert_true(lies_put(cl, limit->lies));
        run("none", COUNT(problems));
        assert_true(launches > 0);
        if (limit->sizes[0] > 1)
            assert_true(largest > 1);
    }
}

/* The probe of an engine, too, whose sub-groups of 64 are more than the device has. */
static void test_probe(void **state)
{
    (void)state;
    limit = &limits[0];
    assert_true(lies_put(test_opencl_table(), limit->lies));
    run("amd_cdna_emulated", 1);
}

static int put_launch(void **state)
{
    real = *test_opencl_table();
    test_opencl_table()->EnqueueNDRangeKernel = check_launch;
    return ledger_begin(state);
}

static int take_launch(void **state)
{
    *test_opencl_table() = real;
    return ledger_check(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, put_launch, take_launch)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_launches), TEST(test_probe)};

    ledger_open();
    return cmocka_run_group_tests(tests, NULL, NULL) + ledger_close();
}
