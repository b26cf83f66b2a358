/* test_invariance RULE: what must not change a rule's numbers, for every mode and variant of the rule.
 * Bound 0 asks for the same bits. Where lanes share a tile, how many sequences and tokens there are decides in how many
 * parts each is worked, and so how sums are rounded: shared() is the bound there. All in f32: every other type or flag
 * is a set of kernels to compile. */
#include "harness.h"
#include "op/options.h"

#include "device/context.h"

#include <stdio.h>
#include <string.h>

enum { BATCH = 3, TOKENS = 75, HEADS = 4, QK_HEADS = 2, KEY = 20, VALUE = 12, CUT = 41 };

static clattn_rule rule;

static double shared(void)
{
    const clattn_context *context = test_device.context; /* NULL: the reference */

    return context == NULL || context->device.serial ? 0 : check_bound(CLATTN_F32);
}

/* Calls check for every variant and mode. */
static void for_all(void (*check)(const clattn_plan_desc *desc), uint64_t flags)
{
    int runs = 0;

    for (int variant = 0;; variant++)
        for (int mode = CLATTN_MODE_RECURRENT; mode <= CLATTN_MODE_CHUNK; mode++) {
            clattn_plan_desc desc = {.rule = rule,
                                     .flags = flags | CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE,
                                     .batch = BATCH,
                                     .seq_len = TOKENS,
                                     .heads = HEADS,
                                     .qk_heads = QK_HEADS,
                                     .key_dim = KEY,
                                     .value_dim = VALUE,
                                     .mode = (clattn_mode)mode};
            if (check_variant(rule, variant, &desc) == NULL) {
                test_ran(runs);
                return;
            }
            if (check_mode_applies(rule, desc.mode)) {
                check(&desc);
                runs++;
            }
        }
}

static void make_and_run(struct check_tensors *tensors, const clattn_plan_desc *desc)
{
    test_make(tensors, desc, CHECK_GATES_USUAL, NULL);
    test_run(tensors);
}

static void runs_twice_alike(const clattn_plan_desc *desc)
{
    struct check_tensors first, second;

    make_and_run(&first, desc);
    make_and_run(&second, desc);
    test_compare_all(&second, &first, 0, "a second run");
    check_free(&first);
    check_free(&second);
}

static void test_determinism(void **state)
{
    (void)state;
    for_all(runs_twice_alike, 0);
}

/* Each batch element alone, by a plan of its own. */
static void ignores_batch(const clattn_plan_desc *desc)
{
    struct check_tensors whole, alone, expected;

    make_and_run(&whole, desc);
    for (int64_t b = 0; b < BATCH; b++) {
        const struct test_slice slice = {b, b, 0, TOKENS};
        test_take(&expected, &whole, slice);
        test_take(&alone, &whole, slice);
        test_run(&alone);
        test_compare_all(&alone, &expected, shared(), "a batch of one");
        check_free(&expected);
        check_free(&alone);
    }
    check_free(&whole);
}

static void test_batch(void **state)
{
    (void)state;
    for_all(ignores_batch, 0);
}

static int turns(const clattn_plan_desc *desc)
{
    return option_taken(OPTION_rope_dim, desc, rule_get(desc->rule));
}

/* The first part alone, then the second from the first one's final state. */
static void carries_state(const clattn_plan_desc *desc)
{
    static const clattn_operand_id carried[][2] = {{OP(STATE_IN), OP(STATE_OUT)},
                                                   {OP(NORMALIZER_IN), OP(NORMALIZER_OUT)},
                                                   {OP(STABILIZER_IN), OP(STABILIZER_OUT)},
                                                   {OP(GRAM_IN), OP(GRAM_OUT)}};
    const struct test_slice slices[] = {{1, 1, 0, CUT}, {1, 1, CUT, TOKENS - CUT}};
    struct check_tensors whole, expected, parts[2];

    if (turns(desc) && !(desc->flags & CLATTN_WITH_POSITION))
        return; /* the second part's tokens stand elsewhere */
    if (desc->flags & (CLATTN_REVERSED | CLATTN_NONCAUSAL))
        return; /* the second part is the first, or the first reads it, too */
    make_and_run(&whole, desc);
    for (int i = 0; i < 2; i++) {
        test_take(&expected, &whole, slices[i]);
        test_take(&parts[i], &whole, slices[i]);
        for (size_t c = 0; c < COUNT(carried) && i == 1; c++)
            if (parts[0].tensor[carried[c][1]].data != NULL)
                test_copy(&parts[1], carried[c][0], &parts[0], carried[c][1]);
        if (i == 1 && parts[0].tensor[OP(POSITION_OUT)].data != NULL)
            memcpy(parts[1].tensor[OP(POSITION)].data, parts[0].tensor[OP(POSITION_OUT)].data, sizeof(int32_t));
        else if (i == 1 && (desc->flags & CLATTN_WITH_POSITION))
            *(int32_t *)parts[i].tensor[OP(POSITION)].data += CUT;
        test_run(&parts[i]);
        test_compare(&parts[i].tensor[OP(O)], &expected.tensor[OP(O)], 2 * check_bound(desc->dtype), "a part");
        if (i == 1)
            test_compare_all(&parts[1], &expected, 2 * check_bound(desc->dtype), "the second part");
        check_free(&expected);
    }
    check_free(&whole);
    check_free(&parts[0]);
    check_free(&parts[1]);
}

