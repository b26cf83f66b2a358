/* The reference's gradients: against differences of the reference's own outputs, for every rule and option, and by what
 * must hold whatever the rule: gates that forget have none, packed sequences have those that they have alone, and a
 * sequence that is cut in two hands them over. */
#include "harness.h"

#include <math.h>
#include <string.h>

enum { SPACE = 1 << 6 }; /* of the differences: 1/64 */

/* A number from -1 to 1 that follows from its place. */
static double noise(int64_t i)
{
    return 2 * fmod(fabs(sin((double)(i + 1) * 12.9898) * 43758.5453), 1.0) - 1;
}

static void compute(struct check_tensors *tensors)
{
    struct arguments operands;

    check_operands(&operands, tensors);
    assert_status(check_compute(&tensors->desc, &operands, test_log, NULL), SUCCESS);
}

/* ---- Differences --------------------------------------------------------------------------------------------------
 */

/* The forward problem of a backward one, with its inputs. */
static void make_forward(struct check_tensors *forward, const struct check_tensors *backward)
{
    clattn_plan_desc desc = backward->desc;

    desc.pass = CLATTN_PASS_FORWARD;
    assert_status(check_allocate(forward, &desc), SUCCESS);
    for (int id = 1; id <= (int)OPERAND_IDS; id++)
        if (forward->tensor[id].data != NULL && !forward->tensor[id].info.output)
            memcpy(forward->tensor[id].data, backward->tensor[id].data, forward->tensor[id].bytes);
}

/* What an element of mLSTM's final states is times, to be at the stabilizers that it was first computed with. */
static double fixed(const struct check_tensors *forward, const double *stabilizers, clattn_operand_id id, int64_t i)
{
    const int64_t width = check_count(&forward->tensor[id].info) / (forward->desc.batch * forward->desc.kv_heads);

    if (forward->tensor[CLATTN_STABILIZER_OUT].data == NULL || id == CLATTN_O)
        return 1;
    return exp(test_get(forward, CLATTN_STABILIZER_OUT, i / width) - stabilizers[i / width]);
}

static double stabilizers[64]; /* of the problem at hand */

/* The loss whose gradients by the outputs the backward problem has. */
static double loss_of(struct check_tensors *forward, const struct check_tensors *backward)
{
    double loss = 0;

    compute(forward);
    for (int id = 1; id <= (int)OPERAND_IDS; id++) {
        const struct check_tensor *gradient = &backward->tensor[gradient_of((clattn_operand_id)id)];
        if (!forward->tensor[id].info.output || forward->tensor[id].data == NULL || gradient->data == NULL)
            continue;
        for (int64_t i = 0; i < check_count(&gradient->info); i++)
            loss += fixed(forward, stabilizers, (clattn_operand_id)id, i) *
                    test_get(forward, (clattn_operand_id)id, i) *
                    test_get(backward, gradient_of((clattn_operand_id)id), i);
    }
    return loss;
}

enum { SPACINGS = 3 }; /* each half of the one before */

/* The loss's derivative along a direction of an operand, by central differences of several spacings. */
static void derivative(struct check_tensors *forward, const struct check_tensors *backward, clattn_operand_id id,
                       int64_t direction, double space, double slopes[SPACINGS])
{
    for (int halved = 0; halved < SPACINGS; halved++) {
        double losses[2];
        for (int side = 0; side < 2; side++) {
            for (int64_t i = 0; i < check_count(&forward->tensor[id].info); i++)
                test_set(forward, id, i,
                         test_get(backward, id, i) + (side ? -space : space) / (1 << halved) * noise(direction + i));
            losses[side] = loss_of(forward, backward);
        }
        slopes[halved] = (losses[0] - losses[1]) / (2 * space / (1 << halved));
    }
    memcpy(forward->tensor[id].data, backward->tensor[id].data, forward->tensor[id].bytes);
}

static int compared, kinks;

static void check_derivatives(const struct check_tensors *backward, clattn_operand_id id)
{
    enum { DIRECTIONS = 2 };
    const clattn_operand_id gradient = gradient_of(id);
    struct check_tensors forward;
    double size = 0;

    make_forward(&forward, backward);
    compute(&forward);
    for (int64_t i = 0;
         forward.tensor[OP(STABILIZER_OUT)].data != NULL && i < check_count(&forward.tensor[OP(STABILIZER_OUT)].info);
         i++)
        stabilizers[i] = test_get(&forward, OP(STABILIZER_OUT), i);
    for (int64_t i = 0; i < check_count(&backward->tensor[gradient].info); i++)
        size += pow(test_get(backward, gradient, i), 2);
    for (int64_t direction = 0; direction < DIRECTIONS; direction++) {
        double slopes[SPACINGS], first, expected, sum = 0;
        derivative(&forward, backward, id, 1000 * direction, 1.0 / SPACE, slopes);
        first = (4 * slopes[1] - slopes[0]) / 3;
        expected = (4 * slopes[2] - slopes[1]) / 3;
        compared++;
        /* a kink of the loss within the differences: they do not approach the derivative as their squares */
        if (fabs(expected - first) > 1e-4 * (sqrt(size) + 1)) {
            kinks++;
            continue;
        }
        for (int64_t i = 0; i < check_count(&backward->tensor[gradient].info); i++)
            sum += test_get(backward, gradient, i) * noise(1000 * direction + i);
        if (fabs(sum - expected) > 3e-4 * (sqrt(size) + 1))
            fail_msg("%s of %s: %.8g along a direction, differences say %.8g", backward->tensor[gradient].info.name,
                     rule_get(backward->desc.rule)->name, sum, expected);
    }
    check_free(&forward);
}

