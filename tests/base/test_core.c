/* The small parts: version, statuses, rule names, threads, and the check library itself. */
#include "harness.h"

#include "base/embedded.h"
#include "base/file.h"
#include "base/system.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/thread.h"
#include "device/ptx.h"
#include "op/rule.h"
#include "plan/plan.h"
#include "tune/tiles.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void test_texts(void **state)
{
    (void)state;
    assert_string_equal(clattn_version(), "0.3.0");
    assert_string_equal(clattn_status_text(CLATTN_SUCCESS), "success");
    assert_string_equal(clattn_status_text((clattn_status)1000), "unknown status");
    assert_string_equal(clattn_status_text((clattn_status)-1), "unknown status");
    for (int i = CLATTN_SUCCESS; i <= CLATTN_DEVICE_ERROR; i++)
        assert_true(strlen(clattn_status_text((clattn_status)i)) > 3);
}

/* What is hidden in PTX for sm_90 is uncovered, and that for another target left alone. */
static void test_ptx(void **state)
{
    static const char plain[] = ".version 8.0\n.target sm_90, debug\nfirst;\n//@second %r1;\n// third\n//@fourth;\n";
    static const char whole[] = ".version 8.0\n.target sm_90a, debug\nfirst;\n   second %r1;\n// third\n   fourth;\n";
    static const char *const others[] = {".target sm_80\n//@x;\n", ".target sm_900\n//@x;\n", "//@x;\n", ""};
    size_t size = 0, again = 0;
    unsigned char *uncovered = ptx_uncover((const unsigned char *)plain, sizeof plain, &size);
    unsigned char *twice;

    (void)state;
    assert_true(ptx_hides(plain) && !ptx_hides(whole));
    assert_non_null(uncovered);
    assert_int_equal(size, sizeof whole);
    assert_string_equal((char *)uncovered, whole);
    twice = ptx_uncover(uncovered, size, &again);
    assert_non_null(twice);
    assert_int_equal(again, size);
    assert_memory_equal(twice, uncovered, size);
    free(twice);
    free(uncovered);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_null(ptx_uncover((const unsigned char *)others[i], strlen(others[i]), &size));
}

static void test_rule_names(void **state)
{
    clattn_rule_info info;

    (void)state;
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++) {
        assert_status(clattn_rule_describe(rule, &info), SUCCESS);
        assert_int_equal(info.rule, rule);
        assert_int_equal(clattn_rule_find(info.name), rule);
        assert_true(strlen(info.recurrence) > 0 && strlen(info.paper) > 0);
    }
    assert_int_equal(clattn_rule_find("mamba2"), CLATTN_SIMPLE_GLA);
    assert_int_equal(clattn_rule_find("gated_retention"), CLATTN_SIMPLE_GLA);
    assert_int_equal(clattn_rule_find("gdn"), CLATTN_GATED_DELTA_RULE);
    assert_int_equal(clattn_rule_find("hgrn2"), CLATTN_GLA);
    assert_int_equal(clattn_rule_find("mamba"), CLATTN_MAMBA);
    assert_int_equal(clattn_rule_find("amba2"), CLATTN_RULE_NONE);
    assert_int_equal(clattn_rule_find("mamba2 gated_retention"), CLATTN_RULE_NONE);
    assert_int_equal(clattn_rule_find(""), CLATTN_RULE_NONE);
    assert_int_equal(clattn_rule_find(NULL), CLATTN_RULE_NONE);
    assert_status(clattn_rule_describe(CLATTN_RULE_NONE, &info), INVALID_ARGUMENT);
    assert_status(clattn_rule_describe(RULE_COUNT, &info), INVALID_ARGUMENT);
    assert_status(clattn_rule_describe(CLATTN_GLA, NULL), INVALID_ARGUMENT);
}

static void count_visit(void *user, int64_t i)
{
    atomic_fetch_add(&((atomic_int *)user)[i], 1);
}

static void test_parallel_for(void **state)
{
    static atomic_int visits[1001];
    const int64_t counts[] = {0, 1, 2, 63, 1000};

    (void)state;
    for (size_t c = 0; c < COUNT(counts); c++) {
        for (size_t i = 0; i < COUNT(visits); i++)
            atomic_init(&visits[i], 0);
        parallel_for(counts[c], count_visit, visits);
        for (int64_t i = 0; i < (int64_t)COUNT(visits); i++)
            assert_int_equal(atomic_load(&visits[i]), i < counts[c]);
    }
}

