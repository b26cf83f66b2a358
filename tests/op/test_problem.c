/* Descs: every default, every refusal with its words, shapes of operands, and the arithmetic of strides. */
#include "harness.h"

#include "op/problem.h"
#include "op/state.h"

#include <math.h>
#include <string.h>

static const clattn_plan_desc good = {.rule = CLATTN_GATED_DELTA_RULE,
                                      .batch = 2,
                                      .seq_len = 10,
                                      .heads = 4,
                                      .qk_heads = 2,
                                      .key_dim = 16,
                                      .value_dim = 8};

static clattn_status complete(clattn_plan_desc *full, const clattn_plan_desc *desc)
{
    test_log_clear();
    return clattn_plan_desc_complete(full, desc, test_log, NULL);
}

static void test_defaults(void **state)
{
    const clattn_plan_desc least = {.rule = CLATTN_RWKV7, .seq_len = 3, .heads = 5, .key_dim = 4, .value_dim = 2};
    clattn_plan_desc full, other = least;

    (void)state;
    assert_status(complete(&full, &least), SUCCESS);
    assert_int_equal(full.batch, 1);
    assert_int_equal(full.qk_heads, 5);
    assert_int_equal(full.steps, 1);
    assert_int_equal(full.layers, 1);
    assert_true(full.scale == 1);
    other.rule = CLATTN_GLA;
    other.flags = CLATTN_CU_SEQLENS_INT64;
    other.sequences = 2;
    assert_status(complete(&full, &other), SUCCESS);
    assert_true(full.scale == 0.5);
    assert_int_equal(full.flags, CLATTN_CU_SEQLENS_INT64 | CLATTN_CU_SEQLENS);
    other.scale = -3;
    assert_status(complete(&full, &other), SUCCESS);
    assert_true(full.scale == -3);
    assert_status(complete(&other, &full), SUCCESS); /* completing twice changes nothing */
    assert_memory_equal(&other, &full, sizeof full);
}

/* One field of a good desc set wrong, and two things that the message says. */
#define BAD(field, value, first, second)                                                                               \
    {                                                                                                                  \
        offsetof(clattn_plan_desc, field), sizeof(good.field), value, first, second                                    \
    }
static const struct bad {
    size_t offset, size;
    int64_t value;
    const char *first, *second;
} bad_fields[] = {
    BAD(rule, 0, "rule is 0", "expected 1 to "),
    BAD(rule, RULE_COUNT, "rule is ", "expected 1 to "),
    BAD(rule, -1, "rule is -1", "expected 1 to "),
    BAD(dtype, 3, "dtype is 3", "0 to 2"),
    BAD(gate_dtype, 9, "gate_dtype is 9", "0 to 2"),
    BAD(batch, -2, "batch is -2", "1 to 2147483"),
    BAD(seq_len, 0, "seq_len is 0", "1 to "),
    BAD(seq_len, (int64_t)1 << 31, "seq_len is 2147483648", "1 to 2147483"),
    BAD(sequences, 3, "sequences is 3", "without CLATTN_CU_SEQLENS"),
    BAD(heads, 0, "heads is 0", "1 to 65535"),
    BAD(heads, 65536, "heads is 65536", "1 to 65535"),
    BAD(heads, 3, "qk_heads 2", "heads 3"),
    BAD(qk_heads, 3, "qk_heads 3", "does not divide heads 4"),
    BAD(qk_heads, 8, "qk_heads is 8", "1 to 4"),
    BAD(key_dim, 0, "key_dim is 0", "1 to 1024"),
    BAD(key_dim, 1025, "key_dim is 1025", "1 to 1024"),
    BAD(value_dim, 2000, "value_dim is 2000", "1 to 1024"),
    BAD(mode, 3, "mode is 3", "0 to 2"),
    BAD(chunk, -1, "chunk is -1", "0 to "),
    BAD(feature_map, 5, "feature_map is 5", "0 to 2"),
    BAD(feature_map, CLATTN_FEATURE_RELU, "gated_delta_rule", "feature_map"),
    BAD(steps, 2, "gated_delta_rule", "steps"),
    BAD(steps, 65, "steps is 65", "1 to 64"),
    BAD(layers, -1, "layers is -1", "1 to "),
    BAD(layers, 2, "gated_delta_rule", "layer"),
    BAD(flags, CLATTN_ABSOLUTE, "gated_delta_rule", "takes no option absolute"),
    BAD(flags, CLATTN_EPS_OUTSIDE, "gated_delta_rule", "takes no option eps_outside"),
    BAD(layer, 1, "gated_delta_rule", "takes no option layer"),
    BAD(slopes, 2, "slopes is 2", "0 to 1"),
    BAD(slopes, CLATTN_SLOPES_MINIMAX, "gated_delta_rule", "slopes"),
    BAD(flags, CLATTN_NORMALIZE, "gated_delta_rule", "normalize"),
    BAD(flags, CLATTN_GATE_PER_HEAD, "gated_delta_rule", "gate=head"),
    BAD(flags, CLATTN_VALUE_GATE, "gated_delta_rule", "value_gate"),
    BAD(flags, CLATTN_UNGATED, "gated_delta_rule", "ungated"),
    BAD(flags, CLATTN_WITH_SINK, "gated_delta_rule", "sink"),
    BAD(flags, CLATTN_WITH_LSE, "gated_delta_rule", "lse"),
    BAD(flags, CLATTN_WITH_KV_LENS, "gated_delta_rule", "kv_lens"),
    BAD(flags, CLATTN_CU_SEQLENS_KV, "gated_delta_rule", "cu_seqlens_kv"),
    BAD(flags, CLATTN_APPEND, "gated_delta_rule", "append"),
    BAD(flags, CLATTN_FLAG(62), "unknown bits", "0x4000000000000000"),
    BAD(flags, CLATTN_NONCAUSAL, "gated_delta_rule", "noncausal"),
    BAD(flags, CLATTN_WITH_A_LOG, "a_log is for gate_map softplus and sigmoid", "not for log"),
    BAD(flags, CLATTN_WITH_DT_BIAS, "gated_delta_rule", "dt_bias is for gates with a gate_map"),
    BAD(gate_map, 5, "gate_map is 5", "0 to 4"),
    BAD(beta_map, 4, "beta_map is 4", "0 to 3"),
    BAD(beta_map, CLATTN_BETA_SOFTPLUS, "gated_delta_rule", "beta_map=softplus"),
    BAD(flags, CLATTN_CU_SEQLENS, "batch is 2", "1 with cu_seqlens"),
    BAD(kv_heads, 2, "qk_heads 2 and kv_heads 2", "fewer than heads 4"),
    BAD(kv_heads, 3, "kv_heads 3", "does not divide heads 4"),
    BAD(kv_len, 10, "gated_delta_rule", "kv_len"),
    BAD(window, 1, "gated_delta_rule", "window"),
    BAD(flags, CLATTN_REVERSED | CLATTN_WITH_ATTN, "reversed", "no attn"),
    BAD(state_slots, 4, "state_slots is 4", "without CLATTN_WITH_STATE_INDICES"),
    BAD(state_slots, -1, "state_slots is -1", "0 to "),
    BAD(state_window, -1, "state_window is -1", "0 to "),
    BAD(state_every, -1, "state_every is -1", "0 to "),
};

