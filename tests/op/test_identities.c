/* Rules that must give the same numbers: one is a special case of the other. Each row builds the general rule's inputs
 * from the special one's. With CLATTN_TEST_DEVICE=reference the identities hold the oracle itself. */
#include "harness.h"

#include <math.h>
#include <stdio.h>

enum { BATCH = 2, TOKENS = 75, HEADS = 2, KEY = 20, VALUE = 12, STEPS = 3 };

static clattn_plan_desc desc_of(clattn_rule rule, clattn_mode mode)
{
    return (clattn_plan_desc){.rule = rule,
                              .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE,
                              .batch = BATCH,
                              .seq_len = TOKENS,
                              .heads = HEADS,
                              .key_dim = KEY,
                              .value_dim = VALUE,
                              .scale = 0.25,
                              .mode = mode};
}

/* Whatever both problems name and shape alike. */
static void copy_common(struct check_tensors *to, const struct check_tensors *from)
{
    for (int id = 1; id < OPERAND_COUNT; id++) {
        const struct check_tensor *a = &to->tensor[id], *b = &from->tensor[id];
        if (a->data != NULL && b->data != NULL && !a->info.output && check_count(&a->info) == check_count(&b->info))
            test_copy(to, (clattn_operand_id)id, from, (clattn_operand_id)id);
    }
}

static void zero_gates(struct check_tensors *general, const struct check_tensors *special)
{
    (void)special;
    test_set_all(general, general->tensor[OP(G)].data ? OP(G) : OP(W), 0);
}

static void equal_channels(struct check_tensors *general, const struct check_tensors *special)
{
    test_spread(general, OP(G), special, OP(G), KEY);
}

/* g of a head for each of its tokens */
static void repeated_gates(struct check_tensors *general, const struct check_tensors *special)
{
    int64_t count = check_count(&special->tensor[OP(G)].info);

    for (int64_t i = 0; i < check_count(&general->tensor[OP(G)].info); i++)
        test_set(general, OP(G), i, test_get(special, OP(G), i % count));
}

static void zero_value_gate(struct check_tensors *general, const struct check_tensors *special)
{
    (void)special;
    test_set_all(general, OP(GV), 0);
}

/* b = w = beta */
static void all_beta(struct check_tensors *general, const struct check_tensors *special)
{
    test_spread(general, OP(B), special, OP(BETA), KEY);
    test_spread(general, OP(W), special, OP(BETA), VALUE);
}

/* a = k, b = -beta k, v <- beta v, no decay */
static void low_rank_delta(struct check_tensors *general, const struct check_tensors *special)
{
    int64_t keys = check_count(&special->tensor[OP(K)].info), values = check_count(&special->tensor[OP(V)].info);

    test_copy(general, OP(A), special, OP(K));
    for (int64_t i = 0; i < keys; i++)
        test_set(general, OP(B), i, -test_get(special, OP(BETA), i / KEY) * test_get(special, OP(K), i));
    for (int64_t i = 0; i < values; i++)
        test_set(general, OP(V), i, test_get(special, OP(BETA), i / VALUE) * test_get(special, OP(V), i));
    if (general->tensor[OP(G)].data || general->tensor[OP(W)].data)
        zero_gates(general, special);
}

/* a = -p, b = beta k, v <- beta v, the decay the same in every channel */
static void low_rank_comba(struct check_tensors *general, const struct check_tensors *special)
{
    int64_t keys = check_count(&special->tensor[OP(K)].info), values = check_count(&special->tensor[OP(V)].info);

    for (int64_t i = 0; i < keys; i++) {
        test_set(general, OP(A), i, -test_get(special, OP(P), i));
        test_set(general, OP(B), i, test_get(special, OP(BETA), i / KEY) * test_get(special, OP(K), i));
    }
    for (int64_t i = 0; i < values; i++)
        test_set(general, OP(V), i, test_get(special, OP(BETA), i / VALUE) * test_get(special, OP(V), i));
    equal_channels(general, special);
}

/* The erase key that finds in the state before the decay what the special's finds in the decayed one */
static void decayed_p(struct check_tensors *general, const struct check_tensors *special)
{
    int64_t keys = check_count(&special->tensor[OP(K)].info);

    for (int64_t i = 0; i < keys; i++)
        test_set(general, OP(P), i, exp(test_get(special, OP(G), i / KEY)) * test_get(special, OP(P), i));
}

