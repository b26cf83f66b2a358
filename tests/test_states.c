/* test_states: states as engines want them, by every solver: shared by several heads of queries. */
#include "harness.h"

#include "op/problem.h"
#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

/* A solver with a point of its space. */
static struct way {
    const char *name, *engine, *space;
    clattn_dtype dtype;
    struct {
        const char *name;
        int value;
    } set[4];
    int additive; /* only where nothing is erased */
    int few;      /* a few of the rules: compiling takes long */
} ways[] = {
    {"recurrent", "none", "recurrent", CLATTN_F32, {{NULL, 0}}, 0, 0},
    {"recurrent, bf16", "none", "recurrent", CLATTN_BF16, {{NULL, 0}}, 0, 1},
    {"chunks", "none", "chunk_scan", CLATTN_F32, {{NULL, 0}}, 0, 0},
    {"chunks, f16", "none", "chunk_scan", CLATTN_F16, {{NULL, 0}}, 0, 1},
    {"blocks", "none", "chunk_blocks", CLATTN_F32, {{"chunk", 16}, {"stretch", 2}}, 0, 1},
    {"blocks in segments", "none", "chunk_blocks", CLATTN_F32, {{"chunk", 16}, {"stretch", 2}, {"segments", 2}}, 1, 1},
    {"blocks on an engine", "nvidia_emulated", "matrix_blocks", CLATTN_F32, {{"chunk", 16}}, 0, 1},
    {"engine, bf16", "intel_16_emulated", "matrix_scan", CLATTN_BF16, {{NULL, 0}}, 0, 1},
    {"engine in segments, f16", "amd_cdna_emulated", "matrix_scan", CLATTN_F16, {{"scan.segments", 2}}, 0, 1},
};

/* A rule with its options; cuts not NULL: packed sequences. */
struct problem_row {
    clattn_rule rule;
    uint32_t flags;
    int32_t steps;
};
static const int64_t cuts[] = {0, 5, 5, 41, 75};
enum { SEQUENCES = COUNT(cuts) - 1, FEW = 2, HEADS = 6, SHARED = 2, TOKENS = 75 };

static clattn_plan_desc desc_of(const struct problem_row *row, clattn_dtype dtype, int packed)
{
    return (clattn_plan_desc){.rule = row->rule,
                              .dtype = dtype,
                              .flags = row->flags | CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE |
                                       (packed ? CLATTN_CU_SEQLENS : 0),
                              .batch = packed ? 1 : 2,
                              .seq_len = TOKENS,
                              .sequences = packed ? SEQUENCES : 0,
                              .heads = HEADS,
                              .key_dim = 20,
                              .value_dim = 12,
                              .steps = row->steps};
}

static struct check_device open_way(const struct way *way)
{
    const struct test_kind kind = {.name = way->name, .engine = way->engine};

    return test_kind_device(&kind);
}

static clattn_plan *plan_of(const struct way *way, const struct check_device *device, const clattn_plan_desc *desc)
{
    struct tuned tuned = tuned_default(space_find(way->space));
    clattn_plan *plan;

    for (size_t i = 0; i < COUNT(way->set) && way->set[i].name != NULL; i++)
        test_tuned_set(&tuned, way->set[i].name, way->set[i].value);
    test_log_clear();
    if (plan_create(&plan, device->context, desc, &tuned) != CLATTN_SUCCESS)
        fail_msg("%s, %s: no plan\n%s", test_rule_name(desc->rule), way->name, test_log_text);
    return plan;
}

/* The device's outputs by the way, against the reference. */
static void check_way(const struct way *way, const struct check_device *device, struct check_tensors *tensors,
                      const char *what)
{
    clattn_plan *plan = plan_of(way, device, &tensors->desc);
    struct check_device at = *device;
    struct check_tensors expected;
    char text[160];

    snprintf(text, sizeof text, "%s, %s, %s", test_rule_name(tensors->desc.rule), way->name, what);
    assert_status(check_reference(&expected, tensors, test_log, NULL), SUCCESS);
    if (check_run_plan(tensors, &at, plan, test_log, NULL) != CLATTN_SUCCESS)
        fail_msg("%s: %s", text, test_log_text);
    test_compare_all(tensors, &expected, check_bound(tensors->desc.dtype), text);
    check_free(&expected);
    clattn_plan_destroy(plan);
}

static int takes(const struct way *way, clattn_rule rule)
{
    return !way->additive || rule_get(rule)->erase == ERASE_NONE;
}

/* ---- Heads --------------------------------------------------------------------------------------------------------
 */

