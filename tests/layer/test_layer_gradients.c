/* test_layer_gradients FOLDER LAYER[_biases]: the backward pass of a layer, against autograd's gradients of its module
 * (make_layers.py), and with states and gradients that are added against the reference, which is held to differences of its own
 * forward pass. */
#include "harness.h"

#include "clattn_layer.h"
#include "cli/io/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *folder, *file_name;
static char layer_name[64];
static struct safetensors checkpoint, expected, numbers;
enum { MOST_TENSORS = 16, MOST_OPERANDS = 16 };
static clattn_layer_tensor tensors[MOST_TENSORS];
static clattn_layer_desc desc;
static void *packed;
static size_t packed_bytes;

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

    desc.key_dim = final->dims[strcmp(layer_name, "mamba2") == 0 ? 3 : 2];
}

static int open_all(void **state)
{
    if (test_device_open(state) != 0)
        return -1;
    read_file(".safetensors", &checkpoint);
    read_file(".run.safetensors", &numbers);
    read_file(".gradients.safetensors", &expected);
    for (size_t i = 0; i < checkpoint.count; i++) {
        const struct safetensor *from = &checkpoint.tensors[i];
        tensors[i] = (clattn_layer_tensor){.name = from->name, .rank = from->rank, .data = from->data};
        tensors[i].dtype = strcmp(from->dtype, "F32") == 0 ? CLATTN_F32 : CLATTN_BF16;
        memcpy(tensors[i].dims, from->dims, sizeof tensors[i].dims);
    }
    desc = (clattn_layer_desc){.layer = clattn_layer_find(layer_name)};
    desc.batch = safetensors_find(&numbers, "x")->dims[0];
    desc.seq_len = safetensors_find(&numbers, "x")->dims[1];
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
    free(packed);
    safetensors_free(&checkpoint);
    safetensors_free(&numbers);
    safetensors_free(&expected);
    return test_device_close(state);
}

/* ---- A call ------------------------------------------------------------------------------------------------- */

struct operand {
    clattn_layer_part part;
    size_t count; /* numbers of 4 bytes */
    float *data;
};

struct run {
    clattn_layer_desc desc;
    struct operand of[MOST_OPERANDS];
    int count;
};

/* A number from -1 to 1 that follows from its place. */
static double noise(size_t i)
{
    return 2 * fmod(fabs(sin((double)(i + 1) * 12.9898) * 43758.5453), 1.0) - 1;
}

static struct run make(uint32_t flags)
{
    struct run run = {.desc = desc};
    clattn_layer_part part;

    run.desc.flags |= flags;
    for (size_t i = 0; clattn_layer_part_describe(&run.desc, i, &part) == CLATTN_SUCCESS; i++) {
        struct operand *operand = &run.of[run.count];
        if (part.role == CLATTN_LAYER_WEIGHT)
            continue;
        *operand = (struct operand){.part = part, .count = 1};
        for (int d = 0; d < part.rank; d++)
            operand->count *= (size_t)part.dims[d];
        operand->data = calloc(operand->count, sizeof(float));
        assert_non_null(operand->data);
        for (size_t n = 0; n < operand->count && part.role == CLATTN_LAYER_INPUT && !part.whole; n++)
            operand->data[n] = (float)noise(n + 1000 * i);
        run.count++;
    }
    return run;
}

static void drop(struct run *run)
{
    for (int i = 0; i < run->count; i++)
        free(run->of[i].data);
}

static float *find(const struct run *run, const char *name, size_t *count)
{
    for (int i = 0; i < run->count; i++)
        if (strcmp(run->of[i].part.name, name) == 0) {
            if (count != NULL)
                *count = run->of[i].count;
            return run->of[i].data;
        }
    fail_msg("the layer has no operand %s", name);
    return NULL;
}

static void list_operands(const struct run *run, clattn_layer_operand list[1 + MOST_OPERANDS])
{
    list[0] = (clattn_layer_operand){.name = "weights", .host = packed};
    for (int i = 0; i < run->count; i++)
        list[1 + i] = (clattn_layer_operand){.name = run->of[i].part.name, .host = run->of[i].data};
}