/* The same of a rule whose state is a list. */
static const struct bad bad_lists[] = {
    BAD(kv_heads, -1, "kv_heads is -1", "1 to 4"),
    BAD(kv_heads, 3, "kv_heads 3", "does not divide heads 4"),
    BAD(kv_heads, 8, "kv_heads is 8", "1 to 4"),
    BAD(qk_heads, 2, "qk_heads is 2", "each of 4 heads"),
    BAD(kv_len, -1, "kv_len is -1", "0 to "),
    BAD(kv_len, (int64_t)1 << 31, "kv_len is 2147483648", "0 to "),
    BAD(window, -1, "window is -1", "0 to "),
    BAD(flags, CLATTN_INITIAL_STATE, "forgetting_attn takes no option initial_state", "see kv_len"),
    BAD(flags, CLATTN_FINAL_STATE, "forgetting_attn takes no option final_state", "see kv_len"),
    BAD(state_slots, 1, "forgetting_attn", "state_slots"),
    BAD(state_window, 1, "forgetting_attn", "state_window"),
    BAD(state_every, 1, "forgetting_attn", "state_every"),
    BAD(flags, CLATTN_WITH_STATE_INDICES, "forgetting_attn", "takes no option state_indices"),
    BAD(flags, CLATTN_HEADS_TILED, "forgetting_attn", "takes no option heads=tiled"),
    BAD(flags, CLATTN_REVERSED, "forgetting_attn", "takes no option reversed"),
    BAD(flags, CLATTN_STATE_VK, "forgetting_attn", "takes no option state=vk"),
    BAD(flags, CLATTN_NORMALIZE, "forgetting_attn", "normalize"),
    BAD(flags, CLATTN_UNGATED, "forgetting_attn", "ungated"),
    BAD(beta_map, CLATTN_BETA_SIGMOID, "forgetting_attn", "beta_map"),
    BAD(flags, CLATTN_WITH_A_LOG, "forgetting_attn", "a_log"),
    BAD(flags, CLATTN_GATE_PER_HEAD, "forgetting_attn", "gate=head"),
    BAD(feature_map, CLATTN_FEATURE_RELU, "forgetting_attn", "feature_map"),
    BAD(steps, 2, "forgetting_attn", "steps"),
    BAD(kernel, CLATTN_WEIGHTS_RELU, "forgetting_attn", "kernel"),
    BAD(kernel, 5, "kernel is 5", "0 to 4"),
    BAD(write_kernel, CLATTN_WEIGHTS_RELU, "forgetting_attn", "write_kernel"),
    BAD(flags, CLATTN_WITH_P, "forgetting_attn", "option p"),
    BAD(flags, CLATTN_WITH_BETA, "forgetting_attn", "option beta"),
    BAD(flags, CLATTN_WITH_WRITTEN, "forgetting_attn", "option written"),
};