/* Neither decays */
static void both_ungated(struct check_tensors *general, const struct check_tensors *special)
{
    struct check_tensors own = *special;

    zero_gates(general, special);
    zero_gates(&own, special);
}

static void w_is_g(struct check_tensors *general, const struct check_tensors *special)
{
    test_copy(general, OP(W), special, OP(G));
}

static void p_is_k(struct check_tensors *general, const struct check_tensors *special)
{
    test_copy(general, OP(P), special, OP(K));
}

/* retention's decay, written as gates: the special rule has none */
static void retention_gates(struct check_tensors *general, const struct check_tensors *special)
{
    int64_t count = check_count(&general->tensor[OP(G)].info);

    (void)special;
    for (int64_t i = 0; i < count; i++)
        test_set(general, OP(G), i, i % HEADS == 0 ? -0.031748698314580301 : -0.015748356968139168);
}

/* rwkv6 without decay and u = 1 reads what linear_attn does */
static void whole_bonus(struct check_tensors *general, const struct check_tensors *special)
{
    (void)special;
    test_set_all(general, OP(W), 0);
    test_set_all(general, OP(U), 1);
}

/* A decay of the only channel's columns */
static void one_channel(struct check_tensors *general, const struct check_tensors *special)
{
    (void)special;
    test_set_all(general, OP(Q), 1);
    test_set_all(general, OP(K), 1);
    test_set_all(general, OP(G), 0);
}

/* v <- dt o v, g = dt a */
static void full_product(struct check_tensors *general, const struct check_tensors *special)
{
    for (int64_t i = 0; i < check_count(&general->tensor[OP(V)].info); i++) {
        double dt = test_get(special, OP(DT), i);
        int64_t c = i % (HEADS * VALUE);
        test_set(general, OP(V), i, dt * test_get(special, OP(V), i));
        for (int64_t n = 0; n < KEY; n++)
            test_set(general, OP(G), (i / VALUE * KEY + n) * VALUE + i % VALUE,
                     dt * test_get(special, OP(A), c * KEY + n));
    }
}

/* a = -1, dt = -g, v <- v / dt: of gates that are far enough from 0 */
static void steps_of_gates(struct check_tensors *general, const struct check_tensors *special)
{
    struct check_tensors own = *special;

    test_set_all(general, OP(A), -1);
    for (int64_t i = 0; i < check_count(&own.tensor[OP(G)].info); i++)
        test_set(&own, OP(G), i, -0.1 * (double)(1 + i % 7));
    for (int64_t i = 0; i < check_count(&general->tensor[OP(V)].info); i++) {
        double dt = -test_get(&own, OP(G), i / VALUE);
        test_set(general, OP(DT), i, dt);
        test_set(general, OP(V), i, test_get(special, OP(V), i) / dt);
    }
}

/* a = -1, dt = -g = beta */
static void steps_of_strengths(struct check_tensors *general, const struct check_tensors *special)
{
    struct check_tensors own = *special;

    test_set_all(general, OP(A), -1);
    for (int64_t i = 0; i < check_count(&own.tensor[OP(G)].info); i++)
        test_set(&own, OP(G), i, -test_get(special, OP(BETA), i));
    test_spread(general, OP(DT), special, OP(BETA), VALUE);
}

static void no_strength(struct check_tensors *general, const struct check_tensors *special)
{
    (void)special;
    test_set_all(general, OP(BETA), 1);
}

/* g = gk + gv */
static void outer_gates(struct check_tensors *general, const struct check_tensors *special)
{
    for (int64_t i = 0; i < check_count(&general->tensor[OP(G)].info); i++) {
        int64_t head = i / (KEY * VALUE), n = i / VALUE % KEY, c = i % VALUE;
        test_set(general, OP(G), i,
                 test_get(special, OP(G), head * KEY + n) + test_get(special, OP(GV), head * VALUE + c));
    }
}

struct identity {
    const char *name;
    clattn_rule general, special;
    uint64_t general_flags, special_flags;
    void (*build)(struct check_tensors *general, const struct check_tensors *special);
};

