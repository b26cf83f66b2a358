/* Programs of a context: held by plans, and a few more for the plans to come. */
#include "harness.h"

#include "clattn_layer.h"
#include "device/context.h"
#include "ledger.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- What is built ------------------------------------------------------------------------------------------------ */

static struct opencl real;
static atomic_int builds; /* from source */

static cl_program CL_API_CALL count_source(cl_context context, cl_uint n, const char **text, const size_t *length,
                                           cl_int *error)
{
    atomic_fetch_add(&builds, 1);
    return real.CreateProgramWithSource(context, n, text, length, error);
}

static int put_functions(void **state)
{
    struct opencl *cl = test_opencl_table();

    real = *cl;
    cl->CreateProgramWithSource = count_source;
    builds = 0;
    return ledger_begin(state);
}

static int take_functions(void **state)
{
    *test_opencl_table() = real;
    return ledger_check(state);
}

/* ---- Plans of many shapes ----------------------------------------------------------------------------------------- */

static clattn_context *open_context(const char *cache_dir)
{
    const clattn_context_desc desc = {
        .cl = test_device.cl, .device = test_device.device, .log = test_log, .cache_dir = cache_dir, .self_test = -1};
    clattn_context *context;

    test_log_clear();
    assert_status(clattn_context_create(&context, &desc), SUCCESS);
    return context;
}

/* Of as many value columns: one kernel, like no other's. */
static clattn_plan_desc shape(int columns)
{
    return (clattn_plan_desc){.rule = CLATTN_RMS_NORM, .seq_len = 3, .heads = 1, .value_dim = columns};
}

static clattn_plan *make_plan(clattn_context *context, int columns)
{
    const clattn_plan_desc desc = shape(columns);
    clattn_plan *plan;

    assert_status(clattn_plan_create(&plan, context, &desc), SUCCESS);
    return plan;
}

/* What a plan is built of anew. */
static int builds_of(clattn_context *context, int columns)
{
    const int before = builds;

    clattn_plan_destroy(make_plan(context, columns));
    return builds - before;
}

static void test_bound(void **state)
{
    enum { SHAPES = 12, UNHELD = 4 };
    clattn_context *context = open_context("");
    const int before = ledger_alive(LEDGER_program);

    (void)state;
    assert_int_equal(context->most_unheld, MOST_UNHELD);
    context->most_unheld = UNHELD;
    for (int i = 1; i <= SHAPES; i++) {
        assert_int_equal(builds_of(context, i), 1);
        assert_in_range(ledger_alive(LEDGER_program) - before, 1, UNHELD);
    }
    for (int i = SHAPES; i > SHAPES - UNHELD; i--)
        assert_int_equal(builds_of(context, i), 0);
    assert_int_equal(builds_of(context, SHAPES - UNHELD), 1);
    assert_int_equal(builds_of(context, SHAPES - UNHELD + 1), 0); /* the last that was used stays */
    assert_int_equal(builds_of(context, SHAPES), 1);              /* the first has gone */
    clattn_context_destroy(context);
}

/* What plans hold stays, and does not count. */
static void test_held(void **state)
{
    enum { PLANS = 3 };
    clattn_context *context = open_context("");
    clattn_plan *plans[PLANS];

    (void)state;
    context->most_unheld = 0;
    for (int i = 0; i < PLANS; i++)
        plans[i] = make_plan(context, i + 1);
    for (int i = 0; i < PLANS; i++)
        assert_int_equal(builds_of(context, i + 1), 0);
    for (int i = 0; i < PLANS; i++)
        clattn_plan_destroy(plans[i]);
    for (int i = 0; i < PLANS; i++)
        assert_int_equal(builds_of(context, i + 1), 1);
    clattn_context_destroy(context);
}

static void *make_plans(void *user)
{
    enum { PLANS = 12, SHAPES = 3 };

    for (int i = 0; i < PLANS; i++) {
        const clattn_plan_desc desc = shape(i % SHAPES + 1);
        clattn_plan *plan;
        if (clattn_plan_create(&plan, user, &desc) != CLATTN_SUCCESS)
            return user;
        clattn_plan_destroy(plan);
    }
    return NULL;
}

