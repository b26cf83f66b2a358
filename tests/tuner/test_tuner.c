/* The search among points that do not build, hang, or compute something else: sources are spoiled by functions in
 * the place of the library's table, which also have a clock of their own: how long a launch takes is a number below,
 * so that no result depends on the machine. */
#include "harness.h"

#include "tuner/propose.h"
#include "tuner/tune.h"

#include <math.h>
#include <string.h>

static struct opencl real;

/* ---- Faults, each of a kind of source ---- */

enum fault { FAULT_NONE, FAULT_BUILD, FAULT_WRONG, FAULT_FEWER, FAULT_HANG, FAULT_COUNT };

/* What a source of the scan must hold to have a fault; text put ahead of it; a passage replaced by one of its
 * length; and what a launch takes: those that compute something else would win. */
static const struct {
    const char *mark, *ahead, *from, *to;
    cl_ulong nanoseconds;
} faults[FAULT_COUNT] = {
    [FAULT_NONE] = {NULL, "", NULL, NULL, 1000000},
    [FAULT_BUILD] = {"#define PAD 4\n", "#error no such tiles\n", NULL, NULL, 0},
    [FAULT_WRONG] = {"#define BV 32\n", "", "tile_scale_rows(O, query", "tile_scale_rows(O, write", 200000},
    [FAULT_FEWER] = {"#define CHUNK 8\n", "", "row < at.rows; row += CHUNK", "row < 1      ; row += CHUNK", 200000},
    [FAULT_HANG] = {"#define VEC 4\n", "", NULL, NULL, 1000000000},
};

static enum fault fault_of(const char *source)
{
    for (int f = FAULT_BUILD; strstr(source, "\nscan(") != NULL && f < FAULT_COUNT; f++)
        if (strstr(source, faults[f].mark) != NULL)
            return (enum fault)f;
    return FAULT_NONE;
}

static int injected[FAULT_COUNT];

/* What is known of an object by its address; of two notes on an address that is used again, the newer. */
struct notes {
    size_t count;
    struct {
        void *object;
        cl_ulong value;
    } all[8192];
};
static struct notes programs, kernels, events; /* faults, faults, when they ended */

static void note(struct notes *notes, void *object, cl_ulong value)
{
    size_t at = notes->count++ % COUNT(notes->all);

    notes->all[at].object = object;
    notes->all[at].value = value;
}

static cl_ulong look_up(const struct notes *notes, const void *object)
{
    for (size_t i = notes->count; i > 0 && i + COUNT(notes->all) > notes->count; i--)
        if (notes->all[(i - 1) % COUNT(notes->all)].object == object)
            return notes->all[(i - 1) % COUNT(notes->all)].value;
    return 0;
}

static cl_program CL_API_CALL spoil_source(cl_context context, cl_uint n, const char **text, const size_t *length,
                                           cl_int *error)
{
    enum fault fault = fault_of(text[0]);
    char *copy = malloc(strlen(text[0]) + 1), *at;
    const char *both[2] = {faults[fault].ahead, copy};
    cl_program program;

    (void)n, (void)length;
    strcpy(copy, text[0]);
    injected[fault]++;
    if (faults[fault].from != NULL && (at = strstr(copy, faults[fault].from)) != NULL)
        memcpy(at, faults[fault].to, strlen(faults[fault].to));
    program = real.CreateProgramWithSource(context, 2, both, NULL, error);
    note(&programs, program, fault);
    free(copy);
    return program;
}

static cl_kernel CL_API_CALL note_kernel(cl_program program, const char *name, cl_int *error)
{
    cl_kernel kernel = real.CreateKernel(program, name, error);

    note(&kernels, kernel, look_up(&programs, program));
    return kernel;
}

/* ---- The device's clock ---- */

static cl_ulong clock_now = 1;

static cl_int CL_API_CALL time_launch(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
                                      const size_t *global, const size_t *local, cl_uint n, const cl_event *wait,
                                      cl_event *event)
{
    cl_int error = real.EnqueueNDRangeKernel(queue, kernel, dims, offset, global, local, n, wait, event);

    clock_now += faults[look_up(&kernels, kernel)].nanoseconds;
    if (event != NULL)
        note(&events, *event, clock_now);
    return error;
}

static cl_int CL_API_CALL time_marker(cl_command_queue queue, cl_uint n, const cl_event *wait, cl_event *event)
{
    cl_int error = real.EnqueueMarkerWithWaitList(queue, n, wait, event);

    note(&events, *event, clock_now);
    return error;
}

