/* test_states: states as engines want them, by every solver: shared by several heads of queries. */
#include "harness.h"
#include "op/options.h"

#include "op/problem.h"
#include "plan/plan.h"

#include <math.h>
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
    {"recurrent, rows at once", "none", "recurrent", CLATTN_F32, {{"rows", 8}}, 0, 0},
    {"recurrent in segments", "none", "recurrent", CLATTN_F32, {{"rows", 4}, {"segments", 4}}, 1, 0},
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
    uint64_t flags;
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
    for (int id = 1; id < OPERAND_COUNT; id++) {
        const struct check_tensor *tensor = &tensors->tensor[id];
        double bound = check_bound(tensors->desc.dtype), own = check_bound(tensor->info.dtype);
        if (tensor->data != NULL && tensor->info.output)
            test_compare(tensor, &expected.tensor[id], own > bound ? own : bound, text);
    }
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
    {CLATTN_GLA, CLATTN_GATE_PER_HEAD, 0},
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
    wide.flags &= ~CLATTN_HEADS_TILED;
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
    int runs = 0;

    for (size_t i = 0; i < COUNT(rows) * 4; i++) {
        const struct problem_row *row = &rows[i / 4];
        const clattn_plan_desc desc = shared_desc(row, way->dtype, i / 4 % 2 == 0, (int)(i % 4));
        struct check_tensors tensors;
        if (!takes(way, row->rule) || (i % 4 >= 2 && (way->few || i != 3)) || (way->few && i / 4 >= FEW))
            continue; /* others test blocks of HQ, and tiles of them are one word's */
        test_make(&tensors, &desc, CHECK_GATES_USUAL, cuts);
        check_way(way, &device, &tensors, i % 2 ? "heads tiled" : "heads in blocks");
        check_free(&tensors);
        runs++;
    }
    test_ran(runs);
    clattn_context_destroy(device.context);
}

/* The final state in the initial one's memory, which each of the heads that share it reads. */
static void test_in_place(void **state)
{
    const struct way *way = *state;
    struct check_device device = open_way(way);
    const clattn_plan_desc desc = shared_desc(&rows[takes(way, rows[0].rule) ? 0 : 1], way->dtype, 1, 0);
    struct check_tensors apart, tensors;
    struct arguments own, shared;
    clattn_plan *plan;

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
    clattn_context_destroy(device.context);
}

/* ---- Gates as models leave them -------------------------------------------------------------------------------------
 */

enum { RAW = CLATTN_WITH_A_LOG | CLATTN_WITH_DT_BIAS };
static const struct {
    struct problem_row row;
    clattn_gate_map gate_map;
    clattn_beta_map beta_map;
} raw_rows[] = {
    {{CLATTN_GATED_DELTA_RULE, RAW, 0}, CLATTN_GATE_MAP_SOFTPLUS, CLATTN_BETA_TWICE_SIGMOID},
    {{CLATTN_KDA, RAW, 0}, CLATTN_GATE_MAP_SIGMOID, CLATTN_BETA_SIGMOID},
    {{CLATTN_SIMPLE_GLA, RAW, 0}, CLATTN_GATE_MAP_SOFTPLUS, CLATTN_BETA_STRENGTH},
    {{CLATTN_GLA, CLATTN_WITH_DT_BIAS, 0}, CLATTN_GATE_MAP_LOGSIGMOID, CLATTN_BETA_STRENGTH},
    {{CLATTN_SSD, RAW, 0}, CLATTN_GATE_MAP_SOFTPLUS, CLATTN_BETA_SOFTPLUS},
};

/* What a head has of its own is that of the state's head. */
static void test_gates(void **state)
{
    const struct way *way = *state;
    struct check_device device = open_way(way);
    int runs = 0;

    for (size_t i = 0; i < COUNT(raw_rows); i++) {
        clattn_plan_desc desc = shared_desc(&raw_rows[i].row, way->dtype, i % 2 == 0, 0);
        struct check_tensors tensors;

        desc.gate_map = raw_rows[i].gate_map;
        desc.beta_map = raw_rows[i].beta_map;
        if (!takes(way, desc.rule) || (way->few && !way->additive && i >= FEW))
            continue;
        test_make(&tensors, &desc, i == 1 ? CHECK_GATES_HARD : CHECK_GATES_USUAL, cuts);
        check_way(way, &device, &tensors, "raw gates");
        check_free(&tensors);
        runs++;
    }
    test_ran(runs);
    clattn_context_destroy(device.context);
}

/* ---- Types, pools, and states on the way ---------------------------------------------------------------------------
 */

static void make_and_check(const struct way *way, const struct check_device *device, const clattn_plan_desc *desc,
                           const char *what)
{
    struct check_tensors tensors;

    test_make(&tensors, desc, CHECK_GATES_SLOW, cuts);
    check_way(way, device, &tensors, what);
    check_free(&tensors);
}

static void test_types(void **state)
{
    static const struct problem_row of[] = {{CLATTN_GATED_DELTA_RULE, 0, 0},
                                            {CLATTN_LINEAR_ATTN, CLATTN_NORMALIZE | CLATTN_STATE_VK, 0}};
    const struct way *way = *state;
    struct check_device device = open_way(way);
    int runs = 0;

    for (size_t i = 0; i < COUNT(of); i++) {
        clattn_dtype dtype = i == 0 ? CLATTN_F16 : CLATTN_BF16;
        clattn_plan_desc desc = desc_of(&of[i], way->dtype, 1);
        desc.operand_types[desc.operand_type_count++] = (clattn_operand_type){OP(STATE_IN), dtype};
        desc.operand_types[desc.operand_type_count++] = (clattn_operand_type){OP(STATE_OUT), dtype};
        if (!takes(way, desc.rule) || (i > 0 && way->few && !way->additive))
            continue;
        make_and_check(way, &device, &desc, i == 0 ? "states in f16" : "states in bf16");
        runs++;
    }
    test_ran(runs);
    clattn_context_destroy(device.context);
}

