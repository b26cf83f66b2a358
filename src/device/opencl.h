/* OpenCL, opened at run time by its soname and never closed: a program linked with clattn starts without it. */
#ifndef CLATTN_SRC_OPENCL_H
#define CLATTN_SRC_OPENCL_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

#include "base/log.h"

typedef void(CL_CALLBACK *opencl_notify)(const char *, const void *, size_t, void *);
typedef void(CL_CALLBACK *opencl_built)(cl_program, void *);

/* X(result, name without cl, parameters) */
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
    X(cl_int, ReleaseEvent, (cl_event))                                                                                \
    X(cl_int, Flush, (cl_command_queue))                                                                               \
    X(cl_int, Finish, (cl_command_queue))

struct opencl {
#define OPENCL_FIELD(result, name, parameters) result(CL_API_CALL *name) parameters;
    OPENCL_FUNCTIONS(OPENCL_FIELD)
#undef OPENCL_FIELD
};

/* The table of functions, or NULL on a machine without OpenCL. */
const struct opencl *opencl_get(void);

/* "CL_OUT_OF_RESOURCES" … */
const char *opencl_error_name(cl_int error);

/* Logs a failed call by its text and the error's name; is the status that it means. */
clattn_status opencl_status(const struct log *log, const char *call, cl_int error);

#define TRY_CL(log, call)                                                                                              \
    do {                                                                                                               \
        cl_int try_error_ = (call);                                                                                    \
        if (try_error_ != CL_SUCCESS)                                                                                  \
            return opencl_status(log, #call, try_error_);                                                              \
    } while (0)

#endif
