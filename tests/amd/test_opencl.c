/* The functions of OpenCL on the device of tests/amd: what kernels are told of their launch, and errors. */
#include "harness.h"

#include "device/opencl.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 4096 };

static const struct opencl *cl;
static cl_device_id device;
static cl_context context;
static cl_command_queue queue;

static int open(void **state)
{
    cl_platform_id platform;
    char vendor[64] = "";

    (void)state;
    cl = opencl_get();
    assert_non_null(cl);
    assert_int_equal(cl->GetPlatformIDs(1, &platform, NULL), CL_SUCCESS);
    assert_int_equal(cl->GetDeviceIDs(platform, CL_DEVICE_TYPE_GPU, 1, &device, NULL), CL_SUCCESS);
    cl->GetDeviceInfo(device, CL_DEVICE_VENDOR, sizeof vendor, vendor, NULL);
    assert_string_equal(vendor, "Advanced Micro Devices, Inc.");
    context = cl->CreateContext(NULL, 1, &device, NULL, NULL, NULL);
    queue = cl->CreateCommandQueue(context, device, 0, NULL);
    return context == NULL || queue == NULL;
}

static int close(void **state)
{
    (void)state;
    cl->ReleaseCommandQueue(queue);
    cl->ReleaseContext(context);
    return 0;
}

static cl_program program_of(const char *source)
{
    cl_int error;
    cl_program program = cl->CreateProgramWithSource(context, 1, &source, NULL, &error);

    assert_int_equal(error, CL_SUCCESS);
    return program;
}

/* The kernel "tested" of a source. */
static cl_kernel kernel_of(const char *source)
{
    cl_program program = program_of(source);
    char log[2048] = "";
    cl_kernel kernel;

    if (cl->BuildProgram(program, 1, &device, "-cl-std=CL1.2", NULL, NULL) != CL_SUCCESS) {
        cl->GetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
        fail_msg("%s", log);
    }
    kernel = cl->CreateKernel(program, "tested", NULL);
    assert_non_null(kernel);
    cl->ReleaseProgram(program);
    return kernel;
}

static cl_mem buffer_of(size_t bytes, const void *data)
{
    cl_mem buffer =
        cl->CreateBuffer(context, data != NULL ? CL_MEM_COPY_HOST_PTR : 0, bytes, (void *)(uintptr_t)data, NULL);

    assert_non_null(buffer);
    return buffer;
}

static cl_int launch(cl_kernel kernel, cl_uint dimensions, const size_t *first, const size_t *global,
                     const size_t *local)
{
    return cl->EnqueueNDRangeKernel(queue, kernel, dimensions, first, global, local, 0, NULL, NULL);
}

/* Reads the buffer and releases it. */
static void take(cl_mem buffer, void *to, size_t bytes)
{
    assert_int_equal(cl->EnqueueReadBuffer(queue, buffer, CL_TRUE, 0, bytes, to, 0, NULL, NULL), CL_SUCCESS);
    cl->ReleaseMemObject(buffer);
}

/* ---- What a kernel is told of its launch ------------------------------------------------------------------------- */

static const char ids[] =
    "kernel void tested(global int *to)\n"
    "{\n"
    "    const int at = (get_global_id(2) * get_global_size(1) + get_global_id(1)) * get_global_size(0)\n"
    "                   + get_global_id(0) - get_global_offset(0);\n"
    "    to[8 * at] = get_global_id(0);\n"
    "    to[8 * at + 1] = get_group_id(0) + 100 * get_group_id(1) + 10000 * get_group_id(2);\n"
    "    to[8 * at + 2] = get_local_id(0) + 100 * get_local_id(1) + 10000 * get_local_id(2);\n"
    "    to[8 * at + 3] = get_num_groups(0) + 100 * get_num_groups(1) + 10000 * get_num_groups(2);\n"
    "    to[8 * at + 4] = get_local_size(0) + 100 * get_local_size(1) + 10000 * get_local_size(2);\n"
    "    to[8 * at + 5] = get_global_size(0) + 100 * get_global_size(1) + 10000 * get_global_size(2);\n"
    "    to[8 * at + 6] = get_work_dim();\n"
    "    to[8 * at + 7] = 7;\n"
    "}\n";

static int join(int x, int y, int z)
{
    return x + 100 * y + 10000 * z;
}

static void test_ids(void **state)
{
    static int actual[MOST];
    const size_t first[3] = {5, 0, 0}, global[3] = {16, 6, 4}, local[3] = {8, 3, 2};
    cl_kernel kernel = kernel_of(ids);
    cl_mem to = buffer_of(sizeof actual, NULL);
    int at = 0;

    (void)state;
    assert_int_equal(cl->SetKernelArg(kernel, 0, sizeof to, &to), CL_SUCCESS);
    assert_int_equal(launch(kernel, 3, first, global, local), CL_SUCCESS);
    take(to, actual, sizeof actual);
    for (int z = 0; z < 4; z++)
        for (int y = 0; y < 6; y++)
            for (int x = 0; x < 16; x++) {
                const int expected[8] = {x + 5,
                                         join(x / 8, y / 3, z / 2),
                                         join(x % 8, y % 3, z % 2),
                                         join(2, 2, 2),
                                         join(8, 3, 2),
                                         join(16, 6, 4),
                                         3,
                                         7};
                assert_memory_equal(actual + at, expected, sizeof expected);
                at += 8;
            }
    cl->ReleaseKernel(kernel);
}

