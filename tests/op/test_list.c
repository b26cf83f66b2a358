/* test_list [some]: rules whose state is a list: the reference against the definition, written a second time and another
 * way, as products of decays and not sums of their logs; and what must give the same numbers, on the device under test.
 * some: half of the pairs of tiles and lengths, each of which is two kernels or more to compile. */
#include "harness.h"

#include "device/context.h"
#include "plan/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_KEYS = 64, KEYS_DIM = 8 };

static const clattn_rule rules[] = {CLATTN_SOFTMAX_ATTN, CLATTN_ALIBI_ATTN, CLATTN_FORGETTING_ATTN, CLATTN_PATH_ATTN};
enum { UNTURNED = 3 }; /* the first rules: those whose keys stay as they are */
static int some;       /* is wanted */

/* ---- The definition ----------------------------------------------------------------------------------------------- */

/* The published slopes, for 8 heads and for 6: those of 4, then every second one of 8 */
static double slope(int64_t heads, int64_t head)
{
    static const double of_8[] = {0x1p-1, 0x1p-2, 0x1p-3, 0x1p-4, 0x1p-5, 0x1p-6, 0x1p-7, 0x1p-8};
    static const double of_6[] = {0x1p-2, 0x1p-4, 0x1p-6, 0x1p-8, 0x1p-1, 0x1p-3};

    assert_true(heads == 8 || heads == 6);
    return heads == 8 ? of_8[head] : of_6[head];
}

static double at(const struct check_tensors *t, clattn_operand_id id, int64_t b, int64_t row, int64_t head, int64_t i)
{
    const clattn_operand_info *info = &t->tensor[id].info;
    int64_t width = info->rank == 4 ? info->dims[3] : 1;

    return test_get(t, id, ((b * info->dims[1] + row) * info->dims[2] + head) * width + i);
}

static double norm(const struct check_tensors *t, clattn_operand_id id, int64_t b, int64_t row, int64_t head)
{
    double sum = 1e-6;

    for (int64_t n = 0; n < t->desc.key_dim; n++)
        sum += pow(at(t, id, b, row, head, n), 2);
    return t->desc.flags & CLATTN_QK_L2NORM ? sqrt(sum) : 1;
}

/* Key j of the head that is shared, turned by each token up to the query's, first to last */
static void turned_key(const struct check_tensors *t, int64_t b, int64_t j, int64_t position, int64_t shared,
                       double key[KEYS_DIM])
{
    for (int64_t n = 0; n < t->desc.key_dim; n++)
        key[n] = at(t, OP(K), b, j, shared, n) / norm(t, OP(K), b, j, shared);
    for (int64_t m = j + 1; m <= position && t->desc.rule == CLATTN_PATH_ATTN; m++) {
        double sum = 0;
        for (int64_t n = 0; n < t->desc.key_dim; n++)
            sum += at(t, OP(W), b, m, shared, n) * key[n];
        for (int64_t n = 0; n < t->desc.key_dim; n++)
            key[n] -= at(t, OP(BETA), b, m, shared, 0) * at(t, OP(W), b, m, shared, n) * sum;
    }
}

/* What token m leaves of the weight of a key before it */
static double decay(const struct check_tensors *t, int64_t b, int64_t m, int64_t head)
{
    if (t->desc.rule == CLATTN_ALIBI_ATTN)
        return exp(-slope(t->desc.heads, head));
    if (t->desc.rule == CLATTN_PATH_ATTN)
        return exp(t->desc.scale * at(t, OP(G), b, m, head, 0));
    return t->desc.rule == CLATTN_FORGETTING_ATTN ? exp(at(t, OP(G), b, m, head, 0)) : 1;
}

/* One query's weights, e^(s q.k) times the decays since, not divided; returns their sum, with the sink's. */
static double weigh(const struct check_tensors *t, int64_t b, int64_t token, int64_t head, double weights[MOST_KEYS])
{
    const clattn_plan_desc *desc = &t->desc;
    int64_t keys = t->tensor[OP(K)].info.dims[1], shared = head / (desc->heads / desc->kv_heads);
    int64_t position = keys - desc->seq_len + token;
    double sum = t->tensor[OP(SINK)].data != NULL ? exp(test_get(t, OP(SINK), head)) : 0;

    for (int64_t j = 0; j < keys; j++) {
        double score = 0, key[KEYS_DIM];
        weights[j] = 0;
        if (j > position || (desc->window > 0 && j <= position - desc->window))
            continue;
        turned_key(t, b, j, position, shared, key);
        for (int64_t n = 0; n < desc->key_dim; n++)
            score += at(t, OP(Q), b, token, head, n) * key[n];
        score /= norm(t, OP(Q), b, token, head);
        weights[j] = exp(desc->scale * score);
        for (int64_t m = j + 1; m <= position; m++)
            weights[j] *= decay(t, b, m, head);
        sum += weights[j];
    }
    return sum;
}

static void define(const struct check_tensors *t, struct check_tensors *out)
{
    const clattn_plan_desc *desc = &t->desc;
    double weights[MOST_KEYS];

    for (int64_t job = 0; job < desc->batch * desc->seq_len * desc->heads; job++) {
        int64_t head = job % desc->heads, token = job / desc->heads % desc->seq_len;
        int64_t b = job / desc->heads / desc->seq_len, keys = t->tensor[OP(K)].info.dims[1];
        double sum = weigh(t, b, token, head, weights);
        for (int64_t c = 0; c < desc->value_dim; c++) {
            double o = 0;
            for (int64_t j = 0; j < keys; j++)
                o += weights[j] * at(t, OP(V), b, j, head / (desc->heads / desc->kv_heads), c);
            test_set(out, OP(O), job * desc->value_dim + c, sum > 0 ? o / sum : 0);
        }
        if (out->tensor[OP(LSE)].data != NULL)
            test_set(out, OP(LSE), job, log(sum));
    }
}

