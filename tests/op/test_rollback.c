/* test_rollback: speculative decoding. A call takes a few proposed tokens a sequence, and the next one goes on from the
 * state after those that were accepted: with the bits of calls that never had the others, and with the reference's
 * numbers. States lie in place, in rings longer and shorter than a call, in a pool or not; one sequence has no tokens,
 * one begins anew, one has no state. */
#include "harness.h"

#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

enum { SEQUENCES = 5, MOST = 4, TOKENS = SEQUENCES * MOST, SLOTS = 7 };

static const struct row {
    const char *name;
    clattn_plan_desc desc;
    const char *space; /* the solver; NULL: the plan's choice */
} rows[] = {
    {"linear_attn", {.rule = CLATTN_LINEAR_ATTN}, NULL},
    {"linear_attn, normalize", {.rule = CLATTN_LINEAR_ATTN, .flags = CLATTN_NORMALIZE}, NULL},
    {"gla, [V][K]", {.rule = CLATTN_GLA, .flags = CLATTN_STATE_VK | CLATTN_VALUE_GATE}, NULL},
    {"rwkv6", {.rule = CLATTN_RWKV6}, NULL},
    {"gated_delta_rule, shared states", {.rule = CLATTN_GATED_DELTA_RULE, .kv_heads = 2}, NULL},
    {"gated_delta_rule, bf16 in f16",
     {.rule = CLATTN_GATED_DELTA_RULE,
      .dtype = CLATTN_BF16,
      .operand_type_count = 2,
      .operand_types = {{CLATTN_STATE_IN, CLATTN_F16}, {CLATTN_STATES, CLATTN_F16}}},
     NULL},
    {"gated_delta_product", {.rule = CLATTN_GATED_DELTA_PRODUCT, .steps = 2}, NULL},
    {"rwkv7", {.rule = CLATTN_RWKV7}, NULL},
    {"mesa_net, shared states", {.rule = CLATTN_MESA_NET, .kv_heads = 2}, NULL},
    {"mlstm", {.rule = CLATTN_MLSTM}, NULL},
    {"mlstm, shared states", {.rule = CLATTN_MLSTM, .kv_heads = 2}, NULL},
    {"hgrn", {.rule = CLATTN_HGRN}, NULL},
    {"lru", {.rule = CLATTN_LRU}, NULL},
    {"mamba",
     {.rule = CLATTN_MAMBA,
      .flags = CLATTN_SOFTPLUS | CLATTN_WITH_DT_BIAS | CLATTN_WITH_D | CLATTN_WITH_Z,
      .qk_heads = 1},
     NULL},
    {"mamba, lanes", {.rule = CLATTN_MAMBA, .qk_heads = 1}, "channels_lanes"},
    {"mamba, complex, [V][K]", {.rule = CLATTN_MAMBA, .flags = CLATTN_COMPLEX | CLATTN_STATE_VK}, NULL},
    {"full_gate", {.rule = CLATTN_FULL_GATE}, NULL},
    {"short_conv", {.rule = CLATTN_SHORT_CONV}, NULL},
    {"short_conv, 3 taps", {.rule = CLATTN_SHORT_CONV, .dtype = CLATTN_F16, .taps = 3}, NULL},
};

static const struct ring {
    int64_t window;
    int32_t begin[SEQUENCES], kept[SEQUENCES]; /* accepted before the first call, and of it */
    int pool;
} rings[] = {
    {4, {1, 3, 0, 2, 4}, {2, 3, 4, 1, 3}, 0},
    {3, {1, 3, 0, 2, 5}, {2, 3, 4, 3, 3}, 1},
    {6, {6, 3, -1, 2, 1}, {1, 3, 2, 1, 4}, 1},
};
static const int32_t proposed[SEQUENCES] = {4, 0, 4, 4, 4}, all[SEQUENCES] = {4, 4, 4, 4, 4},
                     places[SEQUENCES] = {3, 6, 0, -1, 1};