static void compute_host(const struct run *run)
{
    clattn_layer_operand list[1 + MOST_OPERANDS];
    const clattn_layer_call call = {
        .operands = list, .operand_count = 1 + (size_t)run->count, .seq_len = run->desc.seq_len};

    list_operands(run, list);
    assert_status(clattn_layer_reference(&run->desc, &call, test_log, NULL), SUCCESS);
}

static void compute_device(const struct run *run)
{
    const struct opencl *cl = opencl_get();
    clattn_layer_operand list[1 + MOST_OPERANDS];
    clattn_layer_call call = {.operands = list, .operand_count = 1 + (size_t)run->count, .seq_len = run->desc.seq_len};
    clattn_layer_plan *plan;
    size_t workspace;

    list_operands(run, list);
    list[0].buffer = test_buffer(packed_bytes, packed);
    for (int i = 0; i < run->count; i++)
        list[1 + i].buffer = test_buffer(run->of[i].count * sizeof(float), run->of[i].data);
    assert_status(clattn_layer_plan_create(&plan, test_device.context, &run->desc, test_log, NULL), SUCCESS);
    assert_status(clattn_layer_workspace_size(plan, &workspace), SUCCESS);
    call.workspace = test_buffer(workspace, NULL);
    assert_status(clattn_layer_enqueue(plan, test_device.queue, &call, 0, NULL, NULL), SUCCESS);
    for (int i = 0; i < run->count; i++)
        assert_int_equal(cl->EnqueueReadBuffer(test_device.queue, list[1 + i].buffer, CL_TRUE, 0,
                                               run->of[i].count * sizeof(float), run->of[i].data, 0, NULL, NULL),
                         CL_SUCCESS);
    for (int i = 0; i <= run->count; i++)
        cl->ReleaseMemObject(list[i].buffer);
    cl->ReleaseMemObject(call.workspace);
    clattn_layer_plan_destroy(plan);
}

static void compute(const struct run *run)
{
    (test_is_reference() ? compute_host : compute_device)(run);
}

static void compare(const float *actual, const float *wanted, size_t count, double bound, const char *what)
{
    double apart = 0, size = 0;

    for (size_t i = 0; i < count; i++) {
        apart += pow((double)actual[i] - (double)wanted[i], 2);
        size += pow((double)wanted[i], 2);
    }
    if (!(sqrt(apart) <= bound * (sqrt(size) + 1e-6)))
        fail_msg("%s of %s: relative error %g, bound %g", what, layer_name, sqrt(apart / size), bound);
}

/* ---- Tests -------------------------------------------------------------------------------------------------- */

/* Autograd computes in f32. */
static void test_autograd(void **state)
{
    const double bound = 2e-4;
    struct run run;
    size_t compared = 0, count;

    (void)state;
    if (!test_is_reference()) /* devices are held to the reference: a plan more is many kernels to compile */
        skip();
    run = make(CLATTN_LAYER_BACKWARD);
    memcpy(find(&run, "x", NULL), safetensors_find(&numbers, "x")->data, safetensors_find(&numbers, "x")->bytes);
    memcpy(find(&run, "d_y", NULL), safetensors_find(&expected, "d_y")->data,
           safetensors_find(&expected, "d_y")->bytes);
    compute(&run);
    compare(find(&run, "d_x", &count), safetensors_find(&expected, "d_x")->data, run.of[0].count, bound, "d_x");
    for (size_t i = 0; i < expected.count; i++) {
        const struct safetensor *wanted = &expected.tensors[i];
        float *gradient = malloc(wanted->bytes);
        if (strncmp(wanted->name, "d_", 2) == 0 && strcmp(wanted->name, "d_x") != 0 &&
            strcmp(wanted->name, "d_y") != 0) {
            assert_status(clattn_layer_unpack(&run.desc, find(&run, "d_weights", NULL), wanted->name + 2, gradient,
                                              test_log, NULL),
                          SUCCESS);
            compare(gradient, wanted->data, wanted->bytes / sizeof(float), bound, wanted->name);
            compared++;
        }
        free(gradient);
    }
    assert_true(compared >= 5);
    assert_status(
        clattn_layer_unpack(&run.desc, find(&run, "d_weights", NULL), "of_nothing", run.of[0].data, test_log, NULL),
        INVALID_ARGUMENT);
    drop(&run);
}

