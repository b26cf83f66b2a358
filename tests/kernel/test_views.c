/* test_views [ENGINE [TYPE [RULE...]]]: operands may begin at any element, and their batches, rows and heads lie any
 * number of elements apart: such views give the bits that contiguous operands give, and nothing between is written.
 *
 * ENGINE is none, or an emulated engine; threads and threads.ENGINE are work-items one by one (tests/threads), whose
 * compiler checks the alignment of every access. TYPE is f32, f16, bf16, all, or some: no variants of rules, f16 in the
 * recurrence alone, bf16 in chunks alone. RULE options: what rules have where it is asked for, in f16. Where no
 * RULE is named all are taken; then, and with some, options and tensors that reach beyond 2^31 elements, too. */
#include "harness.h"

#include "device/opencl.h"
#include "op/problem.h"
#include "op/rule.h"
#ifdef CLATTN_TEST_THREADS
#include "threads/threads.h"
#endif

#include <stdio.h>
#include <string.h>

/* More tokens than a chunk or a block of keys has; rows that are whole vectors, on an engine whole pieces. */
enum { BATCH = 2, TOKENS = 70, CACHE = 90, HEADS = 4, QK_HEADS = 2, KEY = 16, VALUE = 16, ENGINE_KEY = 64 };

static int on_engine(void)
{
    return strcmp(test_engine, "none") != 0;
}

/* How operands lie, in elements: how far past a multiple of WHOLE the first of each is, and what the steps from row to
 * row and from head to head are beside a multiple of WHOLE. So many elements are what a kernel moves at once. */
enum { WHOLE = 16 };
static const struct layout {
    const char *name;
    int first, row, head;
} layouts[] = {
    {"nothing aligned", 1, 3, 5},       {"the first alone off", 3, 0, 0}, {"rows alone off", 0, 1, 0},
    {"heads and batches off", 0, 0, 1}, {"rows off by two", 2, 2, 2},     {"all aligned", 0, 0, 0},
};

/* Where an operand lies among those of its element's size: from element `at` on, with steps between the first dims of
 * its shape and `inner` elements side by side. */
struct slot {
    const char *dims;
    size_t element;
    int axes;
    int64_t at, steps[3], inner;
};

/* All operands, in a buffer for each size of an element. On the host they begin at an odd address. */
enum { LARGEST = 8 };
struct arena {
    struct slot slots[OPERAND_COUNT];
    unsigned char *memory[LARGEST + 1], *bytes[LARGEST + 1];
    int64_t count[LARGEST + 1];
};

/* ---- Where operands lie ------------------------------------------------------------------------------------------ */

static int64_t whole(int64_t n)
{
    return (n + WHOLE - 1) / WHOLE * WHOLE;
}

/* The operand's stride along an axis of its shape */
static int64_t *stride_of(clattn_operand *operand, char letter)
{
    if (strchr("BNMP", letter) != NULL)
        return &operand->batch_stride;
    return strchr("TSXEWR", letter) != NULL ? &operand->token_stride : &operand->head_stride;
}

static void place(struct slot *slot, clattn_operand_id id, const clattn_operand_info *info, const struct layout *layout)
{
    int apart = !operand_is_index(id); /* others take no strides */

    slot->inner = 1;
    for (int d = 0; d < info->rank; d++)
        if (strchr("BNMPTSXEWRHQYGL", slot->dims[d]) != NULL)
            slot->axes++;
        else
            slot->inner *= info->dims[d];
    for (int axis = slot->axes; axis-- > 0;) {
        int64_t inside = axis + 1 < slot->axes ? slot->steps[axis + 1] * info->dims[axis + 1] : slot->inner;
        int rows = strchr("TSXEWR", slot->dims[axis]) != NULL;
        slot->steps[axis] = apart ? whole(inside) + (rows ? layout->row : layout->head) : inside;
    }
}

