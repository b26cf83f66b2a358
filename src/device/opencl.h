/* The OpenCL library. It is opened at run time by its soname and never closed, so a program that is linked with clattn
 * starts without OpenCL, too. */
#ifndef CLATTN_SRC_OPENCL_H
#define CLATTN_SRC_OPENCL_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

#include "base/log.h"

typedef void(CL_CALLBACK *opencl_notify)(const char *, const void *, size_t, void *);
typedef void(CL_CALLBACK *opencl_built)(cl_program, void *);
typedef void(CL_CALLBACK *opencl_done)(cl_event, cl_int, void *);

/* X(type of the result, name without cl, parameters) */
#define OPENCL_FUNCTIONS(X)                                                                                            \
    X(cl_int, GetPlatformIDs, (cl_uint, cl_platform_id *, cl_uint *))                                                  \
    X(cl_int, GetPlatformInfo, (cl_platform_id, cl_platform_info, size_t, void *, size_t *))                           \
    X(cl_int, GetDeviceIDs, (cl_platform_id, cl_device_type, cl_uint, cl_device_id *, cl_uint *))                      \
    X(cl_int, GetDeviceInfo, (cl_device_id, cl_device_info, size_t, void *, size_t *))                                 \
    X(cl_context, CreateContext,                                                                                       \
      (const cl_context_properties *, cl_uint, const cl_device_id *, opencl_notify, void *, cl_int *))                 \
    X(cl_int, RetainContext, (cl_context))                                                                             \
    X(cl_int, ReleaseContext, (cl_context))                                                                            \
    X(cl_int, GetContextInfo, (cl_context, cl_context_info, size_t, void *, size_t *))                                 \
    X(cl_command_queue, CreateCommandQueue, (cl_context, cl_device_id, cl_command_queue_properties, cl_int *))         \
    X(cl_int, ReleaseCommandQueue, (cl_command_queue))                                                                 \
    X(cl_int, GetCommandQueueInfo, (cl_command_queue, cl_command_queue_info, size_t, void *, size_t *))                \
    X(cl_mem, CreateBuffer, (cl_context, cl_mem_flags, size_t, void *, cl_int *))                                      \
    X(cl_int, RetainMemObject, (cl_mem))                                                                               \
    X(cl_int, ReleaseMemObject, (cl_mem))                                                                              \
    X(cl_int, GetMemObjectInfo, (cl_mem, cl_mem_info, size_t, void *, size_t *))                                       \
    X(cl_program, CreateProgramWithSource, (cl_context, cl_uint, const char **, const size_t *, cl_int *))             \
    X(cl_program, CreateProgramWithBinary,                                                                             \
      (cl_context, cl_uint, const cl_device_id *, const size_t *, const unsigned char **, cl_int *, cl_int *))         \
    X(cl_int, GetProgramInfo, (cl_program, cl_program_info, size_t, void *, size_t *))                                 \
    X(cl_int, BuildProgram, (cl_program, cl_uint, const cl_device_id *, const char *, opencl_built, void *))           \
    X(cl_int, GetProgramBuildInfo, (cl_program, cl_device_id, cl_program_build_info, size_t, void *, size_t *))        \
    X(cl_int, ReleaseProgram, (cl_program))                                                                            \
    X(cl_kernel, CreateKernel, (cl_program, const char *, cl_int *))                                                   \
    X(cl_int, SetKernelArg, (cl_kernel, cl_uint, size_t, const void *))                                                \
    X(cl_int, GetKernelWorkGroupInfo, (cl_kernel, cl_device_id, cl_kernel_work_group_info, size_t, void *, size_t *))  \
    X(cl_int, ReleaseKernel, (cl_kernel))                                                                              \
    X(cl_int, EnqueueNDRangeKernel,                                                                                    \
      (cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *, cl_uint,                  \
       const cl_event *, cl_event *))                                                                                  \
    X(cl_int, EnqueueReadBuffer,                                                                                       \
      (cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint, const cl_event *, cl_event *))              \
    X(cl_int, EnqueueWriteBuffer,                                                                                      \
      (cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void *, cl_uint, const cl_event *, cl_event *))        \
    X(cl_int, EnqueueMarkerWithWaitList, (cl_command_queue, cl_uint, const cl_event *, cl_event *))                    \
    X(cl_int, EnqueueBarrierWithWaitList, (cl_command_queue, cl_uint, const cl_event *, cl_event *))                   \
    X(cl_int, WaitForEvents, (cl_uint, const cl_event *))                                                              \
    X(cl_int, GetEventProfilingInfo, (cl_event, cl_profiling_info, size_t, void *, size_t *))                          \
    X(cl_int, SetEventCallback, (cl_event, cl_int, opencl_done, void *))                                               \
    X(cl_int, ReleaseEvent, (cl_event))                                                                                \
    X(cl_int, Flush, (cl_command_queue))                                                                               \
    X(cl_int, Finish, (cl_command_queue))

