/* test_layers FOLDER LAYER[_biases|_limits]: a layer against its module in Hugging Face transformers, whose weights and numbers lie in FOLDER
 * (make_layers.py; mesa_net's are make_mesa_layer.py's): a prompt and the token after it, the prompt in two calls, and calls of no tokens. */
#include "harness.h"

#include "clattn_layer.h"
#include "cli/io/safetensors.h"
#include "reference/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *folder, *file_name;
static char layer_name[64];
static struct safetensors checkpoint, numbers;
enum { MOST_TENSORS = 16 };
static clattn_layer_tensor tensors[MOST_TENSORS];
static clattn_layer_desc desc;
static void *packed;
static size_t packed_bytes;
static clattn_layer_plan *plan; /* one for every length */

enum {
    X,
    Y,
    POSITION,
    CONV,
    STATE,
    GRAM,
    W0,
    W1,
    W2,
    FINAL_CONV,
    FINAL_STATE,
    FINAL_GRAM,
    FINAL_W0,
    FINAL_W1,
    FINAL_W2,
    OPERANDS
};
enum { STATES = FINAL_CONV - CONV };
static const char *const names[] = {"x",           "y",          "position", "conv_state", "state",
                                    "gram",        "state_w0",   "state_w1", "state_w2",   "final_conv_state",
                                    "final_state", "final_gram", "final_w0", "final_w1",   "final_w2"};

/* Of lact, as make_layers.py has it */
enum { MINI_BATCH = 7 };
static const double step_limits[] = {0.1, 0.5};

/* What the measure of verify makes of 1e-4 is asked of f32. */
static const double bound = 1e-4;

static void read_file(const char *suffix, struct safetensors *file)
{
    char path[512], error[256];

    snprintf(path, sizeof path, "%s/%s%s", folder, file_name, suffix);
    if (safetensors_read(path, file, error, sizeof error) != 0)
        fail_msg("%s: %s", path, error);
}

/* What the shapes of weights leave open, and a state says. */
static void open_sizes(void)
{
    const struct safetensor *final = safetensors_find(&numbers, "final_state");
    clattn_layer_part part;

    for (size_t i = 0; clattn_layer_part_describe(&desc, i, &part) == CLATTN_SUCCESS; i++)
        for (int d = 0; strcmp(part.name, "final_state") == 0 && d < part.rank; d++)
            if (strcmp(part.letters[d], "K") == 0)
                desc.key_dim = final->dims[d];
}

static int open_all(void **state)
{
    static const uint32_t both = CLATTN_LAYER_INITIAL_STATE | CLATTN_LAYER_FINAL_STATE;

    if (test_device_open(state) != 0)
        return -1;
    read_file(".safetensors", &checkpoint);
    read_file(".run.safetensors", &numbers);
    for (size_t i = 0; i < checkpoint.count; i++) {
        const struct safetensor *from = &checkpoint.tensors[i];
        tensors[i] = (clattn_layer_tensor){.name = from->name, .rank = from->rank, .data = from->data};
        tensors[i].dtype = strcmp(from->dtype, "F32") == 0 ? CLATTN_F32 : CLATTN_BF16;
        memcpy(tensors[i].dims, from->dims, sizeof tensors[i].dims);
    }
    desc = (clattn_layer_desc){.layer = clattn_layer_find(layer_name), .flags = both};
    desc.batch = safetensors_find(&numbers, "x")->dims[0];
    desc.seq_len = safetensors_find(&numbers, "x")->dims[1];
    if (desc.layer == CLATTN_LAYER_LACT) {
        desc.mini_batch = MINI_BATCH;
        desc.muon = CLATTN_MUON_KELLER;
    }
    if (strstr(file_name, "_limits") != NULL) {
        desc.step_min = step_limits[0];
        desc.step_max = step_limits[1];
    }
    open_sizes();
    assert_status(clattn_layer_fit(&desc, &desc, tensors, checkpoint.count, test_log, NULL), SUCCESS);
    assert_status(clattn_layer_packed_size(&desc, &packed_bytes), SUCCESS);
    packed = malloc(packed_bytes);
    assert_non_null(packed);
    assert_status(clattn_layer_pack(&desc, tensors, checkpoint.count, packed, test_log, NULL), SUCCESS);
    return 0;
}