static void test_cut(void **state)
{
    (void)state;
    for_all(carries_state, CLATTN_STATE_VK);
}

/* Other tokens from CUT on, with hard gates: outputs before them keep their bits. */
static void ignores_future(const clattn_plan_desc *desc)
{
    struct check_tensors before, after, other, old, new;
    const struct test_slice past = {1, 1, 0, CUT};

    if (desc->flags & (CLATTN_REVERSED | CLATTN_NONCAUSAL | CLATTN_KEYS_BEFORE))
        return; /* what lies before is the future, or reads it */
    make_and_run(&before, desc);
    test_make(&after, desc, CHECK_GATES_USUAL, NULL);
    assert_status(check_make(&other, desc, 99, CHECK_GATES_HARD, NULL), SUCCESS);
    for (int id = 1; id < OPERAND_COUNT; id++) {
        const clattn_operand_info *info = &after.tensor[id].info;
        int64_t steps = info->dims[1] / TOKENS;
        if (after.tensor[id].data == NULL || info->output || info->dims[0] != BATCH || steps == 0 ||
            steps * TOKENS != info->dims[1])
            continue;
        test_copy_tokens(&after, CUT * steps, &other, CUT * steps, (TOKENS - CUT) * steps, (clattn_operand_id)id);
    }
    test_run(&after);
    test_take(&old, &before, past);
    test_take(&new, &after, past);
    test_compare(&new.tensor[OP(O)], &old.tensor[OP(O)], 0, "with another future");
    assert_memory_not_equal(before.tensor[OP(O)].data, after.tensor[OP(O)].data, before.tensor[OP(O)].bytes);
    check_free(&before);
    check_free(&after);
    check_free(&other);
    check_free(&old);
    check_free(&new);
}

static void test_future(void **state)
{
    (void)state;
    for_all(ignores_future, 0);
}

/* Sequences packed by cu_seqlens, and each of them alone. */
static void packs(const clattn_plan_desc *desc)
{
    static const int64_t cuts[] = {0, 0, 1, 38, 38, 75};
    struct check_tensors whole, alone, expected;
    clattn_plan_desc packed = *desc;

    packed.batch = 1;
    packed.flags |= CLATTN_CU_SEQLENS;
    packed.sequences = COUNT(cuts) - 1;
    test_make(&whole, &packed, CHECK_GATES_USUAL, cuts);
    test_run(&whole);
    for (int64_t n = 0; n < packed.sequences; n++) {
        const struct test_slice slice = {0, n, cuts[n], cuts[n + 1] - cuts[n]};
        if (slice.count == 0)
            continue;
        test_take(&expected, &whole, slice);
        test_take(&alone, &whole, slice);
        test_run(&alone);
        test_compare_all(&alone, &expected, shared(), "a sequence alone");
        check_free(&expected);
        check_free(&alone);
    }
    check_free(&whole);
}

static void test_packing(void **state)
{
    (void)state;
    for_all(packs, 0);
}

/* The tokens of each sequence the other way round, of operands of one side. */
static void turn_tokens(struct check_tensors *tensors, const struct check_tensors *from, const int64_t *cuts,
                        int64_t sequences, int outputs)
{
    struct operand_row rows[OPERAND_COUNT];
    int count = rule_operands(&tensors->desc, rows);

    for (int i = 0; i < count; i++) {
        const clattn_operand_info *info = &tensors->tensor[rows[i].id].info;
        int64_t steps = info->dims[1] / TOKENS;
        if (rows[i].dims[0] != 'B' || info->output != outputs)
            continue;
        for (int64_t n = 0; n < sequences; n++)
            for (int64_t row = cuts[n] * steps; row < cuts[n + 1] * steps; row++)
                test_copy_tokens(tensors, (cuts[n] + cuts[n + 1]) * steps - 1 - row, from, row, 1, rows[i].id);
    }
    for (int i = 0; i < count; i++)
        if (rows[i].dims[0] != 'B' && tensors->tensor[rows[i].id].info.output == outputs)
            test_copy(tensors, rows[i].id, from, rows[i].id);
}

