/* What a caller's data may say and must not do: cu_seqlens that are no cuts, kv_lens that no cache has, and states that are read and written in
 * place. In the recurrence, in chunks, and on emulated matrix engines, whole and in segments. */
#include "harness.h"

#include "device/opencl.h"

#include <stdio.h>
#include <string.h>

static struct test_kind kinds[] = {
    {"recurrent", CLATTN_MODE_RECURRENT, CLATTN_F32, "none", 0},
    {"chunk", CLATTN_MODE_CHUNK, CLATTN_F32, "none", 0},
    {"matrix", CLATTN_MODE_CHUNK, CLATTN_BF16, "nvidia_emulated", 0},
    {"matrix in segments", CLATTN_MODE_CHUNK, CLATTN_BF16, "amd_cdna_emulated", 4},
};

enum { TOKENS = 560, SEQUENCES = 3 };

static int some; /* is wanted: of the kinds two, and of an engine's cuts every second one */

static clattn_plan_desc desc_of(const struct test_kind *kind, clattn_rule rule)
{
    return (clattn_plan_desc){.rule = rule,
                              .dtype = kind->dtype,
                              .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE,
                              .seq_len = TOKENS,
                              .heads = 2,
                              .key_dim = 32,
                              .value_dim = 32,
                              .mode = kind->mode};
}

/* ---- cu_seqlens -------------------------------------------------------------------------------------------------- */

#define WORD ((int64_t)1 << 32)

/* What cu_seqlens say, and the cuts that they are read as; meant[SEQUENCES] 0: whatever, as long as nothing else is
 * touched. */
static const struct {
    const char *name;
    int64_t said[SEQUENCES + 1], meant[SEQUENCES + 1];
} hostile[] = {
    {"negative", {-7, 100, 300, TOKENS}, {0, 100, 300, TOKENS}},
    {"beyond", {0, 100, 300, TOKENS + 7}, {0, 100, 300, TOKENS}},
    {"both, far", {INT32_MIN, 100, INT32_MAX, INT32_MAX}, {0, 100, TOKENS, TOKENS}},
    {"the middle beyond", {0, 100, TOKENS + 7, TOKENS}, {0, 100, TOKENS, TOKENS}},
    {"the middle negative", {0, -7, 300, TOKENS}, {0, 0, 300, TOKENS}},
    {"decreasing", {0, 300, 100, TOKENS}, {0}},
    {"backwards", {TOKENS, 300, 100, 0}, {0}},
    {"there and back", {0, TOKENS, 0, TOKENS}, {0}},
    {"far backwards", {INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN}, {0}},
    {"of 64 bits", {-8 * WORD + 20, 100, (int64_t)INT32_MAX + 6, WORD + 5}, {0, 100, TOKENS, TOKENS}},
    {"of 64 bits, far", {INT64_MIN, -WORD + 100, INT64_MAX, 256 * WORD + 300}, {0, 0, TOKENS, TOKENS}},
    {"of 64 bits, backwards", {INT64_MAX, -((int64_t)1 << 40), INT64_MIN, ((int64_t)1 << 33) - 5}, {0}},
};

/* The outputs may have holes where no sequence is; nothing outside of them is written. */
static void assert_touched_nothing(const char *kind, const char *name, clattn_status status)
{
    int holes = strstr(test_log_text, "elements were not written") != NULL;

    if ((status != CLATTN_SUCCESS && !holes) || strstr(test_log_text, "overwritten") != NULL)
        fail_msg("%s, cu_seqlens %s: %s", kind, name, test_log_text);
}

/* The reference reads every bit of an entry, and takes none that is no cut. */
static void assert_refused(const struct check_tensors *tensors)
{
    struct arguments operands;

    check_operands(&operands, tensors);
    assert_status(check_compute(&tensors->desc, &operands, test_log, NULL), INVALID_OPERAND);
    assert_non_null(strstr(test_log_text, "cu_seqlens"));
    test_log_clear();
}