static const struct identity identities[] = {
    {"gated_delta_rule, g = 0: delta_rule", CLATTN_GATED_DELTA_RULE, CLATTN_DELTA_RULE, 0, 0, zero_gates},
    {"kda, equal channels: gated_delta_rule", CLATTN_KDA, CLATTN_GATED_DELTA_RULE, 0, 0, equal_channels},
    {"gdn2, b = w = beta: kda", CLATTN_GDN2, CLATTN_KDA, 0, 0, all_beta},
    {"dplr of a delta_rule", CLATTN_DPLR, CLATTN_DELTA_RULE, 0, 0, low_rank_delta},
    {"iplr of a delta_rule", CLATTN_IPLR, CLATTN_DELTA_RULE, 0, 0, low_rank_delta},
    {"rwkv7, w = g: dplr", CLATTN_RWKV7, CLATTN_DPLR, 0, 0, w_is_g},
    {"comba, p = e^g p: precond_gated_delta_rule", CLATTN_COMBA, CLATTN_PRECOND_GATED_DELTA_RULE, 0, 0, decayed_p},
    {"comba, g = 0: precond_gated_delta_rule", CLATTN_COMBA, CLATTN_PRECOND_GATED_DELTA_RULE, 0, 0, both_ungated},
    {"dplr of a comba", CLATTN_DPLR, CLATTN_COMBA, 0, 0, low_rank_comba},
    {"precond_gated_delta_rule, p = k: gated_delta_rule", CLATTN_PRECOND_GATED_DELTA_RULE, CLATTN_GATED_DELTA_RULE, 0,
     0, p_is_k},
    {"the same, q, k and p normalised", CLATTN_PRECOND_GATED_DELTA_RULE, CLATTN_GATED_DELTA_RULE, CLATTN_QK_L2NORM,
     CLATTN_QK_L2NORM, p_is_k},
    {"gated_delta_product of one step", CLATTN_GATED_DELTA_PRODUCT, CLATTN_GATED_DELTA_RULE, 0, 0, NULL},
    {"gated_delta_product, ungated", CLATTN_GATED_DELTA_PRODUCT, CLATTN_DELTA_RULE, CLATTN_UNGATED, 0, NULL},
    {"simple_gla, g = 0: linear_attn", CLATTN_SIMPLE_GLA, CLATTN_LINEAR_ATTN, 0, 0, zero_gates},
    {"simple_gla of retention", CLATTN_SIMPLE_GLA, CLATTN_RETENTION, 0, 0, retention_gates},
    {"gla, equal channels: simple_gla", CLATTN_GLA, CLATTN_SIMPLE_GLA, 0, 0, equal_channels},
    {"gla, a gate per head", CLATTN_GLA, CLATTN_GLA, 0, CLATTN_GATE_PER_HEAD, repeated_gates},
    {"gla, gv = 0", CLATTN_GLA, CLATTN_GLA, CLATTN_VALUE_GATE, 0, zero_value_gate},
    {"rwkv6, w = 0, u = 1: linear_attn", CLATTN_RWKV6, CLATTN_LINEAR_ATTN, 0, 0, whole_bonus},
    {"gla of one channel: hgrn", CLATTN_GLA, CLATTN_HGRN, CLATTN_VALUE_GATE, 0, one_channel},
    {"full_gate of a mamba", CLATTN_FULL_GATE, CLATTN_MAMBA, 0, 0, full_product},
    {"full_gate, an outer sum: gla", CLATTN_FULL_GATE, CLATTN_GLA, 0, CLATTN_VALUE_GATE, outer_gates},
    {"mamba, one a a head: simple_gla", CLATTN_MAMBA, CLATTN_SIMPLE_GLA, 0, 0, steps_of_gates},
    {"mamba, one step a head: ssd", CLATTN_MAMBA, CLATTN_SSD, 0, 0, steps_of_strengths},
    {"ssd, beta = 1: simple_gla", CLATTN_SSD, CLATTN_SIMPLE_GLA, 0, 0, no_strength},
};

