/* What becomes of OpenCL's failures: functions of the loaded table are replaced by ones that fail. Whatever was made
 * until then is released: a ledger is kept of it. */
#include "harness.h"

#include "device/context.h"
#include "ledger.h"

#include <stdio.h>
#include <string.h>

static const clattn_plan_desc desc = {
    .rule = CLATTN_RETENTION, .seq_len = 20, .heads = 2, .key_dim = 8, .value_dim = 8, .mode = CLATTN_MODE_CHUNK};

static cl_int CL_API_CALL fail_build(cl_program program, cl_uint n, const cl_device_id *devices, const char *options,
                                     opencl_built built, void *user)
{
    (void)program, (void)n, (void)devices, (void)options, (void)built, (void)user;
    return CL_BUILD_PROGRAM_FAILURE;
}

static cl_program CL_API_CALL fail_source(cl_context context, cl_uint n, const char **text, const size_t *length,
                                          cl_int *error)
{
    (void)context, (void)n, (void)text, (void)length;
    *error = CL_OUT_OF_HOST_MEMORY;
    return NULL;
}

static cl_kernel CL_API_CALL fail_kernel(cl_program program, const char *name, cl_int *error)
{
    (void)program, (void)name;
    *error = CL_OUT_OF_HOST_MEMORY;
    return NULL;
}

static cl_mem CL_API_CALL fail_buffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host, cl_int *error)
{
    (void)context, (void)flags, (void)bytes, (void)host;
    *error = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return NULL;
}

static cl_context CL_API_CALL fail_context(const cl_context_properties *properties, cl_uint n,
                                           const cl_device_id *devices, opencl_notify notify, void *user, cl_int *error)
{
    (void)properties, (void)n, (void)devices, (void)notify, (void)user;
    *error = CL_DEVICE_NOT_AVAILABLE;
    return NULL;
}

static cl_int CL_API_CALL fail_argument(cl_kernel kernel, cl_uint index, size_t bytes, const void *value)
{
    (void)kernel, (void)index, (void)bytes, (void)value;
    return CL_INVALID_ARG_SIZE;
}

static cl_command_queue CL_API_CALL fail_queue(cl_context context, cl_device_id device,
                                               cl_command_queue_properties properties, cl_int *error)
{
    (void)context, (void)device, (void)properties;
    *error = CL_OUT_OF_HOST_MEMORY;
    return NULL;
}

static cl_int CL_API_CALL fail_memory_info(cl_mem buffer, cl_mem_info name, size_t size, void *value, size_t *whole)
{
    (void)buffer, (void)name, (void)size, (void)value, (void)whole;
    return CL_INVALID_MEM_OBJECT;
}

static cl_int CL_API_CALL fail_group_info(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info name,
                                          size_t size, void *value, size_t *whole)
{
    (void)kernel, (void)device, (void)name, (void)size, (void)value, (void)whole;
    return CL_INVALID_KERNEL;
}

/* A device that runs no kernel in any group */
static cl_int CL_API_CALL no_group(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info name, size_t size,
                                   void *value, size_t *whole)
{
    (void)kernel, (void)device, (void)name, (void)whole;
    memset(value, 0, size);
    return CL_SUCCESS;
}

static int launches_before_failure;
static cl_int(CL_API_CALL *real_launch)(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *,
                                        const size_t *, cl_uint, const cl_event *, cl_event *);

static cl_int CL_API_CALL fail_launch(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
                                      const size_t *global, const size_t *local, cl_uint n, const cl_event *wait,
                                      cl_event *event)
{
    if (launches_before_failure-- > 0)
        return real_launch(queue, kernel, dims, offset, global, local, n, wait, event);
    return CL_OUT_OF_RESOURCES;
}

/* A whole use of the library: context, plan, call; the first status that is not success. */
static clattn_status use_library(void)
{
    struct check_device device;
    struct check_tensors tensors;
    clattn_status status;

    test_log_clear();
    TRY(check_make(&tensors, &desc, 1, CHECK_GATES_USUAL, NULL));
    status = check_device_open(&device, test_device.device, test_log, NULL);
    if (status == CLATTN_SUCCESS)
        status = check_run(&tensors, &device, NULL, 0, test_log, NULL);
    check_device_close(&device);
    check_free(&tensors);
    return status;
}

/* Where there is a cache: an empty one of the test's own, so that programs are built. */
static void empty_cache(void)
{
    const char *given = getenv("CLATTN_CACHE_DIR");
    char folder[512];

    if (given != NULL && *given == '\0')
        return;
    snprintf(folder, sizeof folder, "%s/faults", test_folder());
    cache_clear(folder);
    setenv("CLATTN_CACHE_DIR", folder, 1);
}