/* The same of rules whose state has one channel, or numbers in pairs. */
static const struct bad bad_rows[] = {
    BAD(key_dim, 16, "lru has no queries and keys: key_dim is 16, expected 1", "qk_heads 4"),
    BAD(qk_heads, 2, "lru has no queries and keys", "qk_heads 2, expected heads 4"),
    BAD(flags, CLATTN_QK_L2NORM, "lru", "takes no option qk_l2norm"),
    BAD(value_dim, 7, "lru: value_dim is 7", "expected pairs"),
    BAD(flags, CLATTN_SOFTPLUS, "lru", "option softplus"),
    BAD(flags, CLATTN_WITH_DT_BIAS, "lru", "option dt_bias"),
    BAD(flags, CLATTN_WITH_D, "lru", "option d"),
    BAD(flags, CLATTN_WITH_Z, "lru", "option z"),
    BAD(flags, CLATTN_NORM_OUTPUT, "lru", "option norm"),
    BAD(flags, CLATTN_COMPLEX, "lru", "option complex"),
    BAD(flags, CLATTN_UNGATED, "lru", "ungated"),
    BAD(gate_map, CLATTN_GATE_MAP_EXP, "lru", "gate_map"),
};
static const struct bad bad_turns[] = {
    BAD(rope_dim, 7, "rope_dim is 7", "even"),
    BAD(rope_dim, 22, "rope_dim is 22", "2 to 20"),
    BAD(key_dim, 15, "rope_dim is 15", "even"),
};
/* Which rules do not turn, and with what none does. */
static const struct {
    clattn_plan_desc desc;
    const char *said;
} bad_ropes[] = {
    {{.rule = CLATTN_GLA, .key_dim = 20, .rope_base = 1}, "rope_base is 1, expected above 1"},
    {{.rule = CLATTN_HGRN}, "hgrn takes no option rope"},
    {{.rule = CLATTN_LRU}, "lru takes no option rope"},
    {{.rule = CLATTN_ROPE}, "rope takes no option rope"},
    {{.rule = CLATTN_RMS_NORM}, "rms_norm takes no option rope"},
    {{.rule = CLATTN_SOFTMAX_ATTN, .key_dim = 20, .kv_len = 70}, "softmax_attn: rope with kv_len, whose keys"},
    {{.rule = CLATTN_PATH_ATTN, .key_dim = 20, .flags = CLATTN_CARRY}, "path_attn: rope with carry, whose keys"},
    {{.rule = CLATTN_MAMBA, .key_dim = 20, .flags = CLATTN_COMPLEX}, "mamba: rope with complex, whose channels"},
    {{.rule = CLATTN_LINEAR_ATTN, .key_dim = 20, .flags = CLATTN_NORMALIZE}, "linear_attn: rope with normalize"},
};

static const struct bad bad_wholes[] = {
    BAD(flags, CLATTN_NONCAUSAL | CLATTN_WITH_ATTN, "linear_attn: noncausal", "no attn"),
    BAD(flags, CLATTN_NONCAUSAL | CLATTN_WITH_STATE_INDICES, "linear_attn: noncausal", "none in a pool"),
    BAD(state_window, 2, "linear_attn: noncausal", "no states on the way"),
    BAD(state_every, 2, "linear_attn: noncausal", "no states on the way"),
};
static const struct bad bad_pairs[] = {
    BAD(key_dim, 15, "mamba with complex: key_dim is 15", "expected pairs"),
};

static void check_bad(const clattn_plan_desc *base, const struct bad *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct bad *bad = &rows[i];
        clattn_plan_desc desc = *base, full;
        int32_t narrow = (int32_t)bad->value;
        memcpy((char *)&desc + bad->offset, bad->size == 8 ? (const void *)&bad->value : &narrow, bad->size);
        assert_status(complete(&full, &desc), INVALID_DESC);
        assert_logged(bad->first);
        assert_logged(bad->second);
        assert_status(clattn_plan_desc_complete(&full, &desc, NULL, NULL), INVALID_DESC);
    }
}

static void test_bad_fields(void **state)
{
    clattn_plan_desc list = good, row = good, full;

    (void)state;
    check_bad(&good, bad_fields, COUNT(bad_fields));
    list.rule = CLATTN_FORGETTING_ATTN;
    list.qk_heads = 0;
    check_bad(&list, bad_lists, COUNT(bad_lists));
    row.rule = CLATTN_LRU;
    row.key_dim = row.qk_heads = 0;
    assert_status(complete(&full, &row), SUCCESS);
    assert_int_equal(full.key_dim, 1);
    check_bad(&row, bad_rows, COUNT(bad_rows));
    row.rule = CLATTN_MAMBA;
    row.flags = CLATTN_COMPLEX;
    check_bad(&row, bad_pairs, COUNT(bad_pairs));
    row = good;
    row.rule = CLATTN_LINEAR_ATTN;
    row.flags = CLATTN_NONCAUSAL;
    assert_status(complete(&full, &row), SUCCESS);
    check_bad(&row, bad_wholes, COUNT(bad_wholes));
    list.batch = 1;
    list.flags = CLATTN_CU_SEQLENS;
    list.sequences = 2;
    assert_status(complete(&full, &list), SUCCESS);
    list.kv_len = 10;
    assert_status(complete(&full, &list), INVALID_DESC);
    assert_logged("kv_len is 10, expected 0 with cu_seqlens");
}

static void test_bad_ropes(void **state)
{
    const clattn_plan_desc turned = {
        .rule = CLATTN_GLA, .flags = CLATTN_WITH_ROPE, .seq_len = 70, .heads = 4, .key_dim = 20, .value_dim = 16};
    clattn_plan_desc full;

    (void)state;
    assert_status(complete(&full, &turned), SUCCESS);
    assert_true(full.rope_base == 10000 && full.rope_dim == 20);
    check_bad(&turned, bad_turns, COUNT(bad_turns));
    for (size_t i = 0; i < COUNT(bad_ropes); i++) {
        clattn_plan_desc desc = bad_ropes[i].desc;
        desc.flags |= CLATTN_WITH_ROPE;
        desc.seq_len = 70;
        desc.heads = 4;
        desc.value_dim = 16;
        test_log_clear();
        assert_status(complete(&full, &desc), INVALID_DESC);
        assert_logged(bad_ropes[i].said);
    }
    full = turned;
    full.flags = 0;
    full.rope_dim = 4;
    assert_status(complete(&full, &full), INVALID_DESC);
    assert_logged("gla takes no option rope_dim");
}

