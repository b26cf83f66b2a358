/* One plan, several threads: each has its own queue, operands and workspace, and calls at once. All compute the same, so all
 * must find the same bytes. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <clattn.h>
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 4, CALLS = 10, T = 100, K = 16, V = 16 };

static struct layer {
    float q[T][K], k[T][K], v[T][V], g[T], o[T][V];
} layer;

static struct {
    cl_context cl;
    cl_device_id device;
    clattn_plan *plan;
    size_t workspace;
} shared;

static struct worker {
    pthread_t thread;
    int failed;
    float o[T][V];
} workers[THREADS];

static int compute(struct worker *worker, cl_command_queue queue, cl_mem memory, cl_mem workspace)
{
    clattn_operand operands[] = {{CLATTN_Q, .buffer = memory, .offset = offsetof(struct layer, q)},
                                 {CLATTN_K, .buffer = memory, .offset = offsetof(struct layer, k)},
                                 {CLATTN_V, .buffer = memory, .offset = offsetof(struct layer, v)},
                                 {CLATTN_G, .buffer = memory, .offset = offsetof(struct layer, g)},
                                 {CLATTN_O, .buffer = memory, .offset = offsetof(struct layer, o)}};
    clattn_call call = {.operands = operands, .operand_count = 5, .seq_len = T, .workspace = workspace};

    for (int i = 0; i < CALLS; i++)
        if (clattn_enqueue(shared.plan, queue, &call, 0, NULL, NULL) != CLATTN_SUCCESS)
            return 1;
    return clEnqueueReadBuffer(queue, memory, CL_TRUE, offsetof(struct layer, o), sizeof worker->o, worker->o, 0, NULL,
                               NULL);
}

static void *work(void *user)
{
    struct worker *worker = user;
    cl_command_queue queue = clCreateCommandQueue(shared.cl, shared.device, 0, NULL);
    cl_mem memory = clCreateBuffer(shared.cl, CL_MEM_COPY_HOST_PTR, sizeof layer, &layer, NULL);
    cl_mem workspace =
        shared.workspace > 0 ? clCreateBuffer(shared.cl, CL_MEM_READ_WRITE, shared.workspace, NULL, NULL) : NULL;

    worker->failed = compute(worker, queue, memory, workspace) != 0;
    if (workspace != NULL)
        clReleaseMemObject(workspace);
    clReleaseMemObject(memory);
    clReleaseCommandQueue(queue);
    return NULL;
}

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        if ((call) != 0)                                                                                               \
            return fprintf(stderr, "failed: %s\n", #call), 1;                                                          \
    } while (0)

int main(void)
{
    cl_platform_id platform;
    clattn_context *context;
    clattn_plan_desc desc = {.rule = CLATTN_SIMPLE_GLA, .seq_len = T, .heads = 1, .key_dim = K, .value_dim = V};
    int different = 0;

    for (int i = 0; i < T * K; i++) {
        layer.q[i / K][i % K] = cosf((float)i);
        layer.k[i / K][i % K] = sinf((float)i * 7);
        layer.v[i / V][i % V] = sinf((float)i * 3);
        layer.g[i / K] = -0.01f * (float)(i / K % 10);
    }
    TRY(clGetPlatformIDs(1, &platform, NULL));
    TRY(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &shared.device, NULL));
    shared.cl = clCreateContext(NULL, 1, &shared.device, NULL, NULL, NULL);
    TRY(clattn_context_create(&context, &(clattn_context_desc){.cl = shared.cl, .device = shared.device}));
    TRY(clattn_plan_create(&shared.plan, context, &desc));
    TRY(clattn_plan_workspace_size(shared.plan, &shared.workspace));
    for (int i = 0; i < THREADS; i++)
        TRY(pthread_create(&workers[i].thread, NULL, work, &workers[i]));
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        different += workers[i].failed || memcmp(workers[i].o, workers[0].o, sizeof workers[0].o) != 0;
    }
    clattn_plan_destroy(shared.plan);
    clattn_context_destroy(context);
    clReleaseContext(shared.cl);
    printf("%d threads, %d of them with other results; o[%d][0] = %g\n", THREADS, different, T - 1,
           (double)workers[0].o[T - 1][0]);
    return different != 0 || !(fabsf(workers[0].o[T - 1][0]) > 0);
}