/* Every sequence's state is another's in the pool. */
static void test_pool(void **state)
{
    static const struct problem_row of[] = {{CLATTN_GATED_DELTA_RULE, CLATTN_WITH_STATE_INDICES, 0},
                                            {CLATTN_MLSTM, CLATTN_WITH_STATE_INDICES, 0}};
    const struct way *way = *state;
    struct check_device device = open_way(way);
    int runs = 0;

    for (size_t i = 0; i < COUNT(of); i++) {
        const clattn_plan_desc desc = desc_of(&of[i], way->dtype, 1);
        if (!takes(way, desc.rule) || (i > 0 && way->few && !way->additive))
            continue;
        make_and_check(way, &device, &desc, "states in a pool");
        runs++;
    }
    test_ran(runs);
    clattn_context_destroy(device.context);
}

enum { EVERY = 64, WINDOW = 7 };
static clattn_plan_desc snapshot_desc(clattn_rule rule, clattn_dtype dtype, int every)
{
    const uint64_t normalize = rule_flags(rule_get(rule)) & CLATTN_NORMALIZE;
    const struct problem_row row = {rule, CLATTN_STATE_VK | normalize, rule == CLATTN_GATED_DELTA_PRODUCT ? 2 : 0};
    clattn_plan_desc desc = desc_of(&row, dtype, 0);

    desc.seq_len = 3 * EVERY + 9;
    *(every ? &desc.state_every : &desc.state_window) = every ? EVERY : WINDOW;
    return desc;
}

/* Where the solver has none in the middle of a chunk, or at all, the plan of it is refused, and another is taken. */
static void test_snapshots(void **state)
{
    static const clattn_rule of[] = {CLATTN_GATED_DELTA_RULE, CLATTN_GATED_DELTA_PRODUCT, CLATTN_SIMPLE_GLA,
                                     CLATTN_LINEAR_ATTN, CLATTN_MLSTM};
    const struct way *way = *state;
    struct check_device device = open_way(way);
    int runs = 0;
    int recurrent = strcmp(way->space, "recurrent") == 0, blocks = strstr(way->space, "blocks") != NULL;

    for (size_t i = 0; i < COUNT(of) * 2; i++) {
        const clattn_plan_desc desc = snapshot_desc(of[i / 2], way->dtype, (int)(i % 2));
        struct tuned tuned = tuned_default(space_find(way->space));
        clattn_plan *plan;
        if (!takes(way, desc.rule) || (way->few && i / 2 > 0 && !way->additive))
            continue;
        runs++;
        if (recurrent || (!blocks && desc.state_every != 0))
            make_and_check(way, &device, &desc, desc.state_every != 0 ? "every so many" : "the last");
        else
            assert_status(plan_create(&plan, device.context, &desc, &tuned), UNSUPPORTED);
    }
    test_ran(runs);
    clattn_context_destroy(device.context);
}

/* A plan of any mode has the last ones, one of mode chunk says why it has not. */
static void test_snapshot_modes(void **state)
{
    clattn_plan_desc desc = snapshot_desc(CLATTN_GATED_DELTA_RULE, CLATTN_F32, 0);
    struct check_device device = open_way(&ways[0]);
    clattn_plan *plan;
    clattn_plan_info info;

    (void)state;
    for (int every = 0; every < 2; every++) {
        desc.state_window = every ? 0 : WINDOW;
        desc.state_every = every ? EVERY + 1 : 0;
        desc.mode = CLATTN_MODE_AUTO;
        assert_status(clattn_plan_create(&plan, device.context, &desc), SUCCESS);
        assert_status(clattn_plan_get(plan, &info), SUCCESS);
        assert_string_equal(info.solver, "recurrent");
        clattn_plan_destroy(plan);
        desc.mode = CLATTN_MODE_CHUNK;
        test_log_clear();
        assert_status(clattn_plan_create(&plan, device.context, &desc), UNSUPPORTED);
        assert_logged("mode chunk returns states only at the ends of chunks");
        assert_status(clattn_supports(device.context, &desc), UNSUPPORTED);
    }
    clattn_context_destroy(device.context);
}

/* The self-test, which runs them on a few tokens, finds nothing wrong. */
static void test_self_test(void **state)
{
    struct check_device device = open_way(&ways[0]);
    clattn_plan *plan;
    clattn_plan_info info;

    (void)state;
    device.context->self_test = 1;
    for (int which = 0; which < 8; which++) {
        clattn_plan_desc desc = snapshot_desc(CLATTN_GATED_DELTA_RULE, CLATTN_F32, which & 1);
        desc.mode = which & 1 ? CLATTN_MODE_CHUNK : CLATTN_MODE_AUTO;
        desc.flags |= CLATTN_WITH_STATE_INDICES | CLATTN_HEADS_TILED | (which & 2 ? CLATTN_CU_SEQLENS : 0);
        desc.batch = which & 2 ? 1 : 2;
        desc.sequences = which & 2 ? 3 : 0;
        desc.state_slots = 7;
        *(which & 4 ? &desc.kv_heads : &desc.qk_heads) = SHARED;
        for (int i = 0; i < 3; i++)
            desc.operand_types[desc.operand_type_count++] = (clattn_operand_type){i == 0   ? OP(STATE_IN)
                                                                                  : i == 1 ? OP(STATE_OUT)
                                                                                           : OP(STATES),
                                                                                  which & 4 ? CLATTN_BF16 : CLATTN_F16};
        test_log_clear();
        assert_status(clattn_plan_create(&plan, device.context, &desc), SUCCESS);
        assert_status(clattn_plan_get(plan, &info), SUCCESS);
        assert_int_equal(info.rejected, 0);
        assert_string_equal(test_log_text, "");
        assert_string_equal(info.solver, which & 1 ? "chunk_scan" : "recurrent");
        clattn_plan_destroy(plan);
    }
    clattn_context_destroy(device.context);
}