static const struct shape {
    int64_t seq_len, kv_len, heads, kv_heads, window;
    uint64_t flags;
} shapes[] = {
    {17, 0, 8, 8, 0, 0},
    {17, 0, 8, 2, 5, CLATTN_WITH_LSE},
    {5, 40, 6, 3, 0, CLATTN_WITH_SINK | CLATTN_WITH_LSE},
    {1, 40, 6, 1, 9, CLATTN_WITH_LSE | CLATTN_QK_L2NORM},
    {20, 7, 6, 2, 3, CLATTN_WITH_SINK | CLATTN_WITH_LSE},
    {20, 7, 8, 4, 100, CLATTN_WITH_LSE},
};

static clattn_plan_desc desc_of(clattn_rule rule, const struct shape *shape)
{
    return (clattn_plan_desc){.rule = rule,
                              .flags = shape->flags,
                              .batch = 2,
                              .seq_len = shape->seq_len,
                              .kv_len = shape->kv_len,
                              .heads = shape->heads,
                              .kv_heads = shape->kv_heads,
                              .window = shape->window,
                              .key_dim = 5,
                              .value_dim = 3,
                              .mode = CLATTN_MODE_CHUNK};
}

static void test_definition(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rules) * COUNT(shapes); i++)
        for (int gates = CHECK_GATES_USUAL; gates <= CHECK_GATES_HARD; gates++) {
            clattn_plan_desc desc = desc_of(rules[i / COUNT(shapes)], &shapes[i % COUNT(shapes)]);
            struct check_tensors actual, expected;
            char what[64];
            snprintf(what, sizeof what, "%s, shape %d", test_rule_name(desc.rule), (int)(i % COUNT(shapes)));
            test_make(&actual, &desc, (enum check_gates)gates, NULL);
            assert_status(check_allocate(&expected, &desc), SUCCESS);
            define(&actual, &expected);
            test_run(&actual);
            test_compare_all(&actual, &expected, test_is_reference() ? 1e-6 : check_bound(CLATTN_F32), what);
            check_free(&actual);
            check_free(&expected);
        }
}

/* ---- What must be the same ---------------------------------------------------------------------------------------- */

enum { TOKENS = 75, HEADS = 6, KEY = 20, VALUE = 12 };

static clattn_plan_desc usual(clattn_rule rule, uint64_t flags)
{
    return (clattn_plan_desc){.rule = rule,
                              .flags = flags,
                              .seq_len = TOKENS,
                              .heads = HEADS,
                              .kv_heads = HEADS / 2,
                              .key_dim = KEY,
                              .value_dim = VALUE,
                              .mode = CLATTN_MODE_CHUNK};
}

static void copy_alike(struct check_tensors *to, const struct check_tensors *from)
{
    for (int id = 1; id < OPERAND_COUNT; id++)
        if (to->tensor[id].data != NULL && !to->tensor[id].info.output && from->tensor[id].data != NULL &&
            to->tensor[id].bytes == from->tensor[id].bytes)
            test_copy(to, (clattn_operand_id)id, from, (clattn_operand_id)id);
}

/* alibi_attn is forgetting_attn with the slope as every gate of a head; softmax_attn, with none. */
static void test_constant_gates(void **state)
{
    const clattn_rule specials[] = {CLATTN_ALIBI_ATTN, CLATTN_SOFTMAX_ATTN};

    (void)state;
    for (size_t i = 0; i < COUNT(specials); i++) {
        clattn_plan_desc desc = usual(specials[i], CLATTN_WITH_LSE),
                         gated = usual(CLATTN_FORGETTING_ATTN, CLATTN_WITH_LSE);
        struct check_tensors special, general;
        test_make(&special, &desc, CHECK_GATES_USUAL, NULL);
        test_make(&general, &gated, CHECK_GATES_USUAL, NULL);
        copy_alike(&general, &special);
        for (int64_t n = 0; n < check_count(&general.tensor[OP(G)].info); n++)
            test_set(&general, OP(G), n, i == 0 ? -slope(HEADS, n % HEADS) : 0);
        test_run(&special);
        test_run(&general);
        test_compare_all(&special, &general, 2 * check_bound(CLATTN_F32), "constant gates");
        check_free(&special);
        check_free(&general);
    }
}

/* A window of all keys is none, and so is a sink of -inf: the same bits. */
static void test_no_window(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rules); i++) {
        clattn_plan_desc desc = usual(rules[i], CLATTN_WITH_LSE),
                         other = usual(rules[i], CLATTN_WITH_LSE | CLATTN_WITH_SINK);
        struct check_tensors plain, wide;
        other.window = TOKENS;
        test_make(&plain, &desc, CHECK_GATES_USUAL, NULL);
        test_make(&wide, &other, CHECK_GATES_USUAL, NULL);
        test_set_all(&wide, OP(SINK), (double)-INFINITY);
        test_run(&plain);
        test_run(&wide);
        test_compare_all(&wide, &plain, 0, "a window of all");
        check_free(&plain);
        check_free(&wide);
    }
}

/* With values of 1, o is 1; with a sink, what the sink leaves of it: 1 - e^(sink - lse). */
static void test_denominator(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rules); i++) {
        clattn_plan_desc desc = usual(rules[i], CLATTN_WITH_LSE | CLATTN_WITH_SINK);
        struct check_tensors tensors;
        test_make(&tensors, &desc, CHECK_GATES_HARD, NULL);
        test_set_all(&tensors, OP(V), 1);
        test_run(&tensors);
        for (int64_t n = 0; n < check_count(&tensors.tensor[OP(O)].info); n++) {
            double sink = test_get(&tensors, OP(SINK), n / VALUE % HEADS), lse = test_get(&tensors, OP(LSE), n / VALUE);
            double expected = 1 - exp(sink - lse), o = test_get(&tensors, OP(O), n);
            if (!(fabs(o - expected) < 1e-5))
                fail_msg("%s: o is %g, but lse leaves %g", test_rule_name(rules[i]), o, expected);
        }
        check_free(&tensors);
    }
}