static cl_int CL_API_CALL tell_time(cl_event event, cl_profiling_info info, size_t size, void *value, size_t *bytes)
{
    const cl_ulong end = look_up(&events, event);

    (void)info, (void)bytes;
    memcpy(value, &end, size);
    return CL_SUCCESS;
}

static int spoil(void **state)
{
    (void)state;
    real = *test_opencl_table();
    test_opencl_table()->CreateProgramWithSource = spoil_source;
    test_opencl_table()->CreateKernel = note_kernel;
    test_opencl_table()->EnqueueNDRangeKernel = time_launch;
    test_opencl_table()->EnqueueMarkerWithWaitList = time_marker;
    test_opencl_table()->GetEventProfilingInfo = tell_time;
    return 0;
}

static int restore(void **state)
{
    (void)state;
    *test_opencl_table() = real;
    return 0;
}

/* ---- The search ---- */

static const clattn_plan_desc desc = {
    .rule = CLATTN_GATED_DELTA_RULE, .batch = 1, .seq_len = 256, .heads = 4, .key_dim = 32, .value_dim = 32};

static int value_of(const struct tuned *tuned, const char *name)
{
    for (int i = 0; tuned->space->parameters[i].name != NULL; i++)
        if (strcmp(tuned->space->parameters[i].name, name) == 0)
            return tuned->values[i];
    return BY_HEURISTIC;
}

static void count_states(const struct search_result *result, int states[TRIAL_STATE_COUNT])
{
    memset(states, 0, TRIAL_STATE_COUNT * sizeof *states);
    for (size_t i = 0; i < result->count; i++)
        states[result->all[i].state]++;
}

/* Ends the search when every fault has been met; nothing else does but the end of the space. */
static int all_faults_seen(void *user)
{
    int states[TRIAL_STATE_COUNT];

    count_states(user, states);
    return states[TRIAL_UNBUILT] > 0 && states[TRIAL_WRONG] > 0 && states[TRIAL_FAILED] > 0 && injected[FAULT_HANG] > 0;
}

static struct search some_search(void)
{
    return (struct search){.device = &test_device,
                           .log = {test_log, NULL},
                           .space = space_find("chunk_scan"),
                           .desc = desc,
                           .budget = HUGE_VAL,
                           .seed = 3,
                           .item = "a test"};
}

static void test_faults(void **state)
{
    struct search search = some_search();
    struct search_result result;
    int states[TRIAL_STATE_COUNT];
    const struct tuned *winner;

    (void)state;
    search.events = (struct search_events){.stop = all_faults_seen, .user = &result};
    assert_status(search_run(&search, &result), SUCCESS);
    count_states(&result, states);
    for (size_t i = 0; i < result.count; i++)
        if (value_of(&result.all[i].tuned, "vec") == 4)
            assert_int_not_equal(result.all[i].state, TRIAL_TIMED);
    assert_true(injected[FAULT_HANG] > 0);
    assert_true(states[TRIAL_UNBUILT] > 0);
    assert_true(states[TRIAL_WRONG] > 0);  /* other decays */
    assert_true(states[TRIAL_FAILED] > 0); /* rows left out: not written */
    assert_true(states[TRIAL_SLOW] > 0);   /* those that hang, at least */
    winner = &result.all[result.winner].tuned;
    assert_int_not_equal(value_of(winner, "scan.block_v"), 32);
    assert_int_not_equal(value_of(winner, "chunk"), 8);
    assert_int_not_equal(value_of(winner, "vec"), 4);
    assert_int_not_equal(value_of(winner, "scan.pad"), 4);
    assert_int_equal(result.all[result.winner].state, TRIAL_TIMED);
    search_free(&result);
}

/* A solver whose default is far behind another's, for as many tokens, is left out. */
static void test_slower_default(void **state)
{
    static const struct {
        int64_t tokens;
        double ms, times_slower;
    } rows[] = {{4096, 1.0, 0}, {4096, 1.9, 0}, {4096, 3.0, 3.0}, {128, 30.0, 0}, {4096, 0, 0}};
    struct tune_result whole = {.count = COUNT(rows)};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        whole.outcomes[i].entry.seq_len = rows[i].tokens;
        whole.outcomes[i].entry.default_ms = rows[i].ms;
    }
    for (size_t i = 0; i < COUNT(rows); i++)
        if (fabs(tune_times_slower(&whole, &whole.outcomes[i]) - rows[i].times_slower) > 1e-9)
            fail_msg("row %zu is %g times slower", i, tune_times_slower(&whole, &whole.outcomes[i]));
}