/* The reference's: the last is the final state, and those before are the final states of fewer tokens. */
static void test_snapshots_reference(void **state)
{
    (void)state;
    for (int every = 0; every < 2; every++) {
        const clattn_plan_desc desc = snapshot_desc(CLATTN_GATED_DELTA_PRODUCT, CLATTN_F32, every);
        struct check_tensors tensors, part, expected, whole;
        const struct check_tensor *states = &whole.tensor[OP(STATES)], *final = &expected.tensor[OP(STATE_OUT)];
        int64_t count = every ? 3 : WINDOW;
        test_make(&tensors, &desc, CHECK_GATES_SLOW, NULL);
        assert_status(check_reference(&whole, &tensors, test_log, NULL), SUCCESS);
        for (int64_t n = 0; n < count; n++) {
            struct test_slice slice = {1, 1, 0, every ? (n + 1) * EVERY : desc.seq_len - WINDOW + 1 + n};
            test_take(&part, &tensors, slice);
            assert_status(check_reference(&expected, &part, test_log, NULL), SUCCESS);
            assert_memory_equal((char *)states->data + (size_t)(count + n) * final->bytes, final->data, final->bytes);
            check_free(&part), check_free(&expected);
        }
        check_free(&tensors), check_free(&whole);
    }
}

/* ---- A call of the caller's own: some of a pool, the newest first, one sequence without a state ----------------------
 */

enum { POOL = 5, LAST = 3, LONG = 6, SHORT = 2, K_DIM = 4, V_DIM = 2, CELL = K_DIM * V_DIM };
struct own {
    float q[(LONG + SHORT) * K_DIM], k[(LONG + SHORT) * K_DIM], v[(LONG + SHORT) * V_DIM], o[(LONG + SHORT) * V_DIM];
    float before_pool[CELL], pool[POOL * CELL]; /* an index below 0 reads nothing there, nor writes */
    float before_final[CELL], final[POOL * CELL], states[2 * LAST * CELL];
};

/* In one buffer, which comes back whole. */
static void run_own_device(struct own *own, const struct way *way, const clattn_plan_desc *desc,
                           const clattn_operand *operands, size_t count)
{
    const struct opencl *cl = opencl_get();
    struct check_device device = open_way(way);
    clattn_plan *plan = plan_of(way, &device, desc);
    struct arguments on_device = {.seq_len = CLATTN_WHOLE};
    cl_mem whole = test_buffer(sizeof *own, own), others[OPERAND_COUNT] = {NULL};
    size_t workspace;

    assert_status(clattn_plan_workspace_size(plan, &workspace), SUCCESS);
    for (size_t i = 0; i < count; i++) {
        clattn_operand *to = &on_device.of[operands[i].id];
        const char *at = operands[i].host;
        *to = operands[i];
        if (operand_is_index(to->id)) {
            others[i] = to->buffer = test_buffer(3 * sizeof(int32_t), operands[i].host);
            continue;
        }
        to->buffer = whole;
        to->offset += (size_t)(at - (const char *)own);
    }
    others[0] = on_device.workspace.buffer = test_buffer(workspace + 4, NULL);
    assert_status(check_enqueue(plan, device.queue, &on_device, 0, NULL, NULL), SUCCESS);
    assert_int_equal(cl->EnqueueReadBuffer(device.queue, whole, CL_TRUE, 0, sizeof *own, own, 0, NULL, NULL), 0);
    for (size_t i = 0; i < COUNT(others); i++)
        if (others[i] != NULL)
            cl->ReleaseMemObject(others[i]);
    cl->ReleaseMemObject(whole);
    clattn_plan_destroy(plan);
    clattn_context_destroy(device.context);
}

enum place { REFERENCE, BUFFER, HOST };
static void run_own(struct own *own, const int32_t indices[3], enum place where, const struct way *way)
{
    static const int32_t packed[] = {0, LONG, LONG + SHORT};
    const clattn_plan_desc desc = {.rule = CLATTN_LINEAR_ATTN,
                                   .seq_len = LONG + SHORT,
                                   .sequences = 2,
                                   .heads = 1,
                                   .key_dim = K_DIM,
                                   .value_dim = V_DIM,
                                   .flags = CLATTN_CU_SEQLENS | CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE |
                                            CLATTN_WITH_STATE_INDICES,
                                   .state_slots = POOL,
                                   .state_window = strcmp(way->space, "recurrent") == 0 ? LAST : 0,
                                   .state_every = strcmp(way->space, "recurrent") == 0 ? 0 : 64};
    clattn_operand operands[] = {{OP(Q), .host = own->q},
                                 {OP(K), .host = own->k},
                                 {OP(V), .host = own->v},
                                 {OP(O), .host = own->o},
                                 {OP(STATE_IN), .host = own->pool, .size = sizeof own->pool},
                                 {OP(STATE_OUT), .host = own->final, .size = sizeof own->final},
                                 {OP(SEQLENS), .host = (void *)(uintptr_t)packed},
                                 {OP(STATE_INDICES), .host = (void *)(uintptr_t)indices},
                                 {OP(STATES), .host = own->states, .offset = (LAST - 1) * CELL * sizeof(float),
                                  .batch_stride = LAST * CELL, .token_stride = -CELL, .head_stride = CELL}};
    const clattn_call call = {.operands = operands, .operand_count = COUNT(operands), .seq_len = CLATTN_WHOLE};
    struct check_device device;
    clattn_plan *plan;

    for (size_t i = 0; i < sizeof *own / sizeof(float); i++)
        ((float *)own)[i] = i < offsetof(struct own, before_final) / sizeof(float) ? (float)(i % 7) / 8 : -99;
    if (where == REFERENCE)
        assert_status(clattn_reference(&desc, &call, test_log, NULL), SUCCESS);
    if (where == BUFFER)
        run_own_device(own, way, &desc, operands, COUNT(operands));
    if (where != HOST)
        return;
    device = open_way(way);
    plan = plan_of(way, &device, &desc);
    assert_status(clattn_run(plan, &call), SUCCESS);
    clattn_plan_destroy(plan);
    clattn_context_destroy(device.context);
}

