/* Programs of a context: held by plans, and a few more for the plans to come. */
#include "harness.h"

#include "device/context.h"
#include "ledger.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- What is built ------------------------------------------------------------------------------------------------ */

static struct opencl real;
static atomic_int builds; /* from source */

static cl_program CL_API_CALL count_source(cl_context context, cl_uint n, const char **text, const size_t *length,
                                           cl_int *error)
{
    atomic_fetch_add(&builds, 1);
    return real.CreateProgramWithSource(context, n, text, length, error);
}

static int put_functions(void **state)
{
    struct opencl *cl = test_opencl_table();

    real = *cl;
    cl->CreateProgramWithSource = count_source;
    builds = 0;
    return ledger_begin(state);
}

static int take_functions(void **state)
{
    *test_opencl_table() = real;
    return ledger_check(state);
}

/* ---- Plans of many shapes ----------------------------------------------------------------------------------------- */

static clattn_context *open_context(const char *cache_dir)
{
    const clattn_context_desc desc = {
        .cl = test_device.cl, .device = test_device.device, .log = test_log, .cache_dir = cache_dir, .self_test = -1};
    clattn_context *context;

    test_log_clear();
    assert_status(clattn_context_create(&context, &desc), SUCCESS);
    return context;
}

/* Of as many value columns: one kernel, like no other's. */
static clattn_plan_desc shape(int columns)
{
    return (clattn_plan_desc){.rule = CLATTN_RMS_NORM, .seq_len = 3, .heads = 1, .value_dim = columns};
}

static clattn_plan *make_plan(clattn_context *context, int columns)
{
    const clattn_plan_desc desc = shape(columns);
    clattn_plan *plan;

    assert_status(clattn_plan_create(&plan, context, &desc), SUCCESS);
    return plan;
}

/* What a plan is built of anew. */
static int builds_of(clattn_context *context, int columns)
{
    const int before = builds;

    clattn_plan_destroy(make_plan(context, columns));
    return builds - before;
}

static void test_bound(void **state)
{
    enum { SHAPES = 12, UNHELD = 4 };
    clattn_context *context = open_context("");
    const int before = ledger_alive(LEDGER_program);

    (void)state;
    assert_int_equal(context->most_unheld, MOST_UNHELD);
    context->most_unheld = UNHELD;
    for (int i = 1; i <= SHAPES; i++) {
        assert_int_equal(builds_of(context, i), 1);
        assert_in_range(ledger_alive(LEDGER_program) - before, 1, UNHELD);
    }
    for (int i = SHAPES; i > SHAPES - UNHELD; i--)
        assert_int_equal(builds_of(context, i), 0);
    assert_int_equal(builds_of(context, SHAPES - UNHELD), 1);
    assert_int_equal(builds_of(context, SHAPES - UNHELD + 1), 0); /* the last that was used stays */
    assert_int_equal(builds_of(context, SHAPES), 1);              /* the first has gone */
    clattn_context_destroy(context);
}

/* What plans hold stays, and does not count. */
static void test_held(void **state)
{
    enum { PLANS = 3 };
    clattn_context *context = open_context("");
    clattn_plan *plans[PLANS];

    (void)state;
    context->most_unheld = 0;
    for (int i = 0; i < PLANS; i++)
        plans[i] = make_plan(context, i + 1);
    for (int i = 0; i < PLANS; i++)
        assert_int_equal(builds_of(context, i + 1), 0);
    for (int i = 0; i < PLANS; i++)
        clattn_plan_destroy(plans[i]);
    for (int i = 0; i < PLANS; i++)
        assert_int_equal(builds_of(context, i + 1), 1);
    clattn_context_destroy(context);
}

static void *make_plans(void *user)
{
    enum { PLANS = 12, SHAPES = 3 };

    for (int i = 0; i < PLANS; i++) {
        const clattn_plan_desc desc = shape(i % SHAPES + 1);
        clattn_plan *plan;
        if (clattn_plan_create(&plan, user, &desc) != CLATTN_SUCCESS)
            return user;
        clattn_plan_destroy(plan);
    }
    return NULL;
}

/* Programs are let go, found and kept on disk by several threads at once. */
static void test_threads(void **state)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    clattn_context *context = open_context(test_folder());

    (void)state;
    context->most_unheld = 0;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_plans, context), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    clattn_context_destroy(context);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, put_functions, take_functions)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_bound), TEST(test_held), TEST(test_threads)};

    ledger_open();
    return cmocka_run_group_tests(tests, test_device_open, test_device_close) + ledger_close();
}
