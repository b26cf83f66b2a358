/* test_rope [some]: CLATTN_WITH_ROPE: a rule whose q, k and p turn is the piece rope of these, and then the rule. some: packed
 * one rule of each kind of kernels. */
#include "harness.h"

#include "device/context.h"
#include "op/arguments.h"

#include <stdio.h>
#include <string.h>

enum { BATCH = 2, TOKENS = 37, HEADS = 4, FEW = 2, KEY = 20, VALUE = 12 };

static const clattn_operand_id turning[] = {OP(Q), OP(K), OP(P)};

/* What the flag comes with: heads that are shared, writes, sequences, states, another order, and options of the piece. */
struct row {
    const char *name;
    clattn_plan_desc desc;
};

#define SIZES .batch = BATCH, .seq_len = TOKENS, .heads = HEADS, .key_dim = KEY, .value_dim = VALUE
#define STATES (CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE)
#define TURNS (CLATTN_INTERLEAVED | CLATTN_WITH_POSITION | CLATTN_TURNED_BACK)

static const struct row rows[] = {
    {"retention", {.rule = CLATTN_RETENTION, SIZES, .flags = STATES}},
    {"retention token by token",
     {.rule = CLATTN_RETENTION, SIZES, .flags = STATES, .mode = CLATTN_MODE_RECURRENT, .rope_dim = 6}},
    {"gated_delta_rule of shared keys",
     {.rule = CLATTN_GATED_DELTA_RULE, SIZES, .qk_heads = FEW, .flags = STATES | CLATTN_WITH_POSITION}},
    {"gla of shared states", {.rule = CLATTN_GLA, SIZES, .kv_heads = FEW, .flags = STATES | CLATTN_INTERLEAVED}},
    {"simple_gla of shared states, tiled, token by token",
     {.rule = CLATTN_SIMPLE_GLA,
      SIZES,
      .kv_heads = FEW,
      .flags = STATES | CLATTN_HEADS_TILED,
      .mode = CLATTN_MODE_RECURRENT}},
    {"gated_delta_product of 3 steps",
     {.rule = CLATTN_GATED_DELTA_PRODUCT, SIZES, .flags = STATES | CLATTN_WITH_POSITION, .steps = 3}},
    {"delta_rule normalised", {.rule = CLATTN_DELTA_RULE, SIZES, .flags = CLATTN_QK_L2NORM, .rope_base = 100}},
    {"comba, p as well", {.rule = CLATTN_COMBA, SIZES, .flags = STATES | CLATTN_INTERLEAVED, .rope_dim = 18}},
    {"mlstm reversed", {.rule = CLATTN_MLSTM, SIZES, .flags = CLATTN_REVERSED | CLATTN_WITH_POSITION}},
    {"gated_delta_product of 2 steps reversed",
     {.rule = CLATTN_GATED_DELTA_PRODUCT, SIZES, .flags = CLATTN_REVERSED, .steps = 2}},
    {"linear_attn noncausal, mapped",
     {.rule = CLATTN_LINEAR_ATTN,
      SIZES,
      .flags = CLATTN_NONCAUSAL | CLATTN_NORMALIZE,
      .feature_map = CLATTN_FEATURE_ELU1}},
    {"ssd of a pool's states",
     {.rule = CLATTN_SSD, SIZES, .flags = STATES | CLATTN_WITH_STATE_INDICES | CLATTN_WITH_POSITION}},
    {"rwkv6", {.rule = CLATTN_RWKV6, SIZES, .flags = CLATTN_WITH_ATTN}},
    {"mamba of one group", {.rule = CLATTN_MAMBA, SIZES, .qk_heads = 1, .flags = STATES}},
    {"full_gate turned back", {.rule = CLATTN_FULL_GATE, SIZES, .flags = CLATTN_TURNED_BACK}},
    {"softmax_attn of shared keys", {.rule = CLATTN_SOFTMAX_ATTN, SIZES, .kv_heads = FEW, .flags = CLATTN_WITH_LSE}},
    {"path_attn", {.rule = CLATTN_PATH_ATTN, SIZES, .kv_heads = FEW, .flags = CLATTN_WITH_ATTN}},
    {"path_attn absolute", {.rule = CLATTN_PATH_ATTN, SIZES, .flags = CLATTN_ABSOLUTE}},
    {"deltaformer, p is k", {.rule = CLATTN_DELTAFORMER, SIZES, .flags = CLATTN_WITH_WRITTEN}},
    {"deltaformer", {.rule = CLATTN_DELTAFORMER, SIZES, .flags = CLATTN_WITH_P | CLATTN_WITH_POSITION}},
    {"lact", {.rule = CLATTN_LACT, SIZES, .flags = CLATTN_FINAL_STATE | CLATTN_WITH_POSITION, .mini_batch = 9}},
};

