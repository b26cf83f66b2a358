/* What pieces make of rules: identities of those around q and k with recurrences in complex numbers, which are computed
 * here in double. */
#include "harness.h"

#include "device/context.h"
#include "device/opencl.h"
#include "op/arguments.h"

#include <math.h>

enum { BATCH = 2, TOKENS = 37, HEADS = 3, KEY = 12, VALUE = 5, PAIRS = KEY / 2 };

/* Where sequences begin: far from zero, where a float has no place for a fraction of a turn. */
static const int32_t starts[BATCH] = {2000000001, -7};

static clattn_plan_desc rope_desc(int64_t columns, int interleaved)
{
    return (clattn_plan_desc){.rule = CLATTN_ROPE,
                              .batch = BATCH,
                              .seq_len = TOKENS,
                              .heads = HEADS,
                              .value_dim = columns,
                              .flags = CLATTN_WITH_POSITION | (interleaved ? CLATTN_INTERLEAVED : 0)};
}

static void set_starts(struct check_tensors *tensors, int64_t after)
{
    for (int n = 0; n < BATCH; n++)
        ((int32_t *)tensors->tensor[OP(POSITION)].data)[n] = (int32_t)(starts[n] + after);
}

/* q and k of a rule as they are, and turned. */
static void turn(struct check_tensors *to, const struct check_tensors *from, clattn_operand_id id, int interleaved)
{
    const clattn_plan_desc desc = rope_desc(KEY, interleaved);
    struct check_tensors rope;

    test_make(&rope, &desc, CHECK_GATES_USUAL, NULL);
    set_starts(&rope, 0);
    test_copy(&rope, OP(V), from, id);
    test_run(&rope);
    test_copy(to, id, &rope, OP(O));
    check_free(&rope);
}

struct pair {
    double re, im;
};

static struct pair pair_of(const struct check_tensors *tensors, clattn_operand_id id, int64_t row, int n,
                           int interleaved)
{
    int64_t at = row * KEY + (interleaved ? 2 * n : n);

    return (struct pair){test_get(tensors, id, at), test_get(tensors, id, at + (interleaved ? 1 : PAIRS))};
}

/* S_n <- d_n e^(i theta_n) S_n + conj(k_n) v; o = scale Re(sum of q_n S_n), of a head; decays: d_n of each pair. */
static void complex_recurrence(const struct check_tensors *of, int64_t batch, int64_t head, const double *decays,
                               int interleaved, double o[TOKENS][VALUE])
{
    struct pair S[PAIRS][VALUE] = {{{0}}};

    for (int64_t t = 0; t < TOKENS; t++) {
        int64_t row = (batch * TOKENS + t) * HEADS + head;
        for (int c = 0; c < VALUE; c++)
            o[t][c] = 0;
        for (int n = 0; n < PAIRS; n++) {
            struct pair q = pair_of(of, OP(Q), row, n, interleaved), k = pair_of(of, OP(K), row, n, interleaved);
            double angle = pow(10000, -2.0 * n / KEY), re = decays[n] * cos(angle), im = decays[n] * sin(angle);
            for (int c = 0; c < VALUE; c++) {
                double v = test_get(of, OP(V), row * VALUE + c);
                struct pair *x = &S[n][c];
                *x = (struct pair){re * x->re - im * x->im + k.re * v, re * x->im + im * x->re - k.im * v};
                o[t][c] += of->desc.scale * (q.re * x->re - q.im * x->im);
            }
        }
    }
}