static void test_identity(void **state)
{
    const struct identity *identity = *state;

    for (int mode = CLATTN_MODE_RECURRENT; mode <= CLATTN_MODE_CHUNK; mode++) {
        clattn_plan_desc general_desc = desc_of(identity->general, (clattn_mode)mode);
        clattn_plan_desc special_desc = desc_of(identity->special, (clattn_mode)mode);
        struct check_tensors general, special;
        check_fit(&special_desc);
        general_desc.key_dim = special_desc.key_dim;
        if (!check_mode_applies(identity->general, general_desc.mode))
            general_desc.mode = CLATTN_MODE_AUTO;
        if (!check_mode_applies(identity->special, special_desc.mode))
            special_desc.mode = CLATTN_MODE_AUTO;
        general_desc.flags |= identity->general_flags;
        special_desc.flags |= identity->special_flags;
        test_make(&special, &special_desc, CHECK_GATES_USUAL, NULL);
        test_make(&general, &general_desc, CHECK_GATES_USUAL, NULL);
        copy_common(&general, &special);
        if (identity->build != NULL)
            identity->build(&general, &special);
        test_run(&general);
        test_run(&special);
        test_compare_all(&general, &special, 2 * check_bound(CLATTN_F32), identity->name);
        check_free(&general);
        check_free(&special);
    }
}

/* n steps a token are n tokens of gated_delta_rule, of which the first decays and the last is read. */
static void test_steps(void **state)
{
    clattn_plan_desc desc = desc_of(CLATTN_GATED_DELTA_PRODUCT, CLATTN_MODE_AUTO);
    clattn_plan_desc flat_desc = desc_of(CLATTN_GATED_DELTA_RULE, CLATTN_MODE_AUTO);
    struct check_tensors product, flat, expected;

    (void)state;
    desc.steps = STEPS;
    flat_desc.seq_len = TOKENS * STEPS;
    test_make(&product, &desc, CHECK_GATES_USUAL, NULL);
    test_make(&flat, &flat_desc, CHECK_GATES_USUAL, NULL);
    copy_common(&flat, &product);
    test_set_all(&flat, OP(G), 0);
    for (int64_t t = 0; t < TOKENS; t++) {
        test_copy_tokens(&flat, t * STEPS, &product, t, 1, OP(G));
        test_copy_tokens(&flat, t * STEPS + STEPS - 1, &product, t, 1, OP(Q));
    }
    test_run(&flat);
    test_run(&product);
    assert_status(check_allocate(&expected, &desc), SUCCESS);
    for (int64_t t = 0; t < TOKENS; t++)
        test_copy_tokens(&expected, t, &flat, t * STEPS + STEPS - 1, 1, OP(O));
    test_copy(&expected, OP(STATE_OUT), &flat, OP(STATE_OUT));
    test_compare_all(&product, &expected, 2 * check_bound(CLATTN_F32), "steps");
    check_free(&product);
    check_free(&flat);
    check_free(&expected);
}

/* One channel, one token: p = 1 reads the state 1 as it was before it is halved, or forgotten. */
static void test_comba_reads_before(void **state)
{
    const struct {
        double g, expected;
    } cases[] = {{log(0.5), -0.5}, {(double)-INFINITY, -1}};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int mode = CLATTN_MODE_RECURRENT; mode <= CLATTN_MODE_CHUNK; mode++) {
            clattn_plan_desc desc = {.rule = CLATTN_COMBA,
                                     .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE,
                                     .seq_len = 1,
                                     .heads = 1,
                                     .key_dim = 1,
                                     .value_dim = 1,
                                     .mode = (clattn_mode)mode};
            struct check_tensors tensors;
            test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
            for (int id = 1; id < OPERAND_COUNT; id++)
                if (tensors.tensor[id].data != NULL && !tensors.tensor[id].info.output)
                    test_set(&tensors, (clattn_operand_id)id, 0, 1);
            test_set(&tensors, OP(V), 0, 0);
            test_set(&tensors, OP(G), 0, cases[i].g);
            test_run(&tensors);
            assert_true(fabs(test_get(&tensors, OP(O), 0) - cases[i].expected) < 1e-6);
            assert_true(fabs(test_get(&tensors, OP(STATE_OUT), 0) - cases[i].expected) < 1e-6);
            check_free(&tensors);
        }
}

