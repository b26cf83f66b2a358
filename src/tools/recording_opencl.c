#include "tools/recording_opencl.h"

#include "base/text.h"
#include "device/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct recording *recording_of(void *handle)
{
    return handle;
}

static cl_program CL_API_CALL create_program(cl_context context, cl_uint count, const char **strings,
                                             const size_t *lengths, cl_int *error)
{
    struct recording *recording = recording_of(context);

    (void)count, (void)lengths;
    *error = CL_SUCCESS;
    if (recording->kernel == NULL)
        return (cl_program)(void *)recording;
    free(recording->source);
    recording->source = text_copy(strings[0]);
    if (recording->source != NULL)
        return (cl_program)(void *)recording;
    *error = CL_OUT_OF_HOST_MEMORY;
    return NULL;
}

static cl_int CL_API_CALL build_program(cl_program program, cl_uint count, const cl_device_id *devices,
                                        const char *options, opencl_built built, void *user)
{
    struct recording *recording = recording_of(program);

    (void)count, (void)devices, (void)built, (void)user;
    snprintf(recording->options, sizeof recording->options, "%s", options);
    return CL_SUCCESS;
}

/* A binary for programs with hidden instructions (src/device/ptx.h). */
static cl_int CL_API_CALL program_info(cl_program program, cl_program_info what, size_t size, void *value,
                                       size_t *needed)
{
    static const char binary[] = ".target sm_90\n";
    const cl_device_id device = NULL;
    const size_t length = sizeof binary;

    (void)program;
    if (needed != NULL)
        *needed = sizeof device;
    if (what == CL_PROGRAM_DEVICES)
        memcpy(value, &device, sizeof device);
    else if (what == CL_PROGRAM_BINARY_SIZES && size >= sizeof length)
        memcpy(value, &length, sizeof length);
    else if (what == CL_PROGRAM_BINARIES)
        memcpy(*(unsigned char **)value, binary, sizeof binary);
    return CL_SUCCESS;
}

static cl_program CL_API_CALL create_with_binary(cl_context context, cl_uint count, const cl_device_id *devices,
                                                 const size_t *sizes, const unsigned char **binaries, cl_int *status,
                                                 cl_int *error)
{
    (void)count, (void)devices, (void)sizes, (void)binaries, (void)status;
    *error = CL_SUCCESS;
    return (cl_program)(void *)recording_of(context);
}

static cl_kernel CL_API_CALL create_kernel(cl_program program, const char *name, cl_int *error)
{
    struct recording *recording = recording_of(program);

    *error = CL_SUCCESS;
    if (recording->source != NULL)
        recording->kernel(recording->user, name, recording->options, recording->source);
    free(recording->source);
    recording->source = NULL;
    return (cl_kernel)(void *)recording;
}

static cl_int CL_API_CALL work_group_info(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what,
                                          size_t size, void *value, size_t *needed)
{
    const size_t most = 1024;

    (void)kernel, (void)device, (void)needed;
    if (what != CL_KERNEL_WORK_GROUP_SIZE || size != sizeof most)
        return CL_INVALID_VALUE;
    memcpy(value, &most, sizeof most);
    return CL_SUCCESS;
}

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *error)
{
    (void)flags, (void)size, (void)host;
    *error = CL_SUCCESS;
    return (cl_mem)(void *)recording_of(context);
}

static cl_int CL_API_CALL release_kernel(cl_kernel kernel)
{
    (void)kernel;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_buffer(cl_mem buffer)
{
    (void)buffer;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_program(cl_program program)
{
    (void)program;
    return CL_SUCCESS;
}

static const struct opencl functions = {.CreateProgramWithSource = create_program,
                                        .BuildProgram = build_program,
                                        .GetProgramInfo = program_info,
                                        .CreateProgramWithBinary = create_with_binary,
                                        .CreateKernel = create_kernel,
                                        .GetKernelWorkGroupInfo = work_group_info,
                                        .CreateBuffer = create_buffer,
                                        .ReleaseKernel = release_kernel,
                                        .ReleaseMemObject = release_buffer,
                                        .ReleaseProgram = release_program};

void recording_open(clattn_context *context, struct recording *recording, struct tuning_layers *tuning)
{
    static char nowhere[] = "";

    memset(context, 0, sizeof *context);
    context->device.cl = &functions;
    context->cl = (cl_context)(void *)recording;
    context->tuning = tuning;
    context->most_unheld = MOST_UNHELD;
    context->clblast_name = nowhere;
    lock_init(&context->lock);
    lock_init(&context->probe_lock);
}

void recording_close(clattn_context *context, struct recording *recording)
{
    program_free_all(context);
    lock_destroy(&context->lock);
    lock_destroy(&context->probe_lock);
    free(context->clblast);
    free(recording->source);
    recording->source = NULL;
}

void recording_set_engine(clattn_context *context, const struct engine *engine)
{
    context->engine = engine;
    for (int dtype = CLATTN_F32; dtype <= CLATTN_BF16; dtype++)
        context->probed[0][dtype].answer = context->probed[1][dtype].answer = PROBE_RIGHT;
}