/* Two threads that take one lock at the same time: the second comes to it before the first gives it. */
struct crossing {
    mutex lock;
    atomic_int coming, inside, met;
};

static void wait_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static void cross(void *user, int64_t i)
{
    struct crossing *crossing = user;

    (void)i;
    atomic_fetch_add(&crossing->coming, 1);
    lock_take(&crossing->lock);
    for (int ms = 0; ms < 2000 && crossing->coming < 2; ms++) /* for ever where there is one core */
        wait_ms(1);
    if (atomic_fetch_add(&crossing->inside, 1) > 0)
        crossing->met = 1;
    wait_ms(50);
    atomic_fetch_sub(&crossing->inside, 1);
    lock_give(&crossing->lock);
}

static void test_locks(void **state)
{
    struct crossing crossing = {.coming = 0};

    (void)state;
    lock_init(&crossing.lock);
    parallel_for(2, cross, &crossing);
    assert_int_equal(crossing.coming, 2);
    assert_false(crossing.met);
    lock_destroy(&crossing.lock);
}

static const clattn_plan_desc small = {
    .rule = CLATTN_KDA, .dtype = CLATTN_BF16, .batch = 2, .seq_len = 40, .heads = 2, .key_dim = 8, .value_dim = 6};

/* The same seed gives the same numbers, another does not, and a longer batch begins with the shorter one's. */
static void test_make_is_stable(void **state)
{
    struct check_tensors a, b, c, longer;
    clattn_plan_desc more = small;

    (void)state;
    more.batch = 3;
    assert_status(check_make(&a, &small, 5, CHECK_GATES_USUAL, NULL), SUCCESS);
    assert_status(check_make(&b, &small, 5, CHECK_GATES_USUAL, NULL), SUCCESS);
    assert_status(check_make(&c, &small, 6, CHECK_GATES_USUAL, NULL), SUCCESS);
    assert_status(check_make(&longer, &more, 5, CHECK_GATES_USUAL, NULL), SUCCESS);
    for (int id = 1; id < OPERAND_COUNT; id++) {
        if (a.tensor[id].data == NULL || a.tensor[id].info.output)
            continue;
        assert_memory_equal(a.tensor[id].data, b.tensor[id].data, a.tensor[id].bytes);
        assert_memory_not_equal(a.tensor[id].data, c.tensor[id].data, a.tensor[id].bytes);
        assert_memory_equal(a.tensor[id].data, longer.tensor[id].data, a.tensor[id].bytes);
    }
    assert_true(isnan(test_get(&a, OP(O), 0)));
    check_free(&a);
    check_free(&b);
    check_free(&c);
    check_free(&longer);
}

/* What testing.md asks of hard gates, and that an erase stays stable. */
static void test_make_is_hard(void **state)
{
    struct check_tensors t;
    int64_t zeros = 0, thousands = 0, infinite = 0, near_two = 0, gates, strengths;

    (void)state;
    assert_status(check_make(&t, &small, 1, CHECK_GATES_HARD, NULL), SUCCESS);
    gates = check_count(&t.tensor[OP(G)].info);
    strengths = check_count(&t.tensor[OP(BETA)].info);
    for (int64_t i = 0; i < gates; i++) {
        double g = test_get(&t, OP(G), i);
        assert_true(g <= 0);
        zeros += g == 0;
        thousands += g == -1000;
        infinite += isinf(g) != 0;
    }
    for (int64_t i = 0; i < strengths; i++)
        near_two += test_get(&t, OP(BETA), i) >= 1.9;
    assert_in_range(zeros, gates * 4 / 10, gates * 6 / 10);
    assert_true(thousands > 0 && infinite > 0);
    assert_true(near_two > strengths / 2);
    for (int64_t row = 0; row < check_count(&t.tensor[OP(K)].info); row += small.key_dim) {
        double sum = 0;
        for (int64_t n = 0; n < small.key_dim; n++)
            sum += pow(test_get(&t, OP(K), row + n), 2);
        assert_true(sum <= 1 && sum > 0.95);
    }
    check_free(&t);
}