/* Programs are let go, found and kept on disk by several threads at once. */
static void test_threads(void **state)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    clattn_context *context = open_context(test_folder());

    (void)state;
    context->most_unheld = 0;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_plans, context), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    clattn_context_destroy(context);
}

/* ---- Programs of the cache that cannot be run --------------------------------------------------------------------- */

/* What fails of the kernels of a program that comes from a binary. */
enum fault { FAULT_NONE, FAULT_CREATE, FAULT_ARGUMENT, FAULT_LAUNCH, FAULT_FINISH, FAULT_COUNT };
static const char *const fault_names[] = {"nothing", "clCreateKernel", "clSetKernelArg", "clEnqueueNDRangeKernel",
                                          "clFinish"};

enum { MOST_BROKEN = 256 };
static enum fault fault;
static const void *broken[MOST_BROKEN]; /* programs and kernels */
static int broken_count, launched, launched_broken;

static int is_broken(const void *object)
{
    for (int i = 0; i < broken_count; i++)
        if (broken[i] == object)
            return 1;
    return 0;
}

static void break_it(const void *object)
{
    assert_true(broken_count < MOST_BROKEN);
    if (object != NULL)
        broken[broken_count++] = object;
}

/* The address comes again for another. */
static void forget(const void *object)
{
    for (int i = 0; i < broken_count; i++)
        if (broken[i] == object)
            broken[i] = NULL;
}

static cl_program CL_API_CALL broken_binary(cl_context context, cl_uint n, const cl_device_id *devices,
                                            const size_t *length, const unsigned char **bytes, cl_int *each,
                                            cl_int *error)
{
    cl_program program = real.CreateProgramWithBinary(context, n, devices, length, bytes, each, error);

    break_it(program);
    return program;
}

static cl_kernel CL_API_CALL broken_create(cl_program program, const char *name, cl_int *error)
{
    cl_kernel kernel;

    if (is_broken(program) && fault == FAULT_CREATE) {
        *error = CL_INVALID_KERNEL_NAME;
        return NULL;
    }
    kernel = real.CreateKernel(program, name, error);
    if (is_broken(program))
        break_it(kernel);
    return kernel;
}

static cl_int CL_API_CALL broken_argument(cl_kernel kernel, cl_uint index, size_t bytes, const void *value)
{
    return is_broken(kernel) && fault == FAULT_ARGUMENT ? CL_INVALID_ARG_INDEX
                                                        : real.SetKernelArg(kernel, index, bytes, value);
}

static cl_int CL_API_CALL broken_launch(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
                                        const size_t *global, const size_t *local, cl_uint n, const cl_event *wait,
                                        cl_event *event)
{
    if (is_broken(kernel) && fault == FAULT_LAUNCH)
        return CL_INVALID_PROGRAM_EXECUTABLE;
    launched++;
    launched_broken += is_broken(kernel);
    return real.EnqueueNDRangeKernel(queue, kernel, dims, offset, global, local, n, wait, event);
}

static cl_int CL_API_CALL broken_finish(cl_command_queue queue)
{
    cl_int error = real.Finish(queue);

    return fault == FAULT_FINISH && launched_broken > 0 ? launched_broken = 0, CL_OUT_OF_RESOURCES : error;
}

static cl_int CL_API_CALL forget_kernel(cl_kernel kernel)
{
    forget(kernel);
    return real.ReleaseKernel(kernel);
}

static cl_int CL_API_CALL forget_program(cl_program program)
{
    forget(program);
    return real.ReleaseProgram(program);
}

static int put_broken(void **state)
{
    struct opencl *cl = test_opencl_table();
    int status = put_functions(state);

    cl->CreateProgramWithBinary = broken_binary;
    cl->CreateKernel = broken_create;
    cl->SetKernelArg = broken_argument;
    cl->EnqueueNDRangeKernel = broken_launch;
    cl->Finish = broken_finish;
    cl->ReleaseKernel = forget_kernel;
    cl->ReleaseProgram = forget_program;
    return status;
}

#define CHUNKS                                                                                                         \
    {                                                                                                                  \
        .rule = CLATTN_RETENTION, .seq_len = 20, .heads = 2, .key_dim = 8, .value_dim = 8, .mode = CLATTN_MODE_CHUNK   \
    }