static void check_hostile(const struct test_kind *kind, struct check_device *device, clattn_rule rule, size_t row,
                          int wide)
{
    clattn_plan_desc desc = desc_of(kind, rule);
    struct check_tensors tensors, clamped;
    clattn_plan *plan;
    clattn_status status;
    char what[128];

    check_fit(&desc);
    desc.flags |= CLATTN_CU_SEQLENS | (wide ? CLATTN_CU_SEQLENS_INT64 : 0u);
    desc.sequences = SEQUENCES;
    plan = test_kind_plan(kind, device, &desc);
    test_make(&tensors, &desc, CHECK_GATES_USUAL, hostile[row].said);
    test_log_clear();
    assert_refused(&tensors);
    status = check_run_plan(&tensors, device, plan, test_log, NULL);
    assert_touched_nothing(kind->name, hostile[row].name, status);
    if (hostile[row].meant[SEQUENCES] > 0) {
        test_make(&clamped, &desc, CHECK_GATES_USUAL, hostile[row].meant);
        assert_status(check_run_plan(&clamped, device, plan, test_log, NULL), SUCCESS);
        snprintf(what, sizeof what, "%s, cu_seqlens %s", kind->name, hostile[row].name);
        test_compare_all(&tensors, &clamped, 0, what);
        check_free(&clamped);
    }
    check_free(&tensors);
    clattn_plan_destroy(plan);
}

static int is_narrow(size_t row)
{
    int narrow = 1;

    for (int i = 0; i <= SEQUENCES; i++)
        narrow &= hostile[row].said[i] == (int32_t)hostile[row].said[i];
    return narrow;
}

static void test_hostile_cuts(void **state)
{
    static const clattn_rule rules[] = {CLATTN_GATED_DELTA_RULE, CLATTN_FORGETTING_ATTN};
    const struct test_kind *kind = *state;
    struct check_device device = test_kind_device(kind);
    int runs = 0;

    for (size_t i = 0; i < COUNT(rules) * COUNT(hostile); i++) {
        clattn_rule rule = rules[i / COUNT(hostile)];
        size_t row = i % COUNT(hostile);
        if (!test_kind_applies(kind, rule) || (some && strcmp(kind->engine, "none") != 0 && row % 2 != 0))
            continue;
        if (is_narrow(row))
            check_hostile(kind, &device, rule, row, 0);
        check_hostile(kind, &device, rule, row, 1);
        runs++;
    }
    test_ran(runs);
    clattn_context_destroy(device.context);
}

/* ---- kv_lens ----------------------------------------------------------------------------------------------------- */

/* What kv_lens say, and the lengths that they are read as */
enum { CACHES = 5, ROOM = 70 };
static const int32_t lens_said[CACHES] = {-9, ROOM + 17, 33, INT32_MAX, INT32_MIN},
                     lens_meant[CACHES] = {0, ROOM, 33, ROOM, 0};

static void make_lens(struct check_tensors *tensors, const clattn_plan_desc *desc, const int32_t *lens)
{
    test_make(tensors, desc, CHECK_GATES_USUAL, NULL);
    memcpy(tensors->tensor[OP(KV_LENS)].data, lens, CACHES * sizeof *lens);
}

static void check_lens(const struct test_kind *kind, struct check_device *device, uint64_t flags, int64_t seq_len)
{
    struct check_tensors tensors, clamped;
    clattn_plan_desc desc = desc_of(kind, CLATTN_SOFTMAX_ATTN);
    clattn_plan *plan;
    char what[128];

    desc.flags = CLATTN_WITH_KV_LENS | flags;
    desc.batch = CACHES;
    desc.seq_len = seq_len;
    desc.kv_len = ROOM;
    plan = test_kind_plan(kind, device, &desc);
    make_lens(&tensors, &desc, lens_said);
    make_lens(&clamped, &desc, lens_meant);
    test_log_clear();
    assert_status(check_run_plan(&tensors, device, plan, test_log, NULL), SUCCESS);
    assert_status(check_run_plan(&clamped, device, plan, test_log, NULL), SUCCESS);
    snprintf(what, sizeof what, "%s, kv_lens, %d tokens", kind->name, (int)seq_len);
    test_compare_all(&tensors, &clamped, 0, what);
    check_free(&tensors);
    check_free(&clamped);
    clattn_plan_destroy(plan);
}

static void test_hostile_lens(void **state)
{
    const struct test_kind *kind = *state;
    struct check_device device = test_kind_device(kind);

    for (int i = 0; i < 4; i++)
        check_lens(kind, &device, i % 2 == 1 ? CLATTN_APPEND : 0, i / 2 == 1 ? 40 : 1);
    clattn_context_destroy(device.context);
}