/* Of rules of a list, what does not go together. */
static const struct {
    clattn_rule rule;
    uint64_t flags;
    clattn_weights kernel, write_kernel;
    const char *said;
} bad_pairings[] = {
    {CLATTN_SOFTMAX_ATTN, CLATTN_WITH_SINK, CLATTN_WEIGHTS_LINEAR, 0,
     "softmax_attn with kernel linear has no denominator, and so no sink"},
    {CLATTN_SOFTMAX_ATTN, CLATTN_WITH_LSE, CLATTN_WEIGHTS_RELU, 0,
     "softmax_attn with kernel relu has no denominator, and so no lse"},
    {CLATTN_PATH_ATTN, 0, CLATTN_WEIGHTS_ROUND, 0,
     "path_attn with kernel round has no denominator, and so no gate: see CLATTN_UNGATED"},
    {CLATTN_PATH_ATTN, CLATTN_UNGATED | CLATTN_WITH_SINK, CLATTN_WEIGHTS_LINEAR, 0,
     "path_attn with kernel linear has no denominator, and so no sink"},
    {CLATTN_PATH_ATTN, CLATTN_UNGATED | CLATTN_WITH_LSE, CLATTN_WEIGHTS_LINEAR, 0,
     "path_attn with kernel linear has no denominator, and so no lse"},
    {CLATTN_DELTAFORMER, CLATTN_WITH_LSE, CLATTN_WEIGHTS_FLOOR, 0,
     "deltaformer with kernel floor has no denominator, and so no lse"},
    {CLATTN_DELTAFORMER, CLATTN_WITH_SINK, CLATTN_WEIGHTS_FLOOR, 0,
     "deltaformer with kernel floor has no denominator, and so no sink"},
    {CLATTN_ALIBI_ATTN, 0, CLATTN_WEIGHTS_LINEAR, 0, "alibi_attn takes no option kernel"},
    {CLATTN_FORGETTING_ATTN, 0, CLATTN_WEIGHTS_LINEAR, 0, "forgetting_attn takes no option kernel"},
    {CLATTN_SOFTMAX_ATTN, 0, 0, CLATTN_WEIGHTS_LINEAR, "softmax_attn takes no option write_kernel"},
    {CLATTN_PATH_ATTN, 0, 0, CLATTN_WEIGHTS_LINEAR, "path_attn takes no option write_kernel"},
    {CLATTN_FORGETTING_ATTN, CLATTN_NONCAUSAL, 0, 0, "forgetting_attn takes no option noncausal"},
    {CLATTN_PATH_ATTN, CLATTN_NONCAUSAL, 0, 0, "path_attn takes no option noncausal"},
    {CLATTN_SOFTMAX_ATTN, CLATTN_KEYS_BEFORE, 0, 0, "softmax_attn takes no option keys_before"},
    {CLATTN_ALIBI_ATTN, CLATTN_KEYS_BEFORE | CLATTN_NONCAUSAL, 0, 0, "alibi_attn: keys_before with noncausal"},
    {CLATTN_DELTAFORMER, CLATTN_NONCAUSAL, 0, 0, "deltaformer takes no option noncausal"},
    {CLATTN_PATH_ATTN, CLATTN_WITH_KV_LENS, 0, 0, "path_attn takes no option kv_lens"},
    {CLATTN_DELTAFORMER, CLATTN_WITH_KV_LENS, 0, 0, "deltaformer takes no option kv_lens"},
    {CLATTN_PATH_ATTN, CLATTN_APPEND, 0, 0, "path_attn takes no option append"},
    {CLATTN_DELTAFORMER, CLATTN_APPEND, 0, 0, "deltaformer takes no option append"},
    {CLATTN_DELTAFORMER, CLATTN_CARRY, 0, 0, "deltaformer takes no option carry"},
};

static void test_bad_pairings(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad_pairings); i++) {
        clattn_plan_desc desc = good, full;
        desc.rule = bad_pairings[i].rule;
        desc.qk_heads = 0;
        desc.flags = bad_pairings[i].flags;
        desc.kernel = bad_pairings[i].kernel;
        desc.write_kernel = bad_pairings[i].write_kernel;
        assert_status(complete(&full, &desc), INVALID_DESC);
        assert_logged(bad_pairings[i].said);
        desc.flags &= CLATTN_UNGATED;
        desc.kernel = desc.write_kernel = CLATTN_WEIGHTS_SOFTMAX;
        assert_status(complete(&full, &desc), SUCCESS); /* it is what was said, and nothing else */
    }
}