static const struct problem_row rows[] = {
    {CLATTN_GATED_DELTA_RULE, 0, 0},
    {CLATTN_SIMPLE_GLA, CLATTN_STATE_VK, 0},
    {CLATTN_KDA, CLATTN_QK_L2NORM, 0},
    {CLATTN_LINEAR_ATTN, CLATTN_NORMALIZE, 0},
    {CLATTN_RWKV6, 0, 0},
    {CLATTN_MLSTM, 0, 0},
    {CLATTN_GATED_DELTA_PRODUCT, 0, 2},
    {CLATTN_COMBA, 0, 0},
    {CLATTN_SIMPLE_GLA, CLATTN_GATE_PER_HEAD, 0},
    {CLATTN_RETENTION, 0, 0},
};

/* Which of the heads that are shared a head has. */
static int64_t shared_of(const clattn_plan_desc *desc, int64_t head, int64_t shared)
{
    return desc->flags & CLATTN_HEADS_TILED ? head % shared : head / (desc->heads / shared);
}

/* to has a head of its own where from shares some. Heads stand ahead of the last dims, of `rank` of them. */
static void spread_heads(const struct check_tensors *to, const struct check_tensors *from, clattn_operand_id id,
                         const char *dims)
{
    const struct check_tensor *wide = &to->tensor[id], *narrow = &from->tensor[id];
    size_t axis = strcspn(dims, "HQGL"), inner = (size_t)wide->info.element_size;
    int64_t heads, shared, outer;

    if (dims[axis] == '\0') {
        memcpy(wide->data, narrow->data, wide->bytes);
        return;
    }
    heads = wide->info.dims[axis];
    shared = narrow->info.dims[axis];
    for (int i = (int)axis + 1; i < wide->info.rank; i++)
        inner *= (size_t)wide->info.dims[i];
    outer = (int64_t)(wide->bytes / inner) / heads;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t h = 0; h < heads; h++)
            memcpy((char *)wide->data + (size_t)(o * heads + h) * inner,
                   (const char *)narrow->data + (size_t)(o * shared + shared_of(&from->desc, h, shared)) * inner,
                   inner);
}

/* The reference of shared heads is that of heads which have copies. */
static void check_copies(const clattn_plan_desc *desc)
{
    struct check_tensors shared, apart, expected, spread;
    clattn_plan_desc wide = *desc;
    struct operand_row operands[OPERAND_COUNT];
    int count;

    wide.qk_heads = wide.kv_heads = 0;
    wide.flags &= ~(uint32_t)CLATTN_HEADS_TILED;
    test_make(&shared, desc, CHECK_GATES_SLOW, cuts);
    assert_status(check_allocate(&apart, &wide), SUCCESS);
    assert_status(check_reference(&expected, &shared, test_log, NULL), SUCCESS);
    assert_status(check_allocate(&spread, &expected.desc), SUCCESS);
    check_free(&spread);
    wide.dtype = wide.gate_dtype = CLATTN_F32;
    assert_status(check_allocate(&spread, &wide), SUCCESS);
    count = rule_operands(&apart.desc, operands);
    for (int i = 0; i < count; i++) {
        clattn_operand_id id = operands[i].id;
        if (operand_is_output(id))
            spread_heads(&spread, &expected, id, operands[i].dims);
        else
            spread_heads(&apart, &shared, id, operands[i].dims);
    }
    check_free(&expected);
    assert_status(check_reference(&expected, &apart, test_log, NULL), SUCCESS);
    test_compare_all(&spread, &expected, 0, test_rule_name(desc->rule));
    check_free(&shared), check_free(&apart), check_free(&expected), check_free(&spread);
}

/* HK, then HQ; blocks, then tiles of heads */
static clattn_plan_desc shared_desc(const struct problem_row *row, clattn_dtype dtype, int packed, int which)
{
    clattn_plan_desc desc = desc_of(row, dtype, packed);

    *(which / 2 == 0 ? &desc.kv_heads : &desc.qk_heads) = SHARED;
    desc.flags |= which % 2 ? CLATTN_HEADS_TILED : 0;
    return desc;
}

static void test_heads_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (rule_get(rows[i].rule)->head_decay != NULL)
            continue; /* by the state's own number */
        for (int which = 0; which < 4; which++)
            for (int packed = 0; packed < 2; packed++) {
                const clattn_plan_desc desc = shared_desc(&rows[i], CLATTN_F32, packed, which);
                check_copies(&desc);
            }
    }
}