/* Only the default: the rest of the space is left. */
static void test_only_default(void **state)
{
    struct search search = some_search();
    struct search_result result;

    (void)state;
    search.only_default = 1;
    assert_status(search_run(&search, &result), SUCCESS);
    assert_int_equal(result.count, 1);
    assert_true(result.all[0].time > 0);
    search_free(&result);
}

/* ---- Points built ahead ---- */

/* All that was asked for; the last of the first batch is said to have ended its builder. */
static struct {
    size_t count, widest;
    struct search_point points[256];
    struct tuned dead;
} asked;

static void record_ahead(void *user, const struct search_point *points, size_t count, int *sound)
{
    (void)user;
    asked.widest = count > asked.widest ? count : asked.widest;
    sound[count - 1] = asked.count > 0 || count < 3;
    if (!sound[count - 1])
        asked.dead = points[count - 1].tuned;
    for (size_t i = 0; i < count && asked.count < COUNT(asked.points); i++)
        asked.points[asked.count++] = points[i];
}

static int eight_tried(void *user)
{
    return ((const struct search_result *)user)->count >= 8;
}

/* No batch is wider than is said, no point is asked for twice, each is tried but the one that ended its builder. */
static void test_ahead(void **state)
{
    struct search search = some_search();
    struct search_result result;

    (void)state;
    memset(&asked, 0, sizeof asked);
    search.events =
        (struct search_events){.stop = eight_tried, .build_ahead = record_ahead, .width = 3, .user = &result};
    assert_status(search_run(&search, &result), SUCCESS);
    assert_int_equal(asked.widest, 3);
    assert_in_range(asked.count, 6, 9 + AWKWARD);
    for (size_t i = 1; i < result.count; i++) {
        const struct candidate *candidate = &result.all[i];
        assert_true(tuned_equal(&candidate->tuned, &asked.points[i - 1].tuned));
        assert_int_equal(candidate->state == TRIAL_CRASHED, tuned_equal(&candidate->tuned, &asked.dead));
        for (size_t j = 1; j < i; j++)
            assert_false(tuned_equal(&candidate->tuned, &result.all[j].tuned));
    }
    search_free(&result);
}

/* The recurrence, whose tiles follow the length, has a plan of each length where solvers are compared. */
static void test_lengths(void **state)
{
    struct tune tune = {.device = test_device.device, .log = {test_log, NULL}, .budget = 5, .seed = 1};
    struct tune_result result;
    int64_t next = 1;

    (void)state;
    memset(&asked, 0, sizeof asked);
    tune.events = (struct search_events){.build_ahead = record_ahead, .width = 2};
    assert_status(tune_problem(&tune, &desc, &result), SUCCESS);
    for (size_t i = 0; i < asked.count; i++)
        if (strcmp(asked.points[i].tuned.space->name, "recurrent") == 0 && asked.points[i].desc.seq_len == next)
            next *= 2;
    assert_int_equal(next, 1024);
    assert_int_equal(result.lengths.count, 10);
    for (int s = 0; s < result.count; s++)
        if (strcmp(result.outcomes[s].space->name, "recurrent") == 0)
            for (size_t i = 0; i < result.lengths.count; i++)
                assert_true(result.lengths.seconds[i][s] > 0);
    tune_free(&result);
}

/* ---- Validation ---- */

/* Initial states are forgotten: right on the timed problem, which has none, and yet never a winner. */
static cl_program CL_API_CALL forget_states(cl_context context, cl_uint n, const char **text, const size_t *length,
                                            cl_int *error)
{
    static const char load[] = "S[i] = from != 0 &&", forget[] = "S[i] = 0         &&";
    char *copy = malloc(strlen(text[0]) + 1), *at;
    const char *one = copy;
    cl_program program;

    (void)n, (void)length;
    strcpy(copy, text[0]);
    at = strstr(copy, load);
    if (at != NULL && strstr(copy, "#define CHUNK 64\n") != NULL)
        memcpy(at, forget, strlen(forget));
    program = real.CreateProgramWithSource(context, 1, &one, NULL, error);
    free(copy);
    return program;
}

