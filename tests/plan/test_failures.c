/* What becomes of OpenCL's failures: functions of the loaded table are replaced by ones that fail. Whatever was made
 * until then is released: a ledger is kept of it. */
#include "harness.h"

#include "device/context.h"
#include "ledger.h"

#include <stdio.h>
#include <string.h>

static const clattn_plan_desc desc = {
    .rule = CLATTN_RETENTION, .seq_len = 20, .heads = 2, .key_dim = 8, .value_dim = 8, .mode = CLATTN_MODE_CHUNK};

static cl_int(CL_API_CALL *real_build)(cl_program, cl_uint, const cl_device_id *, const char *, opencl_built, void *);
static int failing_builds;

static cl_int CL_API_CALL fail_first_builds(cl_program program, cl_uint n, const cl_device_id *devices,
                                            const char *options, opencl_built built, void *user)
{
    if (failing_builds == 0)
        return real_build(program, n, devices, options, built, user);
    failing_builds--;
    return CL_BUILD_PROGRAM_FAILURE;
}

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

static cl_int CL_API_CALL fail_write(cl_command_queue queue, cl_mem buffer, cl_bool wait, size_t offset, size_t size,
                                     const void *from, cl_uint n, const cl_event *events, cl_event *event)
{
    (void)queue, (void)buffer, (void)wait, (void)offset, (void)size, (void)from, (void)n, (void)events, (void)event;
    return CL_OUT_OF_HOST_MEMORY;
}

static cl_int CL_API_CALL fail_read(cl_command_queue queue, cl_mem buffer, cl_bool wait, size_t offset, size_t size,
                                    void *to, cl_uint n, const cl_event *events, cl_event *event)
{
    (void)queue, (void)buffer, (void)wait, (void)offset, (void)size, (void)to, (void)n, (void)events, (void)event;
    return -9999; /* NVIDIA's, of a kernel that read or wrote out of bounds */
}

static cl_int CL_API_CALL fail_finish(cl_command_queue queue)
{
    (void)queue;
    return CL_INVALID_COMMAND_QUEUE;
}

static cl_int CL_API_CALL fail_queue_info(cl_command_queue queue, cl_command_queue_info name, size_t size, void *value,
                                          size_t *whole)
{
    (void)queue, (void)name, (void)size, (void)value, (void)whole;
    return CL_INVALID_COMMAND_QUEUE;
}

static cl_int CL_API_CALL fail_device_info(cl_device_id device, cl_device_info name, size_t size, void *value,
                                           size_t *whole)
{
    (void)device, (void)name, (void)size, (void)value, (void)whole;
    return CL_INVALID_DEVICE;
}

/* A compiler's message of 10,000 bytes: what is no UTF-8, what moves the cursor, and a character that has two bytes from
 * any even byte on. */