static const int64_t cuts[] = {0, 1, 1, 30, 37};

/* The same as the table has it, or packed. */
static clattn_plan_desc desc_of(const struct row *row, int packed)
{
    clattn_plan_desc desc = row->desc;

    if (!packed)
        return desc;
    desc.batch = 1;
    desc.sequences = COUNT(cuts) - 1;
    desc.flags |= CLATTN_CU_SEQLENS;
    return desc;
}

/* The piece of an operand's rows; those of a token's steps as if they were heads. */
static void turn(struct check_tensors *to, const struct check_tensors *from, clattn_operand_id id)
{
    const clattn_plan_desc *of = &from->desc;
    const clattn_operand_info *info = &from->tensor[id].info;
    int64_t heads = info->dims[1] / of->seq_len * info->dims[2];
    const clattn_plan_desc desc = {.rule = CLATTN_ROPE,
                                   .flags = of->flags & (CLATTN_CU_SEQLENS | TURNS),
                                   .batch = of->batch,
                                   .seq_len = of->seq_len,
                                   .sequences = of->sequences,
                                   .heads = heads,
                                   .value_dim = of->key_dim,
                                   .rope_base = of->rope_base,
                                   .rope_dim = of->rope_dim};
    struct check_tensors rope;

    test_make(&rope, &desc, CHECK_GATES_USUAL, cuts);
    memcpy(rope.tensor[OP(V)].data, from->tensor[id].data, from->tensor[id].bytes);
    if (of->flags & CLATTN_WITH_POSITION)
        test_copy(&rope, OP(POSITION), from, OP(POSITION));
    test_run(&rope);
    memcpy(to->tensor[id].data, rope.tensor[OP(O)].data, to->tensor[id].bytes);
    check_free(&rope);
}

static void check_row(const struct row *row, int packed)
{
    clattn_plan_desc desc = desc_of(row, packed), plain = desc;
    struct check_tensors flagged, pieces;
    char what[96];

    snprintf(what, sizeof what, "%s%s", row->name, packed ? ", packed" : "");
    plain.rope_base = 0;
    plain.rope_dim = 0;
    plain.flags &= ~TURNS;
    desc.flags |= CLATTN_WITH_ROPE;
    test_make(&flagged, &desc, CHECK_GATES_USUAL, cuts);
    test_make(&pieces, &plain, CHECK_GATES_USUAL, cuts);
    for (size_t i = 0; i < COUNT(turning); i++)
        if (pieces.tensor[turning[i]].data != NULL)
            turn(&pieces, &flagged, turning[i]);
    test_run(&flagged);
    test_run(&pieces);
    test_compare_all(&flagged, &pieces, 2e-6, what);
    check_free(&flagged), check_free(&pieces);
}

static void test_pieces(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        check_row(&rows[i], 0);
}

static int some; /* is wanted */