/* The last `count` queries with all keys as their cache: the last rows of the whole. */
static void test_cache(void **state)
{
    const int64_t counts[] = {1, 7, 33};

    (void)state;
    for (size_t i = 0; i < COUNT(rules) * COUNT(counts); i++) {
        clattn_plan_desc desc = usual(rules[i / COUNT(counts)], CLATTN_WITH_LSE), late = desc;
        struct check_tensors whole, last, expected;
        late.seq_len = counts[i % COUNT(counts)];
        late.kv_len = TOKENS;
        test_make(&whole, &desc, CHECK_GATES_HARD, NULL);
        test_make(&last, &late, CHECK_GATES_HARD, NULL);
        assert_status(check_allocate(&expected, &late), SUCCESS);
        test_run(&whole);
        copy_alike(&last, &whole);
        test_copy_tokens(&last, 0, &whole, TOKENS - late.seq_len, late.seq_len, OP(Q));
        test_run(&last);
        test_copy_tokens(&expected, 0, &whole, TOKENS - late.seq_len, late.seq_len, OP(O));
        test_copy_tokens(&expected, 0, &whole, TOKENS - late.seq_len, late.seq_len, OP(LSE));
        test_compare_all(&last, &expected, 2 * check_bound(CLATTN_F32), test_rule_name(desc.rule));
        check_free(&whole);
        check_free(&last);
        check_free(&expected);
    }
}

/* One query over two parts of the keys, joined: lse = log Σ e^lse_p, o = Σ e^(lse_p - lse) o_p. */
static void test_parts_join(void **state)
{
    enum { CUT = 31 };
    clattn_plan_desc desc = usual(CLATTN_SOFTMAX_ATTN, CLATTN_WITH_LSE);
    struct check_tensors whole, joined, parts[2];

    (void)state;
    desc.seq_len = 1;
    desc.kv_len = TOKENS;
    test_make(&whole, &desc, CHECK_GATES_USUAL, NULL);
    test_run(&whole);
    assert_status(check_allocate(&joined, &desc), SUCCESS);
    for (int p = 0; p < 2; p++) {
        desc.kv_len = p == 0 ? CUT : TOKENS - CUT;
        test_make(&parts[p], &desc, CHECK_GATES_USUAL, NULL);
        test_copy(&parts[p], OP(Q), &whole, OP(Q));
        test_copy_tokens(&parts[p], 0, &whole, p * CUT, desc.kv_len, OP(K));
        test_copy_tokens(&parts[p], 0, &whole, p * CUT, desc.kv_len, OP(V));
        test_run(&parts[p]);
    }
    for (int64_t n = 0; n < HEADS * VALUE; n++) {
        double a = exp(test_get(&parts[0], OP(LSE), n / VALUE)), b = exp(test_get(&parts[1], OP(LSE), n / VALUE));
        double o = a * test_get(&parts[0], OP(O), n) + b * test_get(&parts[1], OP(O), n);
        test_set(&joined, OP(LSE), n / VALUE, log(a + b));
        test_set(&joined, OP(O), n, o / (a + b));
    }
    test_compare_all(&whole, &joined, 2 * check_bound(CLATTN_F32), "two parts joined");
    for (int p = 0; p < 2; p++)
        check_free(&parts[p]);
    check_free(&whole);
    check_free(&joined);
}

/* Packed, each sequence has the bits that it has alone: also where all together are long and each is short, or one of
 * them is long, too. */
static void check_packed(clattn_rule rule)
{
    static const int64_t cuts[] = {0, 0, 1, 21, 61, 1093, 1100, 3168};
    clattn_plan_desc desc = {.rule = rule,
                             .flags = CLATTN_WITH_LSE | CLATTN_CU_SEQLENS,
                             .seq_len = cuts[COUNT(cuts) - 1],
                             .sequences = COUNT(cuts) - 1,
                             .heads = 2,
                             .kv_heads = 1,
                             .key_dim = KEY,
                             .value_dim = VALUE};
    struct check_tensors packed, alone, expected;

    test_make(&packed, &desc, CHECK_GATES_USUAL, cuts);
    test_run(&packed);
    for (int64_t n = 0; n < desc.sequences; n++) {
        const struct test_slice slice = {0, n, cuts[n], cuts[n + 1] - cuts[n]};
        char what[64];
        if (slice.count == 0)
            continue;
        snprintf(what, sizeof what, "%s, %lld tokens alone", test_rule_name(rule), (long long)slice.count);
        test_take(&expected, &packed, slice);
        test_take(&alone, &packed, slice);
        test_run(&alone);
        test_compare_all(&alone, &expected, 0, what);
        check_free(&expected);
        check_free(&alone);
    }
    check_free(&packed);
}

static void test_packed(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rules); i++)
        check_packed(rules[i]);
    check_packed(CLATTN_DELTAFORMER);
}

/* Groups whose lanes share tiles, products of 4, 2 and 1 rows at once, slices of channels, tiles of value columns: on a
 * CPU none of them is chosen by itself. */
static const char *const names[] = {"group", "vec", "chunk", "block_k", "block_v", "pad"};
static const int points[][COUNT(names)] = {
    {64, 4, 16, 16, 16, 4},  {16, 4, 32, 32, 32, 0}, {16, 4, 8, 16, 16, 4},
    {256, 4, 16, 32, 16, 4}, {1, 16, 8, 16, 16, 0},
};

static void check_point(const clattn_plan_desc *desc, const int *point)
{
    struct tuned tuned = tuned_default(space_find("flash"));
    struct check_tensors tensors, expected;
    clattn_plan *plan;
    char what[96];

    for (size_t n = 0; n < COUNT(names); n++)
        test_tuned_set(&tuned, names[n], point[n]);
    test_make(&tensors, desc, CHECK_GATES_HARD, NULL);
    assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
    assert_status(plan_create(&plan, test_device.context, desc, &tuned), SUCCESS);
    assert_status(check_run_plan(&tensors, &test_device, plan, test_log, NULL), SUCCESS);
    snprintf(what, sizeof what, "%s in groups of %d, chunk %d", test_rule_name(desc->rule), point[0], point[2]);
    test_compare_all(&tensors, &expected, check_bound(CLATTN_F32), what);
    clattn_plan_destroy(plan);
    check_free(&tensors);
    check_free(&expected);
}