/* What a rule makes of turned rows is a state that turns, wherever sequences begin. */
static void check_turns(const struct check_tensors *plain, struct check_tensors *turned, double decays[HEADS][PAIRS],
                        int interleaved)
{
    struct check_tensors expected;

    if (turned->desc.flags & CLATTN_WITH_ROPE) {
        set_starts(turned, 0);
    } else {
        turn(turned, plain, OP(Q), interleaved);
        turn(turned, plain, OP(K), interleaved);
    }
    test_run(turned);
    test_make(&expected, &plain->desc, CHECK_GATES_USUAL, NULL);
    for (int64_t i = 0; i < BATCH * HEADS; i++) {
        double o[TOKENS][VALUE];
        complex_recurrence(plain, i / HEADS, i % HEADS, decays[i % HEADS], interleaved, o);
        for (int64_t t = 0; t < TOKENS; t++)
            for (int c = 0; c < VALUE; c++)
                test_set(&expected, OP(O), ((i / HEADS * TOKENS + t) * HEADS + i % HEADS) * VALUE + c, o[t][c]);
    }
    test_compare(&turned->tensor[OP(O)], &expected.tensor[OP(O)], 2e-6, test_rule_name(plain->desc.rule));
    check_free(&expected);
}

static clattn_plan_desc rule_desc(clattn_rule rule)
{
    return (clattn_plan_desc){
        .rule = rule, .batch = BATCH, .seq_len = TOKENS, .heads = HEADS, .key_dim = KEY, .value_dim = VALUE};
}

/* RetNet: gamma e^(i theta), of rows that were turned, and that the rule turns */
static void test_retention(void **state)
{
    const clattn_plan_desc desc = rule_desc(CLATTN_RETENTION);
    clattn_plan_desc flagged = desc;
    struct check_tensors plain, turned;
    double decays[HEADS][PAIRS];

    (void)state;
    for (int i = 0; i < HEADS * PAIRS; i++)
        decays[i / PAIRS][i % PAIRS] = 1 - exp2(-5.0 - i / PAIRS);
    for (int i = 0; i < 4; i++) {
        flagged.flags = CLATTN_WITH_ROPE | CLATTN_WITH_POSITION | (i % 2 == 1 ? CLATTN_INTERLEAVED : 0);
        test_make(&plain, &desc, CHECK_GATES_USUAL, NULL);
        test_make(&turned, i < 2 ? &desc : &flagged, CHECK_GATES_USUAL, NULL);
        check_turns(&plain, &turned, decays, i % 2);
        check_free(&plain), check_free(&turned);
    }
}

/* xPos (Sun et al. 2022, arXiv:2212.10554): gla whose log-decay is ln(zeta_n) / 512 */
static void test_xpos(void **state)
{
    const clattn_plan_desc desc = rule_desc(CLATTN_GLA);
    struct check_tensors plain, turned;
    double decays[HEADS][PAIRS];

    (void)state;
    test_make(&plain, &desc, CHECK_GATES_USUAL, NULL);
    test_make(&turned, &desc, CHECK_GATES_USUAL, NULL);
    for (int i = 0; i < HEADS * PAIRS; i++)
        decays[i / PAIRS][i % PAIRS] = pow((2.0 * (i % PAIRS) / KEY + 0.4) / 1.4, 1.0 / 512);
    for (int64_t i = 0; i < check_count(&turned.tensor[OP(G)].info); i++)
        test_set(&turned, OP(G), i, log(decays[0][i % KEY / 2]));
    check_turns(&plain, &turned, decays, 1);
    check_free(&plain), check_free(&turned);
}

/* Turned and turned back; in two parts, of which the second begins where the first ends. */
static void test_back_and_cut(void **state)
{
    enum { COLUMNS = 22, FIRST = 14 };
    clattn_plan_desc desc = rope_desc(COLUMNS, 0), rest = desc;
    struct check_tensors whole, back, part, joined;

    (void)state;
    desc.rope_dim = rest.rope_dim = 14;
    test_make(&whole, &desc, CHECK_GATES_USUAL, NULL);
    set_starts(&whole, 0);
    test_run(&whole);
    desc.flags |= CLATTN_TURNED_BACK;
    test_make(&back, &desc, CHECK_GATES_USUAL, NULL);
    set_starts(&back, 0);
    test_copy(&back, OP(V), &whole, OP(O));
    test_run(&back);
    test_compare(&back.tensor[OP(O)], &whole.tensor[OP(V)], 1e-6, "turned back");
    test_make(&joined, &back.desc, CHECK_GATES_USUAL, NULL);
    for (int64_t first = 0; first < TOKENS; first += FIRST) {
        rest.seq_len = TOKENS - first < FIRST ? TOKENS - first : FIRST;
        test_make(&part, &rest, CHECK_GATES_USUAL, NULL);
        set_starts(&part, first);
        test_copy_tokens(&part, 0, &whole, first, rest.seq_len, OP(V));
        test_run(&part);
        test_copy_tokens(&joined, first, &part, 0, rest.seq_len, OP(O));
        check_free(&part);
    }
    test_compare(&joined.tensor[OP(O)], &whole.tensor[OP(O)], 0, "in parts");
    check_free(&whole), check_free(&back), check_free(&joined);
}