/* Learners refuse packed sequences. */
static int is_packed(clattn_rule rule)
{
    static const clattn_rule kinds[] = {CLATTN_RETENTION,    CLATTN_GATED_DELTA_PRODUCT, CLATTN_MAMBA,
                                        CLATTN_SOFTMAX_ATTN, CLATTN_PATH_ATTN,           CLATTN_DELTAFORMER};

    for (size_t i = 0; some && i < COUNT(kinds); i++)
        if (rule == kinds[i])
            return 1;
    return !some && rule != CLATTN_LACT;
}

static void test_packed(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        if (is_packed(rows[i].desc.rule))
            check_row(&rows[i], 1);
}

/* Forward and reversed, less the token's own term, is what tokens that see each other read: positions stay. */
static void test_both_directions(void **state)
{
    const uint64_t flags[] = {0, CLATTN_REVERSED, CLATTN_NONCAUSAL};
    struct check_tensors ways[COUNT(flags)];

    (void)state;
    for (size_t i = 0; i < COUNT(flags); i++) {
        const clattn_plan_desc desc = {
            .rule = CLATTN_LINEAR_ATTN, SIZES, .flags = flags[i] | CLATTN_WITH_ROPE | CLATTN_WITH_POSITION};
        test_make(&ways[i], &desc, CHECK_GATES_USUAL, NULL);
        test_run(&ways[i]);
    }
    for (int64_t i = 0; i < check_count(&ways[0].tensor[OP(O)].info); i++) {
        double own = 0;
        for (int64_t n = 0; n < KEY; n++)
            own += test_get(&ways[0], OP(Q), i / VALUE * KEY + n) * test_get(&ways[0], OP(K), i / VALUE * KEY + n);
        test_set(&ways[0], OP(O), i,
                 test_get(&ways[0], OP(O), i) + test_get(&ways[1], OP(O), i) -
                     ways[0].desc.scale * own * test_get(&ways[0], OP(V), i));
    }
    test_compare(&ways[2].tensor[OP(O)], &ways[0].tensor[OP(O)], 5e-6, "in both directions");
    for (size_t i = 0; i < COUNT(flags); i++)
        check_free(&ways[i]);
}

/* ---- Decoding ------------------------------------------------------------------------------------------------------ */

/* The whole's tokens from `first` on, from the state that the part before left; and what the whole has of them. */
static void check_part(const struct check_tensors *whole, const struct check_tensors *before,
                       struct check_tensors *part, struct test_slice slice)
{
    struct check_tensors expected;
    char what[64];

    snprintf(what, sizeof what, "%s, %lld from %lld on", test_rule_name(whole->desc.rule), (long long)slice.count,
             (long long)slice.first);
    test_take(&expected, whole, slice);
    test_take(part, whole, slice);
    if (before != NULL)
        test_copy(part, OP(STATE_IN), before, OP(STATE_OUT));
    *(int32_t *)part->tensor[OP(POSITION)].data += (int32_t)slice.first;
    test_run(part);
    test_compare(&part->tensor[OP(O)], &expected.tensor[OP(O)], 2 * check_bound(CLATTN_F32), what);
    check_free(&expected);
}

/* A prompt, and then token by token from where it stands: the tail of the whole. */
static void test_decode(void **state)
{
    enum { PROMPT = 32 };
    static const clattn_plan_desc descs[] = {
        {.rule = CLATTN_RETENTION, SIZES, .flags = STATES | CLATTN_WITH_ROPE | CLATTN_WITH_POSITION, .kv_heads = FEW},
        {.rule = CLATTN_GATED_DELTA_RULE, SIZES, .flags = STATES | CLATTN_WITH_ROPE | CLATTN_WITH_POSITION}};

    (void)state;
    for (size_t i = 0; i < COUNT(descs); i++) {
        struct check_tensors whole, parts[2];
        test_make(&whole, &descs[i], CHECK_GATES_USUAL, NULL);
        test_run(&whole);
        check_part(&whole, NULL, &parts[0], (struct test_slice){1, 1, 0, PROMPT});
        for (int64_t first = PROMPT; first < TOKENS; first++) {
            check_part(&whole, &parts[0], &parts[1], (struct test_slice){1, 1, first, 1});
            check_free(&parts[0]);
            parts[0] = parts[1];
        }
        check_free(&parts[0]), check_free(&whole);
    }
}