static void place_all(struct arena *arena, const struct check_tensors *tensors, const struct layout *layout)
{
    struct operand_row rows[OPERAND_COUNT];
    int count = rule_operands(&tensors->desc, rows);

    memset(arena, 0, sizeof *arena);
    for (int i = 0; i < count; i++) {
        const struct check_tensor *tensor = &tensors->tensor[rows[i].id];
        struct slot *slot = &arena->slots[rows[i].id];
        if (tensor->data == NULL)
            continue;
        slot->dims = rows[i].dims;
        slot->element = tensor->bytes / (size_t)check_count(&tensor->info);
        place(slot, rows[i].id, &tensor->info, layout);
        slot->at = whole(arena->count[slot->element]) + WHOLE + layout->first;
        arena->count[slot->element] =
            slot->at + (slot->axes > 0 ? slot->steps[0] * tensor->info.dims[0] : slot->inner) + 1;
    }
}

/* The arena's index of a tensor's element i */
static int64_t arena_index(const struct slot *slot, const clattn_operand_info *info, int64_t i)
{
    int64_t at = slot->at + i % slot->inner, outer = i / slot->inner;

    for (int axis = slot->axes; axis-- > 0; outer /= info->dims[axis])
        at += outer % info->dims[axis] * slot->steps[axis];
    return at;
}

/* Inputs; or outputs, and what the run has left of inputs */
static void scatter(struct arena *arena, const struct check_tensors *tensors, int outputs)
{
    for (int id = 1; id < OPERAND_COUNT; id++) {
        const struct check_tensor *tensor = &tensors->tensor[id];
        const struct slot *slot = &arena->slots[id];
        const char *from = tensor->info.output == outputs ? tensor->data : outputs ? tensors->after[id] : NULL;
        if (from == NULL)
            continue;
        for (int64_t i = 0; i < check_count(&tensor->info); i++)
            memcpy(arena->bytes[slot->element] + (size_t)arena_index(slot, &tensor->info, i) * slot->element,
                   from + (size_t)i * slot->element, slot->element);
    }
}

static void arena_create(struct arena *arena, const struct check_tensors *tensors, const struct layout *layout)
{
    place_all(arena, tensors, layout);
    for (size_t element = 1; element <= LARGEST; element++) {
        size_t bytes = (size_t)arena->count[element] * element;
        if (bytes == 0)
            continue;
        arena->memory[element] = malloc(bytes + 1);
        assert_non_null(arena->memory[element]);
        arena->bytes[element] = arena->memory[element] + 1;
        memset(arena->bytes[element], 0xff, bytes);
    }
    scatter(arena, tensors, 0);
}

static void arena_free(struct arena *arena)
{
    for (size_t element = 1; element <= LARGEST; element++)
        free(arena->memory[element]);
}

/* On buffers; on the host's memory where these are NULL */
static void arena_operands(const struct arena *arena, struct arguments *operands, const cl_mem *buffers)
{
    for (int id = 1; id < OPERAND_COUNT; id++) {
        const struct slot *slot = &arena->slots[id];
        clattn_operand *operand = &operands->of[id];
        if (slot->dims == NULL)
            continue;
        operand->offset = (size_t)slot->at * slot->element;
        if (buffers != NULL)
            operand->buffer = buffers[slot->element];
        else
            operand->host = arena->bytes[slot->element];
        for (int axis = 0; axis < slot->axes && !operand_is_index((clattn_operand_id)id); axis++)
            *stride_of(operand, slot->dims[axis]) = slot->steps[axis];
    }
}

/* With what work-items one by one found */
static void must_succeed(clattn_status status)
{
#ifdef CLATTN_TEST_THREADS
    if (status != CLATTN_SUCCESS)
        print_error("%s", threads_report());
#endif
    assert_status(status, SUCCESS);
}

/* ---- Runs -------------------------------------------------------------------------------------------------------- */

static cl_mem make_buffer(size_t bytes, void *data)
{
    cl_int error;
    cl_mem buffer = opencl_get()->CreateBuffer(test_device.cl, CL_MEM_READ_WRITE | (data ? CL_MEM_COPY_HOST_PTR : 0),
                                               bytes, data, &error);

    assert_int_equal(error, CL_SUCCESS);
    return buffer;
}