/* beta = 0 neither erases nor writes: without decay the state stays, bit for bit. */
static void test_no_beta(void **state)
{
    static const clattn_rule rules[] = {
        CLATTN_DELTA_RULE, CLATTN_GATED_DELTA_RULE,        CLATTN_KDA, CLATTN_COMBA, CLATTN_GATED_DELTA_PRODUCT,
        CLATTN_GDN2,       CLATTN_PRECOND_GATED_DELTA_RULE};

    (void)state;
    for (size_t i = 0; i < COUNT(rules); i++)
        for (int mode = CLATTN_MODE_RECURRENT; mode <= CLATTN_MODE_CHUNK; mode++) {
            clattn_plan_desc desc = desc_of(rules[i], (clattn_mode)mode);
            struct check_tensors tensors;
            test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
            if (tensors.tensor[OP(G)].data != NULL)
                zero_gates(&tensors, &tensors);
            test_set_all(&tensors, tensors.tensor[OP(BETA)].data ? OP(BETA) : OP(B), 0);
            if (tensors.tensor[OP(W)].data != NULL)
                test_set_all(&tensors, OP(W), 0);
            test_run(&tensors);
            test_compare(&tensors.tensor[OP(STATE_OUT)], &tensors.tensor[OP(STATE_IN)], 0, test_rule_name(rules[i]));
            check_free(&tensors);
        }
}

/* q and k given once for two heads, or twice. */
static void test_shared_keys(void **state)
{
    clattn_plan_desc shared_desc = desc_of(CLATTN_GATED_DELTA_RULE, CLATTN_MODE_AUTO), desc = shared_desc;
    struct check_tensors shared, full;

    (void)state;
    shared_desc.qk_heads = HEADS / 2;
    test_make(&shared, &shared_desc, CHECK_GATES_USUAL, NULL);
    test_make(&full, &desc, CHECK_GATES_USUAL, NULL);
    for (int64_t i = 0; i < check_count(&full.tensor[OP(Q)].info); i++) {
        int64_t from = i / (HEADS * KEY) * KEY + i % KEY;
        test_set(&full, OP(Q), i, test_get(&shared, OP(Q), from));
        test_set(&full, OP(K), i, test_get(&shared, OP(K), from));
    }
    test_run(&shared);
    test_run(&full);
    test_compare_all(&shared, &full, 0, "shared keys");
    check_free(&shared);
    check_free(&full);
}

/* ---- Rules of a list that are ones of a state --------------------------------------------------------------------- */

static void beta_values(struct check_tensors *list, const struct check_tensors *state)
{
    for (int64_t i = 0; i < check_count(&state->tensor[OP(V)].info); i++)
        test_set(list, OP(V), i, test_get(state, OP(BETA), i / VALUE) * test_get(state, OP(V), i));
}

/* Keys turn by themselves, and what is read is beta v. */
static void turned_by_keys(struct check_tensors *list, const struct check_tensors *state)
{
    test_copy(list, OP(W), state, OP(K));
    beta_values(list, state);
}

static const struct {
    const char *name;
    clattn_rule list, state;
    uint64_t flags;
    clattn_weights kernel, write_kernel;
    double scale;
    void (*build)(struct check_tensors *list, const struct check_tensors *state);
} lists[] = {
    {"softmax_attn, linear: linear_attn", CLATTN_SOFTMAX_ATTN, CLATTN_LINEAR_ATTN, 0, CLATTN_WEIGHTS_LINEAR, 0, 0.25,
     NULL},
    {"path_attn, linear, w = k: delta_rule", CLATTN_PATH_ATTN, CLATTN_DELTA_RULE, CLATTN_UNGATED, CLATTN_WEIGHTS_LINEAR,
     0, 0.25, turned_by_keys},
    {"deltaformer, linear: delta_rule", CLATTN_DELTAFORMER, CLATTN_DELTA_RULE, CLATTN_WITH_BETA, CLATTN_WEIGHTS_LINEAR,
     CLATTN_WEIGHTS_LINEAR, 1, beta_values},
};

static void test_lists(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(lists); i++) {
        clattn_plan_desc desc = desc_of(lists[i].list, CLATTN_MODE_CHUNK);
        clattn_plan_desc other = desc_of(lists[i].state, CLATTN_MODE_CHUNK);
        struct check_tensors list, special;
        desc.flags = lists[i].flags;
        desc.kernel = lists[i].kernel;
        desc.write_kernel = lists[i].write_kernel;
        other.flags = 0;
        desc.scale = other.scale = lists[i].scale;
        test_make(&special, &other, CHECK_GATES_USUAL, NULL);
        test_make(&list, &desc, CHECK_GATES_USUAL, NULL);
        copy_common(&list, &special);
        if (lists[i].build != NULL)
            lists[i].build(&list, &special);
        test_run(&list);
        test_run(&special);
        test_compare(&list.tensor[OP(O)], &special.tensor[OP(O)], 2 * check_bound(CLATTN_F32), lists[i].name);
        check_free(&list);
        check_free(&special);
    }
}

