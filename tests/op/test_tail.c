/* path_attn's cache: keys that are carried but for the last few. A loop that decodes token by token, and carries keys
 * now and then, gives the rows of the whole sequence; and what contradicts itself is said in one line. */
#include "harness.h"

#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

enum { TOKENS = 40, PREFILL = 11, TAIL = 7, ROOM = 300 };

/* ---- A loop of single tokens --------------------------------------------------------------------------------------- */

static const struct loop {
    int64_t heads, kv_heads, key_dim, value_dim, window, prefill; /* prefill: tokens of the first call */
    clattn_dtype dtype;
    uint64_t flags;
} loops[] = {
    {6, 2, 60, 100, 0, 0, CLATTN_F32, 0},
    {4, 4, 7, 13, 0, PREFILL, CLATTN_F32, CLATTN_UNGATED},
    {5, 1, 20, 12, 13, PREFILL, CLATTN_F32, CLATTN_WITH_SINK},
    {6, 2, 64, 64, 0, PREFILL, CLATTN_BF16, 0},
    {6, 3, 60, 100, 0, 0, CLATTN_F16, 0},
};

static clattn_plan_desc whole_desc(const struct loop *loop)
{
    return (clattn_plan_desc){.rule = CLATTN_PATH_ATTN,
                              .dtype = loop->dtype,
                              .flags = loop->flags | CLATTN_WITH_LSE,
                              .seq_len = TOKENS,
                              .heads = loop->heads,
                              .kv_heads = loop->kv_heads,
                              .key_dim = loop->key_dim,
                              .value_dim = loop->value_dim,
                              .window = loop->window,
                              .mode = CLATTN_MODE_CHUNK};
}

/* A plan, or on the host none */
struct way {
    clattn_plan_desc desc;
    clattn_plan *plan;
};

static struct way make_way(clattn_plan_desc desc, int carries)
{
    struct way way = {.desc = desc, .plan = NULL};

    way.desc.flags |= carries ? CLATTN_CARRY : 0;
    if (!test_is_reference())
        assert_status(clattn_plan_create(&way.plan, test_device.context, &way.desc), SUCCESS);
    return way;
}

static void *row_at(const struct check_tensor *tensor, int64_t row)
{
    return (char *)tensor->data + tensor->bytes / (size_t)tensor->info.dims[1] * (size_t)row;
}

/* `count` tokens from `first` on, of a cache of which the last `raw` keys are not carried. */
static void step(const struct way *way, struct check_tensors *tensors, int64_t first, int64_t count, int64_t raw)
{
    static const clattn_operand_id of_queries[] = {OP(Q), OP(O), OP(LSE)}, of_tail[] = {OP(W), OP(BETA)};
    struct arguments operands;
    clattn_operand list[OPERAND_COUNT];
    clattn_call call;

    check_operands(&operands, tensors);
    for (int id = 1; id < OPERAND_COUNT; id++)
        operands.of[id].size = 0;
    for (size_t i = 0; i < COUNT(of_queries); i++)
        operands.of[of_queries[i]].host = row_at(&tensors->tensor[of_queries[i]], first);
    for (size_t i = 0; i < COUNT(of_tail); i++)
        operands.of[of_tail[i]].host = row_at(&tensors->tensor[of_tail[i]], first + count - raw);
    operands.seq_len = count;
    operands.kv_len = way->desc.kv_len != 0 ? first + count : 0;
    operands.tail = way->desc.tail != 0 ? raw : 0;
    call = arguments_call(&operands, list);
    if (way->plan == NULL)
        assert_status(clattn_reference(&way->desc, &call, test_log, NULL), SUCCESS);
    else
        assert_status(clattn_run(way->plan, &call), SUCCESS);
}

/* The first call has tokens of its own, if any; then one each, and every TAIL tokens all keys are carried. */
static void run_loop(const struct loop *loop, struct check_tensors *tensors)
{
    clattn_plan_desc first = whole_desc(loop), next = first;
    struct way ways[3];
    int64_t raw = 0;

    first.seq_len = loop->prefill != 0 ? loop->prefill : 1;
    next.seq_len = 1;
    next.kv_len = TOKENS;
    next.tail = TAIL;
    ways[0] = make_way(next, 0);
    ways[1] = make_way(next, 1);
    ways[2] = make_way(first, 1);
    if (loop->prefill != 0)
        step(&ways[2], tensors, 0, loop->prefill, loop->prefill);
    for (int64_t token = loop->prefill; token < TOKENS; token++) {
        raw++;
        step(&ways[raw == TAIL], tensors, token, 1, raw);
        raw %= TAIL;
    }
    for (int i = 0; i < 3; i++)
        clattn_plan_destroy(ways[i].plan);
}