/* ---- Keys that turn ----------------------------------------------------------------------------------------------- */

/* beta = 0 turns no key: forgetting_attn, with the gate within the scale; with no gate either, softmax_attn. */
static void test_unturned(void **state)
{
    (void)state;
    for (int gated = 0; gated < 2; gated++) {
        clattn_plan_desc desc = usual(CLATTN_PATH_ATTN, CLATTN_WITH_LSE | (gated ? 0u : CLATTN_UNGATED));
        clattn_plan_desc plain = usual(gated ? CLATTN_FORGETTING_ATTN : CLATTN_SOFTMAX_ATTN, CLATTN_WITH_LSE);
        struct check_tensors turned, still;
        test_make(&turned, &desc, CHECK_GATES_USUAL, NULL);
        test_make(&still, &plain, CHECK_GATES_USUAL, NULL);
        copy_alike(&still, &turned);
        test_set_all(&turned, OP(BETA), 0);
        for (int64_t n = 0; n < check_count(&still.tensor[OP(G)].info) && gated; n++)
            test_set(&still, OP(G), n, turned.desc.scale * test_get(&turned, OP(G), n));
        test_run(&turned);
        test_run(&still);
        test_compare_all(&turned, &still, 2 * check_bound(CLATTN_F32), "beta = 0");
        check_free(&turned);
        check_free(&still);
    }
}

/* Spans of few chunks, groups whose lanes share tiles, and a cache that begins within a chunk: beta near 2. */
static void check_turned_points(int absolute)
{
    static const char *const of[] = {"chunk", "vec", "span", "prepare.group", "flash.group", "block_k", "block_v"};
    static const int tiles[][COUNT(of)] = {
        {8, 16, 2, 1, 1, 16, 16},
        {16, 4, 2, 64, 64, 16, 16},
        {8, 4, 4, 16, 128, 32, 32},
        {32, 4, 2, 256, 16, 16, 32},
    };
    static const int64_t lengths[][2] = {{75, 0}, {75, 95}, {1, 100}, {13, 101}, {90, 40}};
    int serial;

    if (test_is_reference())
        skip();
    serial = test_device.context->device.serial;
    test_device.context->device.serial = 0;
    for (size_t i = 0; i < COUNT(tiles) * COUNT(lengths); i++) {
        clattn_plan_desc desc = usual(CLATTN_PATH_ATTN, CLATTN_WITH_LSE | CLATTN_WITH_SINK | CLATTN_QK_L2NORM);
        if (some && (i / COUNT(lengths) + i % COUNT(lengths)) % 2 != (size_t)absolute)
            continue;
        struct tuned tuned = tuned_default(space_find("path"));
        struct check_tensors tensors, expected;
        clattn_plan *plan;
        desc.seq_len = lengths[i % COUNT(lengths)][0];
        desc.kv_len = lengths[i % COUNT(lengths)][1];
        desc.batch = 2;
        desc.value_dim = 36;
        desc.window = i % 3 == 2 ? 21 : 0;
        desc.flags |= absolute ? CLATTN_ABSOLUTE : 0;
        for (size_t n = 0; n < COUNT(of); n++)
            test_tuned_set(&tuned, of[n], tiles[i / COUNT(lengths)][n]);
        test_make(&tensors, &desc, CHECK_GATES_HARD, NULL);
        assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
        assert_status(plan_create(&plan, test_device.context, &desc, &tuned), SUCCESS);
        assert_status(check_run_plan(&tensors, &test_device, plan, test_log, NULL), SUCCESS);
        test_compare_all(&tensors, &expected, check_bound(CLATTN_F32), "path_attn in spans");
        clattn_plan_destroy(plan);
        check_free(&tensors);
        check_free(&expected);
    }
    test_device.context->device.serial = serial;
}

static void test_turned_points(void **state)
{
    (void)state;
    check_turned_points(0);
}

/* The same of queries and keys that turn each by itself */
static void test_absolute_points(void **state)
{
    (void)state;
    check_turned_points(1);
}

/* ---- Values that depend on those before --------------------------------------------------------------------------- */

static void check_written(const clattn_plan_desc *desc, const int *point)
{
    static const char *const of[] = {"chunk", "vec", "span", "group", "block_k", "solve.block_v", "flash.group"};
    struct tuned tuned = tuned_default(space_find("delta"));
    struct check_tensors tensors, expected;
    clattn_plan *plan;

    for (size_t n = 0; n < COUNT(of); n++)
        test_tuned_set(&tuned, of[n], point[n]);
    test_make(&tensors, desc, CHECK_GATES_HARD, NULL);
    assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
    assert_status(plan_create(&plan, test_device.context, desc, &tuned), SUCCESS);
    assert_status(check_run_plan(&tensors, &test_device, plan, test_log, NULL), SUCCESS);
    test_compare_all(&tensors, &expected, check_bound(CLATTN_F32), "deltaformer in spans");
    clattn_plan_destroy(plan);
    check_free(&tensors);
    check_free(&expected);
}

/* Spans of few chunks, groups whose lanes share tiles, and a cache. Where work-items are one after the other, groups of
 * one alone: PoCL, optimising, gets loops with barriers wrong here, down to a crash; Oclgrind and rusticl run 64 lanes by
 * rule of thumb (oclgrind.deltaformer, rusticl.deltaformer). */