/* What deltaformer writes with beta = 0 is v, and it is softmax_attn then. */
static void test_writes_values(void **state)
{
    clattn_plan_desc desc = desc_of(CLATTN_DELTAFORMER, CLATTN_MODE_CHUNK);
    clattn_plan_desc other = desc_of(CLATTN_SOFTMAX_ATTN, CLATTN_MODE_CHUNK);
    struct check_tensors delta, plain;

    (void)state;
    desc.flags = CLATTN_WITH_BETA | CLATTN_WITH_WRITTEN | CLATTN_WITH_LSE;
    other.flags = CLATTN_WITH_LSE;
    test_make(&plain, &other, CHECK_GATES_USUAL, NULL);
    test_make(&delta, &desc, CHECK_GATES_USUAL, NULL);
    copy_common(&delta, &plain);
    test_set_all(&delta, OP(BETA), 0);
    test_run(&delta);
    test_run(&plain);
    test_compare(&delta.tensor[OP(WRITTEN)], &delta.tensor[OP(V)], 0, "beta = 0");
    test_compare(&delta.tensor[OP(O)], &plain.tensor[OP(O)], 0, "beta = 0");
    test_compare(&delta.tensor[OP(LSE)], &plain.tensor[OP(LSE)], 0, "beta = 0");
    check_free(&delta);
    check_free(&plain);
}

/* x - delta_rule(x, w, w): x turned back over all tokens up to its own. x of `rows`, in its place */
static void turn_absolute(struct check_tensors *rows, clattn_operand_id id, const struct check_tensors *by)
{
    clattn_plan_desc desc = desc_of(CLATTN_DELTA_RULE, CLATTN_MODE_CHUNK);
    struct check_tensors delta;

    desc.flags = 0;
    desc.scale = 1;
    desc.value_dim = KEY;
    test_make(&delta, &desc, CHECK_GATES_USUAL, NULL);
    test_copy(&delta, OP(Q), by, id);
    test_copy(&delta, OP(K), by, OP(W));
    test_copy(&delta, OP(V), by, OP(W));
    test_copy(&delta, OP(BETA), by, OP(BETA));
    test_run(&delta);
    for (int64_t i = 0; i < check_count(&delta.tensor[OP(O)].info); i++)
        test_set(rows, id, i, test_get(by, id, i) - test_get(&delta, OP(O), i));
    check_free(&delta);
}

static void make_reflections(struct check_tensors *path)
{
    for (int64_t row = 0; row < check_count(&path->tensor[OP(BETA)].info); row++) {
        double squares = 0;
        for (int64_t n = 0; n < KEY; n++)
            squares += pow(test_get(path, OP(W), row * KEY + n), 2);
        test_set(path, OP(BETA), row, 2 / squares);
    }
}

/* path_attn is forgetting_attn of queries and keys that are turned each by itself, with the gate within the scale. */
static void check_turned_apart(int absolute, double bound, const char *name)
{
    clattn_plan_desc desc = desc_of(CLATTN_PATH_ATTN, CLATTN_MODE_CHUNK);
    clattn_plan_desc other = desc_of(CLATTN_FORGETTING_ATTN, CLATTN_MODE_CHUNK);
    struct check_tensors path, apart;

    desc.flags = other.flags = CLATTN_WITH_LSE;
    desc.flags |= absolute ? CLATTN_ABSOLUTE : 0;
    test_make(&path, &desc, CHECK_GATES_USUAL, NULL);
    test_make(&apart, &other, CHECK_GATES_USUAL, NULL);
    if (!absolute)
        make_reflections(&path);
    copy_common(&apart, &path);
    turn_absolute(&apart, OP(Q), &path);
    turn_absolute(&apart, OP(K), &path);
    for (int64_t i = 0; i < check_count(&path.tensor[OP(G)].info); i++)
        test_set(&apart, OP(G), i, path.desc.scale * test_get(&path, OP(G), i));
    test_run(&path);
    test_run(&apart);
    test_compare_all(&path, &apart, bound, name);
    check_free(&path);
    check_free(&apart);
}

/* Where beta |w|^2 = 2 every H is a reflection, its own inverse. Yang et al. 2025. */
static void test_reflections(void **state)
{
    (void)state;
    check_turned_apart(0, 10 * check_bound(CLATTN_F32), "reflections");
}

