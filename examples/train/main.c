/* train [STEPS [reference]]: a model of two Gated DeltaNet layers learns to say the token of a few steps before.
 *
 *     h = E[token];  h = h + layer(h), twice;  logits = h U^T;  loss = cross-entropy
 *
 * The layers' forward and backward passes run on the first OpenCL device, or on the host by the library's reference; the
 * embedding E, the matrix U, the loss and Adam are plain loops. The weights' gradients are compared with the reference's
 * before the first step. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <clattn_layer.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 2, BATCH = 4, T = 24, ROWS = BATCH * T, TOKENS = 8, BEFORE = 3, C = 32 };

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        if ((call) != 0) {                                                                                             \
            fprintf(stderr, "failed: %s\n", #call);                                                                    \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Numbers that Adam trains. */
struct weights {
    size_t count;
    float *value, *gradient, *mean, *square;
};

/* ---- The layers ---- */

static clattn_layer_desc forward = {.layer = CLATTN_LAYER_GATED_DELTANET,
                                    .batch = BATCH,
                                    .seq_len = T,
                                    .hidden = C,
                                    .heads = 2,
                                    .qk_heads = 2,
                                    .key_dim = 8,
                                    .value_dim = 8,
                                    .taps = 4};
static clattn_layer_desc backward;
static struct weights layers[LAYERS], embedding, head;
/* The rows between the layers, what a layer adds to them, and the gradients by both */
static float rows[LAYERS + 1][ROWS][C], added[ROWS][C], d_rows[ROWS][C], d_layer[ROWS][C];
static int tokens[BATCH][T];

/* A device, unless context is NULL. */
static struct {
    cl_context cl;
    cl_command_queue queue;
    clattn_context *context;
    clattn_layer_plan *forward, *backward;
    cl_mem workspace;
} device;

/* An operand of a layer, with its place in memory and whether a call writes it. */
struct operand {
    const char *name;
    float *numbers;
    size_t count;
    int written;
};

static void run_on_host(const clattn_layer_desc *desc, const struct operand *operands, size_t count)
{
    clattn_layer_operand list[8];

    for (size_t i = 0; i < count; i++)
        list[i] = (clattn_layer_operand){.name = operands[i].name, .host = operands[i].numbers};
    TRY(clattn_layer_reference(
        desc, &(clattn_layer_call){.operands = list, .operand_count = count, .seq_len = CLATTN_WHOLE}, NULL, NULL));
}

static void run_on_device(clattn_layer_plan *plan, const struct operand *operands, size_t count)
{
    clattn_layer_call call = {.operand_count = count, .seq_len = CLATTN_WHOLE, .workspace = device.workspace};
    clattn_layer_operand list[8];

    for (size_t i = 0; i < count; i++)
        list[i] = (clattn_layer_operand){.name = operands[i].name,
                                         .buffer = clCreateBuffer(device.cl, CL_MEM_COPY_HOST_PTR,
                                                                  operands[i].count * sizeof(float),
                                                                  operands[i].numbers, NULL)};
    call.operands = list;
    TRY(clattn_layer_enqueue(plan, device.queue, &call, 0, NULL, NULL));
    for (size_t i = 0; i < count; i++) {
        if (operands[i].written)
            TRY(clEnqueueReadBuffer(device.queue, list[i].buffer, CL_TRUE, 0, operands[i].count * sizeof(float),
                                    operands[i].numbers, 0, NULL, NULL));
        clReleaseMemObject(list[i].buffer);
    }
}

/* rows[layer + 1] = rows[layer] + the layer of it */
static void layer_forward(int layer)
{
    const struct operand operands[] = {{"weights", layers[layer].value, layers[layer].count, 0},
                                       {"x", rows[layer][0], ROWS * C, 0},
                                       {"y", added[0], ROWS * C, 1}};

    if (device.context != NULL)
        run_on_device(device.forward, operands, 3);
    else
        run_on_host(&forward, operands, 3);
    for (int i = 0; i < ROWS; i++)
        for (int c = 0; c < C; c++)
            rows[layer + 1][i][c] = rows[layer][i][c] + added[i][c];
}