#define PRODUCTS                                                                                                       \
    {                                                                                                                  \
        .rule = CLATTN_LACT, .seq_len = 12, .heads = 1, .key_dim = 8, .value_dim = 8, .hidden_dim = 8, .mini_batch = 8 \
    }

/* What is run: plans of one kernel and of several, with and without a self-test, on an engine. */
static const struct used {
    const char *name;
    clattn_plan_desc desc;
    int self_test, out_of_order;
    const char *engine;
} uses[] = {
    {"one kernel", {.rule = CLATTN_RMS_NORM, .seq_len = 3, .heads = 1, .value_dim = 8}, -1, 0, "none"},
    {"two kernels", CHUNKS, -1, 0, "none"},
    {"out of order", CHUNKS, -1, 1, "none"},
    {"a self-test", CHUNKS, 1, 0, "none"},
    {"an engine", {TEST_ENGINE_PROBLEM}, -1, 0, "amd_cdna_emulated"},
    {"products", PRODUCTS, -1, 0, "none"},
    {"products, a self-test", PRODUCTS, 1, 0, "none"},
};

/* Where verdicts are kept with programs, a test of a cached program needs that they are forgotten. */
static void drop_verdict(void *user, const struct cache_entry *entry)
{
    char path[512];

    (void)user;
    snprintf(path, sizeof path, "%s/%s%s", test_folder(), entry->key, CACHE_SUFFIX);
    if (strstr(entry->label, "self-test") != NULL)
        remove(path);
}

/* A context of its own: a plan, and one call, which is right. Builds. */
static int use(const struct used *used, const struct check_tensors *expected)
{
    const clattn_context_desc desc = {.device = test_device.device,
                                      .cl = test_device.cl,
                                      .log = test_log,
                                      .cache_dir = test_folder(),
                                      .self_test = used->self_test,
                                      .engine = used->engine};
    struct check_device device = test_device;
    struct check_tensors tensors;
    clattn_plan_info info;
    clattn_plan *plan;
    cl_int error;

    test_log_clear();
    builds = broken_count = 0;
    assert_status(clattn_context_create(&device.context, &desc), SUCCESS);
    if (used->out_of_order)
        device.queue =
            real.CreateCommandQueue(device.cl, device.device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &error);
    test_make(&tensors, &used->desc, CHECK_GATES_USUAL, NULL);
    assert_status(clattn_plan_create(&plan, device.context, &used->desc), SUCCESS);
    assert_status(clattn_plan_get(plan, &info), SUCCESS);
    assert_int_equal(info.engine != NULL, strcmp(used->engine, "none") != 0);
    launched = 0;
    assert_status(check_run_plan(&tensors, &device, plan, test_log, NULL), SUCCESS);
    assert_int_equal(launched, info.launches); /* none twice */
    test_compare_all(&tensors, expected, check_bound(used->desc.dtype), used->name);
    check_free(&tensors);
    clattn_plan_destroy(plan);
    clattn_context_destroy(device.context);
    if (used->out_of_order)
        real.ReleaseCommandQueue(device.queue);
    return builds;
}

/* A program that is built but cannot be run is thrown away, and what is built in its place is kept. */
static void use_broken(const struct used *used, const struct check_tensors *expected)
{
    int all;

    fault = FAULT_NONE;
    cache_clear(test_folder());
    all = use(used, expected);
    assert_true(all > 0);
    assert_int_equal(use(used, expected), 0);
    for (fault = FAULT_NONE + 1; fault < FAULT_COUNT; fault++) {
        if (fault == FAULT_FINISH && used->self_test < 0)
            continue;
        cache_list(test_folder(), drop_verdict, NULL);
        if (use(used, expected) != all)
            fail_msg("%s, %s: %d of %d programs are built again", used->name, fault_names[fault], builds, all);
        assert_logged("of the cache cannot be run");
    }
    fault = FAULT_NONE;
    assert_int_equal(use(used, expected), 0);
    assert_string_equal(test_log_text, "");
}

static void test_broken(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(uses); i++) {
        struct check_tensors tensors, expected;
        test_make(&tensors, &uses[i].desc, CHECK_GATES_USUAL, NULL);
        assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
        use_broken(&uses[i], &expected);
        check_free(&tensors);
        check_free(&expected);
    }
}