/* With absolute it is that for any beta and w. */
static void test_absolute(void **state)
{
    (void)state;
    check_turned_apart(1, check_bound(CLATTN_F32), "absolute");
}

/* What rms_norm makes of the numerators alone is what it makes of o: the denominators go with the norm. */
static void test_norm_of_numerators(void **state)
{
    clattn_plan_desc desc = desc_of(CLATTN_SOFTMAX_ATTN, CLATTN_MODE_CHUNK);
    clattn_plan_desc norm = desc_of(CLATTN_RMS_NORM, CLATTN_MODE_RECURRENT);
    struct check_tensors list, of_o, of_numerators;

    (void)state;
    desc.flags = CLATTN_WITH_LSE;
    norm.flags = 0;
    norm.scale = 0;
    norm.key_dim = 0;
    norm.eps = 1e-30;
    norm.weighting = CLATTN_WEIGHTING_NONE;
    test_make(&list, &desc, CHECK_GATES_USUAL, NULL);
    test_make(&of_o, &norm, CHECK_GATES_USUAL, NULL);
    test_make(&of_numerators, &norm, CHECK_GATES_USUAL, NULL);
    test_run(&list);
    for (int64_t i = 0; i < check_count(&list.tensor[OP(O)].info); i++) {
        double o = test_get(&list, OP(O), i);
        test_set(&of_o, OP(V), i, o);
        test_set(&of_numerators, OP(V), i, o * exp(test_get(&list, OP(LSE), i / VALUE)));
    }
    test_run(&of_o);
    test_run(&of_numerators);
    test_compare_all(&of_numerators, &of_o, check_bound(CLATTN_F32), "rms_norm of numerators");
    check_free(&list);
    check_free(&of_o);
    check_free(&of_numerators);
}

/* State tracking: where keys are the unit vectors and weights round(scores), a token of key e_a - e_b and no value swaps
 * what the two hold. Zhong et al. 2025. */
static void test_swaps(void **state)
{
    enum { HOLD = 3, A = 0, B = 2, TOKENS_ALL = HOLD + 1 };
    clattn_plan_desc desc = {.rule = CLATTN_DELTAFORMER,
                             .seq_len = TOKENS_ALL,
                             .heads = 1,
                             .key_dim = HOLD,
                             .value_dim = 1,
                             .scale = 1,
                             .kernel = CLATTN_WEIGHTS_ROUND,
                             .write_kernel = CLATTN_WEIGHTS_ROUND,
                             .mode = CLATTN_MODE_CHUNK};
    struct check_tensors tensors;

    (void)state;
    test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
    for (int t = 0; t < TOKENS_ALL; t++)
        for (int n = 0; n < HOLD; n++) {
            double unit = t < HOLD ? n == t : (n == A) - (n == B);
            test_set(&tensors, OP(K), t * HOLD + n, unit);
            test_set(&tensors, OP(Q), t * HOLD + n, t < HOLD ? unit : n == A); /* reads what A holds at last */
        }
    for (int t = 0; t < TOKENS_ALL; t++)
        test_set(&tensors, OP(V), t, t < HOLD ? 10 + t : 0);
    test_run(&tensors);
    assert_true(fabs(test_get(&tensors, OP(O), A) - (10 + A)) < 1e-5);
    assert_true(fabs(test_get(&tensors, OP(O), HOLD) - (10 + B)) < 1e-5);
    check_free(&tensors);
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(test_steps),    cmocka_unit_test(test_comba_reads_before),
        cmocka_unit_test(test_no_beta),  cmocka_unit_test(test_shared_keys),
        cmocka_unit_test(test_lists),    cmocka_unit_test(test_writes_values),
        cmocka_unit_test(test_swaps),    cmocka_unit_test(test_reflections),
        cmocka_unit_test(test_absolute), cmocka_unit_test(test_norm_of_numerators),
    };
    struct CMUnitTest tests[COUNT(identities) + COUNT(own)];

    for (size_t i = 0; i < COUNT(identities); i++) {
        static struct identity rows[COUNT(identities)];
        rows[i] = identities[i];
        tests[i] = (struct CMUnitTest){.name = rows[i].name, .test_func = test_identity, .initial_state = &rows[i]};
    }
    for (size_t i = 0; i < COUNT(own); i++)
        tests[COUNT(identities) + i] = own[i];
    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