/* ---- Arguments of every kind ------------------------------------------------------------------------------------- */

static const char reversed[] = "kernel void tested(global float *to, global const float *from, long4 add, local float "
                               "*shared, local float *more,\n"
                               "                   float factor)\n"
                               "{\n"
                               "    local float own[100];\n"
                               "    const int lane = get_local_id(0), lanes = get_local_size(0);\n"
                               "    own[lane] = from[get_global_id(0)];\n"
                               "    more[lane] = -1;\n"
                               "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                               "    shared[lanes - 1 - lane] = own[lane];\n"
                               "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                               "    to[get_global_id(0)] = factor * shared[lane] + add.w + more[lanes - 1 - lane];\n"
                               "}\n";

static void test_arguments(void **state)
{
    float from[192], actual[192];
    const size_t global = 192, local = 96;
    const cl_long add[4] = {0, 0, 0, 1000};
    const float factor = 2;
    cl_kernel kernel = kernel_of(reversed);
    cl_mem input, output = buffer_of(sizeof actual, NULL);

    (void)state;
    for (int i = 0; i < 192; i++)
        from[i] = (float)i;
    input = buffer_of(sizeof from, from);
    cl->SetKernelArg(kernel, 0, sizeof output, &output);
    cl->SetKernelArg(kernel, 1, sizeof input, &input);
    assert_int_equal(cl->SetKernelArg(kernel, 2, sizeof add[0], add), CL_INVALID_ARG_SIZE);
    assert_int_equal(launch(kernel, 1, NULL, &global, &local), CL_INVALID_KERNEL_ARGS);
    assert_int_equal(cl->SetKernelArg(kernel, 2, sizeof add, add), CL_SUCCESS);
    assert_int_equal(cl->SetKernelArg(kernel, 3, 96 * sizeof(float), NULL), CL_SUCCESS);
    assert_int_equal(cl->SetKernelArg(kernel, 4, 96 * sizeof(float), NULL), CL_SUCCESS);
    assert_int_equal(cl->SetKernelArg(kernel, 5, sizeof factor, &factor), CL_SUCCESS);
    assert_int_equal(cl->SetKernelArg(kernel, 6, sizeof factor, &factor), CL_INVALID_ARG_INDEX);
    assert_int_equal(launch(kernel, 1, NULL, &global, &local), CL_SUCCESS);
    take(output, actual, sizeof actual);
    for (int i = 0; i < 192; i++)
        assert_true(actual[i] == 2 * from[i / 96 * 96 + 95 - i % 96] + 999);
    cl->ReleaseMemObject(input);
    cl->ReleaseKernel(kernel);
}

/* ---- The order of waves ------------------------------------------------------------------------------------------ */

static const char mirrors[] = "kernel void tested(global int *to)\n"
                              "{\n"
                              "    local int shared[256];\n"
                              "    shared[get_local_id(0)] = get_local_id(0);\n"
                              "    BETWEEN;\n"
                              "    to[get_local_id(0)] = shared[255 - get_local_id(0)];\n"
                              "}\n";

static void mirror(const char *between, int reverse, int actual[256])
{
    char source[sizeof mirrors + 100];
    const size_t global = 256;
    cl_mem to = buffer_of(256 * sizeof *actual, NULL);
    cl_kernel kernel;

    snprintf(source, sizeof source, "#define BETWEEN %s\n%s", between, mirrors);
    kernel = kernel_of(source);
    if (reverse)
        setenv("CLATTN_AMD_REVERSE", "1", 1);
    cl->SetKernelArg(kernel, 0, sizeof to, &to);
    assert_int_equal(launch(kernel, 1, NULL, &global, &global), CL_SUCCESS);
    unsetenv("CLATTN_AMD_REVERSE");
    take(to, actual, 256 * sizeof *actual);
    cl->ReleaseKernel(kernel);
}

/* Where a barrier is missing, results depend on the order. */
static void test_order(void **state)
{
    static const char barrier[] = "barrier(CLK_LOCAL_MEM_FENCE)", fence[] = "mem_fence(CLK_LOCAL_MEM_FENCE)";
    int forward[256], reverse[256];

    (void)state;
    mirror(barrier, 0, forward);
    mirror(barrier, 1, reverse);
    for (int i = 0; i < 256; i++)
        assert_true(forward[i] == 255 - i && reverse[i] == 255 - i);
    mirror(fence, 0, forward);
    mirror(fence, 1, reverse);
    assert_true(forward[0] != 255 && reverse[0] == 255);
    assert_true(forward[255] == 0 && reverse[255] != 0);
}

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