static void run_on_device(clattn_plan *plan, const struct check_tensors *tensors, const struct arena *arena)
{
    const struct opencl *cl = opencl_get();
    struct arguments operands = check_lengths(&tensors->desc);
    cl_mem buffers[LARGEST + 1] = {NULL};
    size_t workspace;

    for (size_t element = 1; element <= LARGEST; element++)
        if (arena->count[element] > 0)
            buffers[element] = make_buffer((size_t)arena->count[element] * element, arena->bytes[element]);
    arena_operands(arena, &operands, buffers);
    assert_status(clattn_plan_workspace_size(plan, &workspace), SUCCESS);
    operands.workspace.buffer = make_buffer(workspace + 4, NULL);
    must_succeed(check_enqueue(plan, test_device.queue, &operands, 0, NULL, NULL));
    for (size_t element = 1; element <= LARGEST; element++) {
        if (buffers[element] == NULL)
            continue;
        assert_int_equal(cl->EnqueueReadBuffer(test_device.queue, buffers[element], CL_TRUE, 0,
                                               (size_t)arena->count[element] * element, arena->bytes[element], 0, NULL,
                                               NULL),
                         CL_SUCCESS);
        cl->ReleaseMemObject(buffers[element]);
    }
    cl->ReleaseMemObject(operands.workspace.buffer);
}

/* From the host's memory to the device and back; by the reference where there is no plan */
static void run_on_host(clattn_plan *plan, const struct check_tensors *tensors, const struct arena *arena)
{
    struct arguments operands = check_lengths(&tensors->desc);
    clattn_operand list[OPERAND_COUNT];
    clattn_call call;

    arena_operands(arena, &operands, NULL);
    call = arguments_call(&operands, list);
    if (plan != NULL)
        must_succeed(clattn_run(plan, &call));
    else
        assert_status(check_compute(&tensors->desc, &operands, test_log, NULL), SUCCESS);
}

/* The operand that lies nearest before element `at` */
static const char *name_of(const struct arena *arena, const struct check_tensors *tensors, size_t element, int64_t at)
{
    const char *name = "nothing";
    int64_t nearest = -1;

    for (int id = 1; id < OPERAND_COUNT; id++) {
        const struct slot *slot = &arena->slots[id];
        if (slot->element == element && slot->at <= at && slot->at > nearest) {
            nearest = slot->at;
            name = tensors->tensor[id].info.name;
        }
    }
    return name;
}

static void compare(const struct arena *actual, const struct arena *expected, const struct check_tensors *tensors,
                    const char *what)
{
    for (size_t element = 1; element <= LARGEST; element++)
        for (int64_t i = 0; i < actual->count[element]; i++)
            if (memcmp(actual->bytes[element] + (size_t)i * element, expected->bytes[element] + (size_t)i * element,
                       element) != 0)
                fail_msg("%s: %s has other bits, or what is behind it was written: element %lld", what,
                         name_of(actual, tensors, element, i), (long long)i);
}

static void check_layout(clattn_plan *plan, const struct check_tensors *tensors, const struct layout *layout,
                         int on_host)
{
    struct arena actual, expected;
    char what[128];

    snprintf(what, sizeof what, "%s, %s, mode %d, %lld tokens, %s", test_rule_name(tensors->desc.rule),
             dtype_name(tensors->desc.dtype), (int)tensors->desc.mode, (long long)tensors->desc.seq_len, layout->name);
    test_log_clear();
    arena_create(&actual, tensors, layout);
    arena_create(&expected, tensors, layout);
    scatter(&expected, tensors, 1);
    if (on_host)
        run_on_host(plan, tensors, &actual);
    else
        run_on_device(plan, tensors, &actual);
    compare(&actual, &expected, tensors, what);
    arena_free(&actual);
    arena_free(&expected);
}

