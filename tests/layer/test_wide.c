/* A gated_deltanet layer with GatedDeltaNet's own head: 256 channels of keys and 512 of values. A prompt on the device
 * against the layer's reference. */
#include "harness.h"

#include "clattn_layer.h"
#include "device/opencl.h"

#include <stdio.h>
#include <string.h>

enum { BATCH = 1, TOKENS = 9, MOST_OPERANDS = 8 };

static const clattn_layer_desc desc = {.layer = CLATTN_LAYER_GATED_DELTANET,
                                       .flags = CLATTN_LAYER_INITIAL_STATE | CLATTN_LAYER_FINAL_STATE,
                                       .batch = BATCH,
                                       .seq_len = TOKENS,
                                       .hidden = 48,
                                       .heads = 2,
                                       .qk_heads = 1,
                                       .key_dim = 256,
                                       .value_dim = 512,
                                       .taps = 4};

/* An operand on the host; an f32 layer has nothing but floats. */
struct floats {
    const char *name;
    int is_output;
    size_t count;
    float *of;
};

static void draw(struct floats *floats, uint32_t seed)
{
    floats->of = malloc(floats->count * sizeof(float));
    assert_non_null(floats->of);
    for (size_t i = 0; i < floats->count; i++) {
        seed = seed * 1664525u + 1013904223u;
        floats->of[i] = (float)(seed >> 8) / (1 << 24) * 0.4f - 0.2f;
    }
}

/* The packed weights and all operands, in the order in which the layer describes them; how many. */
static size_t make(struct floats list[MOST_OPERANDS])
{
    clattn_layer_part part;
    size_t bytes, count = 1;

    assert_status(clattn_layer_packed_size(&desc, &bytes), SUCCESS);
    list[0] = (struct floats){"weights", 0, bytes / sizeof(float), NULL};
    draw(&list[0], 1);
    for (size_t i = 0; clattn_layer_part_describe(&desc, i, &part) == CLATTN_SUCCESS; i++) {
        struct floats *floats = &list[count];
        if (part.role == CLATTN_LAYER_WEIGHT)
            continue;
        assert_true(++count <= MOST_OPERANDS && !part.whole);
        *floats = (struct floats){part.name, part.role == CLATTN_LAYER_OUTPUT, 1, NULL};
        for (int d = 0; d < part.rank; d++)
            floats->count *= (size_t)part.dims[d];
        draw(floats, (uint32_t)count);
    }
    return count;
}

static void compute_host(const struct floats *list, size_t count)
{
    clattn_layer_operand operands[MOST_OPERANDS];
    const clattn_layer_call call = {.operands = operands, .operand_count = count, .seq_len = TOKENS};

    for (size_t i = 0; i < count; i++)
        operands[i] = (clattn_layer_operand){list[i].name, NULL, list[i].of, 0};
    assert_status(clattn_layer_reference(&desc, &call, test_log, NULL), SUCCESS);
}

static void compute_device(const struct floats *list, size_t count)
{
    const struct opencl *cl = opencl_get();
    clattn_layer_operand operands[MOST_OPERANDS];
    clattn_layer_call call = {.operands = operands, .operand_count = count, .seq_len = TOKENS};
    clattn_layer_plan *plan;
    size_t bytes;

    assert_status(clattn_layer_plan_create(&plan, test_device.context, &desc, test_log, NULL), SUCCESS);
    assert_status(clattn_layer_workspace_size(plan, &bytes), SUCCESS);
    call.workspace = test_buffer(bytes, NULL);
    for (size_t i = 0; i < count; i++)
        operands[i] =
            (clattn_layer_operand){list[i].name, test_buffer(list[i].count * sizeof(float), list[i].of), NULL, 0};
    assert_status(clattn_layer_enqueue(plan, test_device.queue, &call, 0, NULL, NULL), SUCCESS);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(cl->EnqueueReadBuffer(test_device.queue, operands[i].buffer, CL_TRUE, 0,
                                               list[i].count * sizeof(float), list[i].of, 0, NULL, NULL),
                         CL_SUCCESS);
        cl->ReleaseMemObject(operands[i].buffer);
    }
    cl->ReleaseMemObject(call.workspace);
    clattn_layer_plan_destroy(plan);
}

static struct check_tensor tensor_of(const struct floats *floats)
{
    const clattn_operand_info info = {
        .dims = {1, 1, 1, (int64_t)floats->count}, .rank = 4, .dtype = CLATTN_F32, .name = floats->name};

    return (struct check_tensor){floats->of, floats->count * sizeof(float), info};
}

static void test_prompt(void **state)
{
    struct floats expected[MOST_OPERANDS], found[MOST_OPERANDS];
    const size_t count = make(expected);

    (void)state;
    assert_int_equal(make(found), count);
    compute_host(expected, count);
    compute_device(found, count);
    for (size_t i = 0; i < count; i++) {
        const struct check_tensor a = tensor_of(&found[i]), b = tensor_of(&expected[i]);
        if (expected[i].is_output)
            test_compare(&a, &b, check_bound(CLATTN_F32), expected[i].name);
        free(expected[i].of);
        free(found[i].of);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_prompt)};

    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
