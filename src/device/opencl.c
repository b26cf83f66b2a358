#include "device/opencl.h"

#include "base/system.h"
#include "base/text.h"

#include <string.h>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
static const char *const sonames[] = {"OpenCL.dll"};
typedef INIT_ONCE once;
#define ONCE INIT_ONCE_STATIC_INIT
#else
#include <pthread.h>
#ifdef __APPLE__
static const char *const sonames[] = {"/System/Library/Frameworks/OpenCL.framework/OpenCL"};
#else
static const char *const sonames[] = {"libOpenCL.so.1", "libOpenCL.so", "/system/vendor/lib64/libOpenCL.so",
                                      "/vendor/lib64/libOpenCL.so"};
#endif
typedef pthread_once_t once;
#define ONCE PTHREAD_ONCE_INIT
#endif

static struct opencl table;
static int loaded;

static void load(void)
{
    void *library = NULL, *symbol;

    for (size_t i = 0; i < sizeof sonames / sizeof *sonames && library == NULL; i++)
        library = library_open(sonames[i]);
    if (library == NULL)
        return;
#define OPENCL_LOAD(result, name, parameters)                                                                          \
    symbol = library_symbol(library, "cl" #name);                                                                      \
    if (symbol == NULL)                                                                                                \
        return;                                                                                                        \
    memcpy(&table.name, &symbol, sizeof symbol);
    OPENCL_FUNCTIONS(OPENCL_LOAD)
#undef OPENCL_LOAD
    loaded = 1;
}

#ifdef _WIN32
static BOOL CALLBACK load_once(INIT_ONCE *state, void *unused, void **context)
{
    (void)state, (void)unused, (void)context;
    load();
    return TRUE;
}
#endif

const struct opencl *opencl_get(void)
{
    static once state = ONCE;

#ifdef _WIN32
    InitOnceExecuteOnce(&state, load_once, NULL, NULL);
#else
    pthread_once(&state, load);
#endif
    return loaded ? &table : NULL;
}

const char *opencl_error_name(cl_int error)
{
    static const struct {
        cl_int error;
        const char *name;
    } names[] = {
/* clang-format off */
#define ERROR_NAME(name) {name, #name}
        ERROR_NAME(CL_DEVICE_NOT_FOUND),           ERROR_NAME(CL_DEVICE_NOT_AVAILABLE),
        ERROR_NAME(CL_COMPILER_NOT_AVAILABLE),     ERROR_NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE),
        ERROR_NAME(CL_OUT_OF_RESOURCES),           ERROR_NAME(CL_OUT_OF_HOST_MEMORY),
        ERROR_NAME(CL_BUILD_PROGRAM_FAILURE),      ERROR_NAME(CL_MAP_FAILURE),
        ERROR_NAME(CL_INVALID_VALUE),              ERROR_NAME(CL_INVALID_DEVICE),
        ERROR_NAME(CL_INVALID_CONTEXT),            ERROR_NAME(CL_INVALID_COMMAND_QUEUE),
        ERROR_NAME(CL_INVALID_MEM_OBJECT),         ERROR_NAME(CL_INVALID_BINARY),
        ERROR_NAME(CL_INVALID_BUILD_OPTIONS),      ERROR_NAME(CL_INVALID_PROGRAM),
        ERROR_NAME(CL_INVALID_PROGRAM_EXECUTABLE), ERROR_NAME(CL_INVALID_KERNEL_NAME),
        ERROR_NAME(CL_INVALID_KERNEL),             ERROR_NAME(CL_INVALID_ARG_INDEX),
        ERROR_NAME(CL_INVALID_ARG_VALUE),          ERROR_NAME(CL_INVALID_ARG_SIZE),
        ERROR_NAME(CL_INVALID_KERNEL_ARGS),        ERROR_NAME(CL_INVALID_WORK_DIMENSION),
        ERROR_NAME(CL_INVALID_WORK_GROUP_SIZE),    ERROR_NAME(CL_INVALID_WORK_ITEM_SIZE),
        ERROR_NAME(CL_INVALID_GLOBAL_OFFSET),      ERROR_NAME(CL_INVALID_EVENT_WAIT_LIST),
        ERROR_NAME(CL_INVALID_EVENT),              ERROR_NAME(CL_INVALID_OPERATION),
        ERROR_NAME(CL_INVALID_BUFFER_SIZE),        ERROR_NAME(CL_INVALID_GLOBAL_WORK_SIZE),
        ERROR_NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
        ERROR_NAME(CL_INVALID_PLATFORM),           ERROR_NAME(CL_INVALID_QUEUE_PROPERTIES),
        ERROR_NAME(CL_INVALID_HOST_PTR),           ERROR_NAME(CL_INVALID_KERNEL_DEFINITION),
        ERROR_NAME(CL_INVALID_PROPERTY),           ERROR_NAME(CL_INVALID_DEVICE_TYPE),
        ERROR_NAME(CL_MEM_COPY_OVERLAP),           ERROR_NAME(CL_MISALIGNED_SUB_BUFFER_OFFSET),
        ERROR_NAME(CL_COMPILE_PROGRAM_FAILURE),    ERROR_NAME(CL_LINKER_NOT_AVAILABLE),
        ERROR_NAME(CL_LINK_PROGRAM_FAILURE),       ERROR_NAME(CL_PROFILING_INFO_NOT_AVAILABLE),
#undef ERROR_NAME
        /* clang-format on */
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].error == error)
            return names[i].name;
    return "an unnamed OpenCL error";
}