static void test_loop(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(loops); i++) {
        clattn_plan_desc desc = whole_desc(&loops[i]);
        struct check_tensors whole, expected;
        char what[32];
        snprintf(what, sizeof what, "loop %d", (int)i);
        test_make(&whole, &desc, CHECK_GATES_HARD, NULL);
        assert_status(check_reference(&expected, &whole, test_log, NULL), SUCCESS);
        run_loop(&loops[i], &whole);
        test_compare_all(&whole, &expected, check_bound(desc.dtype), what);
        check_free(&whole);
        check_free(&expected);
    }
}

/* ---- What a call makes of keys ------------------------------------------------------------------------------------- */

static clattn_plan_desc cached(int64_t seq_len, int64_t tail, uint64_t flags)
{
    return (clattn_plan_desc){.rule = CLATTN_PATH_ATTN,
                              .flags = flags,
                              .batch = 2,
                              .seq_len = seq_len,
                              .kv_len = ROOM,
                              .tail = tail,
                              .heads = 4,
                              .kv_heads = 2,
                              .key_dim = 20,
                              .value_dim = 12};
}

static void run_tokens(const clattn_plan_desc *desc, struct check_tensors *tensors, int64_t seq_len)
{
    struct arguments operands;
    clattn_operand list[OPERAND_COUNT];
    clattn_plan *plan;
    clattn_call call;

    check_operands(&operands, tensors);
    operands.seq_len = seq_len;
    call = arguments_call(&operands, list);
    if (test_is_reference()) {
        assert_status(clattn_reference(desc, &call, test_log, NULL), SUCCESS);
        return;
    }
    assert_status(clattn_plan_create(&plan, test_device.context, desc), SUCCESS);
    assert_status(clattn_run(plan, &call), SUCCESS);
    clattn_plan_destroy(plan);
}

/* A call of no tokens carries as one of some does; and without CLATTN_CARRY keys stay as they are. */
static void test_alone(void **state)
{
    const int64_t tails[] = {3, 40, ROOM};

    (void)state;
    for (size_t i = 0; i < COUNT(tails); i++) {
        clattn_plan_desc desc = cached(3, tails[i], CLATTN_CARRY), still = cached(3, tails[i], 0);
        struct check_tensors with, without, before;
        test_make(&with, &desc, CHECK_GATES_HARD, NULL);
        test_make(&without, &desc, CHECK_GATES_HARD, NULL);
        test_make(&before, &still, CHECK_GATES_HARD, NULL);
        run_tokens(&desc, &with, CLATTN_WHOLE);
        run_tokens(&desc, &without, 0);
        test_compare(&without.tensor[OP(K)], &with.tensor[OP(K)], 0, "no tokens");
        assert_memory_not_equal(before.tensor[OP(K)].data, with.tensor[OP(K)].data, with.tensor[OP(K)].bytes);
        memcpy(with.tensor[OP(K)].data, before.tensor[OP(K)].data, with.tensor[OP(K)].bytes);
        run_tokens(&still, &before, CLATTN_WHOLE);
        test_compare(&before.tensor[OP(K)], &with.tensor[OP(K)], 0, "without carry");
        check_free(&with);
        check_free(&without);
        check_free(&before);
    }
}

/* A few queries and a short tail are walked and then read as others are; else all keys are worked as if they turned. */
static void test_solvers(void **state)
{
    static const struct {
        int64_t seq_len, tail;
        int turns;
    } plans[] = {{1, 1, 0}, {16, 16, 0}, {1, 200, 0}, {17, 17, 1}, {1, ROOM, 1}, {1, 0, 1}};

    (void)state;
    if (test_is_reference())
        skip();
    for (size_t i = 0; i < COUNT(plans); i++) {
        clattn_plan_desc desc = cached(plans[i].seq_len, plans[i].tail, i % 2 == 0 ? CLATTN_CARRY : 0);
        clattn_plan_info info;
        clattn_plan *plan;
        assert_status(clattn_plan_create(&plan, test_device.context, &desc), SUCCESS);
        assert_status(clattn_plan_get(plan, &info), SUCCESS);
        assert_string_equal(info.solver, plans[i].turns ? "path" : "path_decode");
        clattn_plan_destroy(plan);
    }
}

