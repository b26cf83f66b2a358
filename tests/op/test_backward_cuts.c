/* test_backward_cuts [some|all]: gradients do not depend on how sequences are cut: into spans by a limited workspace, into
 * calls, or packed with others. `some`: a few rules. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int all_rows;

enum { BOTH = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE };

static clattn_plan_desc usual_desc(clattn_rule rule, clattn_mode mode, int64_t seq_len)
{
    clattn_plan_desc desc = {.rule = rule,
                             .mode = mode,
                             .batch = 2,
                             .seq_len = seq_len,
                             .heads = 2,
                             .qk_heads = 1,
                             .key_dim = 12,
                             .value_dim = 8,
                             .flags = BOTH,
                             .pass = CLATTN_PASS_BACKWARD};

    check_fit(&desc);
    return desc;
}

/* ---- Spans --------------------------------------------------------------------------------------------------------
 */

/* Bytes of the least workspace that the problem has a plan for, as the refusal of a smaller limit says. */
static int64_t least_workspace(clattn_plan_desc desc)
{
    const char *least = "at least ", *said;
    clattn_plan *plan;

    desc.workspace_limit = 1000;
    test_log_clear();
    assert_status(clattn_plan_create(&plan, test_device.context, &desc), UNSUPPORTED);
    said = strstr(test_log_text, "workspace_limit is 1000 bytes, at least ");
    assert_non_null(said);
    return strtoll(strstr(said, least) + strlen(least), NULL, 10);
}

/* The least limit. It grows with the length by what is kept between spans and by rotated rows, which are little: for 20 times
 * the tokens four times, with rotated rows eight times. */
static void limit_workspace(clattn_plan_desc *desc, const char *what)
{
    clattn_plan_desc longer = *desc;
    int64_t least;

    longer.seq_len *= 20;
    least = least_workspace(longer);
    desc->workspace_limit = least_workspace(*desc);
    if (least > (desc->rope_dim > 0 ? 8 : 4) * desc->workspace_limit)
        fail_msg("%s: the least workspace has %lld bytes, %lld of 20 times the tokens", what,
                 (long long)desc->workspace_limit, (long long)least);
}

static void try_spans(clattn_plan_desc desc, const int64_t *cuts, const char *what)
{
    struct check_tensors actual, expected;

    limit_workspace(&desc, what);
    test_make(&actual, &desc, CHECK_GATES_HARD, cuts);
    test_run(&actual);
    assert_status(check_reference(&expected, &actual, test_log, NULL), SUCCESS);
    test_compare_all(&actual, &expected, check_bound_of(&actual.desc), what);
    check_free(&actual);
    check_free(&expected);
}

/* Three spans or more. The sequences that are packed begin and end in spans, at the cuts between them, and far from
 * these. */