static int close_all(void **state)
{
    clattn_layer_plan_destroy(plan);
    free(packed);
    safetensors_free(&checkpoint);
    safetensors_free(&numbers);
    return test_device_close(state);
}

/* ---- A call ------------------------------------------------------------------------------------------------- */

/* Operands on the host; those that the layer has none of are NULL. */
struct run {
    void *of[OPERANDS];
    size_t count[OPERANDS];
    clattn_dtype dtype[OPERANDS];
    int64_t seq_len;
};

static size_t bytes_of(const struct run *run, int id)
{
    return run->count[id] * (run->dtype[id] == CLATTN_F32 ? 4 : 2);
}

static struct run make(int64_t seq_len)
{
    clattn_layer_desc all = desc;
    clattn_layer_part part;
    struct run run = {.seq_len = seq_len};

    all.seq_len = seq_len;
    for (size_t i = 0; clattn_layer_part_describe(&all, i, &part) == CLATTN_SUCCESS; i++)
        for (int id = 0; id < OPERANDS; id++)
            if (strcmp(part.name, names[id]) == 0) {
                run.dtype[id] = part.dtype;
                run.count[id] = 1;
                for (int d = 0; d < part.rank; d++)
                    run.count[id] *= (size_t)part.dims[d];
                run.of[id] = calloc(run.count[id] + 1, sizeof(float));
                assert_non_null(run.of[id]);
            }
    return run;
}

/* State w0, w1 or w2 as the checkpoint has it, [heads,rows,columns] in bf16: turned, for every sequence */
static void begin_weight(struct run *run, int id)
{
    const clattn_layer_tensor *from = tensors;
    int64_t rows, columns;

    while (strcmp(from->name, names[id] + strlen("state_")) != 0)
        from++;
    rows = from->dims[1];
    columns = from->dims[2];
    for (int64_t i = 0; i < (int64_t)run->count[id]; i++) {
        uint16_t bits;
        int64_t head = i / rows / columns % from->dims[0];
        memcpy(&bits, (const char *)from->data + 2 * ((head * rows + i % rows) * columns + i / rows % columns), 2);
        number_store(CLATTN_F32, run->of[id], i, number_load(CLATTN_BF16, &bits, 0));
    }
}

/* The states that a first call has: zeros, and weights */
static void begin(struct run *run)
{
    for (int id = W0; id <= W2; id++)
        if (run->of[id] != NULL)
            begin_weight(run, id);
}

static void drop(struct run *run)
{
    for (int id = 0; id < OPERANDS; id++)
        free(run->of[id]);
}

/* Those that there are, in the order of ids, after the weights; how many. */
static size_t list_operands(const struct run *run, int device, clattn_layer_operand list[OPERANDS + 1])
{
    size_t count = 1;

    list[0] = (clattn_layer_operand){"weights", device ? test_buffer(packed_bytes, packed) : NULL, packed, 0};
    for (int id = 0; id < OPERANDS; id++)
        if (run->of[id] != NULL)
            list[count++] = (clattn_layer_operand){
                names[id], device ? test_buffer((run->count[id] + 1) * sizeof(float), run->of[id]) : NULL, run->of[id],
                0};
    return count;
}

static void compute_host(const struct run *run)
{
    clattn_layer_operand list[OPERANDS + 1];
    clattn_layer_call call = {.operands = list, .seq_len = run->seq_len};

    call.operand_count = list_operands(run, 0, list);
    assert_status(clattn_layer_reference(&desc, &call, test_log, NULL), SUCCESS);
}

/* Back to the host, where outputs lie beside the rest. */
static void take_operands(const struct run *run, const clattn_layer_operand *list)
{
    const struct opencl *cl = opencl_get();
    size_t i = 0;

    for (int id = 0; id < OPERANDS; id++)
        if (run->of[id] != NULL && list[++i].buffer != NULL && run->count[id] > 0)
            assert_int_equal(cl->EnqueueReadBuffer(test_device.queue, list[i].buffer, CL_TRUE, 0, bytes_of(run, id),
                                                   run->of[id], 0, NULL, NULL),
                             CL_SUCCESS);
}