/* ---- What contradicts itself --------------------------------------------------------------------------------------- */

static void test_bad(void **state)
{
    static const struct {
        clattn_rule rule;
        uint64_t flags;
        int64_t kv_len, tail, sequences;
        const char *said;
    } descs[] = {
        {OP(SOFTMAX_ATTN), 0, 30, 5, 0, "softmax_attn takes no option tail"},
        {OP(FORGETTING_ATTN), OP(CARRY), 30, 0, 0, "forgetting_attn takes no option carry"},
        {OP(KDA), OP(CARRY), 0, 0, 0, "kda takes no option carry"},
        {OP(PATH_ATTN), 0, 0, 5, 0, "tail is 5, expected 0 without kv_len, the keys of path_attn's cache"},
        {OP(PATH_ATTN), 0, 30, 2, 0, "tail is 2, expected seq_len 3 to kv_len 30"},
        {OP(PATH_ATTN), 0, 30, 31, 0, "tail is 31, expected seq_len 3 to kv_len 30"},
        {OP(PATH_ATTN), 0, 30, -1, 0, "tail is -1, expected 0 to "},
        {OP(PATH_ATTN), OP(CU_SEQLENS) | OP(CU_SEQLENS_KV), 30, 5, 2, "tail is 5, expected 0 with cu_seqlens"},
        {OP(PATH_ATTN), OP(QK_L2NORM), 30, 5, 0, "path_attn: qk_l2norm with tail"},
        {OP(PATH_ATTN), OP(QK_L2NORM) | OP(CARRY), 0, 0, 0, "path_attn: qk_l2norm with carry"},
        {OP(FORGETTING_ATTN), OP(ABSOLUTE), 0, 0, 0, "forgetting_attn takes no option absolute"},
        {OP(PATH_ATTN), OP(ABSOLUTE), 30, 5, 0, "path_attn: absolute with tail"},
        {OP(PATH_ATTN), OP(ABSOLUTE) | OP(CARRY), 0, 0, 0, "path_attn: absolute with carry"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(descs); i++) {
        clattn_plan_desc desc = cached(3, descs[i].tail, descs[i].flags), full;
        desc.rule = descs[i].rule;
        desc.batch = 1;
        desc.kv_len = descs[i].kv_len;
        desc.sequences = descs[i].sequences;
        test_log_clear();
        assert_status(clattn_plan_desc_complete(&full, &desc, test_log, NULL), INVALID_DESC);
        assert_logged(descs[i].said);
    }
}

/* A call's tail: from its queries to the plan's and to its keys; where the plan has none, none. */
static void test_bad_calls(void **state)
{
    static const struct {
        int64_t plan, seq_len, kv_len, tail;
        const char *said;
    } calls[] = {
        {16, 3, 0, 2, "tail is 2, expected seq_len 3 to 16, of the plan's 16 and kv_len 300"},
        {16, 3, 0, 17, "tail is 17, expected seq_len 3 to 16"},
        {16, 3, 9, 10, "tail is 10, expected seq_len 3 to 9, of the plan's 16 and kv_len 9"},
        {16, 3, 2, 0, "tail is 2, expected seq_len 3 to 2, of the plan's 16 and kv_len 2"},
        {16, 3, 0, -1, "tail is -1, expected seq_len 3 to 16"},
        {0, 3, 0, 5, "tail is 5, expected 0: the plan has none"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(calls); i++) {
        clattn_plan_desc desc = cached(3, calls[i].plan, 0);
        struct check_tensors tensors;
        struct arguments operands;
        test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
        check_operands(&operands, &tensors);
        operands.seq_len = calls[i].seq_len;
        operands.kv_len = calls[i].kv_len;
        operands.tail = calls[i].tail;
        test_log_clear();
        assert_status(check_compute(&desc, &operands, test_log, NULL), INVALID_OPERAND);
        assert_logged(calls[i].said);
        check_free(&tensors);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop), cmocka_unit_test(test_alone),     cmocka_unit_test(test_solvers),
        cmocka_unit_test(test_bad),  cmocka_unit_test(test_bad_calls),
    };
    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