/* Rows whose last pairs fill half a task, in memory as aligned as vectors want: the self-test's. */
static void test_half_tasks(void **state)
{
    static const int64_t columns[] = {4, 8, 12, 16, 24, 48, 60};

    (void)state;
    for (size_t i = 0; i < 2 * COUNT(columns) && !test_is_reference(); i++) {
        const clattn_plan_desc desc = rope_desc(columns[i / 2], i % 2);
        clattn_plan *plan;
        test_device.context->self_test = 1;
        assert_status(clattn_plan_create(&plan, test_device.context, &desc), SUCCESS);
        test_device.context->self_test = 0;
        clattn_plan_destroy(plan);
    }
}

/* o in v's own memory, on a device */
static void test_in_place(void **state)
{
    (void)state;
    for (int i = 0; i < 4 && !test_is_reference(); i++) {
        clattn_plan_desc desc = rope_desc(i & 1 ? 24 : 22, i >> 1);
        struct check_tensors apart, place;
        struct arguments own, shared;
        clattn_plan *plan;

        desc.rope_dim = i & 1 ? 16 : 14;
        test_make(&apart, &desc, CHECK_GATES_USUAL, NULL);
        test_make(&place, &desc, CHECK_GATES_USUAL, NULL);
        test_run(&apart);
        assert_status(clattn_plan_create(&plan, test_device.context, &desc), SUCCESS);
        own = shared = test_operands(&place, plan);
        shared.of[OP(O)].buffer = own.of[OP(V)].buffer;
        assert_status(check_enqueue(plan, test_device.queue, &shared, 0, NULL, NULL), SUCCESS);
        assert_int_equal(opencl_get()->EnqueueReadBuffer(test_device.queue, own.of[OP(V)].buffer, CL_TRUE, 0,
                                                         place.tensor[OP(O)].bytes, place.tensor[OP(O)].data, 0, NULL,
                                                         NULL),
                         0);
        test_compare(&place.tensor[OP(O)], &apart.tensor[OP(O)], 0, "in place");
        test_operands_free(&own);
        check_free(&apart), check_free(&place);
        clattn_plan_destroy(plan);
    }
}

/* ---- features --------------------------------------------------------------------------------------------------------
 */

enum { ROWS = 14, M = 6 };

static clattn_plan_desc features_desc(clattn_features features, int of_queries)
{
    return (clattn_plan_desc){.rule = CLATTN_FEATURES,
                              .batch = BATCH,
                              .seq_len = TOKENS,
                              .heads = HEADS,
                              .value_dim = ROWS,
                              .key_dim = features == CLATTN_FEATURES_FAVOR ? M : 2 * M,
                              .eps = 1e-12,
                              .features = features,
                              .flags = of_queries ? CLATTN_OF_QUERIES : 0};
}

static double at(const struct check_tensors *tensors, clattn_operand_id id, int64_t row, int c)
{
    return test_get(tensors, id, row * tensors->tensor[id].info.dims[tensors->tensor[id].info.rank - 1] + c);
}

/* y_j of a row, of its numbers times scale. */
static double projected(const struct check_tensors *tensors, int64_t row, int j, double scale)
{
    double sum = 0;

    for (int c = 0; c < ROWS; c++)
        sum += scale * at(tensors, OP(V), row, c) * at(tensors, OP(OMEGA), row % HEADS * M + j, c);
    return sum;
}