static void compute_device(const struct run *run)
{
    const struct opencl *cl = opencl_get();
    clattn_layer_operand list[OPERANDS + 1];
    clattn_layer_call call = {.operands = list, .seq_len = run->seq_len};
    size_t bytes;
    cl_event event;

    if (plan == NULL)
        assert_status(clattn_layer_plan_create(&plan, test_device.context, &desc, test_log, NULL), SUCCESS);
    assert_status(clattn_layer_workspace_size(plan, &bytes), SUCCESS);
    call.workspace = test_buffer(bytes, NULL);
    call.operand_count = list_operands(run, 1, list);
    assert_status(clattn_layer_enqueue(plan, test_device.queue, &call, 0, NULL, &event), SUCCESS);
    assert_int_equal(cl->WaitForEvents(1, &event), CL_SUCCESS);
    cl->ReleaseEvent(event);
    take_operands(run, list);
    for (size_t i = 0; i < call.operand_count; i++)
        cl->ReleaseMemObject(list[i].buffer);
    cl->ReleaseMemObject(call.workspace);
}

static void compute(const struct run *run)
{
    (test_is_reference() ? compute_host : compute_device)(run);
}

/* ---- What it should be -------------------------------------------------------------------------------------- */

static const struct safetensor *expected(const char *prefix, int id)
{
    char name[64];
    const struct safetensor *tensor;

    snprintf(name, sizeof name, "%s%s", prefix, names[id]);
    tensor = safetensors_find(&numbers, name);
    if (tensor == NULL)
        fail_msg("no tensor %s", name);
    return tensor;
}

static void compare(const void *found, const void *wanted, clattn_dtype dtype, size_t count, double limit,
                    const char *text)
{
    clattn_operand_info info = {.dims = {1, 1, 1, (int64_t)count}, .rank = 4, .dtype = dtype, .name = "it"};
    struct check_tensor a = {(void *)(uintptr_t)found, count * (dtype == CLATTN_F32 ? 4 : 2), info}, b = a;

    b.data = malloc(b.bytes + 1);
    assert_non_null(b.data);
    memcpy(b.data, wanted, b.bytes);
    test_compare(&a, &b, limit, text);
    free(b.data);
}

static const int outputs[] = {Y, FINAL_CONV, FINAL_STATE, FINAL_GRAM, FINAL_W0, FINAL_W1, FINAL_W2};

static void compare_all(const struct run *run, const char *prefix)
{
    char text[64];

    for (size_t i = 0; i < COUNT(outputs); i++) {
        const struct safetensor *wanted;
        if (run->of[outputs[i]] == NULL)
            continue;
        wanted = expected(prefix, outputs[i]);
        assert_int_equal(wanted->bytes, run->count[outputs[i]] * sizeof(float));
        snprintf(text, sizeof text, "%s: %s", prefix[0] != '\0' ? prefix : "prompt", names[outputs[i]]);
        compare(run->of[outputs[i]], wanted->data, CLATTN_F32, run->count[outputs[i]], bound, text);
    }
}

/* The run's final states go into the next one's, which begins where it ended. */
static void go_on(struct run *next, const struct run *run)
{
    for (int id = CONV; id < CONV + STATES; id++)
        if (next->of[id] != NULL)
            memcpy(next->of[id], run->of[id + STATES], bytes_of(next, id));
    for (size_t n = 0; n < next->count[POSITION]; n++)
        ((int32_t *)next->of[POSITION])[n] = ((int32_t *)run->of[POSITION])[n] + (int32_t)run->seq_len;
}

static void fill_x(struct run *run, const char *prefix)
{
    const struct safetensor *x = expected(prefix, X);

    assert_int_equal(x->bytes, run->count[X] * sizeof(float));
    for (size_t i = 0; i < run->count[X]; i++) {
        float one;
        memcpy(&one, (const char *)x->data + i * sizeof one, sizeof one);
        number_store(run->dtype[X], run->of[X], (int64_t)i, (double)one);
    }
}

static void test_prompt_and_token(void **state)
{
    struct run prompt = make(desc.seq_len), token = make(1);

    (void)state;
    fill_x(&prompt, "");
    begin(&prompt);
    compute(&prompt);
    compare_all(&prompt, "");
    fill_x(&token, "step.");
    go_on(&token, &prompt);
    compute(&token);
    compare_all(&token, "step.");
    drop(&prompt);
    drop(&token);
}