/* Its numbers are floats, and its states are left in the middle of a chunk. */
static int has_own(const struct way *way)
{
    return way->dtype == CLATTN_F32 && strstr(way->space, "blocks") == NULL;
}

static void test_own(void **state)
{
    static const int32_t indices[][3] = {{3, -1}, {-7, 0}, {4, 2}, {INT32_MAX, 1}};
    const struct way *way = *state;
    struct own device, host;

    for (size_t i = 0; i < COUNT(indices) * 2; i++) {
        run_own(&host, indices[i / 2], REFERENCE, way);
        run_own(&device, indices[i / 2], i % 2 == 0 ? BUFFER : HOST, way);
        for (size_t n = 0; n < sizeof host / sizeof(float); n++)
            if (!(fabsf(((float *)&device)[n] - ((float *)&host)[n]) < 1e-5f))
                fail_msg("%s, call %zu: float %zu is %g, expected %g", way->name, i, n, (double)((float *)&device)[n],
                         (double)((float *)&host)[n]);
    }
}

/* What stays, what is written, and where the newest lies. */
static void test_own_reference(void **state)
{
    static const int32_t indices[3] = {3, -1};
    struct own own;

    (void)state;
    run_own(&own, indices, REFERENCE, &ways[0]);
    for (int cell = 0; cell < POOL * CELL; cell++)
        assert_int_equal(own.final[cell] == -99, cell / CELL != 3);
    for (int i = 0; i < CELL; i++) {
        float second = 0;
        assert_true(own.states[i] == own.final[3 * CELL + i]);     /* the newest of the first is its final one */
        assert_true(own.states[(2 * LAST - 1) * CELL + i] == -99); /* the second has two tokens, not three */
        for (int t = LONG; t < LONG + SHORT; t++)                  /* which begin from zero */
            second += own.k[t * K_DIM + i / V_DIM] * own.v[t * V_DIM + i % V_DIM];
        assert_true(fabsf(own.states[LAST * CELL + i] - second) < 1e-5f);
    }
}

/* What would lie before the memory. */
static void test_before(void **state)
{
    clattn_plan_desc desc = snapshot_desc(CLATTN_LINEAR_ATTN, CLATTN_F32, 0);
    struct check_tensors tensors;
    struct arguments operands;

    (void)state;
    test_make(&tensors, &desc, CHECK_GATES_SLOW, NULL);
    check_operands(&operands, &tensors);
    operands.of[OP(STATES)].batch_stride = WINDOW * 6 * 240;
    operands.of[OP(STATES)].token_stride = -6 * 240;
    operands.of[OP(STATES)].head_stride = 240;
    operands.of[OP(STATES)].offset = (WINDOW - 1) * 6 * 240 * 4 - 4;
    test_log_clear();
    assert_status(check_compute(&tensors.desc, &operands, test_log, NULL), INVALID_OPERAND);
    assert_logged("states: offset 34556 is less than the 34560 bytes");
    operands.of[OP(STATES)].offset += 4;
    operands.of[OP(STATES)].size = 0;
    assert_status(check_compute(&tensors.desc, &operands, test_log, NULL), SUCCESS);
    operands.of[OP(Q)].token_stride = -1;
    assert_status(check_compute(&tensors.desc, &operands, test_log, NULL), INVALID_OPERAND);
    assert_logged("q: its token stride is -1, expected 0 to");
    check_free(&tensors);
}

/* Two types of states, two kinds of states on the way: each is refused in a line. */
static void test_refused(void **state)
{
    struct check_device device = open_way(&ways[0]);
    clattn_plan_desc desc = snapshot_desc(CLATTN_MLSTM, CLATTN_F32, 1);
    clattn_plan *plan;

    (void)state;
    test_log_clear();
    desc.operand_types[desc.operand_type_count++] = (clattn_operand_type){OP(NORMALIZER_IN), CLATTN_F16};
    assert_status(clattn_plan_create(&plan, device.context, &desc), INVALID_DESC);
    assert_logged("operand_types names initial_normalizer, whose type is fixed");
    desc = snapshot_desc(CLATTN_LINEAR_ATTN, CLATTN_F32, 1);
    desc.state_window = 1;
    assert_status(clattn_plan_create(&plan, device.context, &desc), INVALID_DESC);
    assert_logged("state_window is 1 and state_every 64, expected one of them");
    desc.state_window = 0;
    desc.operand_types[desc.operand_type_count++] = (clattn_operand_type){OP(STATES), CLATTN_F16};
    assert_status(clattn_plan_create(&plan, device.context, &desc), UNSUPPORTED);
    assert_logged("other states are not: kernels take one type for them");
    clattn_context_destroy(device.context);
}

/* ---- Places in a pool, of every rule that has a state --------------------------------------------------------- */

enum { PLACES = 3, FEW_TOKENS = 4 };

/* A problem of PLACES sequences with a pool of as many states; 0 where the rule has none. */
static int make_pool(clattn_rule rule, struct check_tensors *tensors)
{
    clattn_plan_desc desc = {.rule = rule,
                             .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE | CLATTN_WITH_STATE_INDICES,
                             .batch = PLACES,
                             .seq_len = FEW_TOKENS,
                             .heads = 2,
                             .key_dim = 4,
                             .value_dim = 4};

    if (!rule_has_state(rule_get(rule)) || rule_get(rule)->op == OP_LEARNER)
        return 0;
    check_fit(&desc);
    test_make(tensors, &desc, CHECK_GATES_USUAL, NULL);
    return 1;
}

