/* A prompt in one call, then token by token, as a language model decodes: the state stays on the device, in one buffer that is read and
 * written in place. The queue is out of order, so each call waits for the event of the one before. The last token is compared
 * with the whole sequence in double precision. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <clattn.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>

enum { PROMPT = 60, TOKENS = 20, T = PROMPT + TOKENS, H = 2, K = 16, V = 16 };

static struct layer {
    float q[T][H][K], k[T][H][K], v[T][H][V], g[T][H], beta[T][H], o[T][H][V];
    float state[H][K][V];
} layer;

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        if ((call) != 0)                                                                                               \
            return fprintf(stderr, "failed: %s\n", #call), 1;                                                          \
    } while (0)

/* An operand of the tokens from `first` on: in the buffer for the device, in `layer` for the reference. */
#define AT(ID, name, first)                                                                                            \
    {                                                                                                                  \
        CLATTN_##ID, .buffer = memory, .host = &layer, .offset = offsetof(struct layer, name[first])                   \
    }
#define STATE(ID)                                                                                                      \
    {                                                                                                                  \
        CLATTN_##ID, .buffer = memory, .offset = offsetof(struct layer, state)                                         \
    }

static void fill(void)
{
    for (int i = 0; i < T * H; i++) {
        for (int n = 0; n < K; n++) {
            layer.q[i / H][i % H][n] = cosf((float)(i * K + n));
            layer.k[i / H][i % H][n] = sinf((float)(i * K + n) * 7);
        }
        for (int n = 0; n < V; n++)
            layer.v[i / H][i % H][n] = sinf((float)(i * V + n) * 3);
        layer.g[i / H][i % H] = -0.01f * (float)(i % 10);
        layer.beta[i / H][i % H] = 0.5f;
    }
}

/* Enqueues `count` tokens from `first` on after the event *done, which is replaced by this call's. */
static clattn_status step(clattn_plan *plan, cl_command_queue queue, cl_mem memory, cl_mem workspace, int first,
                          int count, cl_event *done)
{
    clattn_operand operands[] = {AT(Q, q, first),       AT(K, k, first), AT(V, v, first), AT(G, g, first),
                                 AT(BETA, beta, first), AT(O, o, first), STATE(STATE_IN), STATE(STATE_OUT)};
    clattn_call call = {.operands = operands, .operand_count = 8, .seq_len = count, .workspace = workspace};
    cl_event before = *done;
    clattn_status status = clattn_enqueue(plan, queue, &call, before != NULL, before != NULL ? &before : NULL, done);

    if (before != NULL)
        clReleaseEvent(before);
    return status;
}

int main(void)
{
    fill();
    cl_platform_id platform;
    cl_device_id device;
    TRY(clGetPlatformIDs(1, &platform, NULL));
    TRY(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    cl_context cl = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    cl_command_queue queue = clCreateCommandQueue(cl, device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, NULL);
    if (queue == NULL) /* a device without such queues */
        queue = clCreateCommandQueue(cl, device, 0, NULL);
    cl_mem memory = clCreateBuffer(cl, CL_MEM_COPY_HOST_PTR, sizeof layer, &layer, NULL);

    /* One plan for the prompt and one for a token. They share a workspace, because their calls do not overlap. */
    clattn_context *context;
    clattn_plan *plans[2];
    size_t bytes, most = 0;
    clattn_plan_desc desc = {.rule = CLATTN_GATED_DELTA_RULE, .heads = H, .key_dim = K, .value_dim = V};
    TRY(clattn_context_create(&context, &(clattn_context_desc){.cl = cl, .device = device}));
    desc.flags = CLATTN_QK_L2NORM | CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE;
    for (int i = 0; i < 2; i++) {
        desc.seq_len = i == 0 ? PROMPT : 1;
        TRY(clattn_plan_create(&plans[i], context, &desc));
        TRY(clattn_plan_workspace_size(plans[i], &bytes));
        most = bytes > most ? bytes : most;
    }
    cl_mem workspace = most > 0 ? clCreateBuffer(cl, CL_MEM_READ_WRITE, most, NULL, NULL) : NULL;

    cl_event done = NULL;
    TRY(step(plans[0], queue, memory, workspace, 0, PROMPT, &done));
    for (int token = PROMPT; token < T; token++)
        TRY(step(plans[1], queue, memory, workspace, token, 1, &done));
    float on_device[H][V];
    TRY(clEnqueueReadBuffer(queue, memory, CL_TRUE, offsetof(struct layer, o[T - 1]), sizeof on_device, on_device, 1,
                            &done, NULL));
    clReleaseEvent(done);

    desc.seq_len = T;
    desc.flags = CLATTN_QK_L2NORM;
    clattn_operand whole[] = {AT(Q, q, 0), AT(K, k, 0), AT(V, v, 0), AT(G, g, 0), AT(BETA, beta, 0), AT(O, o, 0)};
    TRY(clattn_reference(&desc, &(clattn_call){.operands = whole, .operand_count = 6, .seq_len = T}, NULL, NULL));
    float worst = 0;
    for (int i = 0; i < H * V; i++)
        worst = fmaxf(worst, fabsf(on_device[i / V][i % V] - layer.o[T - 1][i / V][i % V]));
    printf("token %d: %g from the whole sequence in double precision\n", T - 1, (double)worst);

    clattn_plan_destroy(plans[0]);
    clattn_plan_destroy(plans[1]);
    clattn_context_destroy(context);
    if (workspace != NULL)
        clReleaseMemObject(workspace);
    clReleaseMemObject(memory);
    clReleaseCommandQueue(queue);
    clReleaseContext(cl);
    return !(worst < 1e-5f);
}
