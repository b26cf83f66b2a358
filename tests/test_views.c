/* test_views: operands that are strided slices of one buffer give the bits that contiguous ones give, and write nothing
 * else; tensors that reach beyond 2^31 elements. */
#include "harness.h"

#include "device/opencl.h"
#include "op/rule.h"

#include <stdio.h>
#include <string.h>

enum { BATCH = 2, TOKENS = 37, HEADS = 4, QK_HEADS = 2, KEY = 20, VALUE = 12 };

/* Where one operand lies in the arena, in floats; steps between the first three dims of its shape, or 0. */
struct slot {
    const char *dims;
    int64_t offset, steps[3];
    int64_t inner;
};

/* All operands in one buffer of floats: token rows interleaved, heads and batches with gaps; states and per-head
 * operands after them. */
struct arena {
    struct slot slots[OPERAND_COUNT];
    float *floats;
    int64_t count;
};

static int64_t inner_count(const clattn_operand_info *info, const char *dims)
{
    int64_t inner = 1;

    for (int i = 0; i < info->rank; i++)
        if (strchr("KVUZJFD", dims[i]) != NULL)
            inner *= info->dims[i];
    return inner;
}

/* Token operands: [batch gap [token row: operand after operand [head gap]]]. */
static int64_t place_tokens(struct arena *arena, const struct check_tensors *tensors)
{
    int64_t width = 3, at = 5;

    for (int id = 1; id < OPERAND_COUNT; id++) {
        struct slot *slot = &arena->slots[id];
        if (slot->dims == NULL || slot->dims[0] != 'B')
            continue;
        slot->offset = at + width;
        slot->steps[2] = slot->inner + 1;
        width += tensors->tensor[id].info.dims[2] * slot->steps[2];
    }
    for (int id = 1; id < OPERAND_COUNT; id++) {
        struct slot *slot = &arena->slots[id];
        if (slot->dims == NULL || slot->dims[0] != 'B')
            continue;
        slot->steps[1] = width;
        slot->steps[0] = width * TOKENS + 7;
    }
    return at + BATCH * (width * TOKENS + 7);
}

/* Heads between two steps of the first dim of [N,H,…] or [N,W,H,…]. */
static int64_t heads_of(const struct slot *slot, const clattn_operand_info *info)
{
    return slot->dims[1] == 'R' ? info->dims[1] * HEADS : HEADS;
}

/* [N,H,…], [N,W,H,…], [H,…]: a gap after every head, another after every sequence. */
static int64_t place_rest(struct arena *arena, const struct check_tensors *tensors, int64_t at)
{
    for (int id = 1; id < OPERAND_COUNT; id++) {
        struct slot *slot = &arena->slots[id];
        int64_t count = tensors->tensor[id].data ? tensors->tensor[id].info.dims[0] : 0;
        if (slot->dims == NULL || slot->dims[0] == 'B')
            continue;
        slot->offset = at;
        slot->steps[slot->dims[1] == 'R' ? 2 : 1] = slot->inner + 3;
        if (slot->dims[1] == 'R')
            slot->steps[1] = HEADS * slot->steps[2];
        slot->steps[0] =
            slot->dims[0] == 'N' ? heads_of(slot, &tensors->tensor[id].info) * (slot->inner + 3) + 1 : slot->inner + 3;
        if (operand_is_index((clattn_operand_id)id)) /* takes no strides */
            slot->steps[0] = 1;
        at += count * slot->steps[0];
    }
    return at;
}

/* The arena's index of a tensor's element i. */
static int64_t arena_index(const struct slot *slot, const clattn_operand_info *info, int64_t i)
{
    int64_t at = slot->offset + i % slot->inner, outer = i / slot->inner;
    int axes = 0;

    for (int d = 0; d < info->rank; d++)
        axes += strchr("KVUZJFD", slot->dims[d]) == NULL;
    for (int axis = axes; axis-- > 0; outer /= info->dims[axis])
        at += outer % info->dims[axis] * slot->steps[axis];
    return at;
}

/* Inputs; or outputs, and what the run has left of inputs */
static void scatter(struct arena *arena, const struct check_tensors *tensors, int outputs)
{
    for (int id = 1; id < OPERAND_COUNT; id++) {
        const struct check_tensor *tensor = &tensors->tensor[id];
        const float *from = tensor->info.output == outputs ? tensor->data : outputs ? tensors->after[id] : NULL;
        if (from == NULL)
            continue;
        for (int64_t i = 0; i < check_count(&tensor->info); i++)
            memcpy(&arena->floats[arena_index(&arena->slots[id], &tensor->info, i)], from + i, 4);
    }
}