static void test_written_points(void **state)
{
    static const int tiles[][7] = {
        {8, 16, 2, 1, 16, 16, 1},
        {16, 4, 2, 64, 16, 16, 64},
        {8, 4, 4, 128, 32, 32, 16},
        {32, 4, 2, 16, 16, 16, 256},
    };
    static const int64_t lengths[][2] = {{75, 0}, {75, 95}, {1, 100}, {90, 40}};
    const uint32_t given = CLATTN_WITH_P | CLATTN_WITH_BETA | CLATTN_WITH_WRITTEN | CLATTN_WITH_LSE;
    int serial;

    (void)state;
    if (test_is_reference())
        skip();
    serial = test_device.context->device.serial;
    test_device.context->device.serial = 0;
    for (size_t i = 0; i < COUNT(tiles) * COUNT(lengths); i++) {
        clattn_plan_desc desc = usual(CLATTN_DELTAFORMER, i % 3 != 0 ? given : CLATTN_QK_L2NORM);
        if (serial && tiles[i / COUNT(lengths)][3] > 1)
            continue;
        desc.seq_len = lengths[i % COUNT(lengths)][0];
        desc.kv_len = lengths[i % COUNT(lengths)][1];
        desc.batch = 2;
        desc.value_dim = 36;
        desc.window = i % 3 == 2 ? 21 : 0;
        desc.write_kernel = i % 5 == 4 ? CLATTN_WEIGHTS_RELU : CLATTN_WEIGHTS_SOFTMAX;
        check_written(&desc, tiles[i / COUNT(lengths)]);
    }
    test_device.context->device.serial = serial;
}

/* The self-test finds nothing wrong with any weights: what is written of its numbers stays bounded. */
static void test_self_test(void **state)
{
    const clattn_dtype dtypes[] = {CLATTN_F32, CLATTN_F16, CLATTN_BF16};

    (void)state;
    if (test_is_reference())
        skip();
    test_device.context->self_test = 1;
    for (int i = 0; i < 3 * (CLATTN_WEIGHTS_FLOOR + 1) * 2; i++) {
        clattn_plan_desc desc = usual(CLATTN_DELTAFORMER, CLATTN_WITH_WRITTEN);
        clattn_plan *plan;
        clattn_plan_info info;
        desc.dtype = dtypes[i % 3];
        desc.write_kernel = (clattn_weights)(i / 3 % (CLATTN_WEIGHTS_FLOOR + 1));
        desc.kernel = i / 3 > CLATTN_WEIGHTS_FLOOR ? desc.write_kernel : CLATTN_WEIGHTS_SOFTMAX;
        desc.key_dim = desc.kernel == CLATTN_WEIGHTS_SOFTMAX ? 7 : 128;
        test_log_clear();
        assert_status(clattn_plan_create(&plan, test_device.context, &desc), SUCCESS);
        assert_status(clattn_plan_get(plan, &info), SUCCESS);
        assert_int_equal(info.rejected, 0);
        assert_string_equal(test_log_text, "");
        clattn_plan_destroy(plan);
    }
    test_device.context->self_test = 0;
}

/* ---- Parts of the keys -------------------------------------------------------------------------------------------- */

static struct tuned decode_point(const int *point)
{
    static const char *const of[] = {"group", "vec", "heads", "keys", "lanes_k", "splits"};
    struct tuned tuned = tuned_default(space_find("decode"));

    for (size_t n = 0; n < COUNT(of); n++)
        if (point[n] > 0)
            test_tuned_set(&tuned, of[n], point[n]);
    return tuned;
}

static void run_point(struct check_tensors *tensors, const int *point)
{
    const struct tuned tuned = decode_point(point);
    clattn_plan *plan;

    assert_status(plan_create(&plan, test_device.context, &tensors->desc, &tuned), SUCCESS);
    assert_status(check_run_plan(tensors, &test_device, plan, test_log, NULL), SUCCESS);
    clattn_plan_destroy(plan);
}

/* However many parts, and however they are worked: the reference's numbers, and those of one part, to rounding. */
static void test_splits(void **state)
{
    static const int tiles[][6] = {
        {1, 16, 0, 16, 1, 2},    {1, 16, 1, 64, 1, 16}, {64, 4, 2, 32, 8, 4},
        {128, 4, 0, 16, 4, 128}, {16, 4, 4, 64, 2, 8},
    };
    static const int whole[] = {1, 16, 0, 64, 1, 1};
    static const int64_t tokens[] = {1, 3, 16};
    int serial;

    (void)state;
    if (test_is_reference())
        skip();
    serial = test_device.context->device.serial;
    test_device.context->device.serial = 0;
    for (size_t i = 0; i < UNTURNED * COUNT(tokens) * COUNT(tiles); i += some ? 2 : 1) {
        const size_t turn = some ? i / 2 : i;
        clattn_plan_desc desc = usual(rules[i % UNTURNED], CLATTN_WITH_LSE | CLATTN_WITH_SINK | CLATTN_QK_L2NORM);
        struct check_tensors tensors, one, expected;
        desc.seq_len = tokens[i / UNTURNED % COUNT(tokens)];
        desc.kv_len = 333;
        desc.batch = 2;
        desc.kv_heads = turn % 2 == 0 ? 1 : 2;
        desc.window = turn % 4 == 3 ? 100 : 0;
        test_make(&tensors, &desc, CHECK_GATES_HARD, NULL);
        test_make(&one, &desc, CHECK_GATES_HARD, NULL);
        assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
        run_point(&tensors, tiles[i / UNTURNED / COUNT(tokens)]);
        run_point(&one, whole);
        test_compare_all(&tensors, &expected, check_bound(CLATTN_F32), "in parts");
        test_compare_all(&tensors, &one, check_bound(CLATTN_F32), "in parts and whole");
        check_free(&tensors);
        check_free(&one);
        check_free(&expected);
    }
    test_device.context->device.serial = serial;
}

/* Sequences of one query in a cache each: of the same room, of which kv_lens are there, or packed. */
enum { SEQUENCES = 4, ROOM = 300 };
static const int64_t lengths_there[SEQUENCES] = {131, 0, 1, 168}, cuts_kv[SEQUENCES + 1] = {0, 131, 131, 132, ROOM};