static double error_with(struct check_tensors *actual, const struct check_tensors *expected, int64_t i, double value)
{
    double before = test_get(actual, OP(O), i), error;

    test_set(actual, OP(O), i, value);
    error = check_error(actual, expected, NULL);
    test_set(actual, OP(O), i, before);
    return error;
}

static void test_error(void **state)
{
    struct check_tensors actual, expected;
    clattn_plan_desc desc = small;
    clattn_operand_id worst = OPERAND_COUNT;

    (void)state;
    desc.dtype = CLATTN_F32;
    desc.flags = CLATTN_FINAL_STATE;
    assert_status(check_make(&actual, &desc, 1, CHECK_GATES_USUAL, NULL), SUCCESS);
    assert_status(check_reference(&expected, &actual, NULL, NULL), SUCCESS);
    assert_null(expected.tensor[OP(Q)].data);
    assert_true(isinf(check_error(&actual, &expected, &worst))); /* nothing was written yet */
    test_copy(&actual, OP(O), &expected, OP(O));
    assert_true(isinf(check_error(&actual, &expected, &worst)));
    assert_int_equal(worst, OP(STATE_OUT));
    test_copy(&actual, OP(STATE_OUT), &expected, OP(STATE_OUT));
    assert_true(check_error(&actual, &expected, NULL) == 0);
    assert_true(isinf(error_with(&actual, &expected, 7, (double)NAN)));
    assert_true(isinf(error_with(&actual, &expected, 7, (double)INFINITY)));
    assert_true(error_with(&actual, &expected, 7, 9) > 1e-2);
    test_set_all(&actual, OP(O), 1);
    test_set_all(&expected, OP(O), 1);
    assert_true(fabs(error_with(&actual, &expected, 3, 3) - 2 / sqrt((double)desc.value_dim) / 8) < 1e-7);
    test_set_all(&actual, OP(O), 3);
    assert_true(fabs(check_tensor_error(&actual.tensor[OP(O)], &expected.tensor[OP(O)]) - 2) < 1e-7);
    test_set_all(&actual, OP(O), 1);
    test_set(&expected, OP(O), 3, (double)-INFINITY);
    assert_true(isinf(error_with(&actual, &expected, 3, 3)));
    assert_true(error_with(&actual, &expected, 3, (double)-INFINITY) == 0);
    test_set_all(&expected, OP(O), (double)NAN);
    assert_true(isinf(error_with(&actual, &expected, 3, (double)NAN)));
    check_free(&actual);
    check_free(&expected);
}

/* rel of the whole tensor */
static double whole_error(const struct check_tensors *actual, const struct check_tensors *expected)
{
    double difference = 0, size = 0;

    for (int64_t i = 0; i < check_count(&expected->tensor[OP(O)].info); i++) {
        difference += pow(test_get(actual, OP(O), i) - test_get(expected, OP(O), i), 2);
        size += pow(test_get(expected, OP(O), i), 2);
    }
    return sqrt(difference / size);
}

/* One head of one token in 65,536 is wrong: as good as nothing of the whole, whether its reference is large or near
 * zero. */
static void test_one_token(void **state)
{
    clattn_plan_desc desc = {.rule = CLATTN_SIMPLE_GLA, .seq_len = 4096, .heads = 16, .key_dim = 4, .value_dim = 4};
    struct check_tensors actual, expected;
    const int64_t row = (2500 * 16 + 7) * 4;
    struct check_difference found;

    (void)state;
    assert_status(check_make(&actual, &desc, 1, CHECK_GATES_USUAL, NULL), SUCCESS);
    assert_status(check_reference(&expected, &actual, test_log, NULL), SUCCESS);
    for (int silent = 0; silent < 2; silent++) {
        for (int64_t i = row; i < row + 4; i++)
            test_set(&expected, OP(O), i, silent ? 0 : 1);
        test_copy(&actual, OP(O), &expected, OP(O));
        assert_true(check_tensor_error(&actual.tensor[OP(O)], &expected.tensor[OP(O)]) == 0);
        for (int64_t i = row; i < row + 4; i++)
            test_set(&actual, OP(O), i, silent ? 1 : 0);
        assert_true(whole_error(&actual, &expected) < check_bound(CLATTN_BF16));
        found = check_tensor_difference(&actual.tensor[OP(O)], &expected.tensor[OP(O)]);
        assert_true(found.error > check_bound(CLATTN_BF16));
        assert_true(found.whole < check_bound(CLATTN_BF16) && found.error == found.row / 8);
        assert_int_equal(found.at, row / 4);
    }
    check_free(&actual);
    check_free(&expected);
}