/* One plan for all layouts, the contiguous one first */
static void check_views(const clattn_plan_desc *desc)
{
    struct check_tensors tensors;
    clattn_plan *plan = NULL;

    test_make(&tensors, desc, CHECK_GATES_USUAL, NULL);
    test_log_clear();
    if (test_is_reference()) {
        test_run(&tensors);
    } else {
        assert_status(clattn_plan_create(&plan, test_device.context, &tensors.desc), SUCCESS);
        must_succeed(check_run_plan(&tensors, &test_device, plan, test_log, NULL));
    }
    for (size_t i = 0; i < COUNT(layouts); i++)
        check_layout(plan, &tensors, &layouts[i], plan == NULL);
    check_layout(plan, &tensors, &layouts[0], 1);
    clattn_plan_destroy(plan);
    check_free(&tensors);
}

/* ---- The table: rules, variants, modes and types ----------------------------------------------------------------- */

/* What is asked for: rules by name, all where there are none; a type, or all where it is negative; or some. */
static struct {
    char *const *rules;
    int count, type, some;
} asked = {.type = -1};

static int is_asked(clattn_rule rule, clattn_dtype dtype)
{
    int is = asked.count == 0;

    for (int i = 0; i < asked.count; i++)
        is |= clattn_rule_find(asked.rules[i]) == rule;
    return is && (asked.type < 0 || asked.type == (int)dtype);
}

/* An engine's kernels are of chunks, or of lists. In f32 alone rules have every variant. */
static int is_taken(clattn_rule rule, int variant, clattn_dtype dtype, clattn_mode mode)
{
    int list = rule_has_list(rule_get(rule)), chunks = check_mode_applies(rule, CLATTN_MODE_CHUNK);

    if (variant > 0 && (dtype != CLATTN_F32 || on_engine() || asked.some))
        return 0;
    if (asked.some && chunks && dtype == (mode == CLATTN_MODE_CHUNK ? CLATTN_F16 : CLATTN_BF16))
        return 0;
    return check_mode_applies(rule, mode) && (!on_engine() || mode == CLATTN_MODE_CHUNK || list);
}

/* Gates are of 16 bits in f16, in bf16 of 32. */
static int describe(clattn_plan_desc *desc, clattn_rule rule, int variant, clattn_dtype dtype, clattn_mode mode)
{

    *desc = (clattn_plan_desc){.rule = rule,
                               .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE,
                               .dtype = dtype,
                               .gate_dtype = dtype == CLATTN_F16 ? CLATTN_F16 : CLATTN_F32,
                               .batch = BATCH,
                               .seq_len = TOKENS,
                               .heads = HEADS,
                               .qk_heads = QK_HEADS,
                               .key_dim = on_engine() ? ENGINE_KEY : KEY,
                               .value_dim = VALUE,
                               .mode = mode};
    return check_variant(rule, variant, desc) != NULL && is_taken(rule, variant, dtype, mode);
}

static void test_rule_views(clattn_rule rule, clattn_dtype dtype)
{
    clattn_plan_desc desc;

    for (int mode = CLATTN_MODE_RECURRENT; mode <= CLATTN_MODE_CHUNK; mode++)
        for (int variant = 0; check_variant(rule, variant, &(clattn_plan_desc){.rule = rule}) != NULL; variant++)
            if (describe(&desc, rule, variant, dtype, (clattn_mode)mode))
                check_views(&desc);
    /* a query and its cache */
    if (rule_has_list(rule_get(rule)) && describe(&desc, rule, 0, dtype, CLATTN_MODE_AUTO)) {
        desc.seq_len = 1;
        desc.kv_len = CACHE;
        check_views(&desc);
    }
}

static void test_views(void **state)
{
    (void)state;
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++)
        for (int dtype = CLATTN_F32; dtype <= CLATTN_BF16; dtype++)
            if (is_asked(rule, (clattn_dtype)dtype))
                test_rule_views(rule, (clattn_dtype)dtype);
}