static void test_limits(void **state)
{
    static const struct {
        clattn_rule rule;
        uint64_t flags;
        clattn_gate_map map;
        double step_min, step_max;
        const char *said; /* NULL: it is taken */
    } limits[] = {
        {CLATTN_SSD, 0, CLATTN_GATE_MAP_SOFTPLUS, 0.001, 0.1, NULL},
        {CLATTN_KDA, 0, CLATTN_GATE_MAP_SOFTPLUS, 0.001, 0, NULL},
        {CLATTN_MAMBA, CLATTN_SOFTPLUS, CLATTN_GATE_MAP_LOG, 0, 0.1, NULL},
        {CLATTN_GATES, 0, CLATTN_GATE_MAP_LOG, 0.1, 0.1, NULL}, /* the piece's default is softplus */
        {CLATTN_SSD, 0, CLATTN_GATE_MAP_SOFTPLUS, 0.2, 0.1, "step_max is 0.1, expected 0 or at least step_min 0.2"},
        {CLATTN_SSD, 0, CLATTN_GATE_MAP_SOFTPLUS, -1, 0.1, "step_min is -1, expected 0 to 1e+30"},
        {CLATTN_SSD, 0, CLATTN_GATE_MAP_SOFTPLUS, 0, (double)INFINITY, "step_max is inf, expected 0 to 1e+30"},
        {CLATTN_KDA, 0, CLATTN_GATE_MAP_SIGMOID, 0, 0.1, "step_max are for steps of gate_map or beta_map softplus"},
        {CLATTN_MAMBA, 0, CLATTN_GATE_MAP_LOG, 0, 0.1, "mamba: step_min and step_max are for steps of softplus"},
        {CLATTN_RWKV7, 0, CLATTN_GATE_MAP_LOG, 0, 0.1, "rwkv7: step_min and step_max are for steps of gate_map"},
        {CLATTN_RETENTION, 0, CLATTN_GATE_MAP_LOG, 0, 0.1, "retention takes no option step_max"}};

    (void)state;
    for (size_t i = 0; i < COUNT(limits); i++) {
        clattn_plan_desc desc = good, full;
        desc.rule = limits[i].rule;
        desc.qk_heads = 0;
        desc.key_dim = desc.rule == CLATTN_GATES ? 1 : desc.key_dim;
        desc.flags = limits[i].flags;
        desc.gate_map = limits[i].map;
        desc.step_min = limits[i].step_min;
        desc.step_max = limits[i].step_max;
        assert_int_equal(complete(&full, &desc), limits[i].said == NULL ? CLATTN_SUCCESS : CLATTN_INVALID_DESC);
        if (limits[i].said != NULL)
            assert_logged(limits[i].said);
    }
}

static void test_softcap(void **state)
{
    static const struct {
        clattn_rule rule;
        double softcap;
        const char *said; /* NULL: it is taken */
    } caps[] = {{CLATTN_SOFTMAX_ATTN, 50, NULL},
                {CLATTN_ALIBI_ATTN, 1e-3, NULL},
                {CLATTN_FORGETTING_ATTN, 30, NULL},
                {CLATTN_SOFTMAX_ATTN, -1, "softcap is -1, expected 0 to 1e+30"},
                {CLATTN_SOFTMAX_ATTN, (double)NAN, "softcap is nan, expected 0 to 1e+30"},
                {CLATTN_PATH_ATTN, 50, "path_attn takes no option softcap"},
                {CLATTN_DELTAFORMER, 50, "deltaformer takes no option softcap"},
                {CLATTN_GATED_DELTA_RULE, 50, "gated_delta_rule takes no option softcap"}};

    (void)state;
    for (size_t i = 0; i < COUNT(caps); i++) {
        clattn_plan_desc desc = good, full;
        desc.rule = caps[i].rule;
        desc.qk_heads = 0;
        desc.flags = 0;
        desc.softcap = caps[i].softcap;
        assert_int_equal(complete(&full, &desc), caps[i].said == NULL ? CLATTN_SUCCESS : CLATTN_INVALID_DESC);
        if (caps[i].said != NULL)
            assert_logged(caps[i].said);
    }
}

/* Positions are ints, and so are their distances from keys on both sides. */
static void test_distances(void **state)
{
    clattn_plan_desc desc = {.rule = CLATTN_SOFTMAX_ATTN,
                             .flags = CLATTN_NONCAUSAL,
                             .seq_len = 1 << 20,
                             .kv_len = INT32_MAX - (1 << 20),
                             .heads = 1,
                             .key_dim = 1,
                             .value_dim = 1};
    clattn_plan_desc full;

    (void)state;
    assert_status(complete(&full, &desc), SUCCESS);
    desc.kv_len++;
    assert_status(complete(&full, &desc), INVALID_DESC);
    assert_logged("kv_len 2146435072 and seq_len 1048576: noncausal has distances up to 2147483647");
}

/* Sizes of each of these rules: the field, and the numbers that clash. */
static void test_bad_list_sizes(void **state)
{
    static const clattn_rule rules[] = {CLATTN_SOFTMAX_ATTN, CLATTN_ALIBI_ATTN, CLATTN_FORGETTING_ATTN,
                                        CLATTN_PATH_ATTN, CLATTN_DELTAFORMER};
    static const struct bad sizes[] = {
        BAD(kv_heads, 3, "kv_heads 3", "does not divide heads 4"),
        BAD(qk_heads, 2, "qk_heads is 2", "each of 4 heads"),
        BAD(window, -1, "window is -1", "0 to "),
        BAD(kv_len, -1, "kv_len is -1", "0 to "),
        BAD(flags, CLATTN_INITIAL_STATE, "takes no option initial_state", "lists go on from k and v, see kv_len"),
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rules); i++) {
        clattn_plan_desc list = good;
        list.rule = rules[i];
        list.qk_heads = 0;
        check_bad(&list, sizes, COUNT(sizes));
    }
}