static clattn_plan_desc desc_of(const struct row *row, const struct ring *ring)
{
    clattn_plan_desc desc = row->desc;

    desc.flags |= CLATTN_CU_SEQLENS | CLATTN_INITIAL_STATE | CLATTN_WITH_ACCEPTED;
    desc.seq_len = TOKENS;
    desc.sequences = SEQUENCES;
    desc.heads = 4;
    desc.key_dim = 20;
    desc.value_dim = 12;
    desc.state_window = ring->window;
    if (ring->pool)
        desc.flags |= CLATTN_WITH_STATE_INDICES, desc.state_slots = SLOTS;
    check_fit(&desc);
    return desc;
}

/* What a sequence of calls runs on, and the tensors that it works on, rings in place of the initial states. */
struct session {
    clattn_plan *plan; /* NULL: the reference */
    struct check_device device;
    struct check_tensors tensors;
};

static const clattn_operand_id in_place[][2] = {{OP(STATE_IN), OP(STATES)},
                                                {OP(NORMALIZER_IN), OP(NORMALIZERS)},
                                                {OP(STABILIZER_IN), OP(STABILIZERS)},
                                                {OP(GRAM_IN), OP(GRAMS)}};

static void run_device(struct session *session, int64_t tokens)
{
    struct arguments own = test_operands(&session->tensors, session->plan), shared = own;

    shared.seq_len = tokens;
    for (size_t i = 0; i < COUNT(in_place); i++)
        shared.of[in_place[i][1]].buffer = own.of[in_place[i][0]].buffer;
    assert_status(check_enqueue(session->plan, session->device.queue, &shared, 0, NULL, NULL), SUCCESS);
    for (size_t i = 0; i <= COUNT(in_place); i++) {
        const clattn_operand_id id = i == 0 ? OP(O) : in_place[i - 1][0];
        const struct check_tensor *to = &session->tensors.tensor[id];
        if (to->data != NULL)
            assert_int_equal(opencl_get()->EnqueueReadBuffer(session->device.queue, shared.of[id].buffer, CL_TRUE, 0,
                                                             to->bytes, to->data, 0, NULL, NULL),
                             0);
    }
    test_operands_free(&own);
}

static void run_reference(struct session *session, int64_t tokens)
{
    struct arguments operands;

    check_operands(&operands, &session->tensors);
    operands.seq_len = tokens;
    for (size_t i = 0; i < COUNT(in_place); i++)
        operands.of[in_place[i][1]].host = operands.of[in_place[i][0]].host;
    assert_status(check_compute(&session->tensors.desc, &operands, test_log, NULL), SUCCESS);
}

/* A call with the first tokens of each sequence, which has MOST of them in `from`, those from `turn` on first. */
static void call(struct session *session, const struct check_tensors *from, const int32_t *lengths, int turn)
{
    const struct check_tensors *to = &session->tensors;
    struct operand_row operands[OPERAND_COUNT];
    int32_t *cuts = to->tensor[OP(SEQLENS)].data, count = rule_operands(&to->desc, operands);

    cuts[0] = 0;
    for (int n = 0; n < SEQUENCES; n++)
        cuts[n + 1] = cuts[n] + lengths[n];
    for (int i = 0; i < count; i++) {
        const clattn_operand_id id = operands[i].id;
        const size_t bytes = to->tensor[id].bytes / TOKENS;
        for (int token = 0; token < TOKENS && test_has_tokens(&operands[i]); token++) {
            const int n = token / MOST, at = token % MOST;
            if (at < lengths[n])
                memcpy((char *)to->tensor[id].data + (size_t)(cuts[n] + at) * bytes,
                       (const char *)from->tensor[id].data + (size_t)((token + turn) % TOKENS) * bytes, bytes);
        }
    }
    (session->plan != NULL ? run_device : run_reference)(session, cuts[SEQUENCES]);
}

static void accept(const struct check_tensors *tensors, const int32_t *counts)
{
    memcpy(tensors->tensor[OP(ACCEPTED)].data, counts, SEQUENCES * sizeof *counts);
}

/* A call with so many tokens of each sequence, of which `kept` are accepted, then one more call. */
static void speculate(struct session *session, const struct check_tensors *inputs, const struct ring *ring,
                      const int32_t *lengths)
{
    test_make(&session->tensors, &inputs->desc, CHECK_GATES_SLOW, NULL);
    if (ring->pool)
        memcpy(session->tensors.tensor[OP(STATE_INDICES)].data, places, sizeof places);
    accept(&session->tensors, ring->begin);
    call(session, inputs, lengths, 0);
    accept(&session->tensors, ring->kept);
    call(session, inputs, all, 7);
}

