/* Layers of numbers that are drawn, on the device against the layer's reference: test_drawn wide, a prompt of
 * gated_deltanet with GatedDeltaNet's own head, 256 channels of keys and 512 of values; test_drawn token, one token of the
 * layers whose output a norm follows, and how many kernels it takes on a device whose work-items share a tile. */
#include "harness.h"

#include "clattn_layer.h"
#include "device/opencl.h"
#include "layer/recipe.h"
#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

enum { MOST_OPERANDS = 8 };

static clattn_layer_desc desc; /* of the layer at hand */

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
    const clattn_layer_call call = {.operands = operands, .operand_count = count, .seq_len = desc.seq_len};

    for (size_t i = 0; i < count; i++)
        operands[i] = (clattn_layer_operand){list[i].name, NULL, list[i].of, 0};
    assert_status(clattn_layer_reference(&desc, &call, test_log, NULL), SUCCESS);
}

static void compute_device(const struct floats *list, size_t count)
{
    const struct opencl *cl = opencl_get();
    clattn_layer_operand operands[MOST_OPERANDS];
    clattn_layer_call call = {.operands = operands, .operand_count = count, .seq_len = desc.seq_len};
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

static void check_layer(void)
{
    struct floats expected[MOST_OPERANDS], found[MOST_OPERANDS];
    const size_t count = make(expected);

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

static void test_prompt(void **state)
{
    (void)state;
    desc = (clattn_layer_desc){.layer = CLATTN_LAYER_GATED_DELTANET,
                               .flags = CLATTN_LAYER_INITIAL_STATE | CLATTN_LAYER_FINAL_STATE,
                               .batch = 1,
                               .seq_len = 9,
                               .hidden = 48,
                               .heads = 2,
                               .qk_heads = 1,
                               .key_dim = 256,
                               .value_dim = 512,
                               .taps = 4};
    check_layer();
}

/* Kernels of one token beside the products. */
static int launches_beside_products(void)
{
    struct layer_recipe recipe = {.child_count = 0};
    const struct log log = {.fn = test_log};
    struct module module = {.layer = NULL};
    int count = 0;

    assert_status(module_read(&module, &desc, sizeof desc, &log), SUCCESS);
    assert_status(layer_recipe_open(&recipe, &module, test_device.context, 1, &log), SUCCESS);
    for (int i = 0; i < recipe.child_count; i++)
        if (recipe.children[i].rule != NULL)
            count += recipe.children[i].rule->bound.ir.step_count;
    layer_recipe_close(&recipe);
    return count;
}

/* The convolution or the rotation, and the rule with its gates and the norm after it. */
static void test_token(void **state)
{
    static const struct {
        clattn_layer layer;
        int launches, qk_heads, taps, rank;
    } layers[] = {{CLATTN_LAYER_GATED_DELTANET, 2, 1, 4, 0},
                  {CLATTN_LAYER_GATED_DELTANET_SPLIT, 2, 2, 4, 0},
                  {CLATTN_LAYER_KDA, 2, 0, 4, 8},
                  {CLATTN_LAYER_GLA, 1, 0, 0, 8},
                  {CLATTN_LAYER_RETNET, 2, 0, 0, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        const uint32_t goes_on = layers[i].layer != CLATTN_LAYER_RETNET; /* whose position is no float */
        desc = (clattn_layer_desc){.layer = layers[i].layer,
                                   .flags = goes_on * CLATTN_LAYER_INITIAL_STATE | CLATTN_LAYER_FINAL_STATE,
                                   .batch = 2,
                                   .seq_len = 1,
                                   .hidden = 48,
                                   .heads = 2,
                                   .qk_heads = layers[i].qk_heads,
                                   .key_dim = 32,
                                   .value_dim = 24,
                                   .taps = layers[i].taps,
                                   .rank = layers[i].rank};
        check_layer();
        assert_int_equal(launches_beside_products(), layers[i].launches);
    }
}

int main(int count, char **words)
{
    const struct CMUnitTest wide[] = {cmocka_unit_test(test_prompt)}, token[] = {cmocka_unit_test(test_token)};

    if (count == 2 && strcmp(words[1], "token") == 0)
        return cmocka_run_group_tests(token, test_device_open, test_device_close);
    return cmocka_run_group_tests(wide, test_device_open, test_device_close);
}