/* Of no states: what the checkpoint has, or zeros. */
static void test_first(void **state)
{
    const clattn_layer_desc whole = desc;
    clattn_layer_plan *const plan_of_all = plan;
    struct run prompt;

    (void)state;
    plan = NULL;
    desc.flags &= ~(uint32_t)CLATTN_LAYER_INITIAL_STATE;
    prompt = make(desc.seq_len);
    fill_x(&prompt, "");
    compute(&prompt);
    compare_all(&prompt, "");
    drop(&prompt);
    clattn_layer_plan_destroy(plan);
    plan = plan_of_all;
    desc = whole;
}

/* Tokens of the run from `first` on out of the whole prompt's, or the other way. */
static void copy_tokens(float *part, float *whole, int64_t count, int64_t first, int back)
{
    const size_t row = (size_t)desc.hidden * sizeof(float);

    for (int64_t b = 0; b < desc.batch; b++) {
        float *of_part = part + b * count * desc.hidden, *of_whole = whole + (b * desc.seq_len + first) * desc.hidden;
        memcpy(back ? of_whole : of_part, back ? of_part : of_whole, (size_t)count * row);
    }
}

/* Calls of fewer tokens than the plan's: of a few, of none, and of the others. */
static void test_cut(void **state)
{
    const int64_t few = desc.layer == CLATTN_LAYER_LACT ? MINI_BATCH : 5, lengths[] = {few, 0, desc.seq_len - few};
    struct run whole = make(desc.seq_len), last = make(0);
    int64_t first = 0;

    (void)state;
    fill_x(&whole, "");
    for (size_t i = 0; i < COUNT(lengths); i++) {
        struct run part = make(lengths[i]);
        copy_tokens(part.of[X], whole.of[X], lengths[i], first, 0);
        (void)(i == 0 ? begin(&part) : go_on(&part, &last));
        compute(&part);
        copy_tokens(part.of[Y], whole.of[Y], lengths[i], first, 1);
        first += lengths[i];
        drop(&last);
        last = part;
    }
    for (size_t i = 1; i < COUNT(outputs); i++)
        if (last.of[outputs[i]] != NULL)
            memcpy(whole.of[outputs[i]], last.of[outputs[i]], bytes_of(&last, outputs[i]));
    compare_all(&whole, "");
    drop(&whole);
    drop(&last);
}

/* In bf16 a device's outputs are the reference's, whose values between the steps are bf16, too. */
static void check_bf16(struct run *run, struct run *wanted, const char *what)
{
    char text[64];

    compute_host(wanted);
    compute(run);
    for (size_t i = 0; i < COUNT(outputs); i++)
        if (run->of[outputs[i]] != NULL) {
            snprintf(text, sizeof text, "bf16, %s: %s", what, names[outputs[i]]);
            compare(run->of[outputs[i]], wanted->of[outputs[i]], run->dtype[outputs[i]], run->count[outputs[i]],
                    check_bound(CLATTN_BF16), text);
        }
}

static void run_bf16(void)
{
    struct run prompt[2], token[2];

    for (int i = 0; i < 2; i++) {
        prompt[i] = make(desc.seq_len);
        token[i] = make(1);
        fill_x(&prompt[i], "");
        begin(&prompt[i]);
        fill_x(&token[i], "step.");
    }
    check_bf16(&prompt[0], &prompt[1], "prompt");
    for (int i = 0; i < 2; i++)
        go_on(&token[i], &prompt[1]);
    check_bf16(&token[0], &token[1], "token");
    for (int i = 0; i < 2; i++) {
        drop(&prompt[i]);
        drop(&token[i]);
    }
}

static void test_bf16(void **state)
{
    const clattn_layer_desc desc_f32 = desc;
    void *const packed_f32 = packed;
    clattn_layer_plan *const plan_f32 = plan;
    const size_t bytes_f32 = packed_bytes;

    (void)state;
    if (test_is_reference())
        skip();
    desc.dtype = CLATTN_BF16;
    desc.muon = CLATTN_MUON_NONE; /* of steps by so few tokens it makes much of what bf16 left of them */
    plan = NULL;
    assert_status(clattn_layer_packed_size(&desc, &packed_bytes), SUCCESS);
    packed = malloc(packed_bytes);
    assert_non_null(packed);
    assert_status(clattn_layer_pack(&desc, tensors, checkpoint.count, packed, test_log, NULL), SUCCESS);
    run_bf16();
    clattn_layer_plan_destroy(plan);
    free(packed);
    desc = desc_f32;
    packed = packed_f32;
    packed_bytes = bytes_f32;
    plan = plan_f32;
}

