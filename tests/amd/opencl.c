/* A libOpenCL.so.1 with the functions that clattn calls (src/device/opencl.h). Its device is an AMD GPU that is not
 * there: kernels are compiled for it, and their machine code is interpreted. What is enqueued is done at once. */
#define _GNU_SOURCE
#include "answers.h"
#include "compile.h"
#include "kernel.h"
#include "buffer.h"
#include "device/opencl.h"
#include "base/text.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ANSWER(type, what) answer(&(type){what}, sizeof(type), size, value, needed)

/* ---- The device -------------------------------------------------------------------------------------------------- */

struct _cl_platform_id {
    int unused;
};

struct _cl_device_id {
    const char *name;
    cl_uint compute_units; /* as AMD's driver counts them */
};

static struct _cl_platform_id only_platform;

static cl_device_id only_device(void)
{
    static struct _cl_device_id devices[] = {
        {"gfx1100", 48}, {"gfx1201", 32}, {"gfx1030", 40}, {"gfx942", 304}, {"gfx90a", 104}};
    const char *name = getenv("CLATTN_AMD_TARGET");

    for (size_t i = 0; name != NULL && i < sizeof devices / sizeof *devices; i++)
        if (strcmp(devices[i].name, name) == 0)
            return &devices[i];
    if (name != NULL)
        fprintf(stderr, "amd: CLATTN_AMD_TARGET: there is no device %s; this is %s\n", name, devices[0].name);
    return &devices[0];
}

CL_API_ENTRY cl_int CL_API_CALL clGetPlatformIDs(cl_uint count, cl_platform_id *platforms, cl_uint *found)
{
    if (count > 0 && platforms != NULL)
        platforms[0] = &only_platform;
    if (found != NULL)
        *found = 1;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t size,
                                                  void *value, size_t *needed)
{
    (void)platform;
    switch (what) {
    case CL_PLATFORM_NAME: return answer_text("AMD machine code, interpreted", size, value, needed);
    case CL_PLATFORM_VERSION: return answer_text("OpenCL 2.1 clattn tests/amd", size, value, needed);
    case CL_PLATFORM_VENDOR: return answer_text("clattn", size, value, needed);
    case CL_PLATFORM_PROFILE: return answer_text("FULL_PROFILE", size, value, needed);
    case CL_PLATFORM_EXTENSIONS: return answer_text("", size, value, needed);
    }
    return CL_INVALID_VALUE;
}

CL_API_ENTRY cl_int CL_API_CALL clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint count,
                                               cl_device_id *devices, cl_uint *found)
{
    (void)platform;
    if ((type & (CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT)) == 0)
        return CL_DEVICE_NOT_FOUND;
    if (count > 0 && devices != NULL)
        devices[0] = only_device();
    if (found != NULL)
        *found = 1;
    return CL_SUCCESS;
}

enum { AMD = 0x1002, MOST_GROUP = 256, LOCAL_BYTES = 64 << 10, MEGAHERTZ = 2000 };
static const cl_ulong global_bytes = (cl_ulong)16 << 30, most_buffer = (cl_ulong)4 << 30;

CL_API_ENTRY cl_int CL_API_CALL clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void *value,
                                                size_t *needed)
{
    static const size_t most_items[3] = {1024, 1024, 1024};

    switch (what) {
    case CL_DEVICE_PLATFORM: return ANSWER(cl_platform_id, &only_platform);
    case CL_DEVICE_NAME: return answer_text(device->name, size, value, needed);
    case CL_DEVICE_VENDOR: return answer_text("Advanced Micro Devices, Inc.", size, value, needed);
    case CL_DEVICE_VERSION: return answer_text("OpenCL 2.0", size, value, needed);
    case CL_DEVICE_OPENCL_C_VERSION: return answer_text("OpenCL C 2.0", size, value, needed);
    case CL_DRIVER_VERSION: return answer_text("clang 19, interpreted", size, value, needed);
    case CL_DEVICE_EXTENSIONS: return answer_text("cl_khr_fp16 cl_khr_fp64", size, value, needed);
    case CL_DEVICE_TYPE: return ANSWER(cl_device_type, CL_DEVICE_TYPE_GPU);
    case CL_DEVICE_VENDOR_ID: return ANSWER(cl_uint, AMD);
    case CL_DEVICE_AVAILABLE:
    case CL_DEVICE_COMPILER_AVAILABLE: return ANSWER(cl_bool, CL_TRUE);
    case CL_DEVICE_HOST_UNIFIED_MEMORY: return ANSWER(cl_bool, CL_FALSE);
    case CL_DEVICE_MAX_COMPUTE_UNITS: return ANSWER(cl_uint, device->compute_units);
    case CL_DEVICE_MAX_CLOCK_FREQUENCY: return ANSWER(cl_uint, MEGAHERTZ);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE: return ANSWER(size_t, MOST_GROUP);
    case CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS: return ANSWER(cl_uint, 3);
    case CL_DEVICE_MAX_WORK_ITEM_SIZES: return answer(most_items, sizeof most_items, size, value, needed);
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN: return ANSWER(cl_uint, 8 * BUFFER_ALIGNMENT);
    case CL_DEVICE_LOCAL_MEM_SIZE: return ANSWER(cl_ulong, LOCAL_BYTES);
    case CL_DEVICE_GLOBAL_MEM_SIZE: return ANSWER(cl_ulong, global_bytes);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE: return ANSWER(cl_ulong, most_buffer);
    }
    return CL_INVALID_VALUE;
}