/* ---- States in place --------------------------------------------------------------------------------------------- */

static const struct {
    clattn_operand_id initial, final;
} states[] = {{OP(STATE_IN), OP(STATE_OUT)},
              {OP(NORMALIZER_IN), OP(NORMALIZER_OUT)},
              {OP(STABILIZER_IN), OP(STABILIZER_OUT)},
              {OP(GRAM_IN), OP(GRAM_OUT)}};

/* Runs into the initial states; the outputs come back in tensors. */
static void run_in_place(struct check_tensors *tensors, const struct check_device *device, clattn_plan *plan)
{
    const struct opencl *cl = opencl_get();
    struct arguments own = test_operands(tensors, plan), shared = own;

    for (size_t i = 0; i < COUNT(states); i++)
        shared.of[states[i].final].buffer = own.of[states[i].initial].buffer;
    assert_status(check_enqueue(plan, device->queue, &shared, 0, NULL, NULL), SUCCESS);
    for (int id = 1; id < OPERAND_COUNT; id++) {
        const struct check_tensor *tensor = &tensors->tensor[id];
        if (tensor->data != NULL && tensor->info.output)
            assert_int_equal(cl->EnqueueReadBuffer(device->queue, shared.of[id].buffer, CL_TRUE, 0, tensor->bytes,
                                                   tensor->data, 0, NULL, NULL),
                             CL_SUCCESS);
    }
    test_operands_free(&own);
}

static void check_in_place(const struct test_kind *kind, struct check_device *device, clattn_rule rule, uint64_t flags)
{
    clattn_plan_desc desc = desc_of(kind, rule);
    struct check_tensors apart, tensors;
    clattn_plan *plan;
    char what[128];

    desc.flags |= flags;
    plan = test_kind_plan(kind, device, &desc);
    test_make(&apart, &desc, CHECK_GATES_SLOW, NULL);
    test_make(&tensors, &desc, CHECK_GATES_SLOW, NULL);
    test_log_clear();
    assert_status(check_run_plan(&apart, device, plan, test_log, NULL), SUCCESS);
    run_in_place(&tensors, device, plan);
    snprintf(what, sizeof what, "%s, %s, states in place", test_rule_name(rule), kind->name);
    test_compare_all(&tensors, &apart, 0, what);
    check_free(&apart);
    check_free(&tensors);
    clattn_plan_destroy(plan);
}

static void test_in_place(void **state)
{
    const struct test_kind *kind = *state;
    struct check_device device = test_kind_device(kind);

    check_in_place(kind, &device, CLATTN_GATED_DELTA_RULE, 0);
    check_in_place(kind, &device, CLATTN_GATED_DELTA_RULE, CLATTN_STATE_VK);
    check_in_place(kind, &device, CLATTN_SIMPLE_GLA, 0);
    check_in_place(kind, &device, CLATTN_LINEAR_ATTN, CLATTN_NORMALIZE);
    if (kind->segments == 0)
        check_in_place(kind, &device, CLATTN_MLSTM, 0);
    clattn_context_destroy(device.context);
}

/* some: chunks alone, and on an engine in segments */
int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        CMUnitTestFunction run;
    } checks[] = {{"hostile cuts", test_hostile_cuts},
                  {"hostile lengths", test_hostile_lens},
                  {"states in place", test_in_place}};
    struct CMUnitTest tests[COUNT(checks) * COUNT(kinds)];
    static char names[COUNT(tests)][64];
    size_t count = 0;

    some = argc > 1 && strcmp(argv[1], "some") == 0;
    for (size_t i = 0; i < COUNT(tests); i++) {
        struct test_kind *kind = &kinds[i / COUNT(checks)];
        CMUnitTestFunction run = checks[i % COUNT(checks)].run;
        if ((some && i / COUNT(checks) % 2 == 0) ||
            (run == test_hostile_lens && !test_kind_applies(kind, CLATTN_SOFTMAX_ATTN)))
            continue;
        snprintf(names[i], sizeof names[i], "%s, %s", checks[i % COUNT(checks)].name, kind->name);
        tests[count++] = (struct CMUnitTest){names[i], run, NULL, NULL, kind};
    }
    return test_run_group("guards", tests, count, test_device_open, test_device_close);
}