static clattn_status compute_places(struct check_tensors *tensors, const int32_t indices[PLACES])
{
    struct arguments operands;

    memcpy(tensors->tensor[OP(STATE_INDICES)].data, indices, PLACES * sizeof *indices);
    for (int id = 1; id < OPERAND_COUNT; id++)
        if (tensors->tensor[id].data != NULL && tensors->tensor[id].info.output)
            memset(tensors->tensor[id].data, 0, tensors->tensor[id].bytes);
    check_operands(&operands, tensors);
    test_log_clear();
    return check_compute(&tensors->desc, &operands, test_log, NULL);
}

/* An index past the pool is none, as one below 0 is: from zero, to nowhere. */
static void test_no_place_reference(void **state)
{
    static const int32_t none[] = {INT32_MIN, -2, PLACES, PLACES + 1, INT32_MAX};
    struct check_tensors tensors, expected;

    (void)state;
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++) {
        if (!make_pool(rule, &tensors))
            continue;
        make_pool(rule, &expected);
        assert_status(compute_places(&expected, (const int32_t[]){2, -1, -1}), SUCCESS);
        for (size_t i = 0; i < COUNT(none); i++) {
            assert_status(compute_places(&tensors, (const int32_t[]){2, none[i], none[i]}), SUCCESS);
            test_compare_all(&tensors, &expected, 0, test_rule_name(rule));
        }
        check_free(&tensors);
        check_free(&expected);
    }
}

/* A place that two sequences have is refused, by name, of both. */
static void test_shared_place_reference(void **state)
{
    struct check_tensors tensors;

    (void)state;
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++) {
        if (!make_pool(rule, &tensors))
            continue;
        assert_status(compute_places(&tensors, (const int32_t[]){1, 0, 1}), INVALID_OPERAND);
        assert_logged("state_indices[0] and state_indices[2] are both 1, expected a state of its own");
        assert_status(compute_places(&tensors, (const int32_t[]){2, 0, 0}), INVALID_OPERAND);
        assert_logged("state_indices[1] and state_indices[2] are both 0, expected a state of its own");
        check_free(&tensors);
    }
}

/* clattn_run reads them on the host, too. */
static void test_shared_place(void **state)
{
    static const int32_t same[PLACES] = {1, 0, 1};
    struct check_device device = open_way(&ways[0]);
    struct check_tensors tensors;
    struct arguments operands;
    clattn_operand list[OPERAND_COUNT];
    clattn_call call;
    clattn_plan *plan;

    (void)state;
    assert_true(make_pool(CLATTN_LINEAR_ATTN, &tensors));
    memcpy(tensors.tensor[OP(STATE_INDICES)].data, same, sizeof same);
    check_operands(&operands, &tensors);
    call = arguments_call(&operands, list);
    plan = plan_of(&ways[0], &device, &tensors.desc);
    test_log_clear();
    assert_status(clattn_run(plan, &call), INVALID_OPERAND);
    assert_logged("state_indices[0] and state_indices[2] are both 1");
    clattn_plan_destroy(plan);
    clattn_context_destroy(device.context);
    check_free(&tensors);
}

/* ---- A pool, and sequences whose index names no state of it -------------------------------------------------------
 */

/* Every kernel that reads or writes the caller's states, with every rule that it takes or, where compiling takes long,
 * with the first few of simple_gla, gated_delta_rule and mlstm. `every` and `window` are the states on the way that the
 * solver leaves. With `lanes` the device is taken for one whose work-items share a tile. */
enum { DECODED = 1, PACKED = 2 }; /* sequences of a token each; of several lengths */
/* clang-format off */
#define WAY(name, engine, space, dtype, ...) .way = {name, engine, space, CLATTN_##dtype, {__VA_ARGS__}, 0, 0}
#define ADDITIVE(name, space, ...) .way = {name, "none", space, CLATTN_F32, {__VA_ARGS__}, 1, 0}
static struct padded_way {
    struct way way;
    int forms, few, every, window, lanes;
} padded_ways[] = {
    {WAY("recurrent", "none", "recurrent", F32, {NULL, 0}),
     .forms = DECODED | PACKED, .window = 2},
    {WAY("recurrent, bf16", "none", "recurrent", BF16, {NULL, 0}),
     .forms = DECODED, .few = 3},
    {WAY("recurrent, shared", "none", "recurrent", F32, {NULL, 0}),
     .forms = DECODED, .few = 1, .lanes = 1},
    {ADDITIVE("recurrent in segments", "recurrent", {"rows", 4}, {"segments", 4}),
     .forms = PACKED, .few = 1},
    {WAY("chunks", "none", "chunk_scan", F32, {"chunk", 16}),
     .forms = PACKED, .every = 16},
    {WAY("chunks, f16", "none", "chunk_scan", F16, {"chunk", 16}),
     .forms = DECODED | PACKED, .few = 1, .every = 16},
    {WAY("blocks", "none", "chunk_blocks", F32, {"chunk", 16}, {"stretch", 4}),
     .forms = PACKED, .few = 3},
    {ADDITIVE("blocks in segments", "chunk_blocks", {"chunk", 16}, {"segments", 2}),
     .forms = PACKED, .few = 1},
    {WAY("engine, bf16", "amd_cdna_emulated", "matrix_scan", BF16, {"chunk", 16}),
     .forms = PACKED, .few = 3, .every = 16},
    {WAY("engine in segments, f16", "amd_cdna_emulated", "matrix_scan", F16, {"scan.segments", 2}),
     .forms = PACKED, .few = 2},
    {WAY("channels", "none", "channels", F32, {NULL, 0}),
     .forms = DECODED | PACKED},
    {WAY("channels, f16", "none", "channels", F16, {NULL, 0}),
     .forms = DECODED},
    {WAY("channels, shared", "none", "channels", F32, {"spans", 2}),
     .forms = PACKED, .lanes = 1},
    {WAY("channels a lane", "none", "channels_lanes", F32, {NULL, 0}),
     .forms = DECODED | PACKED, .lanes = 1},
    {WAY("levels", "none", "levels_tokens", F32, {NULL, 0}),
     .forms = DECODED | PACKED},
    {WAY("levels in chunks", "none", "levels_scan", F32, {NULL, 0}),
     .forms = PACKED},
    {WAY("gram matrices", "none", "mesa_tokens", F32, {NULL, 0}),
     .forms = DECODED | PACKED},
    {WAY("gram matrices in chunks", "none", "mesa", F32, {NULL, 0}),
     .forms = PACKED},
    {WAY("short convolution", "none", "short_conv", F32, {NULL, 0}),
     .forms = DECODED | PACKED},
    {WAY("short convolution, bf16", "none", "short_conv", BF16, {NULL, 0}),
     .forms = DECODED | PACKED},
};
/* clang-format on */