static double squares_of(const struct check_tensors *tensors, clattn_operand_id id, int64_t row)
{
    double sum = 0;

    for (int c = 0; c < ROWS; c++)
        sum += at(tensors, id, row, c) * at(tensors, id, row, c);
    return sum;
}

/* e^(w x - |x|^2 / 2) = e^((|w|^2 - |x - w|^2) / 2) */
static double favor(const struct check_tensors *tensors, int64_t row, int j)
{
    double scale = pow(ROWS, -0.25), apart = 0;
    int64_t weights = row % HEADS * M + j;

    for (int c = 0; c < ROWS; c++)
        apart += pow(scale * at(tensors, OP(V), row, c) - at(tensors, OP(OMEGA), weights, c), 2);
    return exp((squares_of(tensors, OP(OMEGA), weights) - apart) / 2) / sqrt(M);
}

static void expect(double actual, double expected, const char *what)
{
    if (!(fabs(actual - expected) <= 2e-5 * (1 + fabs(expected))))
        fail_msg("%s is %.9g, expected %.9g", what, actual, expected);
}

static void check_favor(const struct check_tensors *t, int64_t row)
{
    for (int j = 0; j < M; j++)
        expect(at(t, OP(O), row, j), favor(t, row, j), "a feature of Performer");
}

/* The product of two rows' features: the mean of cos w (x - y). */
static void check_rfa(const struct check_tensors *t, int64_t row)
{
    int64_t other = row % HEADS;
    double product = 0, mean = 0;

    for (int n = 0; n < 2 * M; n++)
        product += at(t, OP(O), row, n) * at(t, OP(O), other, n);
    for (int j = 0; j < M; j++)
        mean += cos(projected(t, row, j, 1 / sqrt(squares_of(t, OP(V), row))) -
                    projected(t, other, j, 1 / sqrt(squares_of(t, OP(V), other)))) /
                M;
    expect(product, mean, "a product of features of RFA");
    expect(at(t, OP(O), row, 0), sin(projected(t, row, 0, 1 / sqrt(squares_of(t, OP(V), row)))) / sqrt(M), "a sine");
}

/* Halves of sum 1, whose ratios are those of e^y and of e^-y. */
static void check_hedgehog(const struct check_tensors *t, int64_t row)
{
    double sums[2] = {0, 0};

    for (int n = 0; n < 2 * M; n++)
        sums[n / M] += at(t, OP(O), row, n);
    expect(sums[0], 1, "the first half's sum");
    expect(sums[1], 1, "the second half's sum");
    for (int j = 1; j < M; j++) {
        double ratio = exp(projected(t, row, j, 1) - projected(t, row, 0, 1));
        expect(at(t, OP(O), row, j), ratio * at(t, OP(O), row, 0), "a feature of the first half");
        expect(at(t, OP(O), row, M), ratio * at(t, OP(O), row, M + j), "a feature of the second half");
    }
}

static void test_features(void **state)
{
    static void (*const checks[])(const struct check_tensors *tensors,
                                  int64_t row) = {[CLATTN_FEATURES_FAVOR] = check_favor,
                                                  [CLATTN_FEATURES_RFA] = check_rfa,
                                                  [CLATTN_FEATURES_HEDGEHOG] = check_hedgehog};

    (void)state;
    for (size_t kind = 0; kind < COUNT(checks); kind++) {
        const clattn_plan_desc desc = features_desc((clattn_features)kind, 0);
        struct check_tensors tensors;
        test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
        for (int64_t i = 0; i < check_count(&tensors.tensor[OP(OMEGA)].info); i++)
            test_set(&tensors, OP(OMEGA), i, 0.5 * test_get(&tensors, OP(OMEGA), i));
        test_run(&tensors);
        for (int64_t row = 0; row < BATCH * TOKENS * HEADS; row++)
            checks[kind](&tensors, row);
        check_free(&tensors);
    }
}

/* Performer's e^(w x - |x|^2 / 2 - c) has 1e-4 added where a desc says nothing; c is a row's largest w x of queries, and
 * 0 of keys. */