/* ---- lact by its formula, of an x so small that what is added to norms counts ------------------------------------- */

static double weight_at(const char *name, int64_t i)
{
    const clattn_layer_tensor *tensor = tensors;
    float aligned = 0;
    size_t element;

    while (strcmp(tensor->name, name) != 0)
        tensor++;
    element = tensor->dtype == CLATTN_F32 ? 4 : 2;
    memcpy(&aligned, (const char *)tensor->data + (size_t)i * element, element);
    return number_load(tensor->dtype, &aligned, 0);
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

/* W x + b of row `row` of a matrix; NULL: no b. */
static double project(const char *name, const char *bias, int64_t row, const float *x)
{
    double sum = bias != NULL ? weight_at(bias, row) : 0;

    for (int64_t c = 0; c < desc.hidden; c++)
        sum += weight_at(name, row * desc.hidden + c) * (double)x[c];
    return sum;
}

enum { LACT_DIM = 64, LACT_Q = 0, LACT_K = 1, LACT_V = 2 };

/* q, k or v of a head: silu(W x), q and k over |.| + 1e-5. */
static void lact_row(int part, int64_t head, const float *x, double *to)
{
    double sum = 0, divisor = 1;

    for (int64_t c = 0; c < desc.key_dim; c++) {
        to[c] = silu(project("to_qkv.weight", NULL, (part * desc.heads + head) * desc.key_dim + c, x));
        sum += to[c] * to[c];
    }
    if (part != LACT_V)
        divisor = sqrt(sum) + 1e-5;
    for (int64_t c = 0; c < desc.key_dim; c++)
        to[c] /= divisor;
}

/* a = x w0, c = x w2 */
static void lact_hidden(int64_t head, const double *x, double *a, double *c)
{
    for (int64_t f = 0; f < desc.inner; f++) {
        a[f] = c[f] = 0;
        for (int64_t n = 0; n < desc.key_dim; n++) {
            a[f] += x[n] * weight_at("w0", (head * desc.key_dim + n) * desc.inner + f);
            c[f] += x[n] * weight_at("w2", (head * desc.key_dim + n) * desc.inner + f);
        }
    }
}

/* y of a token that is read with the checkpoint's weights. */
static void lact_output(const float *x, double *y)
{
    double q[LACT_DIM], a[LACT_DIM], c[LACT_DIM], o[LACT_DIM], sum;

    memset(y, 0, (size_t)desc.hidden * sizeof *y);
    for (int64_t h = 0; h < desc.heads; h++) {
        lact_row(LACT_Q, h, x, q);
        lact_hidden(h, q, a, c);
        sum = 0;
        for (int64_t n = 0; n < desc.key_dim; n++) {
            o[n] = 0;
            for (int64_t f = 0; f < desc.inner; f++)
                o[n] += silu(a[f]) * c[f] * weight_at("w1", (h * desc.inner + f) * desc.key_dim + n);
            sum += o[n] * o[n];
        }
        for (int64_t n = 0; n < desc.key_dim; n++)
            for (int64_t i = 0; i < desc.hidden; i++)
                y[i] += weight_at("c_proj.weight", (i * desc.heads + h) * desc.key_dim + n) * o[n] *
                        weight_at("o_norm.weight", n) / sqrt(sum / (double)desc.key_dim + desc.eps);
    }
}

/* w1 of a head after one batch, [K][F]: each row w + the sum of lr v h, over |.| + 1e-5, times |w|. */
static void lact_learn(int64_t head, const float *x, double *w1)
{
    const int64_t F = desc.inner, K = desc.key_dim;

    for (int64_t n = 0; n < K; n++)
        for (int64_t f = 0; f < F; f++)
            w1[n * F + f] = weight_at("w1", (head * F + f) * K + n);
    for (int64_t t = 0; t < MINI_BATCH; t++, x += desc.hidden) {
        double k[LACT_DIM], v[LACT_DIM], a[LACT_DIM], c[LACT_DIM];
        double rate = log1p(exp(project("lr_fc.weight", "lr_fc.bias", desc.heads + head, x) + log(expm1(0.01))));
        lact_row(LACT_K, head, x, k);
        lact_row(LACT_V, head, x, v);
        lact_hidden(head, k, a, c);
        for (int64_t i = 0; i < K * F; i++)
            w1[i] += rate * v[i / F] * silu(a[i % F]) * c[i % F];
    }
    for (int64_t n = 0; n < K; n++) {
        double before = 0, after = 0;
        for (int64_t f = 0; f < F; f++) {
            before += pow(weight_at("w1", (head * F + f) * K + n), 2);
            after += pow(w1[n * F + f], 2);
        }
        for (int64_t f = 0; f < F; f++)
            w1[n * F + f] *= sqrt(before) / (sqrt(after) + 1e-5);
    }
}

static void compare_lact(const struct run *run)
{
    const int64_t size = desc.key_dim * desc.inner, rows = desc.batch * MINI_BATCH;
    float *y = calloc((size_t)(rows * desc.hidden), sizeof *y);
    float *w1 = calloc((size_t)(desc.batch * desc.heads * size), sizeof *w1);
    double row[LACT_DIM * LACT_DIM];

    for (int64_t t = 0; t < rows; t++) {
        lact_output((float *)run->of[X] + t * desc.hidden, row);
        for (int64_t c = 0; c < desc.hidden; c++)
            y[t * desc.hidden + c] = (float)row[c];
    }
    for (int64_t n = 0; n < desc.batch * desc.heads; n++) {
        lact_learn(n % desc.heads, (float *)run->of[X] + n / desc.heads * MINI_BATCH * desc.hidden, row);
        for (int64_t i = 0; i < size; i++) /* what was learned: the weights' own numbers would hide it */
            w1[n * size + i] = (float)(row[i] - (double)((float *)run->of[W1])[n * size + i]);
    }
    for (int64_t i = 0; i < desc.batch * desc.heads * size; i++)
        ((float *)run->of[FINAL_W1])[i] -= ((float *)run->of[W1])[i];
    compare(run->of[Y], y, CLATTN_F32, run->count[Y], bound, "lact, a small x: y");
    compare(run->of[FINAL_W1], w1, CLATTN_F32, run->count[FINAL_W1], bound, "lact, a small x: what w1 learned");
    free(y);
    free(w1);
}

/* Rates of RATE more, so that what a batch of small numbers teaches is not lost beside the weights. */
static void pack_eager(float rates[3 * LACT_DIM], void *to)
{
    enum { RATE = 30 };
    clattn_layer_tensor *bias = tensors, before;

    while (strcmp(bias->name, "lr_fc.bias") != 0)
        bias++;
    before = *bias;
    for (int64_t i = 0; i < 3 * desc.heads; i++)
        rates[i] = (float)weight_at("lr_fc.bias", i) + RATE;
    *bias = (clattn_layer_tensor){before.name, CLATTN_F32, before.rank, {before.dims[0]}, rates};
    assert_status(clattn_layer_pack(&desc, tensors, checkpoint.count, to, test_log, NULL), SUCCESS);
}

static void test_small_lact(void **state)
{
    enum { SMALL = 1000 };
    const clattn_layer_desc whole = desc;
    clattn_layer_plan *const plan_of_all = plan;
    void *const packed_of_all = packed;
    clattn_layer_tensor before[MOST_TENSORS];
    float rates[3 * LACT_DIM];
    struct run run;

    (void)state;
    if (desc.layer != CLATTN_LAYER_LACT)
        skip();
    memcpy(before, tensors, sizeof before);
    plan = NULL;
    desc.seq_len = MINI_BATCH;
    desc.muon = CLATTN_MUON_NONE;
    packed = malloc(packed_bytes);
    assert_non_null(packed);
    pack_eager(rates, packed);
    run = make(desc.seq_len);
    for (size_t i = 0; i < run.count[X]; i++) {
        memcpy((float *)run.of[X] + i, (const char *)expected("", X)->data + i * sizeof(float), sizeof(float));
        ((float *)run.of[X])[i] /= SMALL;
    }
    begin(&run);
    compute(&run);
    compare_lact(&run);
    drop(&run);
    clattn_layer_plan_destroy(plan);
    free(packed);
    memcpy(tensors, before, sizeof before);
    packed = packed_of_all;
    plan = plan_of_all;
    desc = whole;
}

static void assert_missing(const clattn_layer_tensor *list, const clattn_layer_desc *of, size_t i)
{
    clattn_layer_tensor wrong[MOST_TENSORS];
    clattn_layer_desc full;
    char line[128];

    memcpy(wrong, list, sizeof wrong);
    wrong[i].name = "another";
    snprintf(line, sizeof line, "tensor %s is missing, layer %s needs it", list[i].name, layer_name);
    test_log_clear();
    assert_status(clattn_layer_fit(&full, of, wrong, checkpoint.count, test_log, NULL), INVALID_OPERAND);
    assert_logged(line);
}

/* One more in its first dimension: [49,32], expected [48,32] */
static void assert_misshaped(const clattn_layer_tensor *list, size_t i)
{
    clattn_layer_tensor wrong[MOST_TENSORS];
    clattn_layer_desc full;
    char line[256], dims[64] = "";

    memcpy(wrong, list, sizeof wrong);
    wrong[i].dims[0]++;
    for (int d = 1; d < list[i].rank; d++)
        snprintf(dims + strlen(dims), sizeof dims - strlen(dims), ",%lld", (long long)list[i].dims[d]);
    snprintf(line, sizeof line, "tensor %s is [%lld%s], layer %s expects [%lld%s]", list[i].name,
             (long long)wrong[i].dims[0], dims, layer_name, (long long)list[i].dims[0], dims);
    test_log_clear();
    assert_status(clattn_layer_fit(&full, &desc, wrong, checkpoint.count, test_log, NULL), INVALID_OPERAND);
    assert_logged(line);
}

static int may_lack(const char *name)
{
    clattn_layer_part part;

    for (size_t i = 0; clattn_layer_part_describe(&desc, i, &part) == CLATTN_SUCCESS; i++)
        if (strcmp(part.name, name) == 0)
            return part.optional;
    return 0;
}

static void test_bad_checkpoint(void **state)
{
    const clattn_layer_desc open = {.layer = desc.layer};

    (void)state;
    for (size_t i = 0; i < checkpoint.count; i++) {
        assert_misshaped(tensors, i);
        if (may_lack(tensors[i].name))
            continue;
        assert_missing(tensors, &desc, i);
        assert_missing(tensors, &open, i);
    }
}

/* Biases that the desc does not ask for are not passed over; a layer that has none does not take the flag. */
static void test_biases(void **state)
{
    clattn_layer_desc other = desc;
    clattn_status status;

    (void)state;
    other.flags ^= CLATTN_LAYER_BIASES;
    test_log_clear();
    status = clattn_layer_pack(&other, tensors, checkpoint.count, packed, test_log, NULL);
    if (desc.flags & CLATTN_LAYER_BIASES) {
        assert_status(status, INVALID_OPERAND);
        assert_logged("tensor in_proj.bias is given");
    } else if (may_lack("in_proj.bias")) { /* zeros are added */
        assert_status(status, SUCCESS);
    } else {
        assert_status(status, INVALID_DESC);
        assert_logged("flags 0x7");
    }
}

/* Without the size that the test knew beside: that tensor is named which does not give it. */
/* Each size for itself is allowed, the packed matrices would have 2^70 numbers. */
static void test_too_large(void **state)
{
    const clattn_layer_desc large = {.layer = CLATTN_LAYER_LACT,
                                     .batch = 1 << 30,
                                     .seq_len = 1,
                                     .hidden = 1 << 20,
                                     .heads = 1,
                                     .key_dim = 1 << 20,
                                     .inner = 1 << 20};
    size_t bytes = 1;

    (void)state;
    assert_status(clattn_layer_packed_size(&large, &bytes), INVALID_DESC);
    assert_int_equal(bytes, 1);
}

static void test_open_sizes(void **state)
{
    const clattn_layer_desc open = {.layer = desc.layer};
    clattn_layer_desc full;
    clattn_status status;

    (void)state;
    test_log_clear();
    status = clattn_layer_fit(&full, &open, tensors, checkpoint.count, test_log, NULL);
    if (desc.layer != CLATTN_LAYER_GATED_DELTANET && desc.layer != CLATTN_LAYER_GATED_DELTANET_SPLIT) {
        assert_status(status, SUCCESS);
        return;
    }
    assert_status(status, INVALID_OPERAND);
    assert_logged(desc.layer == CLATTN_LAYER_GATED_DELTANET
                      ? "tensor in_proj_qkvz.weight is [176,32], layer gated_deltanet expects [QK+QK+HV+HV,C] with "
                        "C 32, H 4, K 16, V 16: no sizes fit QK+QK+HV+HV; K (key_dim) or HQ (qk_heads) must be given"
                      : "tensor in_proj_qkv.weight is [112,32], layer gated_deltanet_split expects [QK+QK+HV,C] with "
                        "C 32, H 4, K 16, V 16: no sizes fit QK+QK+HV; K (key_dim) or HQ (qk_heads) must be given");
}

static void test_bad_call(void **state)
{
    clattn_layer_operand list[] = {{"weights", NULL, packed, 0}, {"x", NULL, packed, 0}, {"z", NULL, packed, 0}};
    clattn_layer_call call = {.operands = list, .operand_count = 3, .seq_len = 1};

    (void)state;
    test_log_clear();
    assert_status(clattn_layer_reference(&desc, &call, test_log, NULL), INVALID_OPERAND);
    assert_logged("operand 'z'");
    call.operand_count = 2;
    assert_status(clattn_layer_reference(&desc, &call, test_log, NULL), INVALID_OPERAND);
    assert_logged("operand y is missing");
    call.seq_len = desc.seq_len + 1;
    assert_status(clattn_layer_reference(&desc, &call, test_log, NULL), INVALID_OPERAND);
    assert_logged("the call's seq_len is 22, the plan's 21");
}

static void assert_refused(const clattn_layer_call *call, clattn_status wanted, const char *line)
{
    test_log_clear();
    assert_int_equal(clattn_layer_enqueue(plan, test_device.queue, call, 0, NULL, NULL), wanted);
    assert_logged(line);
}

/* Memory that is too small is refused before anything is enqueued. */
static void test_small_memory(void **state)
{
    const struct opencl *cl = opencl_get();
    clattn_layer_operand list[OPERANDS + 1];
    clattn_layer_call call = {.operands = list, .seq_len = 1};
    struct run token;
    size_t bytes;

    (void)state;
    if (test_is_reference())
        skip();
    token = make(1);
    assert_status(clattn_layer_workspace_size(plan, &bytes), SUCCESS);
    call.operand_count = list_operands(&token, 1, list);
    call.workspace = test_buffer(bytes - 1, NULL);
    assert_refused(&call, CLATTN_INVALID_WORKSPACE, "are needed from offset 0 on");
    cl->ReleaseMemObject(call.workspace);
    call.workspace = test_buffer(bytes, NULL);
    for (size_t i = 0; i < call.operand_count; i++) {
        char line[64];
        list[i].offset = 1 << 30;
        snprintf(line, sizeof line, "operand %s has", list[i].name);
        assert_refused(&call, CLATTN_INVALID_OPERAND, line);
        list[i].offset = 0;
    }
    for (size_t i = 0; i < call.operand_count; i++)
        cl->ReleaseMemObject(list[i].buffer);
    cl->ReleaseMemObject(call.workspace);
    drop(&token);
}

int main(int count, char **words)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompt_and_token), cmocka_unit_test(test_first),        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_bad_checkpoint),   cmocka_unit_test(test_open_sizes),   cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_bad_call),         cmocka_unit_test(test_small_memory), cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_small_lact),       cmocka_unit_test(test_biases)};
    char *suffix;

    if (count < 3)
        return 2;
    folder = words[1];
    file_name = words[2];
    snprintf(layer_name, sizeof layer_name, "%s", words[2]);
    if ((suffix = strstr(layer_name, "_biases")) != NULL || (suffix = strstr(layer_name, "_limits")) != NULL)
        *suffix = '\0';
    return cmocka_run_group_tests_name(layer_name, tests, open_all, close_all);
}