/* What the indices say, and what the reference is told in their place. Sequences 2 and 6 have no tokens where they are
 * packed; else each has one. */
enum { PADDED = 7, POOL_STATES = 5, FILL = 0x3f };
static const int32_t indices_said[PADDED] = {4, -1, 1, INT32_MIN, POOL_STATES, INT32_MAX, -1},
                     indices_meant[PADDED] = {4, -1, 1, -1, -1, -1, -1};
static const int64_t padded_cuts[PADDED + 1] = {0, 5, 25, 25, 28, 45, 64, 64};

static clattn_plan_desc padded_desc(const struct padded_way *padded, clattn_rule rule, int packed)
{
    uint64_t normalize = packed ? rule_flags(rule_get(rule)) & CLATTN_NORMALIZE : 0;
    clattn_plan_desc desc = {.rule = rule, .dtype = padded->way.dtype, .key_dim = 20, .value_dim = 12, .heads = 2};
    int leaves = packed && !normalize && rule_get(rule)->read != READ_STABILIZED;

    check_variant(rule, 0, &desc);
    desc.flags |= CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE | CLATTN_WITH_STATE_INDICES | normalize |
                  (packed ? CLATTN_CU_SEQLENS : CLATTN_STATE_VK);
    desc.batch = packed ? 1 : PADDED;
    desc.sequences = packed ? PADDED : 0;
    desc.seq_len = packed ? padded_cuts[PADDED] : 1;
    desc.levels = 0; /* as many as the length needs */
    desc.state_slots = POOL_STATES;
    desc.kv_heads = packed;
    desc.state_every = leaves ? padded->every : 0;
    desc.state_window = leaves ? padded->window : 0;
    check_fit(&desc);
    return desc;
}

/* Whether the way's solver computes the rule. */
static int computes(const struct padded_way *padded, clattn_rule id)
{
    const clattn_plan_desc desc = padded_desc(padded, id, 0);
    const struct solver *solver = solver_find(padded->way.space);
    struct device device = test_device.context->device;
    const struct device_facts facts = {.device = &device, .engine = engine_get(padded->way.engine), .most_group = 256};
    struct problem problem;

    if (padded->lanes)
        device.serial = 0;
    return problem_init(&problem, &desc, NULL) == CLATTN_SUCCESS && solver->applies(solver, &facts, &problem);
}

/* Whether the way is tested with the rule. */
static int pads(const struct padded_way *padded, clattn_rule id)
{
    static const clattn_rule few[] = {CLATTN_SIMPLE_GLA, CLATTN_GATED_DELTA_RULE, CLATTN_MLSTM};
    const struct rule *rule = rule_get(id);
    int is_one = padded->few == 0;

    for (int i = 0; i < padded->few; i++)
        is_one |= few[i] == id;
    return is_one && rule_has_state(rule) && computes(padded, id) && takes(&padded->way, id);
}

static struct check_device open_padded(const struct padded_way *padded)
{
    struct check_device device = open_way(&padded->way);
    struct device *facts = &device.context->device;

    if (padded->lanes && facts->serial) {
        facts->serial = 0;
        facts->in_part = facts->info.gpu = 1;
    }
    return device;
}

/* The tensor amid as many bytes of FILL on either side as three of its states have. */
static size_t band_of(const struct check_tensor *tensor)
{
    return 3 * tensor->bytes / (size_t)tensor->info.dims[0];
}
static clattn_operand put_banded(const struct check_tensor *tensor)
{
    size_t band = band_of(tensor), bytes = tensor->bytes + 2 * band;
    char *whole = malloc(bytes);
    clattn_operand operand = {.offset = band};

    assert_non_null(whole);
    memset(whole, FILL, bytes);
    memcpy(whole + band, tensor->data, tensor->bytes);
    operand.buffer = test_buffer(bytes, whole);
    free(whole);
    return operand;
}
static void take_banded(const struct check_tensor *tensor, const clattn_operand *operand, const char *what)
{
    size_t band = band_of(tensor), bytes = tensor->bytes + 2 * band;
    char *whole = malloc(bytes);

    assert_non_null(whole);
    assert_int_equal(
        opencl_get()->EnqueueReadBuffer(test_device.queue, operand->buffer, CL_TRUE, 0, bytes, whole, 0, NULL, NULL),
        0);
    for (size_t i = 0; i < band; i++)
        if (whole[i] != FILL || whole[band + tensor->bytes + i] != FILL)
            fail_msg("%s: memory beside %s is written", what, tensor->info.name);
    if (!tensor->info.output && memcmp(whole + band, tensor->data, tensor->bytes) != 0)
        fail_msg("%s: %s is written", what, tensor->info.name);
    memcpy(tensor->data, whole + band, tensor->bytes);
    free(whole);
}

static void run_banded(struct check_tensors *tensors, const struct check_device *device, clattn_plan *plan,
                       const char *what)
{
    struct arguments operands = {.seq_len = CLATTN_WHOLE};
    size_t workspace;

    assert_status(clattn_plan_workspace_size(plan, &workspace), SUCCESS);
    operands.workspace.buffer = test_buffer(workspace + 4, NULL);
    for (int id = 1; id < OPERAND_COUNT; id++)
        if (tensors->tensor[id].data != NULL)
            operands.of[id] = put_banded(&tensors->tensor[id]);
    assert_status(check_enqueue(plan, device->queue, &operands, 0, NULL, NULL), SUCCESS);
    for (int id = 1; id < OPERAND_COUNT; id++)
        if (tensors->tensor[id].data != NULL)
            take_banded(&tensors->tensor[id], &operands.of[id], what);
    test_operands_free(&operands);
}