static void test_bad_numbers(void **state)
{
    const double gate_scales[] = {(double)NAN, (double)INFINITY, 1, -1e31}; /* of a lower bound */
    const double scales[] = {(double)NAN, (double)INFINITY, -1e31};
    const double epses[] = {(double)NAN, (double)INFINITY, -1e-6, 1e31};
    clattn_plan_desc desc = good, full;

    (void)state;
    for (size_t i = 0; i < COUNT(gate_scales); i++) {
        desc.gate_map = CLATTN_GATE_MAP_SIGMOID;
        desc.gate_scale = gate_scales[i];
        assert_status(complete(&full, &desc), INVALID_DESC);
        assert_logged("expected one below 0 for gate_map sigmoid");
        desc.gate_map = CLATTN_GATE_MAP_LOG;
        desc.gate_scale = -1;
        assert_status(complete(&full, &desc), INVALID_DESC);
        assert_logged("expected 0 for gate_map log");
        desc = good;
    }
    for (size_t i = 0; i < COUNT(scales); i++) {
        desc.scale = scales[i];
        assert_status(complete(&full, &desc), INVALID_DESC);
        assert_logged("scale");
    }
    for (size_t i = 0; i < COUNT(epses); i++) {
        desc = good;
        desc.rule = CLATTN_MLSTM;
        desc.eps = epses[i];
        assert_status(complete(&full, &desc), INVALID_DESC);
        assert_logged("expected 0 to 1e+30");
    }
    desc = good;
    desc.eps = 1e-6;
    assert_status(complete(&full, &desc), INVALID_DESC);
    assert_logged("gated_delta_rule takes no option eps");
    desc = good;
    desc.batch = 1;
    desc.flags = CLATTN_CU_SEQLENS;
    assert_status(complete(&full, &desc), INVALID_DESC);
    assert_logged("sequences is 0");
    assert_status(complete(NULL, &good), INVALID_ARGUMENT);
    assert_logged("full");
    assert_status(complete(&full, NULL), INVALID_ARGUMENT);
    assert_logged("desc");
}

/* What options only some rules take is refused by the others and taken by those. */
static void test_options(void **state)
{
    int taken = 0;

    (void)state;
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++) {
        clattn_plan_desc desc = good, full;
        desc.rule = rule;
        check_fit(&desc);
        assert_status(complete(&full, &desc), SUCCESS);
        for (int variant = 1;; variant++, taken++) {
            desc = good;
            desc.rule = rule;
            if (check_variant(rule, variant, &desc) == NULL)
                break;
            assert_status(complete(&full, &desc), SUCCESS);
            if (desc.flags & (CLATTN_REVERSED | CLATTN_WITH_ROPE)) /* of any rule of a state, or with keys */
                continue;
            desc.rule = CLATTN_IPLR;
            assert_status(complete(&full, &desc), INVALID_DESC);
            assert_logged("iplr takes no option");
        }
    }
    assert_true(taken >= 8);
}

struct shape {
    clattn_operand_id id;
    int rank;
    int64_t dims[4];
    clattn_dtype dtype;
    int output;
};

static void assert_shape(const clattn_plan_desc *desc, const struct shape *shape)
{
    clattn_operand_info info;

    assert_status(clattn_operand_describe(desc, shape->id, &info), SUCCESS);
    assert_int_equal(info.rank, shape->rank);
    for (int i = 0; i < shape->rank; i++)
        assert_int_equal(info.dims[i], shape->dims[i]);
    assert_int_equal(info.output, shape->output);
    if (shape->rank > 0 && shape->id != OP(SEQLENS))
        assert_int_equal(info.dtype, shape->dtype);
}