static void make_caches(struct check_tensors *all, clattn_rule rule, int packed)
{
    clattn_plan_desc desc = usual(rule, CLATTN_WITH_LSE);

    desc.flags |= packed ? CLATTN_CU_SEQLENS | CLATTN_CU_SEQLENS_KV : CLATTN_WITH_KV_LENS;
    desc.seq_len = packed ? SEQUENCES : 1;
    desc.batch = packed ? 1 : SEQUENCES;
    desc.sequences = packed ? SEQUENCES : 0;
    desc.kv_len = ROOM;
    test_make(all, &desc, CHECK_GATES_USUAL, NULL);
    for (int64_t n = 0; n <= SEQUENCES && packed; n++)
        ((int32_t *)all->tensor[OP(SEQLENS_KV)].data)[n] = (int32_t)cuts_kv[n];
    for (int64_t n = 0; n < SEQUENCES && !packed; n++) {
        const int64_t keys = KEY * HEADS / 2;
        ((int32_t *)all->tensor[OP(KV_LENS)].data)[n] = (int32_t)lengths_there[n];
        for (int64_t j = lengths_there[n] * keys; j < ROOM * keys; j++)
            test_set(all, OP(K), n * ROOM * keys + j, (double)NAN);
    }
}

/* The n-th sequence with the keys that are there, from row `first` of the cache on */
static void make_alone(struct check_tensors *alone, const struct check_tensors *all, int64_t n, int64_t first)
{
    static const clattn_operand_id cached[] = {OP(K), OP(V), OP(G)};
    clattn_plan_desc desc = usual(all->desc.rule, CLATTN_WITH_LSE);

    desc.seq_len = 1;
    desc.kv_len = lengths_there[n];
    test_make(alone, &desc, CHECK_GATES_USUAL, NULL);
    for (size_t c = 0; c < COUNT(cached); c++) {
        const struct check_tensor *to = &alone->tensor[cached[c]], *from = &all->tensor[cached[c]];
        if (to->data != NULL)
            memcpy(to->data, (char *)from->data + (size_t)first * (to->bytes / (size_t)desc.kv_len), to->bytes);
    }
    memcpy(alone->tensor[OP(Q)].data, (char *)all->tensor[OP(Q)].data + (size_t)n * alone->tensor[OP(Q)].bytes,
           alone->tensor[OP(Q)].bytes);
}

static void assert_alike(const struct check_tensors *alone, const struct check_tensors *all, clattn_operand_id id,
                         int64_t n)
{
    size_t bytes = alone->tensor[id].bytes;

    assert_memory_equal(alone->tensor[id].data, (char *)all->tensor[id].data + (size_t)n * bytes, bytes);
}

/* Caches of other lengths beside it, and keys that are not there yet, of whatever value: a sequence's bits are those of
 * its keys alone. */
static void test_alone(void **state)
{
    static const int point[] = {0, 0, 0, 0, 0, 8};

    (void)state;
    if (test_is_reference())
        skip();
    for (size_t i = 0; i < 2 * UNTURNED * SEQUENCES; i++) {
        int64_t n = (int64_t)(i % SEQUENCES);
        int packed = i / SEQUENCES % 2 == 1;
        struct check_tensors all, alone;
        make_caches(&all, rules[i / SEQUENCES / 2], packed);
        run_point(&all, point);
        if (lengths_there[n] > 0) {
            make_alone(&alone, &all, n, packed ? cuts_kv[n] : n * ROOM);
            run_point(&alone, point);
            assert_alike(&alone, &all, OP(O), n);
            assert_alike(&alone, &all, OP(LSE), n);
            check_free(&alone);
        }
        for (int64_t c = 0; c < HEADS * VALUE && lengths_there[n] == 0; c++)
            assert_true(test_get(&all, OP(O), n * HEADS * VALUE + c) == 0);
        check_free(&all);
    }
}

/* As a caller with host memory does. */
static void run_on_host(struct check_tensors *tensors)
{
    clattn_operand list[OPERAND_COUNT];
    struct arguments operands;
    clattn_plan *plan;
    clattn_call call;

    check_operands(&operands, tensors);
    call = arguments_call(&operands, list);
    if (test_is_reference()) {
        assert_status(clattn_reference(&tensors->desc, &call, test_log, NULL), SUCCESS);
        return;
    }
    assert_status(clattn_plan_create(&plan, test_device.context, &tensors->desc), SUCCESS);
    assert_status(clattn_run(plan, &call), SUCCESS);
    clattn_plan_destroy(plan);
}

/* What a call appends is where its queries stand, and all else of the cache as it was: by every solver. */
static void test_append(void **state)
{
    static const struct {
        int64_t seq_len;
        clattn_dtype dtype;
    } calls[] = {{1, CLATTN_F32}, {3, CLATTN_BF16}, {40, CLATTN_F32}, {140, CLATTN_F16}};

    (void)state;
    for (size_t i = 0; i < 2 * COUNT(calls); i++) {
        const int64_t row = KEY * HEADS / 2, seq_len = calls[i / 2].seq_len;
        clattn_plan_desc desc = usual(CLATTN_SOFTMAX_ATTN, CLATTN_APPEND | (i % 2 == 1 ? CLATTN_WITH_KV_LENS : 0));
        struct check_tensors tensors, before;
        desc.dtype = calls[i / 2].dtype;
        desc.seq_len = seq_len;
        desc.batch = SEQUENCES;
        desc.kv_len = ROOM;
        test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
        for (int64_t n = 0; n < SEQUENCES && i % 2 == 1; n++)
            ((int32_t *)tensors.tensor[OP(KV_LENS)].data)[n] = (int32_t)lengths_there[n];
        test_make(&before, &desc, CHECK_GATES_USUAL, NULL); /* the same numbers */
        run_on_host(&tensors);
        for (int64_t at = 0; at < SEQUENCES * ROOM * row; at++) {
            int64_t n = at / (ROOM * row), j = at / row % ROOM, keys = i % 2 == 1 ? lengths_there[n] : ROOM;
            int64_t token = j - keys + seq_len;
            double expected = token >= 0 && token < seq_len
                                  ? test_get(&before, OP(K_NEW), (n * seq_len + token) * row + at % row)
                                  : test_get(&before, OP(K), at);
            if (test_get(&tensors, OP(K), at) != expected)
                fail_msg("%d tokens, kv_lens %d: k of key %d of sequence %d is %g, expected %g", (int)seq_len,
                         (int)(i % 2), (int)j, (int)n, test_get(&tensors, OP(K), at), expected);
        }
        check_free(&tensors);
        check_free(&before);
    }
}