/* Leaves the gradients by the layer's weights, and adds that by its rows to d_rows. */
static void layer_backward(int layer, int on_host)
{
    const struct operand operands[] = {{"weights", layers[layer].value, layers[layer].count, 0},
                                       {"x", rows[layer][0], ROWS * C, 0},
                                       {"d_y", d_rows[0], ROWS * C, 0},
                                       {"d_x", d_layer[0], ROWS * C, 1},
                                       {"d_weights", layers[layer].gradient, layers[layer].count, 1}};

    if (on_host)
        run_on_host(&backward, operands, 5);
    else
        run_on_device(device.backward, operands, 5);
    for (int i = 0; i < ROWS; i++)
        for (int c = 0; c < C; c++)
            d_rows[i][c] += d_layer[i][c];
}

/* ---- The model ---- */

/* The loss, in nats a token, and its gradient by the rows after the layers and by U. */
static float cross_entropy(void)
{
    float loss = 0;

    for (int i = 0; i < ROWS; i++) {
        const float *row = rows[LAYERS][i];
        float logits[TOKENS], most = -INFINITY, sum = 0;
        int t = i % T, target = t >= BEFORE ? tokens[i / T][t - BEFORE] : -1;
        memset(d_rows[i], 0, sizeof d_rows[i]);
        for (int n = 0; n < TOKENS; n++) {
            logits[n] = 0;
            for (int c = 0; c < C; c++)
                logits[n] += row[c] * head.value[n * C + c];
            most = fmaxf(most, logits[n]);
        }
        for (int n = 0; n < TOKENS; n++)
            sum += expf(logits[n] - most);
        for (int n = 0; n < TOKENS && target >= 0; n++) {
            const float d = (expf(logits[n] - most) / sum - (float)(n == target)) / (BATCH * (T - BEFORE));
            for (int c = 0; c < C; c++) {
                d_rows[i][c] += d * head.value[n * C + c];
                head.gradient[n * C + c] += d * row[c];
            }
        }
        if (target >= 0)
            loss -= (logits[target] - most - logf(sum)) / (BATCH * (T - BEFORE));
    }
    return loss;
}

/* The loss of the tokens, and all gradients. */
static float run(int on_host)
{
    float loss;

    memset(head.gradient, 0, head.count * sizeof(float));
    memset(embedding.gradient, 0, embedding.count * sizeof(float));
    for (int i = 0; i < ROWS; i++)
        memcpy(rows[0][i], embedding.value + tokens[i / T][i % T] * C, sizeof rows[0][i]);
    for (int layer = 0; layer < LAYERS; layer++)
        layer_forward(layer);
    loss = cross_entropy();
    for (int layer = LAYERS - 1; layer >= 0; layer--)
        layer_backward(layer, on_host);
    for (int i = 0; i < ROWS; i++)
        for (int c = 0; c < C; c++)
            embedding.gradient[tokens[i / T][i % T] * C + c] += d_rows[i][c];
    return loss;
}

static void adam(struct weights *w, int step)
{
    const float rate = 0.01f, first = 0.9f, second = 0.99f;

    for (size_t i = 0; i < w->count; i++) {
        w->mean[i] += (1 - first) * (w->gradient[i] - w->mean[i]);
        w->square[i] += (1 - second) * (w->gradient[i] * w->gradient[i] - w->square[i]);
        w->value[i] -= rate * w->mean[i] / (1 - powf(first, (float)step)) /
                       (sqrtf(w->square[i] / (1 - powf(second, (float)step))) + 1e-8f);
    }
}

/* ---- Weights at first ---- */

static uint32_t seed = 1;
static float draw(void) /* from -1 to 1 */
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) / (1 << 23) - 1;
}

static struct weights make_weights(size_t count)
{
    struct weights w = {.count = count, .value = calloc(4 * count, sizeof(float))};

    if (w.value == NULL)
        exit(1);
    w.gradient = w.value + count;
    w.mean = w.gradient + count;
    w.square = w.mean + count;
    return w;
}

static struct weights make_matrix(float scale)
{
    struct weights w = make_weights(TOKENS * C);

    for (size_t i = 0; i < w.count; i++)
        w.value[i] = scale * draw();
    return w;
}

/* A layer's weights as a checkpoint would have them, packed. All of them are f32: their gradients lie in the same way. */
static struct weights make_layer(void)
{
    clattn_layer_tensor tensors[16];
    clattn_layer_part part;
    struct weights w;
    size_t bytes, count = 0;