static void test_shapes(void **state)
{
    static const struct shape delta[] = {
        {OP(Q), 4, {2, 10, 2, 16}, CLATTN_F16, 0},
        {OP(K), 4, {2, 10, 2, 16}, CLATTN_F16, 0},
        {OP(V), 4, {2, 10, 4, 8}, CLATTN_F16, 0},
        {OP(O), 4, {2, 10, 4, 8}, CLATTN_F16, 1},
        {OP(G), 3, {2, 10, 4}, CLATTN_BF16, 0},
        {OP(BETA), 3, {2, 10, 4}, CLATTN_BF16, 0},
        {OP(STATE_IN), 4, {2, 4, 16, 8}, CLATTN_F32, 0},
        {OP(STATE_OUT), 4, {2, 4, 16, 8}, CLATTN_F32, 1},
        {OP(P), 0, {0}, CLATTN_F32, 0},
        {OP(SEQLENS), 0, {0}, CLATTN_F32, 0},
        {OP(NORMALIZER_OUT), 0, {0}, CLATTN_F32, 1},
    };
    static const struct shape product[] = {
        {OP(Q), 4, {1, 10, 2, 16}, CLATTN_F32, 0},        {OP(K), 4, {1, 30, 2, 16}, CLATTN_F32, 0},
        {OP(V), 4, {1, 30, 4, 8}, CLATTN_F32, 0},         {OP(G), 3, {1, 10, 4}, CLATTN_F32, 0},
        {OP(BETA), 3, {1, 30, 4}, CLATTN_F32, 0},         {OP(STATE_IN), 0, {0}, CLATTN_F32, 0},
        {OP(STATE_OUT), 4, {5, 4, 8, 16}, CLATTN_F32, 1}, {OP(SEQLENS), 1, {6}, CLATTN_F32, 0},
    };
    static const struct shape list[] = {
        {OP(Q), 4, {2, 10, 4, 16}, CLATTN_F16, 0}, {OP(K), 4, {2, 30, 2, 16}, CLATTN_F16, 0},
        {OP(V), 4, {2, 30, 2, 8}, CLATTN_F16, 0},  {OP(O), 4, {2, 10, 4, 8}, CLATTN_F16, 1},
        {OP(G), 3, {2, 30, 4}, CLATTN_BF16, 0},    {OP(SINK), 1, {4}, CLATTN_F32, 0},
        {OP(LSE), 3, {2, 10, 4}, CLATTN_F32, 1},   {OP(STATE_IN), 0, {0}, CLATTN_F32, 0},
        {OP(STATE_OUT), 0, {0}, CLATTN_F32, 1},
    };
    clattn_plan_desc desc = good;
    clattn_operand_info info;

    (void)state;
    desc.rule = CLATTN_FORGETTING_ATTN;
    desc.dtype = CLATTN_F16;
    desc.gate_dtype = CLATTN_BF16;
    desc.qk_heads = 0;
    desc.kv_heads = 2;
    desc.kv_len = 30;
    desc.flags = CLATTN_WITH_SINK | CLATTN_WITH_LSE;
    for (size_t i = 0; i < COUNT(list); i++)
        assert_shape(&desc, &list[i]);
    desc = good;
    desc.dtype = CLATTN_F16;
    desc.gate_dtype = CLATTN_BF16;
    desc.flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE;
    for (size_t i = 0; i < COUNT(delta); i++)
        assert_shape(&desc, &delta[i]);
    desc = good;
    desc.rule = CLATTN_GATED_DELTA_PRODUCT;
    desc.batch = 1;
    desc.steps = 3;
    desc.sequences = 5;
    desc.flags = CLATTN_FINAL_STATE | CLATTN_STATE_VK | CLATTN_CU_SEQLENS;
    for (size_t i = 0; i < COUNT(product); i++)
        assert_shape(&desc, &product[i]);
    assert_status(clattn_operand_describe(&desc, OPERAND_COUNT, &info), INVALID_ARGUMENT);
    assert_status(clattn_operand_describe(&desc, (clattn_operand_id)-1, &info), INVALID_ARGUMENT);
    assert_status(clattn_operand_describe(&desc, OP(Q), NULL), INVALID_ARGUMENT);
    assert_status(clattn_operand_describe(NULL, OP(Q), &info), INVALID_ARGUMENT);
    desc.heads = 0;
    assert_status(clattn_operand_describe(&desc, OP(Q), &info), INVALID_DESC);
}

/* problem_view of good's operand id at the plan's maxima. */
static clattn_status view_of(clattn_operand_id id, clattn_operand operand, size_t size, struct view *view)
{
    static const struct log log = {test_log, NULL};
    clattn_plan_desc desc = good;
    struct problem problem;
    struct extent extent;

    test_log_clear();
    desc.flags = CLATTN_INITIAL_STATE;
    TRY(problem_init(&problem, &desc, &log));
    extent = problem_most(&problem);
    for (int i = 0; i < problem.operand_count; i++)
        if (problem.operands[i].id == id)
            return problem_view(&problem, &extent, &problem.operands[i], &operand, size, view, &log);
    return CLATTN_UNSUPPORTED;
}

static void test_views(void **state)
{
    const int64_t far = (int64_t)1 << 40;
    struct view view;

    (void)state;
    assert_status(view_of(OP(Q), (clattn_operand){.offset = 8}, 0, &view), SUCCESS);
    assert_memory_equal(&view, (&(struct view){2, 320, 32, 16}), sizeof view);
    assert_status(view_of(OP(BETA), (clattn_operand){.offset = 0}, 0, &view), SUCCESS);
    assert_memory_equal(&view, (&(struct view){0, 40, 4, 1}), sizeof view);
    assert_status(
        view_of(OP(V), (clattn_operand){.batch_stride = 9 * far, .token_stride = far, .head_stride = 8}, 0, &view),
        SUCCESS);
    assert_memory_equal(&view, (&(struct view){0, 9 * far, far, 8}), sizeof view);
    /* the stride of an axis that the operand does not have is not used */
    assert_status(
        view_of(OP(STATE_IN), (clattn_operand){.batch_stride = 600, .token_stride = 9, .head_stride = 150}, 0, &view),
        SUCCESS);
    assert_memory_equal(&view, (&(struct view){0, 600, 0, 150}), sizeof view);
    /* exactly enough, and one byte less; offsets past 2^32 bytes and strides past 2^31 elements */
    assert_status(view_of(OP(Q), (clattn_operand){.offset = 8}, 640 * 4, &view), SUCCESS);
    assert_status(view_of(OP(Q), (clattn_operand){.offset = 8}, 640 * 4 - 1, &view), INVALID_OPERAND);
    assert_logged("q needs 640 elements of 4 bytes");
    assert_logged("holds 639");
    assert_status(view_of(OP(V), (clattn_operand){.offset = (size_t)1 << 33, .token_stride = far, .head_stride = 8},
                          (size_t)(9 * far + 32) * 4, &view),
                  SUCCESS);
    assert_int_equal(view.offset, (int64_t)1 << 31);
    assert_status(
        view_of(OP(V), (clattn_operand){.token_stride = far, .head_stride = 8}, (size_t)(9 * far + 32) * 4 - 4, &view),
        INVALID_OPERAND);
    assert_logged("v needs 9895604650016");
}