/* A reference that is no number passes for nothing; one that forgets all does. */
static void test_finite_reference(void **state)
{
    static const double bad[] = {(double)NAN, (double)INFINITY};
    clattn_plan_desc desc = small;
    struct check_tensors tensors, expected;

    (void)state;
    desc.dtype = CLATTN_F32;
    assert_status(check_make(&tensors, &desc, 1, CHECK_GATES_USUAL, NULL), SUCCESS);
    for (size_t i = 0; i < COUNT(bad); i++) {
        double before = test_get(&tensors, OP(V), 9);
        test_set(&tensors, OP(V), 9, bad[i]);
        test_log_clear();
        assert_status(check_reference(&expected, &tensors, test_log, NULL), INVALID_OPERAND);
        assert_logged("the reference of o is");
        test_set(&tensors, OP(V), 9, before);
    }
    test_set_all(&tensors, OP(G), (double)-INFINITY);
    assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
    check_free(&expected);
    check_free(&tensors);
}

/* Every row of the rule table is reached by the cases with every storage type. */
static void test_cases_cover(void **state)
{
    (void)state;
    for (clattn_dtype dtype = CLATTN_F32; dtype <= CLATTN_BF16; dtype++) {
        int usual = 0, variants = 0, lists = 0;
        for (size_t i = 0; i < check_case_count; i++) {
            usual += check_case_applies(&check_cases[i], CLATTN_GLA, 0, dtype);
            variants += check_case_applies(&check_cases[i], CLATTN_GLA, 1, dtype);
            lists += check_case_applies(&check_cases[i], CLATTN_FORGETTING_ATTN, 0, dtype);
        }
        assert_true(usual >= 2 && variants >= 1 && lists > usual);
    }
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++)
        for (size_t i = 0; i < check_case_count; i++) {
            clattn_plan_desc full, desc = check_case_desc(&check_cases[i], rule, CLATTN_F32, CLATTN_MODE_AUTO);
            int applies = 0;
            for (clattn_dtype dtype = CLATTN_F32; dtype <= CLATTN_BF16; dtype++)
                applies |= check_case_applies(&check_cases[i], rule, 0, dtype);
            if (!applies)
                continue;
            assert_status(clattn_plan_desc_complete(&full, &desc, test_log, NULL), SUCCESS);
        }
}

/* `clattn verify --quick` leaves no rule without a case, of any type. */
static void test_cases_quick(void **state)
{
    (void)state;
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++)
        for (clattn_dtype dtype = CLATTN_F32; dtype <= CLATTN_BF16; dtype++) {
            int quick = 0;
            for (size_t i = 0; i < check_case_count; i++)
                quick += check_case_applies(&check_cases[i], rule, 0, dtype) &&
                         check_case_quick(&check_cases[i], rule, 0, dtype);
            if (quick == 0)
                fail_msg("%s has no quick case of %s", rule_get(rule)->name, dtype_name(dtype));
        }
}

/* Every kernel file is there, as a file of cl/, without comments. */
static void test_embedded(void **state)
{
    (void)state;
    for (int i = 0; i < FILE_COUNT; i++) {
        const struct embedded *file = &embedded_files[i];
        size_t folder = strlen(file->path) - strlen(file->name);
        assert_string_equal(file->path + folder, file->name);
        assert_int_equal(strlen(file->text), file->size);
        if (strncmp(file->path, "cl/", 3) == 0 && (strstr(file->text, "/*") != NULL || file->size == 0))
            fail_msg("%s is empty or has a comment", file->path);
    }
    assert_true(FILE_COUNT > 50);
}