/* Few queries of many keys are worked in parts of them, by the rule of thumb; one query of few, or many, are not. */
static void test_solvers(void **state)
{
    static const struct {
        int64_t seq_len, kv_len;
        const char *solver;
    } plans[] = {{1, 4096, "decode"}, {16, 4096, "decode"}, {17, 4096, "flash"}, {1, 20, "flash"}};

    (void)state;
    if (test_is_reference())
        skip();
    for (size_t i = 0; i < COUNT(plans); i++) {
        clattn_plan_desc desc = usual(CLATTN_SOFTMAX_ATTN, 0);
        clattn_plan_info info;
        clattn_plan *plan;
        desc.seq_len = plans[i].seq_len;
        desc.kv_len = plans[i].kv_len;
        assert_status(clattn_plan_create(&plan, test_device.context, &desc), SUCCESS);
        assert_status(clattn_plan_get(plan, &info), SUCCESS);
        assert_string_equal(info.solver, plans[i].solver);
        clattn_plan_destroy(plan);
    }
}

static void test_lanes(void **state)
{
    const uint64_t flags = CLATTN_WITH_LSE | CLATTN_WITH_SINK | CLATTN_QK_L2NORM;
    int serial;

    (void)state;
    if (test_is_reference())
        skip();
    serial = test_device.context->device.serial;
    test_device.context->device.serial = 0;
    for (size_t i = 0; i < UNTURNED * COUNT(points); i++) {
        clattn_plan_desc desc = usual(rules[i / COUNT(points)], flags);
        desc.value_dim = 36;
        desc.window = i % 2 == 0 ? 0 : 21;
        desc.kv_len = i % 2 == 0 ? TOKENS + 20 : 0;
        check_point(&desc, points[i % COUNT(points)]);
    }
    test_device.context->device.serial = serial;
}

/* ---- Calls -------------------------------------------------------------------------------------------------------- */

/* One plan, caches of several lengths, up to the plan's. */
static void test_lengths(void **state)
{
    const int64_t lengths[] = {0, 1, 2, 40, TOKENS};
    clattn_plan_desc desc = usual(CLATTN_FORGETTING_ATTN, CLATTN_WITH_LSE);

    (void)state;
    desc.seq_len = 2;
    desc.kv_len = TOKENS;
    for (size_t i = 0; i < COUNT(lengths); i++) {
        clattn_plan_desc own = desc;
        struct check_tensors tensors, expected;
        clattn_plan *plan = NULL;
        own.kv_len = lengths[i] != 0 ? lengths[i] : TOKENS;
        test_make(&tensors, &own, CHECK_GATES_USUAL, NULL);
        assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
        if (test_is_reference()) {
            test_run(&tensors);
        } else {
            assert_status(clattn_plan_create(&plan, test_device.context, &desc), SUCCESS);
            tensors.desc.kv_len = lengths[i];
            assert_status(check_run_plan(&tensors, &test_device, plan, test_log, NULL), SUCCESS);
        }
        test_compare_all(&tensors, &expected, check_bound(CLATTN_F32), "another length");
        clattn_plan_destroy(plan);
        check_free(&tensors);
        check_free(&expected);
    }
}

/* Gives an operand of two batch elements room for more tokens between them; data of the caller's. */
static void spread(const struct check_tensor *tensor, int64_t room, char *data, clattn_operand *operand)
{
    int64_t width = check_count(&tensor->info) / tensor->info.dims[0] / tensor->info.dims[1];
    int64_t head = tensor->info.rank == 4 ? tensor->info.dims[3] : 1;
    size_t rows = tensor->bytes / 2;

    memcpy(data, tensor->data, rows);
    memcpy(data + (size_t)(room * width) * sizeof(float), (const char *)tensor->data + rows, rows);
    *operand = (clattn_operand){.host = data, .batch_stride = room * width, .token_stride = width, .head_stride = head};
}

/* A cache with room for more keys than there are yet: the bits of one that has no more. */
static void test_room(void **state)
{
    static const clattn_operand_id cached[] = {OP(K), OP(V), OP(G)};
    clattn_plan_desc desc = usual(CLATTN_FORGETTING_ATTN, CLATTN_WITH_LSE), own;
    struct check_tensors tensors, expected;
    struct arguments operands;
    clattn_operand list[OPERAND_COUNT];
    float *memory[COUNT(cached)];
    clattn_plan *plan;
    clattn_call call;

    (void)state;
    desc.batch = 2;
    desc.seq_len = 3;
    desc.kv_len = TOKENS;
    own = desc;
    own.kv_len = 40;
    test_make(&tensors, &own, CHECK_GATES_USUAL, NULL);
    test_make(&expected, &own, CHECK_GATES_USUAL, NULL);
    if (test_is_reference()) {
        test_run(&expected);
    } else {
        assert_status(clattn_plan_create(&plan, test_device.context, &desc), SUCCESS);
        assert_status(check_run_plan(&expected, &test_device, plan, test_log, NULL), SUCCESS);
    }
    check_operands(&operands, &tensors);
    operands.kv_len = 40;
    for (size_t i = 0; i < COUNT(cached); i++) {
        memory[i] = malloc(2 * TOKENS * HEADS * KEY * sizeof(float));
        assert_non_null(memory[i]);
        memset(memory[i], 0xff, 2 * TOKENS * HEADS * KEY * sizeof(float));
        spread(&tensors.tensor[cached[i]], TOKENS, (char *)memory[i], &operands.of[cached[i]]);
    }
    call = arguments_call(&operands, list);
    if (test_is_reference()) {
        assert_status(clattn_reference(&desc, &call, test_log, NULL), SUCCESS);
    } else {
        assert_status(clattn_run(plan, &call), SUCCESS);
        clattn_plan_destroy(plan);
    }
    test_compare_all(&tensors, &expected, 0, "a cache with room");
    for (size_t i = 0; i < COUNT(cached); i++)
        free(memory[i]);
    check_free(&tensors);
    check_free(&expected);
}