static const char copies[] = "kernel void tested(global int *to, global const int *from, int step)\n"
                             "{\n"
                             "    to[get_global_id(0)] = from[get_global_id(0) + step];\n"
                             "}\n";

/* An element beyond either end of a buffer is an error of the launch, after which others run. */
static void test_beyond(void **state)
{
    static const struct {
        int step;
        cl_int error;
    } cases[] = {{0, CL_SUCCESS}, {4, CL_OUT_OF_RESOURCES}, {-2048, CL_OUT_OF_RESOURCES}, {0, CL_SUCCESS}};
    int from[64], actual[64];
    const size_t global = 64;
    cl_kernel kernel = kernel_of(copies);
    cl_mem input, output = buffer_of(sizeof actual, NULL);

    (void)state;
    for (int i = 0; i < 64; i++)
        from[i] = 3 * i;
    input = buffer_of(sizeof from, from);
    cl->SetKernelArg(kernel, 0, sizeof output, &output);
    cl->SetKernelArg(kernel, 1, sizeof input, &input);
    for (size_t i = 0; i < COUNT(cases); i++) {
        cl->SetKernelArg(kernel, 2, sizeof cases[i].step, &cases[i].step);
        assert_int_equal(launch(kernel, 1, NULL, &global, NULL), cases[i].error);
    }
    take(output, actual, sizeof actual);
    assert_memory_equal(actual, from, sizeof from);
    cl->ReleaseMemObject(input);
    cl->ReleaseKernel(kernel);
}

static void test_bad_launches(void **state)
{
    const size_t global = 60, seven = 7, none = 0, many = 512;
    const int step = 0;
    int data[60] = {0};
    cl_kernel kernel = kernel_of(copies);
    cl_mem buffer = buffer_of(sizeof data, data);

    (void)state;
    cl->SetKernelArg(kernel, 0, sizeof buffer, &buffer);
    cl->SetKernelArg(kernel, 1, sizeof buffer, &buffer);
    cl->SetKernelArg(kernel, 2, sizeof step, &step);
    assert_int_equal(launch(kernel, 1, NULL, &global, &seven), CL_INVALID_WORK_GROUP_SIZE);
    assert_int_equal(launch(kernel, 1, NULL, &many, &many), CL_INVALID_WORK_GROUP_SIZE);
    assert_int_equal(launch(kernel, 1, NULL, &none, NULL), CL_INVALID_GLOBAL_WORK_SIZE);
    assert_int_equal(launch(kernel, 0, NULL, &global, NULL), CL_INVALID_WORK_DIMENSION);
    cl->ReleaseMemObject(buffer);
    cl->ReleaseKernel(kernel);
}

static void test_refused_source(void **state)
{
    cl_program program = program_of("kernel void tested(void) { undeclared = 1; }");
    char log[2048] = "";

    (void)state;
    assert_int_equal(cl->BuildProgram(program, 1, &device, "", NULL, NULL), CL_BUILD_PROGRAM_FAILURE);
    assert_int_equal(cl->GetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL), CL_SUCCESS);
    assert_non_null(strstr(log, "undeclared"));
    cl->ReleaseProgram(program);
}

/* ---- Binaries ---------------------------------------------------------------------------------------------------- */

static void test_binary(void **state)
{
    static unsigned char binary[1 << 16];
    unsigned char *to = binary;
    const unsigned char *from = binary;
    cl_program program = program_of(copies);
    cl_kernel kernel;
    size_t size = 0;
    cl_int status;

    (void)state;
    assert_int_equal(cl->BuildProgram(program, 1, &device, "", NULL, NULL), CL_SUCCESS);
    assert_int_equal(cl->GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL), CL_SUCCESS);
    assert_in_range(size, 1, sizeof binary);
    assert_int_equal(cl->GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(unsigned char *), &to, NULL), CL_SUCCESS);
    cl->ReleaseProgram(program);
    program = cl->CreateProgramWithBinary(context, 1, &device, &size, &from, NULL, &status);
    assert_int_equal(status, CL_SUCCESS);
    assert_int_equal(cl->BuildProgram(program, 1, &device, "", NULL, NULL), CL_SUCCESS);
    kernel = cl->CreateKernel(program, "tested", NULL);
    assert_non_null(kernel);
    assert_null(cl->CreateKernel(program, "other", &status));
    assert_int_equal(status, CL_INVALID_KERNEL_NAME);
    cl->ReleaseKernel(kernel);
    cl->ReleaseProgram(program);
    memset(binary, 'x', 100);
    assert_null(cl->CreateProgramWithBinary(context, 1, &device, &size, &from, NULL, &status));
    assert_int_equal(status, CL_INVALID_BINARY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),    cmocka_unit_test(test_arguments),    cmocka_unit_test(test_beyond),
        cmocka_unit_test(test_order),  cmocka_unit_test(test_bad_launches), cmocka_unit_test(test_refused_source),
        cmocka_unit_test(test_binary),
    };

    return cmocka_run_group_tests(tests, open, close);
}