static void compare(const struct session *actual, const struct session *expected, double bound, const char *what)
{
    const clattn_operand_id ids[] = {OP(O), OP(STATE_IN), OP(NORMALIZER_IN), OP(STABILIZER_IN)};

    for (size_t i = 0; i < COUNT(ids); i++)
        if (actual->tensors.tensor[ids[i]].data != NULL)
            test_compare(&actual->tensors.tensor[ids[i]], &expected->tensors.tensor[ids[i]], bound, what);
}

static void check_ring(struct session *session, const struct row *row, const struct ring *ring)
{
    struct session other = *session, reference = {.device = test_device};
    const clattn_plan_desc desc = desc_of(row, ring);
    struct check_tensors inputs;
    int32_t kept[SEQUENCES];
    char what[128];

    for (int n = 0; n < SEQUENCES; n++)
        kept[n] = proposed[n] < ring->kept[n] ? proposed[n] : ring->kept[n];
    test_make(&inputs, &desc, CHECK_GATES_SLOW, NULL);
    speculate(session, &inputs, ring, proposed);
    speculate(&other, &inputs, ring, kept);
    snprintf(what, sizeof what, "%s, a ring of %d, the same bits", row->name, (int)ring->window);
    compare(session, &other, 0, what);
    speculate(&reference, &inputs, ring, proposed);
    snprintf(what, sizeof what, "%s, a ring of %d, against the reference", row->name, (int)ring->window);
    compare(session, &reference, desc.dtype == CLATTN_F32 ? 2e-5 : 0.02, what);
    check_free(&inputs), check_free(&session->tensors), check_free(&other.tensors), check_free(&reference.tensors);
}

/* Of rings each row has one, which compiles once; the reference has all. */
static void check_row(const struct row *row)
{
    for (size_t i = 0; i < COUNT(rings); i++) {
        const clattn_plan_desc desc = desc_of(row, &rings[i]);
        const struct tuned tuned = row->space != NULL ? tuned_default(space_find(row->space)) : (struct tuned){0};
        struct session session = {.device = test_device};
        clattn_status status = CLATTN_SUCCESS;

        if (!test_is_reference() && i != (size_t)(row - rows) % COUNT(rings))
            continue;
        test_log_clear();
        if (!test_is_reference())
            status = plan_create(&session.plan, test_device.context, &desc, row->space != NULL ? &tuned : NULL);
        if (row->space != NULL && status == CLATTN_UNSUPPORTED)
            return; /* it is for other devices */
        if (status != CLATTN_SUCCESS)
            fail_msg("%s: no plan\n%s", row->name, test_log_text);
        check_ring(&session, row, &rings[i]);
        clattn_plan_destroy(session.plan);
    }
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        check_row(&rows[i]);
}

static void test_refused(void **state)
{
    clattn_plan_desc desc = desc_of(&rows[0], &rings[0]), full;

    (void)state;
    desc.state_window = 0;
    test_log_clear();
    assert_status(clattn_plan_desc_complete(&full, &desc, test_log, NULL), INVALID_DESC);
    assert_logged("linear_attn: accepted without state_window");
    desc = desc_of(&rows[COUNT(rows) - 1], &rings[0]);
    desc.flags &= ~(uint64_t)CLATTN_INITIAL_STATE;
    assert_status(clattn_plan_desc_complete(&full, &desc, test_log, NULL), INVALID_DESC);
    assert_logged("short_conv: accepted without initial_state");
    desc = (clattn_plan_desc){.rule = CLATTN_SOFTMAX_ATTN,
                              .flags = CLATTN_WITH_ACCEPTED,
                              .seq_len = 1,
                              .heads = 1,
                              .key_dim = 1,
                              .value_dim = 1};
    assert_status(clattn_plan_desc_complete(&full, &desc, test_log, NULL), INVALID_DESC);
    assert_logged("softmax_attn takes no option accepted");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_refused)};

    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