enum { BOTH = CLATTN_LAYER_INITIAL_STATE | CLATTN_LAYER_FINAL_STATE };

/* Of all outputs times their gradients in backward */
static double loss_of(const struct run *forward, const struct run *backward)
{
    double loss = 0;

    compute_host(forward);
    for (int i = 0; i < forward->count; i++) {
        char name[64];
        const float *gradient;
        snprintf(name, sizeof name, "d_%s", forward->of[i].part.name);
        if (forward->of[i].part.role != CLATTN_LAYER_OUTPUT)
            continue;
        gradient = find(backward, name, NULL);
        for (size_t n = 0; n < forward->of[i].count; n++)
            loss += (double)gradient[n] * (double)forward->of[i].data[n];
    }
    return loss;
}

/* The derivative along a direction of x and of each state, by differences of the reference's forward pass */
static void check_differences(const struct run *backward)
{
    const double space = 1.0 / 64;
    struct run forward = make(BOTH);

    for (int i = 0; i < forward.count; i++)
        if (forward.of[i].part.role == CLATTN_LAYER_INPUT)
            memcpy(forward.of[i].data, find(backward, forward.of[i].part.name, NULL),
                   forward.of[i].count * sizeof(float));
    for (int i = 0; i < forward.count; i++) {
        const struct operand *operand = &forward.of[i];
        double losses[2], slope = 0, size = 0;
        char name[64];
        const float *gradient;
        if (operand->part.role != CLATTN_LAYER_INPUT || operand->part.whole)
            continue;
        for (int side = 0; side < 2; side++) {
            for (size_t n = 0; n < operand->count; n++)
                operand->data[n] += (float)((side ? -2 : 1) * space * noise(n));
            losses[side] = loss_of(&forward, backward);
        }
        memcpy(operand->data, find(backward, operand->part.name, NULL), operand->count * sizeof(float));
        snprintf(name, sizeof name, "d_%s", operand->part.name);
        gradient = find(backward, name, NULL);
        for (size_t n = 0; n < operand->count; n++) {
            slope += (double)gradient[n] * noise(n);
            size += pow((double)gradient[n], 2);
        }
        if (fabs(slope - (losses[0] - losses[1]) / (2 * space)) > 5e-3 * (sqrt(size) + 1))
            fail_msg("%s of %s: %g along a direction, differences say %g", name, layer_name, slope,
                     (losses[0] - losses[1]) / (2 * space));
    }
    drop(&forward);
}

/* With states, against differences or the reference; and weights' gradients that are added. */
static void test_states(void **state)
{
    struct run run = make(BOTH | CLATTN_LAYER_BACKWARD | CLATTN_LAYER_ADDED), reference = make(run.desc.flags);

    (void)state;
    compute(&run);
    compute_host(&reference);
    if (test_is_reference())
        check_differences(&run);
    for (int i = 0; i < run.count; i++)
        if (run.of[i].part.role == CLATTN_LAYER_OUTPUT)
            compare(run.of[i].data, reference.of[i].data, run.of[i].count, 1e-4, run.of[i].part.name);
    compute_host(&run);
    for (size_t n = 0; n < run.of[3].count; n++) {
        assert_string_equal(run.of[3].part.name, "d_weights");
        reference.of[3].data[n] *= 2;
    }
    compare(run.of[3].data, reference.of[3].data, run.of[3].count, 1e-4, "twice d_weights");
    drop(&run);
    drop(&reference);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_autograd), cmocka_unit_test(test_states)};
    size_t length;

    if (argc != 3) {
        fprintf(stderr, "usage: test_layer_gradients FOLDER LAYER\n");
        return 2;
    }
    folder = argv[1];
    file_name = argv[2];
    length = strlen(file_name) - (strstr(file_name, "_biases") != NULL ? strlen("_biases") : 0);
    snprintf(layer_name, sizeof layer_name, "%.*s", (int)length, file_name);
    return cmocka_run_group_tests(tests, open_all, close_all);
}