    for (size_t i = 0; clattn_layer_part_describe(&forward, i, &part) == 0 && part.role == CLATTN_LAYER_WEIGHT; i++) {
        int64_t numbers = 1;
        float *data, fan;
        for (int d = 0; d < part.rank; d++)
            numbers *= part.dims[d];
        data = malloc((size_t)numbers * sizeof(float));
        fan = (float)(numbers / part.dims[0]);
        for (int64_t n = 0; n < numbers; n++)
            data[n] = part.rank > 1                           ? sqrtf(3 / fan) * draw()
                      : strcmp(part.name, "norm.weight") == 0 ? 1
                      : strcmp(part.name, "dt_bias") == 0     ? -3
                                                              : 0;
        tensors[count] = (clattn_layer_tensor){.name = part.name, .rank = part.rank, .data = data};
        memcpy(tensors[count++].dims, part.dims, sizeof part.dims);
    }
    TRY(clattn_layer_packed_size(&forward, &bytes));
    w = make_weights(bytes / sizeof(float));
    TRY(clattn_layer_pack(&forward, tensors, count, w.value, NULL, NULL));
    for (size_t i = 0; i < count; i++)
        free((void *)(uintptr_t)tensors[i].data);
    return w;
}

/* ---- Device ---- */

static void open_device(void)
{
    cl_platform_id platform;
    cl_device_id id;
    size_t first, second;

    TRY(clGetPlatformIDs(1, &platform, NULL));
    TRY(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &id, NULL));
    device.cl = clCreateContext(NULL, 1, &id, NULL, NULL, NULL);
    device.queue = clCreateCommandQueue(device.cl, id, 0, NULL);
    TRY(clattn_context_create(&device.context, &(clattn_context_desc){.cl = device.cl, .device = id}));
    TRY(clattn_layer_plan_create(&device.forward, device.context, &forward, NULL, NULL));
    TRY(clattn_layer_plan_create(&device.backward, device.context, &backward, NULL, NULL));
    TRY(clattn_layer_workspace_size(device.forward, &first));
    TRY(clattn_layer_workspace_size(device.backward, &second));
    device.workspace = clCreateBuffer(device.cl, CL_MEM_READ_WRITE, first > second ? first : second, NULL, NULL);
}

static void close_device(void)
{
    if (device.context == NULL)
        return;
    clattn_layer_plan_destroy(device.forward);
    clattn_layer_plan_destroy(device.backward);
    clattn_context_destroy(device.context);
    clReleaseMemObject(device.workspace);
    clReleaseCommandQueue(device.queue);
    clReleaseContext(device.cl);
}

/* The largest difference of the device's gradients from the reference's, over the largest of a layer's gradients. */
static float compare_gradients(void)
{
    float worst = 0;

    for (int layer = 0; layer < LAYERS; layer++) {
        const struct weights *w = &layers[layer];
        float *kept = malloc(w->count * sizeof(float)), most = 0;
        run(0);
        memcpy(kept, w->gradient, w->count * sizeof(float));
        run(1);
        for (size_t i = 0; i < w->count; i++)
            most = fmaxf(most, fabsf(w->gradient[i]));
        for (size_t i = 0; i < w->count; i++)
            worst = fmaxf(worst, fabsf(w->gradient[i] - kept[i]) / most);
        free(kept);
    }
    return worst;
}

static void draw_tokens(void)
{
    for (int i = 0; i < ROWS; i++)
        tokens[i / T][i % T] = (int)((draw() + 1) / 2 * TOKENS) % TOKENS;
}

int main(int argc, char **argv)
{
    const int steps = argc > 1 ? atoi(argv[1]) : 200, on_host = argc > 2 && strcmp(argv[2], "reference") == 0;
    const float chance = logf(TOKENS); /* the loss of a model that has learned nothing */
    float loss = 0, apart = 0;

    backward = forward;
    backward.flags |= CLATTN_LAYER_BACKWARD;
    for (int layer = 0; layer < LAYERS; layer++)
        layers[layer] = make_layer();
    embedding = make_matrix(1);
    head = make_matrix(0.2f);
    draw_tokens();
    if (!on_host) {
        open_device();
        apart = compare_gradients();
        printf("gradients of the weights: %.1e from the reference's\n", (double)apart);
    }
    for (int step = 1; step <= steps; step++) {
        draw_tokens();
        loss = run(on_host);
        for (int layer = 0; layer < LAYERS; layer++)
            adam(&layers[layer], step);
        adam(&embedding, step);
        adam(&head, step);
        if (step % 20 == 0 || step == 1)
            printf("step %3d: loss %.3f\n", step, (double)loss);
    }
    close_device();
    for (int layer = 0; layer < LAYERS; layer++)
        free(layers[layer].value);
    free(embedding.value);
    free(head.value);
    return !(apart < 1e-4f && (steps < 60 || loss < chance / 2));
}