static void test_works(void **state)
{
    (void)state;
    assert_status(use_library(), SUCCESS);
}

static void test_faults(void **state)
{
    struct opencl *cl = test_opencl_table();
    const struct opencl real = *cl;

    (void)state;
#define WITH_FAULT(name, replacement, status, text)                                                                    \
    do {                                                                                                               \
        clattn_status actual;                                                                                          \
        empty_cache();                                                                                                 \
        cl->name = replacement;                                                                                        \
        actual = use_library();                                                                                        \
        *cl = real;                                                                                                    \
        assert_status(actual, status);                                                                                 \
        assert_logged(text);                                                                                           \
        assert_int_equal(ledger_check(NULL), 0);                                                                       \
    } while (0)
    WITH_FAULT(BuildProgram, fail_build, BUILD_FAILED, "kernel prepare does not build");
    WITH_FAULT(CreateProgramWithSource, fail_source, OUT_OF_MEMORY, "CL_OUT_OF_HOST_MEMORY");
    WITH_FAULT(CreateKernel, fail_kernel, OUT_OF_MEMORY, "CL_OUT_OF_HOST_MEMORY");
    WITH_FAULT(CreateBuffer, fail_buffer, OUT_OF_MEMORY, "CL_MEM_OBJECT_ALLOCATION_FAILURE");
    WITH_FAULT(CreateCommandQueue, fail_queue, OUT_OF_MEMORY, "CL_OUT_OF_HOST_MEMORY");
    WITH_FAULT(GetMemObjectInfo, fail_memory_info, DEVICE_ERROR, "CL_INVALID_MEM_OBJECT");
    WITH_FAULT(GetKernelWorkGroupInfo, fail_group_info, DEVICE_ERROR, "CL_INVALID_KERNEL");
    WITH_FAULT(GetKernelWorkGroupInfo, no_group, UNSUPPORTED, "no solver fits");
    WITH_FAULT(CreateContext, fail_context, DEVICE_ERROR, "CL_DEVICE_NOT_AVAILABLE");
    WITH_FAULT(SetKernelArg, fail_argument, DEVICE_ERROR, "CL_INVALID_ARG_SIZE");
    real_launch = real.EnqueueNDRangeKernel;
    launches_before_failure = 0;
    WITH_FAULT(EnqueueNDRangeKernel, fail_launch, DEVICE_ERROR, "CL_OUT_OF_RESOURCES");
    launches_before_failure = 1;
    WITH_FAULT(EnqueueNDRangeKernel, fail_launch, DEVICE_ERROR, "CL_OUT_OF_RESOURCES");
    assert_status(use_library(), SUCCESS);
}

/* A device that fails while kernels are tried says nothing of them: the next process, on the same cache, has every solver. */
static void test_transient_error(void **state)
{
    struct opencl *cl = test_opencl_table();
    const struct opencl real = *cl;
    char cache_dir[512], text[1024];
    clattn_context *context;
    clattn_plan *plan;

    (void)state;
    snprintf(cache_dir, sizeof cache_dir, "%s/transient", test_folder());
    cache_clear(cache_dir);
    for (int broken = 1; broken >= 0; broken--) {
        const clattn_context_desc fresh = {
            .cl = test_device.cl, .device = test_device.device, .log = test_log, .cache_dir = cache_dir};
        test_log_clear();
        assert_status(clattn_context_create(&context, &fresh), SUCCESS);
        context->self_test = 1;
        real_launch = real.EnqueueNDRangeKernel;
        launches_before_failure = 0;
        cl->EnqueueNDRangeKernel = broken ? fail_launch : real.EnqueueNDRangeKernel;
        if (broken) {
            assert_status(clattn_plan_create(&plan, context, &desc), DEVICE_ERROR);
            assert_logged("CL_OUT_OF_RESOURCES");
            assert_null(strstr(test_log_text, "wrong results"));
        } else {
            assert_status(clattn_plan_create(&plan, context, &desc), SUCCESS);
            assert_status(clattn_plan_describe(plan, text, sizeof text), SUCCESS);
            assert_non_null(strstr(text, "solver chunk_scan"));
            assert_string_equal(test_log_text, "");
        }
        clattn_plan_destroy(plan);
        clattn_context_destroy(context);
        *cl = real;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_works, ledger_begin, ledger_check),
        cmocka_unit_test_setup_teardown(test_faults, ledger_begin, ledger_check),
        cmocka_unit_test_setup_teardown(test_transient_error, ledger_begin, ledger_check),
    };

    ledger_open();
    return cmocka_run_group_tests(tests, test_device_open, test_device_close) + ledger_close();
}