/* Outputs are FILL, so that it shows what is written, and as large as what is written there. */
static void make_padded(struct check_tensors *tensors, const clattn_plan_desc *desc, const int32_t *indices)
{
    test_make(tensors, desc, CHECK_GATES_SLOW, desc->flags & CLATTN_CU_SEQLENS ? padded_cuts : NULL);
    memcpy(tensors->tensor[OP(STATE_INDICES)].data, indices, PADDED * sizeof *indices);
    for (int id = 1; id < OPERAND_COUNT; id++)
        if (tensors->tensor[id].data != NULL && tensors->tensor[id].info.output)
            memset(tensors->tensor[id].data, FILL, tensors->tensor[id].bytes);
}

/* States that no index names are as they were. */
static void assert_others_kept(const struct check_tensor *pool, const char *what)
{
    size_t bytes = pool->bytes / POOL_STATES;

    for (int state = 0; state < POOL_STATES; state++)
        for (size_t i = 0; i < bytes && state != indices_said[0] && state != indices_said[2]; i++)
            if (((const char *)pool->data)[(size_t)state * bytes + i] != FILL)
                fail_msg("%s: state %d of %s is written", what, state, pool->info.name);
}

static void check_padded(const struct way *way, const struct check_device *device, const clattn_plan_desc *desc)
{
    static const clattn_operand_id pools[] = {OP(STATE_OUT), OP(NORMALIZER_OUT), OP(STABILIZER_OUT), OP(GRAM_OUT)};
    struct check_tensors tensors, expected;
    struct arguments operands;
    clattn_plan *plan = plan_of(way, device, desc);
    double bound = check_bound(desc->dtype);
    char what[128];

    snprintf(what, sizeof what, "%s, %s, %s", test_rule_name(desc->rule), way->name,
             desc->flags & CLATTN_CU_SEQLENS ? "packed" : "a token each");
    make_padded(&tensors, desc, indices_said);
    make_padded(&expected, desc, indices_meant);
    check_operands(&operands, &expected);
    assert_status(check_compute(&expected.desc, &operands, test_log, NULL), SUCCESS);
    run_banded(&tensors, device, plan, what);
    for (size_t i = 0; i < COUNT(pools); i++)
        if (tensors.tensor[pools[i]].data != NULL)
            assert_others_kept(&tensors.tensor[pools[i]], what);
    test_compare_all(&tensors, &expected, bound, what);
    check_free(&tensors), check_free(&expected);
    clattn_plan_destroy(plan);
}

/* A sequence whose index names no state begins from zero and leaves nothing; the others are as if it were not there. */
static void test_padding(void **state)
{
    const struct padded_way *padded = *state;
    struct check_device device = open_padded(padded);

    for (clattn_rule rule = 1; rule < RULE_COUNT; rule++)
        for (int packed = 0; packed < 2 && pads(padded, rule); packed++) {
            const clattn_plan_desc desc = padded_desc(padded, rule, packed);
            if (padded->forms & (packed ? PACKED : DECODED))
                check_padded(&padded->way, &device, &desc);
        }
    clattn_context_destroy(device.context);
}

/* Every rule that takes indices is in test_padding. */
static void test_padding_rules(void **state)
{
    (void)state;
    for (clattn_rule rule = 1; rule < RULE_COUNT; rule++) {
        clattn_plan_desc desc = padded_desc(&padded_ways[0], rule, 0), full;
        int ways_of_rule = 0;
        desc.flags |= CLATTN_WITH_STATE_INDICES;
        for (size_t i = 0; i < COUNT(padded_ways); i++)
            ways_of_rule += pads(&padded_ways[i], rule);
        if (clattn_plan_desc_complete(&full, &desc, NULL, NULL) == CLATTN_SUCCESS && ways_of_rule == 0)
            fail_msg("no padding of %s is tested", test_rule_name(rule));
    }
}

/* ---- As other interfaces lay their tensors out: none is copied ---------------------------------------------------------
 */

enum { B_ = 2, T_ = 5, H_ = 4, HK_ = 2, K_ = 8, V_ = 8, W_ = 3, S_ = K_ * V_ };

/* Both calls by a plan of mode auto; outputs alike, of which `dense` are contiguous. */
static void check_call(const clattn_plan_desc *desc, struct arguments *laid, const struct check_tensors *dense)
{
    struct check_device device = open_way(&ways[0]);
    clattn_operand list[OPERAND_COUNT];
    struct arguments operands;
    clattn_call call;
    clattn_plan *plan;

    laid->seq_len = CLATTN_WHOLE;
    call = arguments_call(laid, list);
    assert_status(clattn_plan_create(&plan, device.context, desc), SUCCESS);
    test_log_clear();
    if (clattn_run(plan, &call) != CLATTN_SUCCESS)
        fail_msg("%s", test_log_text);
    check_operands(&operands, dense);
    assert_status(check_compute(&dense->desc, &operands, test_log, NULL), SUCCESS);
    clattn_plan_destroy(plan);
    clattn_context_destroy(device.context);
}

static void assert_close(const float *actual, const struct check_tensors *dense, clattn_operand_id id, int64_t first,
                         int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabs((double)actual[i] - test_get(dense, id, first + i)) < 1e-5))
            fail_msg("%s[%lld] is %g, expected %g", dense->tensor[id].info.name, (long long)(first + i),
                     (double)actual[i], test_get(dense, id, first + i));
}

/* ONNX Runtime's LinearAttention: q_num_heads above kv_num_heads, beta [B,T,1], states [W,B,H,K,V], the past one the last
 * of a window like it. */