static void reverses(const clattn_plan_desc *desc, const int64_t *cuts, int64_t sequences)
{
    struct check_tensors forward, expected, reversed;
    clattn_plan_desc other = *desc;

    other.flags |= CLATTN_REVERSED;
    test_make(&reversed, &other, CHECK_GATES_USUAL, cuts);
    test_make(&forward, desc, CHECK_GATES_USUAL, cuts);
    test_make(&expected, &other, CHECK_GATES_USUAL, cuts);
    turn_tokens(&forward, &reversed, cuts, sequences, 0);
    test_run(&forward);
    test_run(&reversed);
    turn_tokens(&expected, &forward, cuts, sequences, 1);
    test_compare_all(&reversed, &expected, 0, "reversed");
    check_free(&forward), check_free(&expected), check_free(&reversed);
}

static void reverses_both(const clattn_plan_desc *desc)
{
    static const int64_t whole[] = {0, TOKENS}, cuts[] = {0, 0, 1, 38, 38, 75};
    clattn_plan_desc packed = *desc;

    if ((desc->flags & CLATTN_REVERSED) || turns(desc)) /* positions stay: test_rope */
        return;
    reverses(desc, whole, 1);
    packed.batch = 1;
    packed.flags |= CLATTN_CU_SEQLENS;
    packed.sequences = COUNT(cuts) - 1;
    reverses(&packed, cuts, packed.sequences);
}

static void test_reversed(void **state)
{
    (void)state;
    for_all(reverses_both, 0);
}

/* to[n][c][k] = from[n][k][c] */
static void transpose(struct check_tensors *to, clattn_operand_id id, const struct check_tensors *from)
{
    for (int64_t i = 0; i < check_count(&from->tensor[id].info); i++) {
        int64_t K = from->desc.key_dim, head = i / (K * VALUE), n = i / VALUE % K, c = i % VALUE;
        test_set(to, id, (head * VALUE + c) * K + n, test_get(from, id, i));
    }
}

static void transposes(const clattn_plan_desc *desc)
{
    struct check_tensors kv, vk, expected;
    clattn_plan_desc other = *desc;

    other.flags |= CLATTN_STATE_VK;
    make_and_run(&kv, desc);
    test_make(&vk, &other, CHECK_GATES_USUAL, NULL);
    transpose(&vk, OP(STATE_IN), &kv);
    test_run(&vk);
    assert_status(check_allocate(&expected, &other), SUCCESS);
    transpose(&expected, OP(STATE_OUT), &kv);
    test_compare(&vk.tensor[OP(O)], &kv.tensor[OP(O)], 0, "the other state layout");
    test_compare(&vk.tensor[OP(STATE_OUT)], &expected.tensor[OP(STATE_OUT)], 0, "the other state layout");
    check_free(&kv);
    check_free(&vk);
    check_free(&expected);
}

static void test_layouts(void **state)
{
    (void)state;
    for_all(transposes, 0);
}

/* Every chunk size, and at 64 with at most 64 tokens the parallel form. */
static void test_chunks(void **state)
{
    const int32_t chunks[] = {8, 16, 32, 64};
    const int64_t lengths[] = {50, TOKENS};

    (void)state;
    for (size_t l = 0; l < COUNT(lengths); l++)
        for (size_t c = 0; c < COUNT(chunks); c++) {
            clattn_plan_desc desc = {.rule = rule,
                                     .flags = CLATTN_FINAL_STATE,
                                     .seq_len = lengths[l],
                                     .heads = HEADS,
                                     .qk_heads = QK_HEADS,
                                     .key_dim = KEY,
                                     .value_dim = VALUE,
                                     .mode = CLATTN_MODE_CHUNK,
                                     .chunk = chunks[c]};
            struct check_tensors tensors, expected;
            char what[32];
            check_fit(&desc);
            snprintf(what, sizeof what, "chunk %d", chunks[c]);
            test_make(&tensors, &desc, CHECK_GATES_HARD, NULL);
            assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
            test_run(&tensors);
            test_compare_all(&tensors, &expected, check_bound(CLATTN_F32), what);
            check_free(&tensors);
            check_free(&expected);
        }
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(test_determinism), cmocka_unit_test(test_batch),   cmocka_unit_test(test_future),
        cmocka_unit_test(test_packing),     cmocka_unit_test(test_chunks), /* of the state: */
        cmocka_unit_test(test_cut),         cmocka_unit_test(test_layouts), cmocka_unit_test(test_reversed),
    };
    size_t count = COUNT(tests);

    rule = argc == 2 ? clattn_rule_find(argv[1]) : CLATTN_RULE_NONE;
    if (rule == CLATTN_RULE_NONE) {
        print_error("usage: test_invariance RULE\n");
        return 2;
    }
    if (rule_has_list(rule_get(rule)))
        count -= 3;
    if (rule_get(rule)->op == OP_PIECE) /* their states lie in one way, and their tokens */
        count -= 2;
    if (rule_get(rule)->op == OP_LEARNER) /* no sequences that are packed; test_lact has the rest */
        count = 3;
    if (!rule_has_chunks(rule_get(rule)))
        tests[4] = tests[0];
    return test_run_group("invariance", tests, count, test_device_open, test_device_close);
}