/* ---- Contexts and queues ----------------------------------------------------------------------------------------- */

struct _cl_context {
    atomic_int references;
};

struct _cl_command_queue {
    cl_context context;
    cl_command_queue_properties properties;
};

/* An object of so many bytes. NULL, and the error in *error: there is no memory. */
static void *new_object(size_t bytes, cl_int *error)
{
    void *object = calloc(1, bytes);

    if (error != NULL)
        *error = object != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    return object;
}

static void *refuse(cl_int reason, cl_int *error)
{
    if (error != NULL)
        *error = reason;
    return NULL;
}

CL_API_ENTRY cl_context CL_API_CALL clCreateContext(const cl_context_properties *properties, cl_uint count,
                                                    const cl_device_id *devices, opencl_notify notify, void *user,
                                                    cl_int *error)
{
    cl_context context;

    (void)properties, (void)notify, (void)user;
    if (count != 1 || devices == NULL)
        return refuse(CL_INVALID_VALUE, error);
    context = new_object(sizeof *context, error);
    if (context != NULL)
        context->references = 1;
    return context;
}

CL_API_ENTRY cl_int CL_API_CALL clRetainContext(cl_context context)
{
    atomic_fetch_add(&context->references, 1);
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseContext(cl_context context)
{
    if (atomic_fetch_sub(&context->references, 1) == 1)
        free(context);
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clGetContextInfo(cl_context context, cl_context_info what, size_t size, void *value,
                                                 size_t *needed)
{
    (void)context;
    switch (what) {
    case CL_CONTEXT_DEVICES: return ANSWER(cl_device_id, only_device());
    case CL_CONTEXT_NUM_DEVICES: return ANSWER(cl_uint, 1);
    }
    return CL_INVALID_VALUE;
}

CL_API_ENTRY cl_command_queue CL_API_CALL clCreateCommandQueue(cl_context context, cl_device_id device,
                                                               cl_command_queue_properties properties, cl_int *error)
{
    cl_command_queue queue = new_object(sizeof *queue, error);

    (void)device;
    if (queue == NULL)
        return NULL;
    clRetainContext(context);
    *queue = (struct _cl_command_queue){context, properties};
    return queue;
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseCommandQueue(cl_command_queue queue)
{
    clReleaseContext(queue->context);
    free(queue);
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clGetCommandQueueInfo(cl_command_queue queue, cl_command_queue_info what, size_t size,
                                                      void *value, size_t *needed)
{
    switch (what) {
    case CL_QUEUE_CONTEXT: return ANSWER(cl_context, queue->context);
    case CL_QUEUE_DEVICE: return ANSWER(cl_device_id, only_device());
    case CL_QUEUE_PROPERTIES: return ANSWER(cl_command_queue_properties, queue->properties);
    }
    return CL_INVALID_VALUE;
}

CL_API_ENTRY cl_int CL_API_CALL clFlush(cl_command_queue queue)
{
    (void)queue;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clFinish(cl_command_queue queue)
{
    (void)queue;
    return CL_SUCCESS;
}

/* ---- Events: of what is complete --------------------------------------------------------------------------------- */

struct _cl_event {
    cl_ulong begin, end; /* in nanoseconds */
    int profiled;
};

static cl_ulong now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (cl_ulong)time.tv_sec * 1000000000 + (cl_ulong)time.tv_nsec;
}

/* Passes the error of a command that began then, and makes its event where one is wanted. */
static cl_int completed(cl_command_queue queue, cl_ulong begin, cl_int error, cl_event *event)
{
    if (error != CL_SUCCESS || event == NULL)
        return error;
    *event = new_object(sizeof **event, &error);
    if (*event != NULL)
        **event = (struct _cl_event){begin, now(), (queue->properties & CL_QUEUE_PROFILING_ENABLE) != 0};
    return error;
}

CL_API_ENTRY cl_int CL_API_CALL clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint n_wait,
                                                            const cl_event *wait, cl_event *event)
{
    (void)n_wait, (void)wait;
    return completed(queue, now(), CL_SUCCESS, event);
}

CL_API_ENTRY cl_int CL_API_CALL clEnqueueBarrierWithWaitList(cl_command_queue queue, cl_uint n_wait,
                                                             const cl_event *wait, cl_event *event)
{
    return clEnqueueMarkerWithWaitList(queue, n_wait, wait, event);
}

CL_API_ENTRY cl_int CL_API_CALL clWaitForEvents(cl_uint count, const cl_event *events)
{
    return count > 0 && events != NULL ? CL_SUCCESS : CL_INVALID_VALUE;
}

CL_API_ENTRY cl_int CL_API_CALL clGetEventProfilingInfo(cl_event event, cl_profiling_info what, size_t size,
                                                        void *value, size_t *needed)
{
    if (!event->profiled)
        return CL_PROFILING_INFO_NOT_AVAILABLE;
    return what == CL_PROFILING_COMMAND_END ? ANSWER(cl_ulong, event->end) : ANSWER(cl_ulong, event->begin);
}

CL_API_ENTRY cl_int CL_API_CALL clSetEventCallback(cl_event event, cl_int type, opencl_done done, void *user)
{
    (void)type;
    done(event, CL_COMPLETE, user);
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseEvent(cl_event event)
{
    free(event);
    return CL_SUCCESS;
}

/* ---- Buffers ----------------------------------------------------------------------------------------------------- */

struct _cl_mem {
    atomic_int references;
    cl_context context;
    struct buffer pages;
};

CL_API_ENTRY cl_mem CL_API_CALL clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host,
                                               cl_int *error)
{
    const int needs_host = (flags & (CL_MEM_COPY_HOST_PTR | CL_MEM_USE_HOST_PTR)) != 0;
    cl_mem buffer;

    if (size == 0 || size > most_buffer)
        return refuse(CL_INVALID_BUFFER_SIZE, error);
    if (needs_host != (host != NULL))
        return refuse(CL_INVALID_HOST_PTR, error);
    buffer = new_object(sizeof *buffer, error);
    if (buffer == NULL || !buffer_map(&buffer->pages, size, (flags & CL_MEM_USE_HOST_PTR) != 0 ? host : NULL)) {
        free(buffer);
        return refuse(CL_MEM_OBJECT_ALLOCATION_FAILURE, error);
    }
    if ((flags & CL_MEM_COPY_HOST_PTR) != 0)
        memcpy(buffer->pages.base, host, size);
    clRetainContext(context);
    buffer->references = 1;
    buffer->context = context;
    return buffer;
}

CL_API_ENTRY cl_int CL_API_CALL clRetainMemObject(cl_mem buffer)
{
    atomic_fetch_add(&buffer->references, 1);
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseMemObject(cl_mem buffer)
{
    if (atomic_fetch_sub(&buffer->references, 1) > 1)
        return CL_SUCCESS;
    buffer_unmap(&buffer->pages);
    clReleaseContext(buffer->context);
    free(buffer);
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clGetMemObjectInfo(cl_mem buffer, cl_mem_info what, size_t size, void *value,
                                                   size_t *needed)
{
    switch (what) {
    case CL_MEM_CONTEXT: return ANSWER(cl_context, buffer->context);
    case CL_MEM_SIZE: return ANSWER(size_t, buffer->pages.bytes);
    case CL_MEM_TYPE: return ANSWER(cl_mem_object_type, CL_MEM_OBJECT_BUFFER);
    }
    return CL_INVALID_VALUE;
}

static int is_within(cl_mem buffer, size_t offset, size_t bytes)
{
    return offset <= buffer->pages.bytes && bytes <= buffer->pages.bytes - offset;
}

CL_API_ENTRY cl_int CL_API_CALL clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                                    size_t offset, size_t bytes, void *to, cl_uint n_wait,
                                                    const cl_event *wait, cl_event *event)
{
    const cl_ulong begin = now();

    (void)blocking, (void)n_wait, (void)wait;
    if (!is_within(buffer, offset, bytes) || to == NULL)
        return CL_INVALID_VALUE;
    memcpy(to, buffer->pages.base + offset, bytes);
    return completed(queue, begin, CL_SUCCESS, event);
}

CL_API_ENTRY cl_int CL_API_CALL clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                                     size_t offset, size_t bytes, const void *from, cl_uint n_wait,
                                                     const cl_event *wait, cl_event *event)
{
    const cl_ulong begin = now();

    (void)blocking, (void)n_wait, (void)wait;
    if (!is_within(buffer, offset, bytes) || from == NULL)
        return CL_INVALID_VALUE;
    memcpy(buffer->pages.base + offset, from, bytes);
    return completed(queue, begin, CL_SUCCESS, event);
}

/* ---- Programs ---------------------------------------------------------------------------------------------------- */

struct _cl_program {
    atomic_int references;
    cl_context context;
    char *source, *binary; /* one of them */
    size_t binary_bytes;
    struct compiled compiled;
    struct object *object;
    struct code *code; /* NULL: it is not built */
};

static cl_program new_program(cl_context context, cl_int *error)
{
    cl_program program = new_object(sizeof *program, error);

    if (program == NULL)
        return NULL;
    clRetainContext(context);
    program->references = 1;
    program->context = context;
    return program;
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseProgram(cl_program program)
{
    if (atomic_fetch_sub(&program->references, 1) > 1)
        return CL_SUCCESS;
    code_free(program->code);
    object_free(program->object);
    compiled_free(&program->compiled);
    clReleaseContext(program->context);
    free(program->source);
    free(program->binary);
    free(program);
    return CL_SUCCESS;
}

CL_API_ENTRY cl_program CL_API_CALL clCreateProgramWithSource(cl_context context, cl_uint count, const char **strings,
                                                              const size_t *lengths, cl_int *error)
{
    cl_program program = new_program(context, error);
    struct text source = {0};

    if (program == NULL)
        return NULL;
    for (cl_uint i = 0; i < count; i++)
        text_add(&source, strings[i], lengths != NULL && lengths[i] > 0 ? lengths[i] : strlen(strings[i]));
    program->source = text_take(&source);
    if (program->source != NULL)
        return program;
    clReleaseProgram(program);
    return refuse(CL_OUT_OF_HOST_MEMORY, error);
}

CL_API_ENTRY cl_program CL_API_CALL clCreateProgramWithBinary(cl_context context, cl_uint count,
                                                              const cl_device_id *devices, const size_t *sizes,
                                                              const unsigned char **binaries, cl_int *status,
                                                              cl_int *error)
{
    char reason[128];
    struct object *object = count == 1 ? object_load(binaries[0], sizes[0], reason, sizeof reason) : NULL;
    cl_program program = object != NULL ? new_program(context, error) : NULL;

    (void)devices;
    object_free(object);
    if (status != NULL)
        *status = program != NULL ? CL_SUCCESS : CL_INVALID_BINARY;
    if (program == NULL)
        return refuse(CL_INVALID_BINARY, error);
    program->binary = malloc(sizes[0]);
    program->binary_bytes = sizes[0];
    if (program->binary != NULL) {
        memcpy(program->binary, binaries[0], sizes[0]);
        return program;
    }
    clReleaseProgram(program);
    return refuse(CL_OUT_OF_HOST_MEMORY, error);
}

/* What was built is unbuilt, but for the log. */
static void clear_build(cl_program program)
{
    code_free(program->code);
    object_free(program->object);
    compiled_free(&program->compiled);
    program->code = NULL;
    program->object = NULL;
}

CL_API_ENTRY cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                                               const char *options, opencl_built built, void *user)
{
    const char *name = only_device()->name;
    struct compiled *to = &program->compiled;
    char error[512] = "";
    int compiled;

    (void)count, (void)devices;
    clear_build(program);
    compiled = program->source != NULL ? compile_source(program->source, options != NULL ? options : "", name, to)
                                       : compile_binary(program->binary, program->binary_bytes, to);
    if (compiled)
        program->object = object_load(to->object, to->bytes, error, sizeof error);
    if (program->object != NULL)
        program->code = code_parse(to->disassembly, name, error, sizeof error);
    if (compiled && program->code == NULL)
        to->log = text_copy(error);
    if (built != NULL)
        built(program, user);
    return program->code != NULL ? CL_SUCCESS : CL_BUILD_PROGRAM_FAILURE;
}

CL_API_ENTRY cl_int CL_API_CALL clGetProgramBuildInfo(cl_program program, cl_device_id device,
                                                      cl_program_build_info what, size_t size, void *value,
                                                      size_t *needed)
{
    const char *log = program->compiled.log;

    (void)device;
    if (what == CL_PROGRAM_BUILD_STATUS)
        return ANSWER(cl_build_status, program->code != NULL ? CL_BUILD_SUCCESS : CL_BUILD_ERROR);
    return what == CL_PROGRAM_BUILD_LOG ? answer_text(log != NULL ? log : "", size, value, needed) : CL_INVALID_VALUE;
}

CL_API_ENTRY cl_int CL_API_CALL clGetProgramInfo(cl_program program, cl_program_info what, size_t size, void *value,
                                                 size_t *needed)
{
    unsigned char **binaries = value;

    switch (what) {
    case CL_PROGRAM_DEVICES: return ANSWER(cl_device_id, only_device());
    case CL_PROGRAM_NUM_DEVICES: return ANSWER(cl_uint, 1);
    case CL_PROGRAM_BINARY_SIZES: return ANSWER(size_t, program->compiled.bytes);
    case CL_PROGRAM_BINARIES:
        if (binaries != NULL && size >= sizeof *binaries && binaries[0] != NULL && program->compiled.bytes > 0)
            memcpy(binaries[0], program->compiled.object, program->compiled.bytes);
        if (needed != NULL)
            *needed = sizeof *binaries;
        return CL_SUCCESS;
    }
    return CL_INVALID_VALUE;
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

struct _cl_kernel {
    cl_program program;
    struct kernel kernel;
};

static const struct kernel_code *find_kernel(cl_program program, const char *name)
{
    for (int i = 0; i < program->object->kernel_count; i++)
        if (strcmp(program->object->kernels[i].name, name) == 0)
            return &program->object->kernels[i];
    return NULL;
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseKernel(cl_kernel kernel)
{
    kernel_clear(&kernel->kernel);
    clReleaseProgram(kernel->program);
    free(kernel);
    return CL_SUCCESS;
}

CL_API_ENTRY cl_kernel CL_API_CALL clCreateKernel(cl_program program, const char *name, cl_int *error)
{
    const struct kernel_code *about = program->code != NULL ? find_kernel(program, name) : NULL;
    cl_kernel kernel;

    if (about == NULL)
        return refuse(program->code != NULL ? CL_INVALID_KERNEL_NAME : CL_INVALID_PROGRAM_EXECUTABLE, error);
    kernel = new_object(sizeof *kernel, error);
    if (kernel == NULL)
        return NULL;
    atomic_fetch_add(&program->references, 1);
    kernel->program = program;
    if (kernel_init(&kernel->kernel, program->code, program->object, about))
        return kernel;
    clReleaseKernel(kernel);
    return refuse(CL_OUT_OF_HOST_MEMORY, error);
}

static cl_int set_buffer(void *to, size_t size, const void *value)
{
    cl_mem buffer = NULL;
    void *base;

    if (size != sizeof buffer)
        return CL_INVALID_ARG_SIZE;
    if (value != NULL)
        memcpy(&buffer, value, sizeof buffer);
    base = buffer != NULL ? buffer->pages.base : NULL;
    memcpy(to, &base, sizeof base);
    return CL_SUCCESS;
}

static cl_int set_argument(struct kernel *kernel, cl_uint index, size_t size, const void *value)
{
    const struct argument *argument = &kernel->about->arguments[index];
    unsigned char *to = kernel->arguments + argument->offset;

    switch (argument->kind) {
    case ARGUMENT_BUFFER: return set_buffer(to, size, value);
    case ARGUMENT_LOCAL:
        kernel->local_bytes[index] = (uint32_t)size;
        return size > LOCAL_BYTES || size == 0 ? CL_INVALID_ARG_SIZE
               : value != NULL                 ? CL_INVALID_ARG_VALUE
                                               : CL_SUCCESS;
    case ARGUMENT_VALUE:
        if (size != argument->size)
            return CL_INVALID_ARG_SIZE;
        if (value == NULL)
            return CL_INVALID_ARG_VALUE;
        memcpy(to, value, size);
        return CL_SUCCESS;
    case ARGUMENT_HIDDEN: break;
    }
    return CL_INVALID_ARG_INDEX;
}

CL_API_ENTRY cl_int CL_API_CALL clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    cl_int error;

    if (index >= (cl_uint)kernel_argument_count(&kernel->kernel))
        return CL_INVALID_ARG_INDEX;
    error = set_argument(&kernel->kernel, index, size, value);
    kernel->kernel.is_set[index] |= error == CL_SUCCESS;
    return error;
}

CL_API_ENTRY cl_int CL_API_CALL clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device,
                                                         cl_kernel_work_group_info what, size_t size, void *value,
                                                         size_t *needed)
{
    const struct kernel_code *about = kernel->kernel.about;
    const size_t required[3] = {about->required[0], about->required[1], about->required[2]};

    (void)device;
    switch (what) {
    case CL_KERNEL_WORK_GROUP_SIZE: return ANSWER(size_t, about->most_group);
    case CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE: return ANSWER(size_t, about->wave);
    case CL_KERNEL_COMPILE_WORK_GROUP_SIZE: return answer(required, sizeof required, size, value, needed);
    case CL_KERNEL_LOCAL_MEM_SIZE: return ANSWER(cl_ulong, kernel_group_bytes(&kernel->kernel));
    case CL_KERNEL_PRIVATE_MEM_SIZE: return ANSWER(cl_ulong, about->private_bytes);
    }
    return CL_INVALID_VALUE;
}

/* ---- Launches ---------------------------------------------------------------------------------------------------- */

/* The size of a group along the first dimension where the caller leaves it to the device */
static size_t choose_local(size_t global, uint32_t most)
{
    size_t local = 1;

    while (2 * local <= most && global % (2 * local) == 0)
        local *= 2;
    return local;
}

static cl_int set_axis(struct range *range, cl_uint axis, size_t first, size_t global, size_t local)
{
    if (global == 0 || global > UINT32_MAX)
        return CL_INVALID_GLOBAL_WORK_SIZE;
    if (first > UINT32_MAX)
        return CL_INVALID_GLOBAL_OFFSET;
    if (local == 0 || global % local != 0)
        return CL_INVALID_WORK_GROUP_SIZE;
    range->first[axis] = (uint32_t)first;
    range->groups[axis] = (uint32_t)(global / local);
    range->local[axis] = (uint32_t)local;
    return CL_SUCCESS;
}

static int is_group_right(const struct kernel_code *about, const uint32_t local[3])
{
    const int required = about->required[0] > 0;

    return (uint64_t)local[0] * local[1] * local[2] <= about->most_group &&
           (!required || memcmp(local, about->required, sizeof about->required) == 0);
}

static cl_int set_range(struct range *range, const struct kernel_code *about, const size_t *first, const size_t *global,
                        const size_t *local)
{
    for (cl_uint axis = 0; axis < range->dimensions; axis++) {
        const size_t chosen = local != NULL               ? local[axis]
                              : about->required[axis] > 0 ? about->required[axis]
                              : axis == 0                 ? choose_local(global[0], about->most_group)
                                                          : 1;
        const cl_int error = set_axis(range, axis, first != NULL ? first[axis] : 0, global[axis], chosen);
        if (error != CL_SUCCESS)
            return error;
    }
    return is_group_right(about, range->local) ? CL_SUCCESS : CL_INVALID_WORK_GROUP_SIZE;
}

static cl_int launch(const struct kernel *kernel, cl_uint dimensions, const size_t *first, const size_t *global,
                     const size_t *local)
{
    struct range range = {.dimensions = dimensions, .groups = {1, 1, 1}, .local = {1, 1, 1}};
    cl_int error;

    if (dimensions < 1 || dimensions > 3)
        return CL_INVALID_WORK_DIMENSION;
    if (!kernel_is_complete(kernel))
        return CL_INVALID_KERNEL_ARGS;
    error = set_range(&range, kernel->about, first, global, local);
    if (error != CL_SUCCESS)
        return error;
    if (kernel_group_bytes(kernel) > LOCAL_BYTES)
        return CL_OUT_OF_RESOURCES;
    return kernel_run(kernel, &range) == 0 ? CL_SUCCESS : CL_OUT_OF_RESOURCES;
}

CL_API_ENTRY cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                                       const size_t *first, const size_t *global, const size_t *local,
                                                       cl_uint n_wait, const cl_event *wait, cl_event *event)
{
    const cl_ulong begin = now();

    (void)n_wait, (void)wait;
    return completed(queue, begin, launch(&kernel->kernel, dimensions, first, global, local), event);
}