static void test_favor_added(void **state)
{
    (void)state;
    for (int of_queries = 0; of_queries < 2; of_queries++) {
        clattn_plan_desc desc = features_desc(CLATTN_FEATURES_FAVOR, of_queries);
        struct check_tensors tensors;

        desc.eps = 0;
        test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
        test_run(&tensors);
        for (int64_t row = 0; row < BATCH * TOKENS * HEADS; row++) {
            double top = projected(&tensors, row, 0, pow(ROWS, -0.25));
            for (int j = 1; j < M; j++)
                top = fmax(top, projected(&tensors, row, j, pow(ROWS, -0.25)));
            for (int j = 0; j < M; j++) {
                double expected = favor(&tensors, row, j) * (of_queries ? exp(-top) : 1) + 1e-4 / sqrt(M);
                double difference = fabs(at(&tensors, OP(O), row, j) - expected);
                if (!(difference <= 2e-6 * (1 + expected)))
                    fail_msg("feature %d of row %d is %.9g away from %.9g", j, (int)row, difference, expected);
            }
        }
        check_free(&tensors);
    }
}

/* Performer is linear_attn, normalised, of features; what queries are less by is in numerator and denominator. */
static void test_performer(void **state)
{
    clattn_plan_desc desc = rule_desc(CLATTN_LINEAR_ATTN);
    struct check_tensors attn[2];

    (void)state;
    desc.key_dim = M;
    desc.scale = 1;
    desc.flags = CLATTN_NORMALIZE;
    for (int of_queries = 0; of_queries < 2; of_queries++) {
        const clattn_plan_desc mapped = features_desc(CLATTN_FEATURES_FAVOR, of_queries);
        struct check_tensors q, k;
        test_make(&q, &mapped, CHECK_GATES_USUAL, NULL);
        test_make(&k, &mapped, CHECK_GATES_USUAL, NULL);
        k.desc.flags = 0;
        test_run(&q);
        test_run(&k);
        test_make(&attn[of_queries], &desc, CHECK_GATES_USUAL, NULL);
        test_copy(&attn[of_queries], OP(Q), &q, OP(O));
        test_copy(&attn[of_queries], OP(K), &k, OP(O));
        test_run(&attn[of_queries]);
        check_free(&q), check_free(&k);
    }
    test_compare(&attn[1].tensor[OP(O)], &attn[0].tensor[OP(O)], 1e-4, "less the row's largest");
    check_free(&attn[0]), check_free(&attn[1]);
}

/* rms_norm with d is that of v + d o u. */
static void test_added(void **state)
{
    clattn_plan_desc desc = {
        .rule = CLATTN_RMS_NORM, .batch = BATCH, .seq_len = TOKENS, .heads = HEADS, .value_dim = VALUE};
    struct check_tensors plain, added;

    (void)state;
    test_make(&plain, &desc, CHECK_GATES_USUAL, NULL);
    desc.flags = CLATTN_WITH_D;
    test_make(&added, &desc, CHECK_GATES_USUAL, NULL);
    test_copy(&plain, OP(W), &added, OP(W));
    for (int64_t i = 0; i < check_count(&plain.tensor[OP(V)].info); i++)
        test_set(&plain, OP(V), i,
                 test_get(&added, OP(V), i) +
                     test_get(&added, OP(D), i % (HEADS * VALUE)) * test_get(&added, OP(U), i));
    test_run(&plain);
    test_run(&added);
    test_compare(&added.tensor[OP(O)], &plain.tensor[OP(O)], check_bound(CLATTN_F32), "v + d o u");
    check_free(&plain);
    check_free(&added);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_retention),  cmocka_unit_test(test_xpos),     cmocka_unit_test(test_back_and_cut),
        cmocka_unit_test(test_in_place),   cmocka_unit_test(test_features), cmocka_unit_test(test_performer),
        cmocka_unit_test(test_half_tasks), cmocka_unit_test(test_added),    cmocka_unit_test(test_favor_added)};

    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