/* Each half of a hash depends on each half of the one before, and on the piece. */
static void test_hash(void **state)
{
    const struct hash before = {3, 5}, others[] = {{4, 5}, {3, 6}};
    struct hash hash = hash_text(before, "piece"), piece = hash_text(before, "peace");
    char name[HASH_DIGITS];

    (void)state;
    assert_true(hash.high != piece.high && hash.low != piece.low);
    for (size_t i = 0; i < COUNT(others); i++) {
        struct hash other = hash_text(others[i], "piece");
        assert_true(hash.high != other.high && hash.low != other.low);
    }
    assert_string_equal(hash_name(before, name), "00000000000000030000000000000005");
}

/* ---- Texts of any length ------------------------------------------------------------------------------------------
 */

enum { LONG = 5000 };

static const char *long_text(void)
{
    static char text[LONG + 1];

    for (int i = 0; i < LONG; i++)
        text[i] = (char)('a' + i % 26);
    return text;
}

static void keep_message(void *user, clattn_log_level level, const char *message)
{
    (void)level;
    free(*(char **)user);
    *(char **)user = text_copy(message);
}

/* What is longer than any buffer of a function's own. */
static void test_long_text(void **state)
{
    struct text text = {0};
    char *whole;

    (void)state;
    text_format(&text, "%d %s ", 17, long_text());
    text_format(&text, "%s", "end");
    assert_int_equal(text.size, 3 + LONG + 1 + 3);
    whole = text_take(&text);
    assert_memory_equal(whole, "17 abc", 6);
    assert_memory_equal(whole + 3, long_text(), LONG);
    assert_string_equal(whole + 3 + LONG, " end");
    free(whole);
}

static void test_long_message(void **state)
{
    char *kept = NULL;
    const struct log log = {keep_message, &kept};
    struct log_held held = {.line = ""};

    (void)state;
    log_line(&log, CLATTN_LOG_ERROR, "%s: %s", long_text(), "the reason");
    assert_int_equal(strlen(kept), LONG + 12);
    assert_string_equal(kept + LONG, ": the reason");
    log_hold(&held, CLATTN_LOG_ERROR, long_text());
    log_release(&held, &log);
    assert_int_equal(strlen(kept), sizeof held.line - 1);
    assert_memory_equal(kept, long_text(), sizeof held.line - 4);
    assert_string_equal(kept + sizeof held.line - 4, "...");
    log_hold(&held, CLATTN_LOG_ERROR, "short");
    log_release(&held, &log);
    assert_string_equal(kept, "short");
    free(kept);
}

static void test_fit(void **state)
{
    static const char *const expected[] = {"", ".", "..", "...", "1...", "123456"};
    static const size_t sizes[] = {1, 2, 3, 4, 5, 7};
    char text[8];

    (void)state;
    for (size_t i = 0; i < COUNT(sizes); i++) {
        memset(text, '#', sizeof text);
        text_fit(text, sizes[i], "%d", 123456);
        assert_string_equal(text, expected[i]);
        assert_int_equal(text[sizes[i]], '#');
    }
}

/* ---- The rule of thumb between the recurrence and chunks --------------------------------------------------------- */

enum { UNITS = 132, ANY = 1 << 20, PLAIN = 0, ENGINE = 1, INTEL = 2 };

/* The most tokens that are worked one by one; ANY: any. */
static const struct {
    clattn_rule rule;
    clattn_dtype dtype;
    int64_t heads, tokens;
    int on;
} lengths[] = {
    {CLATTN_GATED_DELTA_RULE, CLATTN_F32, 256, ANY, PLAIN},
    {CLATTN_RWKV7, CLATTN_BF16, 256, ANY, PLAIN},
    {CLATTN_GATED_DELTA_RULE, CLATTN_F32, 256, ANY, ENGINE},
    {CLATTN_GATED_DELTA_RULE, CLATTN_BF16, 256, 32, ENGINE},
    {CLATTN_GATED_DELTA_RULE, CLATTN_F32, 128, 128, PLAIN},
    {CLATTN_KDA, CLATTN_F32, 64, 64, PLAIN},
    {CLATTN_KDA, CLATTN_F32, 256, 32, INTEL},
    {CLATTN_KDA, CLATTN_F32, 16, 64, INTEL},
    {CLATTN_SIMPLE_GLA, CLATTN_F32, 256, 64, PLAIN},
    {CLATTN_SIMPLE_GLA, CLATTN_F32, 16, 256, PLAIN},
    {CLATTN_GLA, CLATTN_F32, 256, 128, ENGINE},
    {CLATTN_GLA, CLATTN_F16, 256, 32, ENGINE},
};