static void test_spans(void **state)
{
    static const int64_t cuts[] = {0, 0, 5, 64, 64, 190, 190, 200};
    static const struct {
        const char *name;
        clattn_rule rule;
        uint64_t flags;
        int in_gate, packed, rope, steps;
    } rows[] = {
        {"gated_delta_rule", OP(GATED_DELTA_RULE), OP(WITH_A_LOG) | OP(WITH_DT_BIAS), 0, 0, 0, 0},
        {"packed, reversed, rope", OP(PRECOND_GATED_DELTA_RULE), OP(WITH_ROPE) | OP(REVERSED), 1, 1, 6, 0},
        {"packed, i64", OP(KDA), OP(CU_SEQLENS_INT64), 0, 1, 0, 0},
        {"two steps, reversed", OP(GATED_DELTA_PRODUCT), OP(REVERSED), 1, 0, 0, 2},
        {"gates of heads, rope", OP(GLA), OP(GATE_PER_HEAD) | OP(WITH_ROPE), 0, 0, 4, 0},
        {"low rank", OP(DPLR), 0, 0, 0, 0, 0},
        {"before the decay, [V,K]", OP(COMBA), OP(STATE_VK), 0, 1, 0, 0},
        {"decays of the rule", OP(RETENTION), 0, 0, 0, 0, 0},
        {"gates of keys and values", OP(GDN2), 0, 0, 0, 0, 0},
        {"divided, packed", OP(MLSTM), 0, 0, 1, 0, 0},
        {"divided, reversed", OP(LINEAR_ATTN), OP(NORMALIZE) | OP(REVERSED), 0, 0, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        clattn_plan_desc desc = usual_desc(rows[i].rule, CLATTN_MODE_CHUNK, 200);
        if (!all_rows && !rows[i].in_gate)
            continue;
        desc.flags |= rows[i].flags;
        desc.rope_dim = rows[i].rope;
        desc.steps = rows[i].steps;
        desc.gate_map = rows[i].flags & CLATTN_WITH_A_LOG ? CLATTN_GATE_MAP_SOFTPLUS : CLATTN_GATE_MAP_LOG;
        if (rows[i].packed) {
            desc.flags |= CLATTN_CU_SEQLENS;
            desc.batch = 1;
            desc.sequences = COUNT(cuts) - 1;
        }
        try_spans(desc, rows[i].packed ? cuts : NULL, rows[i].name);
    }
}

/* ---- Calls --------------------------------------------------------------------------------------------------------
 */

/* A sequence cut in two has the gradients of the whole: the gradient by the second part's initial state is that by the
 * first part's final one. */
static void check_cut(clattn_plan_desc desc, int64_t cut)
{
    clattn_plan_desc forward;
    struct check_tensors whole, first, second, states;

    desc.batch = 1;
    test_make(&whole, &desc, CHECK_GATES_USUAL, NULL);
    test_run(&whole);
    test_take(&first, &whole, (struct test_slice){0, 0, 0, cut});
    test_take(&second, &whole, (struct test_slice){0, 0, cut, desc.seq_len - cut});
    forward = first.desc;
    forward.pass = CLATTN_PASS_FORWARD;
    forward.mode = CLATTN_MODE_AUTO;
    test_make(&states, &forward, CHECK_GATES_USUAL, NULL);
    for (int id = 1; id < (int)OPERAND_IDS; id++)
        if (states.tensor[id].data != NULL && !states.tensor[id].info.output)
            memcpy(states.tensor[id].data, first.tensor[id].data, states.tensor[id].bytes);
    test_run(&states);
    test_copy(&second, CLATTN_STATE_IN, &states, CLATTN_STATE_OUT);
    test_run(&second);
    test_copy(&first, gradient_of(CLATTN_STATE_OUT), &second, gradient_of(CLATTN_STATE_IN));
    test_run(&first);
    test_compare(&first.tensor[gradient_of(CLATTN_STATE_IN)], &whole.tensor[gradient_of(CLATTN_STATE_IN)], 1e-5, "cut");
    check_free(&states);
    test_take(&states, &whole, (struct test_slice){0, 0, 0, cut});
    test_compare_all(&first, &states, 1e-5, "first part");
    check_free(&states);
    test_take(&states, &whole, (struct test_slice){0, 0, cut, desc.seq_len - cut});
    for (int id = (int)OPERAND_IDS + 1; id < OPERAND_COUNT; id++)
        if (states.tensor[id].data != NULL && states.tensor[id].info.rank == 4 &&
            id != (int)gradient_of(CLATTN_STATE_IN) && states.tensor[id].info.output)
            test_compare(&second.tensor[id], &states.tensor[id], 1e-5, "second part");
    check_free(&states);
    check_free(&first);
    check_free(&second);
    check_free(&whole);
}

static void test_cut(void **state)
{
    (void)state;
    check_cut(usual_desc(CLATTN_GATED_DELTA_RULE, CLATTN_MODE_RECURRENT, 19), 11);
    check_cut(usual_desc(CLATTN_GATED_DELTA_RULE, CLATTN_MODE_CHUNK, 75), 38);
}

/* Packed sequences have the gradients that each has by itself, and two runs give the same ones, bit for bit. */
static void test_packed(void **state)
{
    static const int64_t cuts[] = {0, 40, 75};
    clattn_plan_desc desc = usual_desc(CLATTN_KDA, CLATTN_MODE_CHUNK, 75);
    struct check_tensors whole, again, own, expected;

    (void)state;
    desc.batch = 1;
    desc.sequences = 2;
    desc.flags |= CLATTN_CU_SEQLENS;
    test_make(&whole, &desc, CHECK_GATES_HARD, cuts);
    test_make(&again, &desc, CHECK_GATES_HARD, cuts);
    test_run(&whole);
    test_run(&again);
    test_compare_all(&again, &whole, 0, "second run");
    for (int64_t n = 0; n < 2; n++) {
        const struct test_slice slice = {0, n, cuts[n], cuts[n + 1] - cuts[n]};
        test_take(&own, &whole, slice);
        test_take(&expected, &whole, slice);
        test_run(&own);
        test_compare_all(&own, &expected, 0, "sequence by itself");
        check_free(&own);
        check_free(&expected);
    }
    check_free(&whole);
    check_free(&again);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_spans), cmocka_unit_test(test_cut),
                                       cmocka_unit_test(test_packed)};

    all_rows = argc > 1 && strcmp(argv[1], "all") == 0;
    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