static void test_bad_views(void **state)
{
    static const struct {
        clattn_operand_id id;
        clattn_operand operand;
        const char *first, *second;
    } bad[] = {
        {OP(K), {.offset = 2}, "k: offset 2", "element size 4"},
        {OP(G), {.token_stride = -1, .head_stride = 1}, "g: its token stride is -1", "elements"},
        {OP(V), {.head_stride = INT64_MAX}, "v: its head stride is 9223372036854775807", "expected 0 to"},
        {OP(V), {.batch_stride = INT64_MAX / 4}, "v: its batch stride is", "expected 0 to"},
    };
    struct view view;

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_status(view_of(bad[i].id, bad[i].operand, 0, &view), INVALID_OPERAND);
        assert_logged(bad[i].first);
        assert_logged(bad[i].second);
    }
}

static void see_outputs(clattn_rule rule, uint64_t flags, int seen[OPERAND_COUNT])
{
    const clattn_plan_desc desc = {.rule = rule,
                                   .flags = flags | CLATTN_WITH_BIAS | CLATTN_WITH_POSITION | CLATTN_WITH_MOMENTUM,
                                   .readout = CLATTN_READOUT_Z,
                                   .state_window = 1};
    struct operand_row rows[OPERAND_COUNT];
    int count = rule_operands(&desc, rows);

    for (int i = 0; i < count; i++) {
        seen[rows[i].id] = 1;
        if (operand_is_output(rows[i].id) != (rows[i].numbers == NUMBERS_WRITTEN))
            fail_msg("%s: %s is an output by its id or its row alone", test_rule_name(rule), operand_name(rows[i].id));
    }
}

/* Whether an operand is written stands by its id, for those that a desc has not, and in its row. */
static void test_outputs(void **state)
{
    const uint64_t all = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE | CLATTN_NORMALIZE | CLATTN_VALUE_GATE |
                         CLATTN_CU_SEQLENS | CLATTN_WITH_SINK | CLATTN_WITH_LSE | CLATTN_WITH_KV_LENS |
                         CLATTN_WITH_STATE_INDICES | CLATTN_CU_SEQLENS_KV | CLATTN_WITH_P | CLATTN_WITH_BETA |
                         CLATTN_WITH_WRITTEN | CLATTN_APPEND | CLATTN_WITH_DT_BIAS | CLATTN_WITH_A_LOG | CLATTN_WITH_D |
                         CLATTN_WITH_Z | CLATTN_WITH_ATTN | CLATTN_WITH_ACCEPTED | CLATTN_WITH_ALPHA |
                         CLATTN_WITH_GAMMA | CLATTN_NORM_OUTPUT;
    int seen[OPERAND_COUNT] = {0};

    (void)state;
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++)
        for (int summary = 0; summary < 2; summary++)
            see_outputs(rule, all | (summary ? CLATTN_SUMMARY : 0), seen);
    for (int id = 1; id <= (int)OPERAND_IDS; id++)
        if (!seen[id])
            fail_msg("no rule has %s", operand_name((clattn_operand_id)id));
}

/* The rows of a rule's operands that hold a tensor of its state: one for each time that the desc asks for. */
static void check_state_tensor(clattn_rule rule, const struct state_tensor *tensor)
{
    const clattn_plan_desc desc = {
        .rule = rule, .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE | tensor->flag, .state_window = 1};
    struct operand_row rows[OPERAND_COUNT];
    int count = rule_operands(&desc, rows), found = 0;

    for (int i = 0; i < count; i++) {
        if (rows[i].id != tensor->before && rows[i].id != tensor->after && rows[i].id != tensor->between)
            continue;
        found++;
        assert_int_equal(rows[i].storage, tensor->storage);
        assert_string_equal(rows[i].dims,
                            rows[i].id == tensor->between ? tensor->many.sequence : tensor->dims.sequence);
        assert_ptr_equal(state_of_operand(rule_get(rule), rows[i].id), tensor);
    }
    assert_int_equal(found, 1 + (tensor->after != NO_OPERAND) + (tensor->between != NO_OPERAND));
    if (tensor->after != NO_OPERAND)
        assert_int_equal(state_before(rule_get(rule), tensor->after), tensor->before);
    assert_int_equal(state_before(rule_get(rule), tensor->before), NO_OPERAND);
}

static void test_state_tensors(void **state)
{
    (void)state;
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++)
        for (const struct state_tensor *tensor = rule_get(rule)->state; tensor->name != NULL; tensor++)
            check_state_tensor(rule, tensor);
    assert_null(state_of_operand(rule_get(CLATTN_RETENTION), OP(NORMALIZER_IN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state_tensors), cmocka_unit_test(test_defaults),       cmocka_unit_test(test_bad_fields),
        cmocka_unit_test(test_bad_numbers),   cmocka_unit_test(test_options),        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_views),         cmocka_unit_test(test_outputs),        cmocka_unit_test(test_bad_views),
        cmocka_unit_test(test_softcap),       cmocka_unit_test(test_limits),         cmocka_unit_test(test_distances),
        cmocka_unit_test(test_bad_pairings),  cmocka_unit_test(test_bad_list_sizes), cmocka_unit_test(test_bad_ropes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