/* What a divided output was, which the backward pass is given. */
static void give_outputs(struct check_tensors *backward)
{
    struct check_tensors forward;

    if (backward->tensor[CLATTN_O].data == NULL)
        return;
    make_forward(&forward, backward);
    compute(&forward);
    memcpy(backward->tensor[CLATTN_O].data, forward.tensor[CLATTN_O].data, forward.tensor[CLATTN_O].bytes);
    check_free(&forward);
}

static void make_backward(struct check_tensors *tensors, const clattn_plan_desc *desc, enum check_gates gates,
                          const int64_t *cuts)
{
    assert_status(check_make(tensors, desc, 7, gates, cuts), SUCCESS);
    give_outputs(tensors);
    compute(tensors);
}

static int try_desc(const clattn_plan_desc *desc)
{
    struct check_tensors tensors;
    clattn_plan_desc full;

    if (clattn_plan_desc_complete(&full, desc, NULL, NULL) != CLATTN_SUCCESS)
        return 0;
    make_backward(&tensors, desc, CHECK_GATES_USUAL, NULL);
    for (int id = 1; id <= (int)OPERAND_IDS; id++) {
        const struct check_tensor *gradient = &tensors.tensor[gradient_of((clattn_operand_id)id)];
        if (gradient->data != NULL && gradient->info.output)
            check_derivatives(&tensors, (clattn_operand_id)id);
    }
    check_free(&tensors);
    return 1;
}

static clattn_plan_desc usual_desc(clattn_rule rule)
{
    clattn_plan_desc desc = {.rule = rule,
                             .batch = 2,
                             .seq_len = 5,
                             .heads = 4,
                             .qk_heads = 2,
                             .key_dim = 4,
                             .value_dim = 3,
                             .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE,
                             .pass = CLATTN_PASS_BACKWARD};

    check_fit(&desc);
    return desc;
}

static void test_differences(void **state)
{
    static const uint64_t layouts[] = {0, CLATTN_HEADS_TILED, CLATTN_STATE_VK, CLATTN_REVERSED, CLATTN_QK_L2NORM};
    int runs = 0;

    (void)state;
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++)
        for (int variant = 0, more = test_has_gradients(rule); more; variant++) {
            clattn_plan_desc desc = usual_desc(rule);
            more = check_variant(rule, variant, &desc) != NULL;
            desc.eps = 0; /* with it o depends on mLSTM's stabilizers, whose gradients are not taken */
            for (size_t i = 0; i < sizeof layouts / sizeof *layouts && more && !(desc.flags & CLATTN_NORM_OUTPUT);
                 i++) {
                clattn_plan_desc laid = desc;
                laid.flags |= layouts[i];
                if (variant == 0 || i == 0)
                    runs += try_desc(&laid);
            }
        }
    assert_true(runs > 18 * 5 && kinks * 50 < compared);
}

/* Several heads of queries read one state. */
static void test_shared_states(void **state)
{
    (void)state;
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++)
        for (int tiled = 0; tiled < 2 && test_has_gradients(rule) && !test_is_piece(rule); tiled++) {
            clattn_plan_desc desc = usual_desc(rule);
            desc.qk_heads = 0;
            desc.kv_heads = 2;
            desc.flags |= tiled ? CLATTN_HEADS_TILED : 0;
            test_ran(try_desc(&desc));
        }
}

/* ---- What must hold -----------------------------------------------------------------------------------------------
 */

/* Half of the gates are 0, others -1000 and -inf: all gradients are numbers, and 0 where nothing is remembered. */
static void test_forgotten(void **state)
{
    int forgotten = 0, projected = 0;

    (void)state;
    for (int at = 0; at < 2 * RULE_COUNT; at++) {
        const clattn_rule rule = (clattn_rule)(at / 2);
        clattn_plan_desc desc = usual_desc(rule), full;
        struct check_tensors tensors;
        clattn_operand_id gate;

        if (rule == CLATTN_RULE_NONE || !test_has_gradients(rule) || test_is_piece(rule))
            continue;
        desc.seq_len = 40;
        if (at % 2 == 1) { /* gates as projected, with a rate and a bias */
            desc.gate_map = CLATTN_GATE_MAP_SOFTPLUS;
            desc.flags |= CLATTN_WITH_A_LOG | CLATTN_WITH_DT_BIAS;
            if (clattn_plan_desc_complete(&full, &desc, NULL, NULL) != CLATTN_SUCCESS)
                continue;
            projected++;
        }
        make_backward(&tensors, &desc, CHECK_GATES_HARD, NULL);
        for (int id = (int)OPERAND_IDS + 1; id < OPERAND_COUNT; id++)
            for (int64_t i = 0; tensors.tensor[id].data != NULL && i < check_count(&tensors.tensor[id].info); i++)
                assert_true(isfinite(test_get(&tensors, (clattn_operand_id)id, i)));
        gate = rule_get(rule)->gate;
        for (int64_t i = 0; gate != NO_OPERAND && i < check_count(&tensors.tensor[gate].info); i++)
            if (test_get(&tensors, gate, i) == (double)-INFINITY) {
                forgotten++;
                assert_true(test_get(&tensors, gradient_of(gate), i) == 0);
            }
        check_free(&tensors);
    }
    assert_true(forgotten > 50 && projected > 5);
}