static void arena_create(struct arena *arena, const struct check_tensors *tensors)
{
    struct operand_row rows[OPERAND_COUNT];
    int count = rule_operands(&tensors->desc, rows);

    memset(arena, 0, sizeof *arena);
    for (int i = 0; i < count; i++)
        arena->slots[rows[i].id] =
            (struct slot){.dims = rows[i].dims, .inner = inner_count(&tensors->tensor[rows[i].id].info, rows[i].dims)};
    arena->count = place_rest(arena, tensors, place_tokens(arena, tensors));
    arena->floats = malloc((size_t)arena->count * sizeof(float));
    assert_non_null(arena->floats);
    memset(arena->floats, 0xff, (size_t)arena->count * sizeof(float));
    scatter(arena, tensors, 0);
}

static void arena_operands(const struct arena *arena, struct arguments *operands, cl_mem buffer)
{
    *operands = (struct arguments){.seq_len = CLATTN_WHOLE};
    for (int id = 1; id < OPERAND_COUNT; id++) {
        const struct slot *slot = &arena->slots[id];
        clattn_operand *operand = &operands->of[id];
        if (slot->dims == NULL)
            continue;
        *operand = (clattn_operand){.buffer = buffer,
                                    .host = arena->floats,
                                    .offset = (size_t)slot->offset * 4,
                                    .batch_stride = slot->steps[0],
                                    .token_stride = slot->steps[1],
                                    .head_stride = slot->steps[2]};
        if (operand_is_index((clattn_operand_id)id)) {
            operand->batch_stride = operand->token_stride = operand->head_stride = 0;
        } else if (slot->dims[0] != 'B') {
            operand->batch_stride = slot->dims[0] == 'N' ? slot->steps[0] : 0;
            operand->token_stride = slot->dims[1] == 'R' ? slot->steps[1] : 0;
            operand->head_stride = slot->steps[slot->dims[1] == 'R' ? 2 : slot->dims[0] == 'N' ? 1 : 0];
        }
    }
}

static cl_mem make_buffer(size_t bytes, void *data)
{
    cl_int error;
    cl_mem buffer = opencl_get()->CreateBuffer(test_device.cl, CL_MEM_READ_WRITE | (data ? CL_MEM_COPY_HOST_PTR : 0),
                                               bytes, data, &error);

    assert_int_equal(error, CL_SUCCESS);
    return buffer;
}

static void run_on_device(const clattn_plan_desc *desc, const struct arena *arena)
{
    const struct opencl *cl = opencl_get();
    size_t bytes = (size_t)arena->count * 4, workspace;
    cl_mem buffer = make_buffer(bytes, arena->floats);
    struct arguments operands;
    clattn_plan *plan;

    test_log_clear();
    assert_status(clattn_plan_create(&plan, test_device.context, desc), SUCCESS);
    assert_status(clattn_plan_workspace_size(plan, &workspace), SUCCESS);
    arena_operands(arena, &operands, buffer);
    operands.workspace.buffer = make_buffer(workspace + 4, NULL);
    assert_status(check_enqueue(plan, test_device.queue, &operands, 0, NULL, NULL), SUCCESS);
    assert_int_equal(cl->EnqueueReadBuffer(test_device.queue, buffer, CL_TRUE, 0, bytes, arena->floats, 0, NULL, NULL),
                     CL_SUCCESS);
    cl->ReleaseMemObject(operands.workspace.buffer);
    cl->ReleaseMemObject(buffer);
    clattn_plan_destroy(plan);
}

static void run_strided(const clattn_plan_desc *desc, const struct arena *arena)
{
    struct arguments operands;

    if (!test_is_reference()) {
        run_on_device(desc, arena);
        return;
    }
    arena_operands(arena, &operands, NULL);
    assert_status(check_compute(desc, &operands, test_log, NULL), SUCCESS);
}

static void check_strided(const clattn_plan_desc *desc)
{
    struct check_tensors tensors;
    struct arena actual, expected;
    char what[64];

    snprintf(what, sizeof what, "%s, mode %d", test_rule_name(desc->rule), (int)desc->mode);
    test_make(&tensors, desc, CHECK_GATES_USUAL, NULL);
    arena_create(&actual, &tensors);
    arena_create(&expected, &tensors);
    test_run(&tensors);
    scatter(&expected, &tensors, 1);
    run_strided(desc, &actual);
    for (int64_t i = 0; i < actual.count; i++)
        if (memcmp(&actual.floats[i], &expected.floats[i], 4) != 0)
            fail_msg("%s: float %lld of the arena is %g, expected %g", what, (long long)i, (double)actual.floats[i],
                     (double)expected.floats[i]);
    free(actual.floats);
    free(expected.floats);
    check_free(&tensors);
}