/* ---- Plans --------------------------------------------------------------------------------------------------------- */

static void run_tokens(const clattn_plan_desc *desc, clattn_plan *plan, struct check_tensors *tensors, int64_t tokens)
{
    struct arguments operands;
    clattn_operand list[OPERAND_COUNT];
    clattn_call call;

    check_operands(&operands, tensors);
    operands.seq_len = tokens;
    call = arguments_call(&operands, list);
    if (plan != NULL)
        assert_status(clattn_run(plan, &call), SUCCESS);
    else
        assert_status(clattn_reference(desc, &call, test_log, NULL), SUCCESS);
}

/* A plan's calls of fewer tokens than its own, and of none. */
static void test_short_calls(void **state)
{
    static const int64_t lengths[] = {0, 1, 9, TOKENS};

    (void)state;
    for (size_t i = 0; i < COUNT(rows) && !test_is_reference(); i++) {
        clattn_plan_desc desc = rows[i].desc;
        clattn_plan *plan;
        desc.flags = (desc.flags | CLATTN_WITH_ROPE) & ~CLATTN_WITH_ATTN;
        assert_status(clattn_plan_create(&plan, test_device.context, &desc), SUCCESS);
        for (size_t n = 0; n < COUNT(lengths); n++) {
            struct check_tensors actual, expected;
            test_make(&actual, &desc, CHECK_GATES_USUAL, NULL);
            test_make(&expected, &desc, CHECK_GATES_USUAL, NULL);
            for (int id = 1; id < OPERAND_COUNT; id++) /* what no call writes is no number */
                if (actual.tensor[id].info.output && actual.tensor[id].data != NULL)
                    test_set_all(&actual, (clattn_operand_id)id, 7), test_set_all(&expected, (clattn_operand_id)id, 7);
            run_tokens(&desc, plan, &actual, lengths[n]);
            run_tokens(&desc, NULL, &expected, lengths[n]);
            test_compare_all(&actual, &expected, check_bound(CLATTN_F32), rows[i].name);
            check_free(&actual), check_free(&expected);
        }
        clattn_plan_destroy(plan);
    }
}

/* Steps that turn come first, one an operand; without the flag there are none, and the self-test's numbers are no
 * reason to refuse a type. */
static void test_plans(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3 * COUNT(rows) && !test_is_reference(); i++) {
        clattn_plan_desc desc = rows[i / 3].desc;
        clattn_plan_info with, without;
        clattn_plan *plan;
        desc.dtype = (clattn_dtype)(i % 3);
        desc.rope_base = 0;
        desc.rope_dim = 0;
        desc.flags &= ~TURNS;
        assert_status(clattn_plan_create(&plan, test_device.context, &desc), SUCCESS);
        assert_status(clattn_plan_get(plan, &without), SUCCESS);
        clattn_plan_destroy(plan);
        desc.flags |= CLATTN_WITH_ROPE;
        test_device.context->self_test = 1;
        assert_status(clattn_plan_create(&plan, test_device.context, &desc), SUCCESS);
        test_device.context->self_test = 0;
        assert_status(clattn_plan_get(plan, &with), SUCCESS);
        assert_string_equal(with.solver, without.solver);
        assert_int_equal(with.rejected, 0);
        assert_true(with.launches > without.launches && with.workspace_bytes > without.workspace_bytes);
        clattn_plan_destroy(plan);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pieces), cmocka_unit_test(test_packed),
                                       cmocka_unit_test(test_decode), cmocka_unit_test(test_short_calls),
                                       cmocka_unit_test(test_plans),  cmocka_unit_test(test_both_directions)};

    some = argc > 1 && strcmp(argv[1], "some") == 0;
    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