/* Copies tokens from one tensor to another, whatever token axis they have; states by sequence. */
static void copy_sequence(struct check_tensors *to, const struct check_tensors *from, int64_t first, int64_t sequence)
{
    for (int id = 1; id < OPERAND_COUNT; id++) {
        struct check_tensor *tensor = &to->tensor[id];
        const struct check_tensor *source = &from->tensor[id];
        const clattn_plan_desc *desc = &to->desc;
        size_t at;

        if (tensor->data == NULL || id == CLATTN_SEQLENS || source->data == NULL)
            continue;
        if (source->info.dims[0] == from->desc.sequences && from->desc.sequences > 1)
            at = (size_t)sequence * tensor->bytes;
        else if (source->info.dims[0] == 1 && source->info.rank > 2)
            at = (size_t)(first * (source->info.dims[1] / from->desc.seq_len)) * tensor->bytes /
                 (size_t)(desc->seq_len * (source->info.dims[1] / from->desc.seq_len));
        else
            at = 0;
        memcpy(tensor->data, (const char *)source->data + at, tensor->bytes);
    }
}

static void compare_sequence(struct check_tensors *alone, struct check_tensors *again)
{
    for (int id = (int)OPERAND_IDS + 1; id < OPERAND_COUNT; id++) {
        const int shared = alone->tensor[id].info.dims[0] != 1; /* sequences have one sum */
        if (alone->tensor[id].data != NULL && alone->tensor[id].info.output && !shared)
            assert_memory_equal(alone->tensor[id].data, again->tensor[id].data, alone->tensor[id].bytes);
    }
}

/* Packed sequences have, bit for bit, the gradients that they have alone. */
static void test_packed(void **state)
{
    static const int64_t cuts[] = {0, 3, 3, 10, 11, 11};

    (void)state;
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++) {
        clattn_plan_desc desc = usual_desc(rule);
        struct check_tensors packed;

        if (!test_has_gradients(rule))
            continue;
        desc.batch = 1;
        desc.seq_len = 11;
        desc.sequences = 5; /* more than heads */
        desc.flags |= CLATTN_CU_SEQLENS;
        make_backward(&packed, &desc, CHECK_GATES_USUAL, cuts);
        for (int64_t n = 0; n < 5; n++) {
            clattn_plan_desc one = packed.desc;
            struct check_tensors alone, taken;
            if (cuts[n] == cuts[n + 1])
                continue;
            one.flags &= ~(uint64_t)CLATTN_CU_SEQLENS;
            one.sequences = 0;
            one.seq_len = cuts[n + 1] - cuts[n];
            assert_status(check_allocate(&alone, &one), SUCCESS);
            assert_status(check_allocate(&taken, &one), SUCCESS);
            copy_sequence(&alone, &packed, cuts[n], n);
            copy_sequence(&taken, &packed, cuts[n], n);
            compute(&alone);
            compare_sequence(&alone, &taken);
            check_free(&alone);
            check_free(&taken);
        }
        check_free(&packed);
    }
}

static void test_refused(void **state)
{
    clattn_plan_desc desc = usual_desc(CLATTN_GATED_DELTA_RULE), full;
    clattn_operand_info info;

    (void)state;
    assert_status(clattn_operand_describe(&desc, CLATTN_GRAD(CLATTN_Q), &info), SUCCESS);
    assert_true(info.output && info.rank == 4 && strcmp(info.name, "d_q") == 0);
    assert_status(clattn_operand_describe(&desc, CLATTN_GRAD(CLATTN_O), &info), SUCCESS);
    assert_true(!info.output && info.rank == 4);
    assert_status(clattn_operand_describe(&desc, CLATTN_O, &info), SUCCESS);
    assert_int_equal(info.rank, 0);
    desc.flags |= CLATTN_WITH_ATTN;
    assert_status(clattn_plan_desc_complete(&full, &desc, test_log, NULL), INVALID_DESC);
    desc = usual_desc(CLATTN_SOFTMAX_ATTN);
    desc.flags = 0;
    desc.qk_heads = 0;
    assert_status(clattn_plan_desc_complete(&full, &desc, test_log, NULL), INVALID_DESC);
    assert_logged("pass=backward");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_differences), cmocka_unit_test(test_shared_states),
                                       cmocka_unit_test(test_forgotten), cmocka_unit_test(test_packed),
                                       cmocka_unit_test(test_refused)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