static void test_strided(void **state)
{
    (void)state;
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++)
        for (int mode = CLATTN_MODE_RECURRENT; mode <= CLATTN_MODE_CHUNK; mode++)
            for (int variant = 0;; variant++) {
                clattn_plan_desc desc = {.rule = rule,
                                         .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE,
                                         .batch = BATCH,
                                         .seq_len = TOKENS,
                                         .heads = HEADS,
                                         .qk_heads = QK_HEADS,
                                         .key_dim = KEY,
                                         .value_dim = VALUE,
                                         .mode = (clattn_mode)mode};
                if (check_variant(rule, variant, &desc) == NULL)
                    break;
                if (check_mode_applies(rule, desc.mode) &&
                    desc.steps <= 1) /* more rows than tokens do not fit the interleaved layout */
                    check_strided(&desc);
            }
}

/* ---- Beyond 2^31 elements ---------------------------------------------------------------------------------------- */

/* v and o as [1, 3, 1, 4] of f16 whose tokens lie 2^30 + 8 elements apart: the last begins past 2^31. */
enum { FAR_TOKENS = 3, FAR_DIM = 4 };
static const int64_t far_stride = ((int64_t)1 << 30) + 8;

static int far_fits(void)
{
    clattn_device_info infos[32];
    size_t count = 0, bytes = (size_t)(2 * far_stride + FAR_DIM) * 2;

    clattn_devices(infos, COUNT(infos), &count);
    for (size_t i = 0; i < count && i < COUNT(infos); i++)
        if (infos[i].device == test_device.device)
            return infos[i].max_allocation >= bytes && infos[i].global_memory / 5 * 2 >= bytes;
    return 0;
}

static void copy_far(cl_mem buffer, void *host, int to_device)
{
    const struct opencl *cl = opencl_get();
    cl_int error = CL_SUCCESS;

    for (int64_t t = 0; t < FAR_TOKENS; t++) {
        size_t at = (size_t)(t * far_stride) * 2, bytes = FAR_DIM * 2;
        unsigned char *row = (unsigned char *)host + (size_t)t * bytes;
        error |= to_device ? cl->EnqueueWriteBuffer(test_device.queue, buffer, CL_TRUE, at, bytes, row, 0, NULL, NULL)
                           : cl->EnqueueReadBuffer(test_device.queue, buffer, CL_TRUE, at, bytes, row, 0, NULL, NULL);
    }
    assert_int_equal(error, CL_SUCCESS);
}

static void run_far(struct check_tensors *t)
{
    const struct opencl *cl = opencl_get();
    size_t workspace, bytes = (size_t)(2 * far_stride + FAR_DIM) * 2;
    cl_mem buffers[] = {make_buffer(t->tensor[OP(Q)].bytes, t->tensor[OP(Q)].data),
                        make_buffer(t->tensor[OP(K)].bytes, t->tensor[OP(K)].data), make_buffer(bytes, NULL),
                        make_buffer(bytes, NULL), NULL};
    struct arguments operands = {.of = {[OP(Q)] = {.buffer = buffers[0]}, [OP(K)] = {.buffer = buffers[1]}},
                                 .seq_len = CLATTN_WHOLE};
    clattn_plan *plan;

    assert_status(clattn_plan_create(&plan, test_device.context, &t->desc), SUCCESS);
    assert_status(clattn_plan_workspace_size(plan, &workspace), SUCCESS);
    buffers[4] = operands.workspace.buffer = make_buffer(workspace + 4, NULL);
    operands.of[OP(V)] = (clattn_operand){.buffer = buffers[2], .token_stride = far_stride};
    operands.of[OP(O)] = (clattn_operand){.buffer = buffers[3], .token_stride = far_stride};
    copy_far(buffers[2], t->tensor[OP(V)].data, 1);
    assert_status(check_enqueue(plan, test_device.queue, &operands, 0, NULL, NULL), SUCCESS);
    copy_far(buffers[3], t->tensor[OP(O)].data, 0);
    for (size_t i = 0; i < COUNT(buffers); i++)
        cl->ReleaseMemObject(buffers[i]);
    clattn_plan_destroy(plan);
}

static void test_far(void **state)
{
    (void)state;
    if (test_is_reference() || !far_fits()) {
        print_message("skipped: no device memory for 2^31 elements\n");
        skip();
    }
    for (int mode = CLATTN_MODE_RECURRENT; mode <= CLATTN_MODE_CHUNK; mode++) {
        clattn_plan_desc desc = {.rule = CLATTN_LINEAR_ATTN,
                                 .dtype = CLATTN_F16,
                                 .seq_len = FAR_TOKENS,
                                 .heads = 1,
                                 .key_dim = FAR_DIM,
                                 .value_dim = FAR_DIM,
                                 .mode = (clattn_mode)mode};
        struct check_tensors tensors, expected;
        test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
        assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
        run_far(&tensors);
        test_compare_all(&tensors, &expected, check_bound(CLATTN_F16), "beyond 2^31 elements");
        check_free(&tensors);
        check_free(&expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_strided), cmocka_unit_test(test_far)};

    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