static cl_int CL_API_CALL odd_build_log(cl_program program, cl_device_id device, cl_program_build_info name,
                                        size_t size, void *value, size_t *whole)
{
    static const char begin[] = "line 1:\r\n\tfehl\xe9 \x1b[31m \xc2\x9b \xe2\x82 \xed\xa0\x80 \xe2\x82\xac\n";
    char text[10000];

    (void)program, (void)device, (void)name;
    for (size_t i = 0; i < sizeof text; i += 2)
        memcpy(text + i, "\xc3\xa9", 2);
    memcpy(text, begin, sizeof begin - 1);
    text[sizeof text - 1] = '\0';
    if (whole != NULL)
        *whole = sizeof text;
    if (value != NULL)
        memcpy(value, text, size < sizeof text ? size : sizeof text);
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

/* ---- One failure in a context's life ------------------------------------------------------------------------------ */

static int calls_before_failure, calls_that_fail;
static cl_int error_of_failure;

/* Whether the call at hand is one that fails. */
static int fails_now(void)
{
    if (calls_before_failure > 0) {
        calls_before_failure--;
        return 0;
    }
    return calls_that_fail > 0 && calls_that_fail-- > 0;
}

static cl_int CL_API_CALL launch_but_once(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
                                          const size_t *global, const size_t *local, cl_uint n, const cl_event *wait,
                                          cl_event *event)
{
    return fails_now() ? error_of_failure : real_launch(queue, kernel, dims, offset, global, local, n, wait, event);
}

static cl_int CL_API_CALL build_but_once(cl_program program, cl_uint n, const cl_device_id *devices,
                                         const char *options, opencl_built built, void *user)
{
    return fails_now() ? error_of_failure : real_build(program, n, devices, options, built, user);
}

/* What is made twice in one context: a plan of a rule, or where that is none, of a product. */
static const struct made_twice {
    const char *name;
    clattn_plan_desc plan;
} made_twice[] = {
    {"matrix_scan",
     {.rule = CLATTN_LINEAR_ATTN,
      .dtype = CLATTN_BF16,
      .seq_len = 70,
      .heads = 1,
      .key_dim = 16,
      .value_dim = 16,
      .mode = CLATTN_MODE_CHUNK}},
    {"flash_matrix",
     {.rule = CLATTN_SOFTMAX_ATTN,
      .dtype = CLATTN_F16,
      .seq_len = 70,
      .heads = 1,
      .key_dim = 16,
      .value_dim = 16,
      .mode = CLATTN_MODE_CHUNK}},
    {"engine", {.rule = CLATTN_RULE_NONE}},
};

/* The solver or provider that is taken, or "" with the status of the failure. */
static clattn_status solver_of(clattn_context *context, const struct made_twice *made, char solver[32])
{
    const clattn_gemm_desc product = {.dtype = CLATTN_BF16, .m = 40, .n = 40, .k = 40};
    clattn_plan_info info = {.solver = ""};
    clattn_gemm_info provided = {.provider = ""};
    clattn_gemm_plan *gemm = NULL;
    clattn_plan *plan = NULL;
    clattn_status status = made->plan.rule == CLATTN_RULE_NONE ? clattn_gemm_plan_create(&gemm, context, &product)
                                                               : clattn_plan_create(&plan, context, &made->plan);

    if (plan != NULL)
        assert_status(clattn_plan_get(plan, &info), SUCCESS);
    if (gemm != NULL)
        assert_status(clattn_gemm_plan_get(gemm, &provided), SUCCESS);
    snprintf(solver, 32, "%s", gemm != NULL ? provided.provider : info.solver);
    clattn_plan_destroy(plan);
    clattn_gemm_plan_destroy(gemm);
    return status;
}

/* One context, in which the call of that number fails while the first plan is made; whether there was such a call. */
static int second_has_engine(const struct made_twice *made, const char *fault, int call, int failing)
{
    const clattn_context_desc fresh = {.cl = test_device.cl,
                                       .device = test_device.device,
                                       .log = test_log,
                                       .cache_dir = "",
                                       .self_test = 1,
                                       .engine = "amd_cdna_emulated"};
    clattn_context *context;
    clattn_status status;
    char solver[32];

    assert_status(clattn_context_create(&context, &fresh), SUCCESS);
    test_log_clear();
    calls_before_failure = call;
    calls_that_fail = failing;
    status = solver_of(context, made, solver);
    if (status != CLATTN_SUCCESS && status != CLATTN_DEVICE_ERROR && status != CLATTN_BUILD_FAILED)
        fail_msg("%s, %s %d: %s", made->name, fault, call, clattn_status_text(status));
    failing -= calls_that_fail;
    calls_that_fail = 0;
    assert_null(strstr(test_log_text, "wrong"));
    assert_int_equal(failing > 0, test_log_text[0] != '\0');
    test_log_clear();
    assert_status(solver_of(context, made, solver), SUCCESS);
    if (strcmp(solver, made->name) != 0)
        fail_msg("%s, %s %d: the second plan has %s\n%s", made->name, fault, call, solver, test_log_text);
    assert_string_equal(test_log_text, "");
    clattn_context_destroy(context);
    return failing > 0;
}

/* Around a test whose failure would leave another function in the table. */
static struct opencl kept_table;

static int keep_table(void **state)
{
    kept_table = *test_opencl_table();
    return ledger_begin(state);
}

static int restore_table(void **state)
{
    *test_opencl_table() = kept_table;
    return ledger_check(state);
}

/* A failure that passes says nothing of an engine, a solver or a provider: the next plan of the context has it. */
static void test_passing_failures(void **state)
{
    static const struct {
        const char *name;
        cl_int error;
        int builds; /* fails so many, else one launch */
    } faults[] = {{"launch", CL_OUT_OF_RESOURCES, 0},
                  {"build for want of resources", CL_OUT_OF_RESOURCES, 2},
                  {"build refused", CL_BUILD_PROGRAM_FAILURE, 2}};
    struct opencl *cl = test_opencl_table();

    (void)state;
    real_launch = cl->EnqueueNDRangeKernel;
    real_build = cl->BuildProgram;
    for (size_t i = 0; i < COUNT(faults); i++) {
        cl->EnqueueNDRangeKernel = faults[i].builds == 0 ? launch_but_once : real_launch;
        cl->BuildProgram = faults[i].builds > 0 ? build_but_once : real_build;
        error_of_failure = faults[i].error;
        for (size_t j = 0; j < COUNT(made_twice); j++)
            for (int call = 0;
                 second_has_engine(&made_twice[j], faults[i].name, call, faults[i].builds > 0 ? faults[i].builds : 1);
                 call++)
                ;
    }
}

/* Where no launch succeeds the engine is tried once a solver, not once for every size that groups may have. */
static void test_probes(void **state)
{
    enum { MANY = 1000, SOLVERS = 3 };
    struct opencl *cl = test_opencl_table();
    clattn_context *context;
    char solver[32];

    (void)state;
    assert_status(clattn_context_create(&context, &(clattn_context_desc){.cl = test_device.cl,
                                                                         .device = test_device.device,
                                                                         .cache_dir = "",
                                                                         .self_test = -1,
                                                                         .engine = "amd_cdna_emulated"}),
                  SUCCESS);
    context->device.serial = 0; /* groups may have several sizes */
    context->device.in_part = 1;
    real_launch = cl->EnqueueNDRangeKernel;
    cl->EnqueueNDRangeKernel = launch_but_once;
    calls_before_failure = 0;
    calls_that_fail = MANY;
    error_of_failure = CL_OUT_OF_RESOURCES;
    assert_status(solver_of(context, &made_twice[0], solver), SUCCESS);
    assert_in_range(MANY - calls_that_fail, 1, SOLVERS);
    calls_that_fail = 0;
    clattn_context_destroy(context);
}

/* ---- The library used ---------------------------------------------------------------------------------------------- */

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
        if (strcmp(#name, "EnqueueReadBuffer") != 0) /* each output is read */                                         \
            assert_int_equal(test_log_count(CLATTN_LOG_ERROR), 1);                                                     \
        assert_int_equal(ledger_check(NULL), 0);                                                                       \
    } while (0)
    WITH_FAULT(BuildProgram, fail_build, BUILD_FAILED, "kernel prepare does not build");
    real_build = real.BuildProgram;
    failing_builds = 2;
    WITH_FAULT(BuildProgram, fail_first_builds, BUILD_FAILED, "kernel prepare does not build");
    WITH_FAULT(CreateProgramWithSource, fail_source, OUT_OF_MEMORY,
               "clCreateProgramWithSource of kernel prepare: CL_OUT_OF_HOST_MEMORY (-6)\n");
    WITH_FAULT(CreateKernel, fail_kernel, OUT_OF_MEMORY,
               "clCreateKernel of kernel prepare: CL_OUT_OF_HOST_MEMORY (-6)\n");
    WITH_FAULT(CreateBuffer, fail_buffer, OUT_OF_MEMORY,
               "clCreateBuffer of 8 bytes: CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)\n"); /* a log-decay of each head */
    WITH_FAULT(CreateCommandQueue, fail_queue, OUT_OF_MEMORY, "clCreateCommandQueue: CL_OUT_OF_HOST_MEMORY (-6)\n");
    WITH_FAULT(GetMemObjectInfo, fail_memory_info, DEVICE_ERROR, "clGetMemObjectInfo: CL_INVALID_MEM_OBJECT (-38)\n");
    WITH_FAULT(GetCommandQueueInfo, fail_queue_info, DEVICE_ERROR,
               "clGetCommandQueueInfo: CL_INVALID_COMMAND_QUEUE (-36)\n");
    WITH_FAULT(GetDeviceInfo, fail_device_info, DEVICE_ERROR, "clGetDeviceInfo: CL_INVALID_DEVICE (-33)\n");
    WITH_FAULT(EnqueueWriteBuffer, fail_write, OUT_OF_MEMORY, " at byte 0: CL_OUT_OF_HOST_MEMORY (-6)\n");
    assert_logged("clEnqueueWriteBuffer of ");
    WITH_FAULT(EnqueueReadBuffer, fail_read, DEVICE_ERROR, " at byte 0: an unnamed OpenCL error (-9999)\n");
    assert_logged("clEnqueueReadBuffer of ");
    WITH_FAULT(Finish, fail_finish, DEVICE_ERROR, "clFinish: CL_INVALID_COMMAND_QUEUE (-36)\n");
    WITH_FAULT(GetKernelWorkGroupInfo, fail_group_info, DEVICE_ERROR,
               "clGetKernelWorkGroupInfo of kernel prepare: CL_INVALID_KERNEL (-48)\n");
    WITH_FAULT(GetKernelWorkGroupInfo, no_group, UNSUPPORTED, "no solver fits");
    WITH_FAULT(CreateContext, fail_context, DEVICE_ERROR, "clCreateContext: CL_DEVICE_NOT_AVAILABLE (-2)\n");
    WITH_FAULT(SetKernelArg, fail_argument, DEVICE_ERROR, " bytes: CL_INVALID_ARG_SIZE (-51)\n");
    assert_logged("clSetKernelArg of kernel prepare, argument ");
    real_launch = real.EnqueueNDRangeKernel;
    launches_before_failure = 0;
    WITH_FAULT(EnqueueNDRangeKernel, fail_launch, DEVICE_ERROR, ": CL_OUT_OF_RESOURCES (-5)\n");
    assert_logged("clEnqueueNDRangeKernel of kernel prepare, global size ");
    assert_logged(" x 1 x 1: CL_OUT_OF_RESOURCES"); /* the local size */
    launches_before_failure = 1;
    WITH_FAULT(EnqueueNDRangeKernel, fail_launch, DEVICE_ERROR, ": CL_OUT_OF_RESOURCES (-5)\n");
    assert_status(use_library(), SUCCESS);
}

/* What a compiler says is UTF-8 without control characters, and of 4000 bytes at most. */
static void test_build_log(void **state)
{
    struct opencl *cl = test_opencl_table();
    const struct opencl real = *cl;
    clattn_status status;
    const char *said, *end;

    (void)state;
    empty_cache();
    cl->BuildProgram = fail_build;
    cl->GetProgramBuildInfo = odd_build_log;
    status = use_library();
    *cl = real;
    assert_status(status, BUILD_FAILED);
    assert_logged("kernel prepare does not build: line 1:\n\tfehl\xef\xbf\xbd [31m  \xef\xbf\xbd\xef\xbf\xbd "
                  "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd \xe2\x82\xac\n\xc3\xa9");
    said = strstr(test_log_text, "line 1:");
    end = strstr(said, "...");
    assert_non_null(end);
    assert_in_range(end - said, 3996, 4000);
    assert_memory_equal(end - 2, "\xc3\xa9", 2);
}

/* A build that fails once, as PoCL's do when processes share its cache, is nobody's error. */
static void test_transient_build(void **state)
{
    struct opencl *cl = test_opencl_table();
    const struct opencl real = *cl;
    clattn_status status;

    (void)state;
    empty_cache();
    real_build = real.BuildProgram;
    failing_builds = 1;
    cl->BuildProgram = fail_first_builds;
    status = use_library();
    *cl = real;
    assert_status(status, SUCCESS);
    assert_int_equal(failing_builds, 0);
    assert_string_equal(test_log_text, "");
}

/* Where a compiler refuses a solver another is taken, and a line says so. */
static void test_other_solver(void **state)
{
    struct opencl *cl = test_opencl_table();
    const struct opencl real = *cl;
    clattn_plan_desc any = desc;
    clattn_context *context;
    clattn_plan *plan;
    clattn_plan_info info;
    clattn_status status;

    (void)state;
    any.mode = CLATTN_MODE_AUTO;
    any.seq_len = 4000;
    test_log_clear();
    empty_cache();
    assert_status(clattn_context_create(&context, &(clattn_context_desc){.cl = test_device.cl,
                                                                         .device = test_device.device,
                                                                         .log = test_log,
                                                                         .cache_dir = ""}),
                  SUCCESS);
    real_build = real.BuildProgram;
    failing_builds = 2; /* each is tried again */
    cl->BuildProgram = fail_first_builds;
    status = clattn_plan_create(&plan, context, &any);
    *cl = real;
    assert_status(status, SUCCESS);
    assert_logged("does not build");
    assert_logged("solver chunk_scan cannot be built: not used");
    assert_int_equal(test_log_count(CLATTN_LOG_ERROR), 0);
    assert_int_equal(test_log_count(CLATTN_LOG_WARNING), 2);
    assert_status(clattn_plan_get(plan, &info), SUCCESS);
    assert_string_equal(info.solver, "recurrent");
    clattn_plan_destroy(plan);
    clattn_context_destroy(context);
}

/* A device that fails while kernels are tried says nothing of them: the next process, on the same cache, has every
 * solver. */
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
            assert_int_equal(test_log_count(CLATTN_LOG_ERROR), 1);
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

/* A store that keeps to the sequence's end in a chunk's first four rows, but not in rows that a whole vector precedes,
 * as a compiler's fault was seen to leave it. */
static cl_program(CL_API_CALL *real_source)(cl_context, cl_uint, const char **, const size_t *, cl_int *);
static cl_program CL_API_CALL spill_rows(cl_context context, cl_uint n, const char **text, const size_t *length,
                                         cl_int *error)
{
    static const char keeps[] = "if (i < chunk.count && c < OUTPUT_COLUMNS",
                      spills[] = "if ((i < chunk.count || (i > 3 && i / 4 == chunk.count / 4)) && c < OUTPUT_COLUMNS";
    const char *at = strstr(text[0], keeps), *one;
    size_t size = strlen(text[0]) + sizeof spills;
    char *copy = malloc(size);
    cl_program program;

    (void)n, (void)length;
    assert_non_null(copy);
    snprintf(copy, size, "%.*s%s%s", at != NULL ? (int)(at - text[0]) : 0, text[0], at != NULL ? spills : "",
             at != NULL ? at + sizeof keeps - 1 : text[0]);
    one = copy;
    program = real_source(context, 1, &one, NULL, error);
    free(copy);
    return program;
}

/* The self-test finds rows that are stored past a sequence's end, though every output is right. */
static void test_spilled_rows(void **state)
{
    struct opencl *cl = test_opencl_table();
    const struct opencl real = *cl;
    const clattn_context_desc fresh = {
        .cl = test_device.cl, .device = test_device.device, .log = test_log, .cache_dir = ""}; /* sources are built */
    clattn_context *context;
    clattn_plan *plan;

    (void)state;
    real_source = real.CreateProgramWithSource;
    for (int spilled = 0; spilled < 2; spilled++) {
        test_log_clear();
        assert_status(clattn_context_create(&context, &fresh), SUCCESS);
        context->self_test = 1;
        cl->CreateProgramWithSource = spilled ? spill_rows : real_source;
        if (clattn_plan_create(&plan, context, &desc) != CLATTN_SUCCESS && !spilled)
            fail_msg("%s", test_log_text);
        assert_int_equal(strstr(test_log_text, "gives wrong results") != NULL, spilled);
        clattn_plan_destroy(plan);
        clattn_context_destroy(context);
        *cl = real;
    }
}

/* ---- Callbacks that call the library ----------------------------------------------------------------------------- */

static struct reentry {
    clattn_context *context;
    clattn_plan *plan;             /* for the log to enqueue, or NULL */
    struct check_tensors *tensors; /* of that plan */
    struct check_device device;
    int depth, entered;
} reentry;

/* Takes every lock there is: a plan of new kernels, one of the same, the probe of an engine, a plan's own. */
static void enter_again(void)
{
    enum { OFTEN = 2 }; /* each time compiles larger kernels */
    const clattn_dtype dtypes[] = {CLATTN_F32, CLATTN_BF16};

    if (reentry.context == NULL || reentry.depth > 0 || reentry.entered == OFTEN)
        return;
    reentry.depth++;
    reentry.entered++;
    for (size_t i = 0; i < COUNT(dtypes); i++) {
        clattn_plan_desc other = desc;
        clattn_plan *plan = NULL;
        other.key_dim = 16 * reentry.entered;
        other.dtype = dtypes[i];
        (void)clattn_plan_create(&plan, reentry.context, &other);
        clattn_plan_destroy(plan);
    }
    if (reentry.plan != NULL)
        check_run_plan(reentry.tensors, &reentry.device, reentry.plan, NULL, NULL);
    reentry.depth--;
}

static void log_again(void *user, clattn_log_level level, const char *message)
{
    test_log(user, level, message);
    if (level != CLATTN_LOG_INFO) /* such as that of a kernel that was compiled */
        enter_again();
}

static size_t load_again(void *user, const char *key, void *data, size_t size)
{
    (void)user, (void)key, (void)data, (void)size;
    enter_again();
    return 0;
}

static void store_again(void *user, const char *key, const void *data, size_t size)
{
    (void)user, (void)key, (void)data, (void)size;
    enter_again();
}

/* A callback that enters the library again; how often it did. A lock that is held hangs this test. */
static int create_again(clattn_context_desc from, clattn_dtype dtype, clattn_status expected)
{
    clattn_plan_desc one = desc;
    clattn_plan *plan = NULL;
    clattn_status status;

    test_log_clear();
    reentry = (struct reentry){.context = NULL};
    from.device = test_device.device;
    from.self_test = -1; /* which would try other solvers where launches fail */
    assert_status(clattn_context_create(&reentry.context, &from), SUCCESS);
    one.dtype = dtype;
    status = clattn_plan_create(&plan, reentry.context, &one);
    clattn_plan_destroy(plan);
    clattn_context_destroy(reentry.context);
    reentry.context = NULL;
    test_assert_status(status, expected, "clattn_plan_create", __FILE__, __LINE__);
    return reentry.entered;
}

static void test_callbacks(void **state)
{
    struct opencl *cl = test_opencl_table();
    const struct opencl real = *cl;
    const clattn_context_desc logged = {.log = log_again}, engine = {.log = log_again, .engine = "nvidia_emulated"},
                              kept = {.blob_load = load_again, .blob_store = store_again};

    (void)state;
    cl->BuildProgram = fail_build;
    assert_true(create_again(logged, CLATTN_F32, CLATTN_BUILD_FAILED) > 0);
    assert_logged("does not build");
    assert_true(create_again(engine, CLATTN_BF16, CLATTN_BUILD_FAILED) > 0); /* the probe's program */
    cl->BuildProgram = real.BuildProgram;
    cl->EnqueueNDRangeKernel = fail_launch;
    launches_before_failure = 0;
    create_again(engine, CLATTN_BF16, CLATTN_SUCCESS);
    assert_logged("not used");
    assert_true(reentry.entered > 1); /* the probe's launch, and its verdict */
    *cl = real;
    assert_true(create_again(kept, CLATTN_F32, CLATTN_SUCCESS) > 1);
}

static void test_enqueue_again(void **state)
{
    struct opencl *cl = test_opencl_table();
    const struct opencl real = *cl;
    const clattn_context_desc logged = {.log = log_again, .device = test_device.device};
    struct check_tensors tensors;
    clattn_status status;
    cl_int error;

    (void)state;
    test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
    reentry = (struct reentry){.tensors = &tensors};
    assert_status(clattn_context_create(&reentry.context, &logged), SUCCESS);
    assert_status(clattn_plan_create(&reentry.plan, reentry.context, &desc), SUCCESS);
    reentry.device = (struct check_device){.context = reentry.context, .device = test_device.device};
    assert_status(clattn_context_get(reentry.context, &reentry.device.cl, NULL), SUCCESS);
    reentry.device.queue = cl->CreateCommandQueue(reentry.device.cl, test_device.device, 0, &error);
    cl->SetKernelArg = fail_argument;
    status = check_run_plan(&tensors, &reentry.device, reentry.plan, NULL, NULL);
    *cl = real;
    assert_status(status, DEVICE_ERROR);
    assert_logged("CL_INVALID_ARG_SIZE");
    assert_int_equal(reentry.entered, 1);
    cl->ReleaseCommandQueue(reentry.device.queue);
    clattn_plan_destroy(reentry.plan);
    clattn_context_destroy(reentry.context);
    reentry.context = NULL;
    check_free(&tensors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_works, ledger_begin, ledger_check),
        cmocka_unit_test_setup_teardown(test_faults, ledger_begin, ledger_check),
        cmocka_unit_test_setup_teardown(test_build_log, ledger_begin, ledger_check),
        cmocka_unit_test_setup_teardown(test_transient_build, ledger_begin, ledger_check),
        cmocka_unit_test_setup_teardown(test_transient_error, ledger_begin, ledger_check),
        cmocka_unit_test_setup_teardown(test_spilled_rows, ledger_begin, ledger_check),
        cmocka_unit_test_setup_teardown(test_passing_failures, keep_table, restore_table),
        cmocka_unit_test_setup_teardown(test_probes, keep_table, restore_table),
        cmocka_unit_test_setup_teardown(test_other_solver, ledger_begin, ledger_check),
        cmocka_unit_test_setup_teardown(test_callbacks, ledger_begin, ledger_check),
        cmocka_unit_test_setup_teardown(test_enqueue_again, ledger_begin, ledger_check),
    };

    ledger_open();
    return cmocka_run_group_tests(tests, test_device_open, test_device_close) + ledger_close();
}