static void test_heads(void **state)
{
    const struct way *way = *state;
    struct check_device device = open_way(way);

    for (size_t i = 0; i < COUNT(rows) * 4; i++) {
        const struct problem_row *row = &rows[i / 4];
        const clattn_plan_desc desc = shared_desc(row, way->dtype, i / 4 % 2 == 0, (int)(i % 4));
        struct check_tensors tensors;
        if (!takes(way, row->rule) || (i % 4 >= 2 && (way->few || i != 3)) || (way->few && i / 4 >= FEW))
            continue; /* others test blocks of HQ, and tiles of them are one word's */
        test_make(&tensors, &desc, CHECK_GATES_USUAL, cuts);
        check_way(way, &device, &tensors, i % 2 ? "heads tiled" : "heads in blocks");
        check_free(&tensors);
    }
    clattn_context_destroy(device.context);
}

/* The final state in the initial one's memory, which each of the heads that share it reads. */
static void test_in_place(void **state)
{
    const struct way *way = *state;
    struct check_device device = open_way(way);
    const clattn_plan_desc desc = shared_desc(&rows[0], way->dtype, 1, 0);
    struct check_tensors apart, tensors;
    struct arguments own, shared;
    clattn_plan *plan;

    if (takes(way, desc.rule)) {
        plan = plan_of(way, &device, &desc);
        test_make(&apart, &desc, CHECK_GATES_SLOW, cuts);
        test_make(&tensors, &desc, CHECK_GATES_SLOW, cuts);
        assert_status(check_run_plan(&apart, &device, plan, test_log, NULL), SUCCESS);
        own = shared = test_operands(&tensors, plan);
        shared.of[OP(STATE_OUT)].buffer = own.of[OP(STATE_IN)].buffer;
        assert_status(check_enqueue(plan, device.queue, &shared, 0, NULL, NULL), SUCCESS);
        for (int i = 0; i < 2; i++) {
            clattn_operand_id id = i == 0 ? OP(O) : OP(STATE_OUT);
            assert_int_equal(opencl_get()->EnqueueReadBuffer(device.queue, shared.of[id].buffer, CL_TRUE, 0,
                                                             tensors.tensor[id].bytes, tensors.tensor[id].data, 0, NULL,
                                                             NULL),
                             0);
        }
        test_operands_free(&own);
        test_compare_all(&tensors, &apart, 0, way->name);
        check_free(&apart), check_free(&tensors);
        clattn_plan_destroy(plan);
    }
    clattn_context_destroy(device.context);
}

/* ---- Chunks -------------------------------------------------------------------------------------------------------
 */

/* A chunk is a hint: the nearest there is, and a shorter one where local memory does not hold it. */
static void test_chunk_hints(void **state)
{
    static const int32_t asked[][2] = {{1, 8},   {8, 8},   {12, 8},   {13, 16},       {20, 16},
                                       {40, 32}, {50, 64}, {128, 64}, {INT32_MAX, 64}};
    const struct problem_row row = {CLATTN_GATED_DELTA_RULE, 0, 0};
    clattn_plan_desc desc = desc_of(&row, CLATTN_F32, 0), full;
    struct check_device device = open_way(&ways[0]);
    clattn_plan_info info;
    clattn_plan *plan;

    (void)state;
    for (size_t i = 0; i < COUNT(asked); i++) {
        desc.chunk = asked[i][0];
        assert_status(clattn_plan_desc_complete(&full, &desc, NULL, NULL), SUCCESS);
        assert_int_equal(full.chunk, asked[i][1]);
    }
    desc.mode = CLATTN_MODE_CHUNK;
    device.context->device.info.local_memory = 16384;
    assert_status(clattn_supports(device.context, &desc), SUCCESS);
    assert_status(clattn_plan_create(&plan, device.context, &desc), SUCCESS);
    assert_status(clattn_plan_get(plan, &info), SUCCESS);
    assert_in_range(info.chunk, 8, 32);
    assert_int_equal(info.desc->chunk, info.chunk);
    clattn_plan_destroy(plan);
    clattn_context_destroy(device.context);
}

/* ---- All ----------------------------------------------------------------------------------------------------------
 */

/* Of each way. */
static const struct {
    const char *name;
    void (*run)(void **state);
} on_ways[] = {{"heads", test_heads}, {"heads in place", test_in_place}};

int main(int argc, char **argv)
{
    static char names[COUNT(on_ways) * COUNT(ways)][64];
    struct CMUnitTest tests[COUNT(names) + 2];
    size_t count = 0;

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    for (size_t w = 0; w < COUNT(ways); w++)
        for (size_t i = 0; i < COUNT(on_ways); i++, count++) {
            snprintf(names[count], sizeof names[0], "%s: %s", ways[w].name, on_ways[i].name);
            tests[count] = (struct CMUnitTest){names[count], on_ways[i].run, NULL, NULL, &ways[w]};
        }
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_chunk_hints);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_heads_reference);
    return _cmocka_run_group_tests("states", tests, count, test_device_open, test_device_close);
}
