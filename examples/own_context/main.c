/* A program with its own OpenCL context, queue and memory runs one head of the gated delta rule and checks the result. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <clattn.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>

enum { T = 100, K = 16, V = 16 };

static struct layer {
    float q[T][K], k[T][K], v[T][V], g[T], beta[T], o[T][V];
} layer;

/* The place of an operand: in the buffer for the device, and at the same offset in `layer` for the reference. */
#define AT(ID, name)                                                                                                   \
    {                                                                                                                  \
        CLATTN_##ID, .buffer = memory, .host = &layer, .offset = offsetof(struct layer, name)                          \
    }

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        if ((call) != 0)                                                                                               \
            return fprintf(stderr, "failed: %s\n", #call), 1;                                                          \
    } while (0)

int main(void)
{
    for (int i = 0; i < T * K; i++) {
        layer.q[i / K][i % K] = cosf((float)i);
        layer.k[i / K][i % K] = sinf((float)i * 7);
        layer.v[i / V][i % V] = sinf((float)i * 3);
        layer.g[i / K] = -0.01f * (float)(i / K % 10);
        layer.beta[i / K] = 0.5f;
    }

    /* Any context, queue and buffers of the program's own. */
    cl_platform_id platform;
    cl_device_id device;
    TRY(clGetPlatformIDs(1, &platform, NULL));
    TRY(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    cl_context cl = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    cl_command_queue queue = clCreateCommandQueue(cl, device, 0, NULL);
    cl_mem memory = clCreateBuffer(cl, CL_MEM_COPY_HOST_PTR, sizeof layer, &layer, NULL);

    /* Done once: creating a plan compiles kernels. */
    clattn_context *context;
    clattn_plan *plan;
    size_t bytes;
    clattn_plan_desc desc = {.rule = CLATTN_GATED_DELTA_RULE, .seq_len = T, .heads = 1, .key_dim = K, .value_dim = V};
    desc.flags = CLATTN_QK_L2NORM;
    TRY(clattn_context_create(&context, &(clattn_context_desc){.cl = cl, .device = device}));
    TRY(clattn_plan_create(&plan, context, &desc));
    TRY(clattn_plan_workspace_size(plan, &bytes));
    cl_mem workspace = bytes > 0 ? clCreateBuffer(cl, CL_MEM_READ_WRITE, bytes, NULL, NULL) : NULL;

    /* Done for every call. Here all tensors are in one buffer. */
    clattn_operand operands[] = {AT(Q, q), AT(K, k), AT(V, v), AT(G, g), AT(BETA, beta), AT(O, o)};
    clattn_call call = {.operands = operands, .operand_count = 6, .seq_len = T, .workspace = workspace};
    TRY(clattn_enqueue(plan, queue, &call, 0, NULL, NULL));
    float on_device;
    TRY(clEnqueueReadBuffer(queue, memory, CL_TRUE, offsetof(struct layer, o[T - 1][V - 1]), sizeof on_device,
                            &on_device, 0, NULL, NULL));
    clattn_plan_destroy(plan);
    clattn_context_destroy(context);
    if (workspace != NULL)
        clReleaseMemObject(workspace);
    clReleaseMemObject(memory);
    clReleaseCommandQueue(queue);
    clReleaseContext(cl);

    TRY(clattn_reference(&desc, &call, NULL, NULL));
    printf("o[%d][%d]: %g on the device, %g in double precision\n", T - 1, V - 1, (double)on_device,
           (double)layer.o[T - 1][V - 1]);
    return fabsf(on_device - layer.o[T - 1][V - 1]) > 1e-4f * fabsf(layer.o[T - 1][V - 1]) + 1e-6f;
}