/* Operands that a rule has where they are asked for. Indices take an offset and no strides. */
static void test_options(void **state)
{
    const uint32_t packed = CLATTN_CU_SEQLENS, lengths = CLATTN_WITH_KV_LENS;
    const clattn_plan_desc rows[] = {
        {.rule = CLATTN_LINEAR_ATTN, .flags = packed, .batch = 1, .sequences = 3},
        {.rule = CLATTN_LINEAR_ATTN, .flags = packed | CLATTN_CU_SEQLENS_INT64, .batch = 1, .sequences = 3},
        {.rule = CLATTN_LINEAR_ATTN,
         .flags = CLATTN_WITH_STATE_INDICES | CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE | CLATTN_STATE_VK},
        {.rule = CLATTN_GLA, .flags = CLATTN_VALUE_GATE, .state_every = 16},
        {.rule = CLATTN_GATED_DELTA_RULE, .flags = CLATTN_WITH_ATTN},
        {.rule = CLATTN_MAMBA,
         .flags = CLATTN_WITH_D | CLATTN_WITH_Z | CLATTN_WITH_DT_BIAS | CLATTN_SOFTPLUS}, /* steps are positive */
        {.rule = CLATTN_SOFTMAX_ATTN, .flags = lengths | CLATTN_WITH_SINK | CLATTN_WITH_LSE, .kv_len = CACHE},
        {.rule = CLATTN_SOFTMAX_ATTN, .flags = lengths | CLATTN_APPEND, .seq_len = 3, .kv_len = CACHE},
        {.rule = CLATTN_DELTAFORMER, .flags = CLATTN_WITH_WRITTEN},
        {.rule = CLATTN_RMS_NORM, .flags = CLATTN_WITH_Z | CLATTN_WITH_D},
        {.rule = CLATTN_ROPE, .flags = CLATTN_WITH_POSITION},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        clattn_plan_desc desc = rows[i];
        desc.dtype = desc.gate_dtype = CLATTN_F16;
        desc.batch = desc.batch > 0 ? desc.batch : BATCH;
        desc.seq_len = desc.seq_len > 0 ? desc.seq_len : TOKENS;
        desc.heads = HEADS;
        desc.key_dim = KEY;
        desc.value_dim = VALUE;
        check_fit(&desc);
        check_views(&desc);
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

/* ---- Which device ------------------------------------------------------------------------------------------------ */

/* The device's context with the engine asked for, in the place of its own */
static int open_device(void **state)
{
    struct check_device other;

    if (test_is_reference())
        return 0;
    if (test_engine_open(state) != 0)
        return 1;
    other = test_device;
    test_device = test_engine_device;
    test_engine_device = other;
    return 0;
}

static int close_device(void **state)
{
    clattn_context_destroy(test_engine_device.context);
    return test_device_close(state);
}

/* Work-items one by one, where the program has them, for "threads" ahead of the engine's name. */
static const char *take_device(const char *engine)
{
    if (strncmp(engine, "threads", 7) != 0)
        return engine;
#ifdef CLATTN_TEST_THREADS
    threads_install(test_folder(), THREADS_ALIGNMENT);
#endif
    return engine[7] == '.' ? engine + 8 : "none";
}

int main(int argc, char **argv)
{
    const struct CMUnitTest named[] = {cmocka_unit_test(test_views)}, options[] = {cmocka_unit_test(test_options)};
    const struct CMUnitTest all[] = {cmocka_unit_test(test_views), cmocka_unit_test(test_options),
                                     cmocka_unit_test(test_far)};

    test_engine = take_device(argc > 1 ? argv[1] : "none");
    for (int dtype = CLATTN_F32; argc > 2 && dtype <= CLATTN_BF16; dtype++)
        asked.type = strcmp(argv[2], dtype_name((clattn_dtype)dtype)) == 0 ? dtype : asked.type;
    asked.some = argc > 2 && strcmp(argv[2], "some") == 0;
    asked.rules = argv + 3;
    asked.count = argc > 3 ? argc - 3 : 0;
    if (asked.count > 0 && strcmp(asked.rules[0], "options") == 0)
        return cmocka_run_group_tests(options, open_device, close_device);
    if (asked.count > 0 && !asked.some)
        return cmocka_run_group_tests(named, open_device, close_device);
    return cmocka_run_group_tests(all, open_device, close_device);
}