struct opencl {
#define OPENCL_FIELD(result, name, parameters) result(CL_API_CALL *name) parameters;
    OPENCL_FUNCTIONS(OPENCL_FIELD)
#undef OPENCL_FIELD
};

/* The table of functions. NULL: the machine has no OpenCL. */
const struct opencl *opencl_get(void);

/* "CL_OUT_OF_RESOURCES" … */
const char *opencl_error_name(cl_int error);

/* Logs a call that failed, "clFinish: CL_OUT_OF_RESOURCES (-5)", and returns the status for the error. The format names
 * the call and its object. */
clattn_status opencl_failed(const struct log *log, cl_int error, const char *format, ...) PRINTF_LIKE(3, 4);

/* Calls a function of the table, named without cl: TRY_CL(log, cl, Finish, queue); */
#define TRY_CL(log, cl, name, ...)                                                                                     \
    do {                                                                                                               \
        cl_int try_error_ = (cl)->name(__VA_ARGS__);                                                                   \
        if (try_error_ != CL_SUCCESS)                                                                                  \
            return opencl_failed(log, try_error_, "cl" #name);                                                         \
    } while (0)

/* ---- Calls that log more than the function's name ---- */

/* *queue and *buffer are NULL on failure. */
clattn_status opencl_create_queue(const struct log *log, const struct opencl *cl, cl_context context,
                                  cl_device_id device, cl_command_queue_properties properties, cl_command_queue *queue);
clattn_status opencl_create_buffer(const struct log *log, const struct opencl *cl, cl_context context,
                                   cl_mem_flags flags, size_t bytes, void *host, cl_mem *buffer);
clattn_status opencl_create_kernel(const struct log *log, const struct opencl *cl, cl_program program, const char *name,
                                   cl_kernel *kernel);

/* Copies bytes to or from a buffer, and waits for the end of the copy. */
clattn_status opencl_write(const struct log *log, const struct opencl *cl, cl_command_queue queue, cl_mem buffer,
                           size_t offset, size_t bytes, const void *from);
clattn_status opencl_read(const struct log *log, const struct opencl *cl, cl_command_queue queue, cl_mem buffer,
                          size_t offset, size_t bytes, void *to);

/* A kernel and its name, for messages. */
struct opencl_kernel {
    cl_kernel kernel;
    const char *name;
};
clattn_status opencl_set_argument(const struct log *log, const struct opencl *cl, struct opencl_kernel kernel,
                                  cl_uint index, size_t bytes, const void *value);
/* Three-dimensional sizes. local NULL: the driver chooses. */
clattn_status opencl_launch(const struct log *log, const struct opencl *cl, cl_command_queue queue,
                            struct opencl_kernel kernel, const size_t global[3], const size_t *local, cl_uint n_wait,
                            const cl_event *wait, cl_event *event);

#endif