static void test_validation(void **state)
{
    struct tuned tuned = tuned_default(space_find("chunk_scan"));
    struct trial trial;
    clattn_plan *plan;
    enum trial_state outcome;
    double error = 0;

    (void)state;
    test_tuned_set(&tuned, "chunk", 64);
    test_tuned_set(&tuned, "vec", 16);
    test_opencl_table()->CreateProgramWithSource = forget_states;
    assert_status(trial_open(&trial, &test_device, space_find("chunk_scan"), &desc, (struct log){test_log, NULL}),
                  SUCCESS);
    trial.short_tensors.desc.seq_len = trial.tensors.desc.seq_len;
    assert_status(trial_plan(&trial, &tuned, &plan, &outcome), SUCCESS);
    assert_int_equal(trial_check(&trial, plan, 1, &error), TRIAL_TIMED);
    outcome = trial_validate(&trial, &tuned, &error);
    assert_true(outcome == TRIAL_WRONG || outcome == TRIAL_FAILED);
    test_opencl_table()->CreateProgramWithSource = real.CreateProgramWithSource;
    test_tuned_set(&tuned, "chunk", 8);
    assert_int_equal(trial_validate(&trial, &tuned, &error), TRIAL_TIMED);
    clattn_plan_destroy(plan);
    trial_close(&trial);
}

/* ---- The journal ---- */

static void test_journal(void **state)
{
    struct tuned one = tuned_default(space_find("chunk_scan")), two = one;
    struct journal journal, other;
    char path[512];
    FILE *file;

    (void)state;
    test_tuned_set(&two, "chunk", 32);
    snprintf(path, sizeof path, "%s/journal", test_folder());
    remove(path);
    test_log_clear();
    assert_status(journal_open(&journal, path, NULL), SUCCESS);
    assert_status(journal_open(&other, path, &(struct log){test_log, NULL}), INVALID_ARGUMENT);
    assert_logged("another");
    journal_close(&other, 0);
    journal_write(&journal, "item", &one, TRIAL_TRYING, 0, 0);
    journal_write(&journal, "item", &one, TRIAL_TIMED, 0.25, 1e-7);
    journal_finish(&journal, "done item");
    journal_write(&journal, "item", &two, TRIAL_TRYING, 0, 0);
    journal_close(&journal, 0);
    file = fopen(path, "a");
    assert_non_null(file);
    fputs("{\"item\": \"item\", \"solv", file); /* its process ended here */
    fclose(file);
    assert_status(journal_open(&journal, path, NULL), SUCCESS);
    assert_int_equal(journal.count, 2);
    assert_int_equal(journal.entries[0].state, TRIAL_TIMED);
    assert_true(journal.entries[0].time == 0.25);
    assert_int_equal(journal.entries[1].state, TRIAL_CRASHED);
    assert_true(journal_finished(&journal, "done item"));
    assert_false(journal_finished(&journal, "item"));
    journal_close(&journal, 1);
    assert_null(fopen(path, "r"));
}

/* Solvers by length: one that is the fastest of short sequences only, and one of long ones, beyond what is compared */
static void test_from_rows(void **state)
{
    static const double seconds[3][3] = {{1, 3, 4}, {4, 2, 3}, {8, 4, 5}};
    static const int64_t tuned_at[] = {128, 4096, 4096}, from[] = {0, 256, 4096};
    static const double time_ms[] = {1, 1.53, 1.40};
    static struct tune_result result;

    (void)state;
    result.count = 3;
    for (int s = 0; s < 3; s++) {
        result.outcomes[s].entry.seq_len = tuned_at[s];
        result.outcomes[s].entry.time_ms = time_ms[s];
    }
    for (size_t i = 0; i < 3; i++) {
        result.lengths.tokens[i] = (int64_t)128 << i;
        memcpy(result.lengths.seconds[i], seconds[i], sizeof seconds[i]);
    }
    result.lengths.count = 3;
    tune_set_from_rows(&result);
    for (int s = 0; s < 3; s++)
        assert_int_equal(result.outcomes[s].entry.from_rows, from[s]);
    result.outcomes[2].entry.time_ms = 1.50; /* no more than noise */
    tune_set_from_rows(&result);
    assert_int_equal(result.outcomes[2].entry.from_rows, -1);
    result.outcomes[2].entry.time_ms = 1.40;
    result.outcomes[2].status = CLATTN_UNSUPPORTED;
    tune_set_from_rows(&result);
    assert_int_equal(result.outcomes[2].entry.from_rows, -1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_journal),
        cmocka_unit_test_setup_teardown(test_validation, spoil, restore),
        cmocka_unit_test_setup_teardown(test_faults, spoil, restore),
        cmocka_unit_test_setup_teardown(test_only_default, spoil, restore),
        cmocka_unit_test(test_slower_default),
        cmocka_unit_test(test_ahead),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_from_rows),
    };

    if (argc > 1)
        test_filter(argv[1]);
    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