static void test_onnx_call(void **state)
{
    const clattn_plan_desc desc = {.rule = CLATTN_GATED_DELTA_RULE,
                                   .batch = B_,
                                   .seq_len = T_,
                                   .heads = H_,
                                   .kv_heads = HK_,
                                   .key_dim = K_,
                                   .value_dim = V_,
                                   .flags = CLATTN_INITIAL_STATE,
                                   .state_window = W_};
    static float past[W_][B_][HK_][S_], present[W_][B_][HK_][S_], beta[B_][T_];
    struct check_tensors dense;
    struct arguments laid;

    (void)state;
    test_make(&dense, &desc, CHECK_GATES_SLOW, NULL);
    memcpy(past[W_ - 1], dense.tensor[OP(STATE_IN)].data, sizeof past[0]);
    for (int i = 0; i < B_ * T_; i++) {
        beta[i / T_][i % T_] = (float)test_get(&dense, OP(BETA), i * HK_);
        for (int h = 0; h < HK_; h++)
            test_set(&dense, OP(BETA), i * HK_ + h, (double)beta[i / T_][i % T_]);
    }
    check_operands(&laid, &dense);
    laid.of[OP(BETA)] = (clattn_operand){.host = beta, .batch_stride = T_, .token_stride = 1, .size = sizeof beta};
    laid.of[OP(STATE_IN)] = (clattn_operand){.host = past, .offset = (W_ - 1) * sizeof past[0], .size = sizeof past[0]};
    laid.of[OP(STATES)] = (clattn_operand){.host = present,
                                           .size = sizeof present,
                                           .batch_stride = HK_ * S_,
                                           .token_stride = B_ * HK_ * S_,
                                           .head_stride = S_};
    laid.of[OP(O)].host = calloc(1, dense.tensor[OP(O)].bytes);
    check_call(&desc, &laid, &dense);
    assert_close(laid.of[OP(O)].host, &dense, OP(O), 0, B_ * T_ * H_ * V_);
    for (int b = 0; b < B_; b++)
        for (int w = 0; w < W_; w++)
            assert_close(present[w][b][0], &dense, OP(STATES), (b * W_ + w) * HK_ * S_, HK_ * S_);
    free(laid.of[OP(O)].host);
    check_free(&dense);
}

/* ggml's gated delta net: heads in turn, states [V][K], and behind the outputs of all sequences the states, newest first. */
static void test_ggml_call(void **state)
{
    enum { ATTENTION = B_ * T_ * H_ * V_ };
    const clattn_plan_desc desc = {.rule = CLATTN_GATED_DELTA_RULE,
                                   .batch = B_,
                                   .seq_len = T_,
                                   .heads = H_,
                                   .qk_heads = HK_,
                                   .key_dim = K_,
                                   .value_dim = V_,
                                   .flags = CLATTN_INITIAL_STATE | CLATTN_STATE_VK | CLATTN_HEADS_TILED,
                                   .state_window = W_};
    static float result[ATTENTION + W_ * B_ * H_ * S_];
    struct check_tensors dense;
    struct arguments laid;

    (void)state;
    test_make(&dense, &desc, CHECK_GATES_SLOW, NULL);
    check_operands(&laid, &dense);
    laid.of[OP(O)] = (clattn_operand){.host = result, .size = ATTENTION * sizeof(float)};
    laid.of[OP(STATES)] = (clattn_operand){.host = result,
                                           .offset = (ATTENTION + (W_ - 1) * B_ * H_ * S_) * sizeof(float),
                                           .batch_stride = H_ * S_,
                                           .token_stride = -B_ * H_ * S_,
                                           .head_stride = S_};
    check_call(&desc, &laid, &dense);
    assert_close(result, &dense, OP(O), 0, ATTENTION);
    for (int b = 0; b < B_; b++)
        for (int w = 0; w < W_; w++)
            assert_close(result + ATTENTION + ((W_ - 1 - w) * B_ + b) * H_ * S_, &dense, OP(STATES),
                         (b * W_ + w) * H_ * S_, H_ * S_);
    check_free(&dense);
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
} on_ways[] = {{"heads", test_heads}, {"gates", test_gates}, {"heads in place", test_in_place},
               {"types", test_types}, {"pool", test_pool},   {"snapshots", test_snapshots},
               {"own call", test_own}};

int main(int argc, char **argv)
{
    static char names[COUNT(on_ways) * COUNT(ways)][64], padding_names[COUNT(padded_ways)][64];
    struct CMUnitTest tests[COUNT(names) + COUNT(padding_names) + 14];
    const int plain = argc > 3 && strcmp(argv[3], "plain") == 0; /* no engines */
    size_t count = 0;

    if (argc > 1)
        test_filter(argv[1]);
    if (argc > 2)
        cmocka_set_skip_filter(argv[2]);
    for (size_t w = 0; w < COUNT(ways); w++)
        for (size_t i = 0; i < COUNT(on_ways); i++) {
            if ((on_ways[i].run == test_own && !has_own(&ways[w])) || (plain && strcmp(ways[w].engine, "none") != 0))
                continue;
            snprintf(names[count], sizeof names[0], "%s: %s", ways[w].name, on_ways[i].name);
            tests[count] = (struct CMUnitTest){names[count], on_ways[i].run, NULL, NULL, &ways[w]};
            count++;
        }
    for (size_t i = 0; i < COUNT(padded_ways); i++) {
        snprintf(padding_names[i], sizeof padding_names[0], "%s: padding", padded_ways[i].way.name);
        tests[count++] = (struct CMUnitTest){padding_names[i], test_padding, NULL, NULL, &padded_ways[i]};
    }
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_padding_rules);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_chunk_hints);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_snapshot_modes);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_refused);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_self_test);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_onnx_call);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_ggml_call);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_heads_reference);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_snapshots_reference);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_own_reference);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_before);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_shared_place);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_no_place_reference);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_shared_place_reference);
    return test_run_group("states", tests, count, test_device_open, test_device_close);
}