/* A call's kv_len past the plan's, or where the plan has none; and of no tokens. */
static void test_bad_lengths(void **state)
{
    const struct {
        int64_t plan, call, seq_len;
        clattn_status status;
        const char *said;
    } calls[] = {
        {40, 41, CLATTN_WHOLE, CLATTN_INVALID_OPERAND, "kv_len is 41, expected 1 to the plan's 40"},
        {40, -1, CLATTN_WHOLE, CLATTN_INVALID_OPERAND, "kv_len is -1, expected 1 to the plan's 40"},
        {0, 3, CLATTN_WHOLE, CLATTN_INVALID_OPERAND, "kv_len is 3, expected 0: the plan's keys are those of seq_len"},
        {40, 7, 0, CLATTN_SUCCESS, NULL},
        {0, 0, 0, CLATTN_SUCCESS, NULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(calls); i++) {
        clattn_plan_desc desc = usual(CLATTN_SOFTMAX_ATTN, CLATTN_WITH_LSE);
        struct check_tensors tensors;
        struct arguments operands;
        clattn_plan *plan = NULL;
        desc.kv_len = calls[i].plan;
        test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
        check_operands(&operands, &tensors);
        operands.seq_len = calls[i].seq_len;
        operands.kv_len = calls[i].call;
        test_log_clear();
        test_assert_status(check_compute(&desc, &operands, test_log, NULL), calls[i].status, "reference", __FILE__,
                           __LINE__);
        if (calls[i].said != NULL)
            assert_logged(calls[i].said);
        if (!test_is_reference()) {
            clattn_operand list[OPERAND_COUNT];
            const clattn_call call = arguments_call(&operands, list);
            assert_status(clattn_plan_create(&plan, test_device.context, &desc), SUCCESS);
            test_assert_status(clattn_run(plan, &call), calls[i].status, "run", __FILE__, __LINE__);
        }
        clattn_plan_destroy(plan);
        check_free(&tensors);
    }
}

/* What contradicts itself in how a cache is described, or in its lengths: one line that says so. */
static void test_bad_caches(void **state)
{
    static const struct {
        uint64_t flags;
        int64_t kv_len, sequences, length;
        clattn_status status;
        const char *said;
    } caches[] = {
        {CLATTN_APPEND, 0, 0, 0, CLATTN_INVALID_DESC,
         "kv_len is 0, expected the keys of softmax_attn's cache with append"},
        {CLATTN_WITH_KV_LENS, 0, 0, 0, CLATTN_INVALID_DESC, "kv_len is 0, expected the keys of softmax_attn's cache"},
        {CLATTN_CU_SEQLENS | CLATTN_CU_SEQLENS_KV, 0, 2, 0, CLATTN_INVALID_DESC, "cache with cu_seqlens_kv"},
        {CLATTN_CU_SEQLENS_KV, 9, 0, 0, CLATTN_INVALID_DESC, "cu_seqlens_kv without cu_seqlens"},
        {CLATTN_CU_SEQLENS, 9, 2, 0, CLATTN_INVALID_DESC, "kv_len is 9, expected 0 with cu_seqlens and without"},
        {CLATTN_WITH_KV_LENS, 9, 0, 10, CLATTN_INVALID_OPERAND,
         "kv_lens[0] is 10, expected 0 to the sequence's 9 keys"},
        {CLATTN_WITH_KV_LENS, 9, 0, -1, CLATTN_INVALID_OPERAND,
         "kv_lens[0] is -1, expected 0 to the sequence's 9 keys"},
        {CLATTN_CU_SEQLENS | CLATTN_CU_SEQLENS_KV, 9, 1, 10, CLATTN_INVALID_OPERAND,
         "cu_seqlens_kv[1] is 10, expected"},
        {CLATTN_CU_SEQLENS | CLATTN_CU_SEQLENS_KV, 9, 1, 8, CLATTN_INVALID_OPERAND,
         "cu_seqlens_kv ends at 8, expected"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(caches); i++) {
        clattn_plan_desc desc = usual(CLATTN_SOFTMAX_ATTN, caches[i].flags), full;
        struct check_tensors tensors;
        struct arguments operands;
        desc.seq_len = 3;
        desc.kv_len = caches[i].kv_len;
        desc.sequences = caches[i].sequences;
        test_log_clear();
        if (caches[i].status == CLATTN_INVALID_DESC) {
            assert_status(clattn_plan_desc_complete(&full, &desc, test_log, NULL), INVALID_DESC);
        } else {
            test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
            if (tensors.tensor[OP(KV_LENS)].data != NULL)
                *(int32_t *)tensors.tensor[OP(KV_LENS)].data = (int32_t)caches[i].length;
            else
                ((int32_t *)tensors.tensor[OP(SEQLENS_KV)].data)[1] = (int32_t)caches[i].length;
            check_operands(&operands, &tensors);
            assert_status(check_compute(&desc, &operands, test_log, NULL), INVALID_OPERAND);
            check_free(&tensors);
        }
        assert_logged(caches[i].said);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_self_test),
        cmocka_unit_test(test_append),
        cmocka_unit_test(test_definition),
        cmocka_unit_test(test_constant_gates),
        cmocka_unit_test(test_no_window),
        cmocka_unit_test(test_denominator),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_parts_join),
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_bad_lengths),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_solvers),
        cmocka_unit_test(test_bad_caches),
        cmocka_unit_test(test_unturned),
        cmocka_unit_test(test_turned_points),
        cmocka_unit_test(test_written_points),
        cmocka_unit_test(test_absolute_points),
    };

    some = argc > 1 && strcmp(argv[1], "some") == 0;
    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