clattn_status opencl_failed(const struct log *log, cl_int error, const char *format, ...)
{
    int memory =
        error == CL_OUT_OF_HOST_MEMORY || error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_INVALID_BUFFER_SIZE;
    char call[256];
    va_list args;

    va_start(args, format);
    text_vfit(call, sizeof call, format, args);
    va_end(args);
    log_line(log, CLATTN_LOG_ERROR, "%s: %s (%d)", call, opencl_error_name(error), (int)error);
    return memory ? CLATTN_OUT_OF_MEMORY : CLATTN_DEVICE_ERROR;
}

clattn_status opencl_create_queue(const struct log *log, const struct opencl *cl, cl_context context,
                                  cl_device_id device, cl_command_queue_properties properties, cl_command_queue *queue)
{
    cl_int error = CL_SUCCESS;

    *queue = cl->CreateCommandQueue(context, device, properties, &error);
    return *queue != NULL ? CLATTN_SUCCESS : opencl_failed(log, error, "clCreateCommandQueue");
}

clattn_status opencl_create_buffer(const struct log *log, const struct opencl *cl, cl_context context,
                                   cl_mem_flags flags, size_t bytes, void *host, cl_mem *buffer)
{
    cl_int error = CL_SUCCESS;

    *buffer = cl->CreateBuffer(context, flags, bytes, host, &error);
    return *buffer != NULL ? CLATTN_SUCCESS : opencl_failed(log, error, "clCreateBuffer of %zu bytes", bytes);
}

clattn_status opencl_create_kernel(const struct log *log, const struct opencl *cl, cl_program program, const char *name,
                                   cl_kernel *kernel)
{
    cl_int error = CL_SUCCESS;

    *kernel = cl->CreateKernel(program, name, &error);
    return *kernel != NULL ? CLATTN_SUCCESS : opencl_failed(log, error, "clCreateKernel of kernel %s", name);
}

clattn_status opencl_write(const struct log *log, const struct opencl *cl, cl_command_queue queue, cl_mem buffer,
                           size_t offset, size_t bytes, const void *from)
{
    cl_int error = cl->EnqueueWriteBuffer(queue, buffer, CL_TRUE, offset, bytes, from, 0, NULL, NULL);

    return error == CL_SUCCESS
               ? CLATTN_SUCCESS
               : opencl_failed(log, error, "clEnqueueWriteBuffer of %zu bytes at byte %zu", bytes, offset);
}

clattn_status opencl_read(const struct log *log, const struct opencl *cl, cl_command_queue queue, cl_mem buffer,
                          size_t offset, size_t bytes, void *to)
{
    cl_int error = cl->EnqueueReadBuffer(queue, buffer, CL_TRUE, offset, bytes, to, 0, NULL, NULL);

    return error == CL_SUCCESS
               ? CLATTN_SUCCESS
               : opencl_failed(log, error, "clEnqueueReadBuffer of %zu bytes at byte %zu", bytes, offset);
}

clattn_status opencl_set_argument(const struct log *log, const struct opencl *cl, struct opencl_kernel kernel,
                                  cl_uint index, size_t bytes, const void *value)
{
    cl_int error = cl->SetKernelArg(kernel.kernel, index, bytes, value);

    return error == CL_SUCCESS ? CLATTN_SUCCESS
                               : opencl_failed(log, error, "clSetKernelArg of kernel %s, argument %u of %zu bytes",
                                               kernel.name, (unsigned)index, bytes);
}

clattn_status opencl_launch(const struct log *log, const struct opencl *cl, cl_command_queue queue,
                            struct opencl_kernel kernel, const size_t global[3], const size_t *local, cl_uint n_wait,
                            const cl_event *wait, cl_event *event)
{
    cl_int error = cl->EnqueueNDRangeKernel(queue, kernel.kernel, 3, NULL, global, local, n_wait, wait, event);
    char group[64] = "the device's choice";

    if (error == CL_SUCCESS)
        return CLATTN_SUCCESS;
    if (local != NULL)
        text_fit(group, sizeof group, "%zu x %zu x %zu", local[0], local[1], local[2]);
    return opencl_failed(log, error, "clEnqueueNDRangeKernel of kernel %s, global size %zu x %zu x %zu, local size %s",
                         kernel.name, global[0], global[1], global[2], group);
}