/* ---- The same of a layer, whose kernels are those of its rules and products --------------------------------------- */

enum { LAYER_TOKENS = 1, LAYER_WIDTH = 8, LAYER_NUMBERS = 1024 };

static const clattn_layer_desc small_layer = {.layer = CLATTN_LAYER_RETNET,
                                              .seq_len = LAYER_TOKENS,
                                              .hidden = LAYER_WIDTH,
                                              .heads = 1,
                                              .key_dim = LAYER_WIDTH,
                                              .value_dim = LAYER_WIDTH};

static void enqueue_layer(clattn_layer_plan *layer, float y[LAYER_TOKENS * LAYER_WIDTH])
{
    float numbers[LAYER_NUMBERS];
    size_t bytes;

    for (int i = 0; i < LAYER_NUMBERS; i++)
        numbers[i] = (float)(i * 37 % 101) / 50 - 1;
    assert_status(clattn_layer_packed_size(&small_layer, &bytes), SUCCESS);
    assert_true(bytes <= sizeof numbers);
    cl_mem weights = test_buffer(sizeof numbers, numbers);
    cl_mem x = test_buffer(sizeof numbers, numbers), out = test_buffer(sizeof numbers, numbers);
    const clattn_layer_operand operands[] = {{"weights", .buffer = weights}, {"x", .buffer = x}, {"y", .buffer = out}};
    clattn_layer_call call = {.operands = operands, .operand_count = COUNT(operands), .seq_len = CLATTN_WHOLE};
    assert_status(clattn_layer_workspace_size(layer, &bytes), SUCCESS);
    call.workspace = test_buffer(bytes, NULL);
    assert_status(clattn_layer_enqueue(layer, test_device.queue, &call, 0, NULL, NULL), SUCCESS);
    assert_int_equal(real.EnqueueReadBuffer(test_device.queue, out, CL_TRUE, 0,
                                            sizeof(float) * LAYER_TOKENS * LAYER_WIDTH, y, 0, NULL, NULL),
                     CL_SUCCESS);
    real.ReleaseMemObject(weights);
    real.ReleaseMemObject(x);
    real.ReleaseMemObject(out);
    real.ReleaseMemObject(call.workspace);
}

/* A context of its own: a plan of the layer, and one call. Builds. */
static int use_layer(float y[LAYER_TOKENS * LAYER_WIDTH])
{
    const clattn_context_desc desc = {.device = test_device.device,
                                      .cl = test_device.cl,
                                      .log = test_log,
                                      .cache_dir = test_folder(),
                                      .self_test = -1};
    clattn_context *context;
    clattn_layer_plan *layer;

    test_log_clear();
    builds = broken_count = 0;
    assert_status(clattn_context_create(&context, &desc), SUCCESS);
    assert_status(clattn_layer_plan_create(&layer, context, &small_layer, test_log, NULL), SUCCESS);
    enqueue_layer(layer, y);
    clattn_layer_plan_destroy(layer);
    clattn_context_destroy(context);
    return builds;
}

static void test_broken_layer(void **state)
{
    float expected[LAYER_TOKENS * LAYER_WIDTH], y[LAYER_TOKENS * LAYER_WIDTH];

    (void)state;
    fault = FAULT_NONE;
    cache_clear(test_folder());
    assert_true(use_layer(expected) > 0);
    assert_int_equal(use_layer(y), 0);
    fault = FAULT_LAUNCH;
    assert_true(use_layer(y) > 0);
    assert_memory_equal(y, expected, sizeof y);
    assert_logged("of the cache cannot be run");
    fault = FAULT_NONE;
    assert_int_equal(use_layer(y), 0);
    assert_string_equal(test_log_text, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, put_functions, take_functions)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_bound), TEST(test_held), TEST(test_threads),
                                       cmocka_unit_test_setup_teardown(test_broken, put_broken, take_functions),
                                       cmocka_unit_test_setup_teardown(test_broken_layer, put_broken, take_functions)};

    ledger_open();
    return cmocka_run_group_tests(tests, test_device_open, test_device_close) + ledger_close();
}