/* Whether the solver should be tried first where nothing was measured. */
static int prefers(const char *solver, const struct clattn_context *context, const struct problem *problem)
{
    const struct device_facts facts = {.device = &context->device, .engine = context->engine, .most_group = 256};

    return solver_find(solver)->prefers(&facts, problem) != PREFERENCE_NONE;
}

static int one_by_one(const struct clattn_context *context, size_t row, int64_t tokens)
{
    const clattn_plan_desc desc = {.rule = lengths[row].rule,
                                   .dtype = lengths[row].dtype,
                                   .seq_len = tokens,
                                   .heads = lengths[row].heads,
                                   .key_dim = 128,
                                   .value_dim = 128};
    struct problem problem;

    assert_status(problem_init(&problem, &desc, NULL), SUCCESS);
    return prefers("recurrent", context, &problem);
}

static void test_lengths_of_recurrence(void **state)
{
    static const char engine; /* nobody looks at it */

    (void)state;
    for (size_t row = 0; row < COUNT(lengths); row++) {
        struct clattn_context context = {.device = {.info = {.compute_units = UNITS}}};
        if (lengths[row].on == ENGINE)
            context.engine = (const struct engine *)(const void *)&engine;
        if (lengths[row].on == INTEL)
            context.device.sub_group = 8;
        assert_true(one_by_one(&context, row, lengths[row].tokens));
        if (lengths[row].tokens != ANY)
            assert_false(one_by_one(&context, row, lengths[row].tokens + 1));
    }
}

/* In register blocks beside NVIDIA's engine: floats of low rank with decays a channel, past short lengths. */
static void test_blocks_beside_engine(void **state)
{
    static const struct {
        clattn_rule rule;
        clattn_dtype dtype;
        int64_t tokens;
        const char *engine;
        int blocks;
    } rows[] = {
        {CLATTN_RWKV7, CLATTN_F32, 129, "nvidia", 1},    {CLATTN_DPLR, CLATTN_F32, 4096, "nvidia_sm80", 1},
        {CLATTN_RWKV7, CLATTN_F32, 128, "nvidia", 0},    {CLATTN_RWKV7, CLATTN_BF16, 4096, "nvidia", 0},
        {CLATTN_IPLR, CLATTN_F32, 4096, "nvidia", 0},    {CLATTN_KDA, CLATTN_F32, 4096, "nvidia", 0},
        {CLATTN_RWKV7, CLATTN_F32, 4096, "amd_cdna", 0}, {CLATTN_RWKV7, CLATTN_F32, 4096, NULL, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const clattn_plan_desc desc = {.rule = rows[i].rule,
                                       .dtype = rows[i].dtype,
                                       .seq_len = rows[i].tokens,
                                       .heads = 16,
                                       .key_dim = 128,
                                       .value_dim = 128};
        const struct clattn_context context = {.engine = rows[i].engine != NULL ? engine_get(rows[i].engine) : NULL};
        struct problem problem;
        assert_status(problem_init(&problem, &desc, NULL), SUCCESS);
        assert_int_equal(prefers("chunk_blocks", &context, &problem), rows[i].blocks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_beside_engine),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_long_text),
        cmocka_unit_test(test_long_message),
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_rule_names),
        cmocka_unit_test(test_parallel_for),
        cmocka_unit_test(test_locks),
        cmocka_unit_test(test_make_is_stable),
        cmocka_unit_test(test_make_is_hard),
        cmocka_unit_test(test_error),
        cmocka_unit_test(test_one_token),
        cmocka_unit_test(test_finite_reference),
        cmocka_unit_test(test_cases_cover),
        cmocka_unit_test(test_cases_quick),
        cmocka_unit_test(test_embedded),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_ptx),
        cmocka_unit_test(test_lengths_of_recurrence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
