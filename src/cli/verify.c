/* clattn verify: a device's results on awkward shapes, compared with the double-precision reference. */
#include "cli/verify.h"

#include "base/system.h"
#include "check/check.h"
#include "cli/process/interrupt.h"
#include "device/cache.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Rows in this process ---------------------------------------------------------------------------------------- */

static const char *error_text(const struct target *target, clattn_status status)
{
    return target->sink.error[0] != '\0' ? target->sink.error : clattn_status_text(status);
}

/* One mode of a problem whose results are known. */
static void check_mode(struct target *target, struct check_tensors *tensors, const struct check_tensors *expected,
                       struct outcome *outcome)
{
    char plan[4096] = "";
    clattn_status status;

    tensors->desc.mode = outcome->mode;
    target->sink.error[0] = target->sink.warning[0] = '\0';
    if (target->reference || target->ranks != NULL)
        status = target_run(target, tensors, plan, sizeof plan);
    else
        status = check_run(tensors, &target->device, NULL, 0, sink_log, &target->sink);
    outcome->solver = target->reference ? NULL : target->device.plan.solver;
    if (target->device.plan.rejected > 0) /* a failure, though the results are right */
        outcome->message = "a solver gave wrong results and another was taken";
    if (status == CLATTN_SUCCESS) /* another rank has no outputs to compare */
        outcome->error = ranks_print(target->ranks) ? check_error(tensors, expected, &outcome->operand) : 0;
    else
        outcome->message = error_text(target, status);
}

/* Whether nobody reads what is printed, on the rank that prints. */
static int is_stopped(const struct verify *verify)
{
    return ranks_agree(verify->settings->ranks, verify->stopped ? EXIT_FAILED : EXIT_OK) != EXIT_OK;
}

/* Every mode of a problem. With a failure there is nothing to compare with, and each outcome says why. */
static void check_modes(struct verify *verify, struct verify_row *row, const struct verify_problem *problem,
                        struct check_tensors *tensors, const struct check_tensors *expected, const char *failure)
{
    for (size_t i = 0; i < row->modes.count && !is_stopped(verify); i++) {
        struct outcome outcome = {.name = problem->name,
                                  .mode = row->modes.at[i],
                                  .error = (double)INFINITY,
                                  .bound = check_bound_of(&problem->desc),
                                  .message = failure};
        if (failure == NULL)
            check_mode(&verify->target, tensors, expected, &outcome);
        verify_record(verify, row, verify_outcome(&outcome));
    }
    verify->target.sink.error[0] = '\0';
}

/* The reference computes a problem once for all modes. */
static void check_problem(struct verify *verify, struct verify_row *row, const struct verify_problem *problem)
{
    struct target *target = &verify->target;
    const struct check_case *c = problem->c;
    struct check_tensors tensors, expected;
    clattn_status status;

    status = check_make(&tensors, &problem->desc, verify->settings->seed + 1, c != NULL ? c->gates : CHECK_GATES_USUAL,
                        c != NULL ? c->cu_seqlens : NULL);
    if (ranks_agree(verify->settings->ranks, status == CLATTN_SUCCESS ? EXIT_OK : EXIT_FAILED) != EXIT_OK) {
        check_modes(verify, row, problem, NULL, NULL, error_text(target, status));
        if (status == CLATTN_SUCCESS)
            check_free(&tensors);
        return;
    }
    memset(&expected, 0, sizeof expected);
    if (ranks_print(verify->settings->ranks))
        status = check_reference(&expected, &tensors, sink_log, &target->sink);
    if (ranks_agree(verify->settings->ranks, status == CLATTN_SUCCESS ? EXIT_OK : EXIT_FAILED) == EXIT_OK)
        check_modes(verify, row, problem, &tensors, &expected, NULL);
    else
        check_modes(verify, row, problem, NULL, NULL, error_text(target, status));
    check_free(&expected);
    check_free(&tensors);
}

static void check_rows(struct verify *verify)
{
    for (size_t i = 0; i < verify->row_count && !is_stopped(verify); i++) {
        struct verify_row *row = &verify->rows[i];
        verify_row_begin(verify, row);
        for (size_t n = 0; n < row->problem_count && !is_stopped(verify); n++)
            check_problem(verify, row, &row->problems[n]);
        if (!verify->stopped)
            verify_row_end(verify, row);
    }
}

/* ---- The command ------------------------------------------------------------------------------------------------- */

/* Called at SIGINT, SIGTERM and SIGHUP, on a thread of its own. */
static void on_interrupt(void *user, int signal)
{
    struct verify *verify = user;

    lock_take(&verify->lock);
    if (verify->ended) {
        lock_give(&verify->lock);
        return;
    }
    workers_stop(&verify->workers);
    verify_print_end(verify);
    failed("interrupted, %zu of %zu rows are missing", verify_missing(verify), verify->row_count);
    cache_drop_unfinished(process_id());
    interrupt_exit(signal);
}

static int find_target(struct verify *verify)
{
    const char *spec = verify->settings->device;
    int status = target_find_of(&verify->target, verify->settings);

    if (status == EXIT_OK && spec == NULL && verify->target.reference)
        return failed("verify needs an OpenCL device, or --device reference to check the reference's own rounding");
    return status;
}

static size_t job_count(const struct verify *verify)
{
    size_t jobs = target_processes(&verify->target, verify->settings->jobs);

    if (verify->settings->ranks != NULL)
        return 1;
    jobs = jobs < verify->row_count ? jobs : verify->row_count;
    return jobs < 1 ? 1 : jobs < MAX_WORKERS ? jobs : MAX_WORKERS;
}

/* Shapes of the command line for which the device has no memory fail before any row runs. */
static int check_sizes(struct verify *verify)
{
    int status = EXIT_OK;

    for (size_t i = 0; i < verify->row_count && verify->settings->shape_count > 0; i++)
        for (size_t n = 0; n < verify->rows[i].problem_count && status == EXIT_OK; n++)
            status = target_fits(&verify->target, &verify->rows[i].problems[n].desc);
    return status;
}

static int check_all(struct verify *verify, size_t jobs)
{
    int status;

    target_note_cache(&verify->target, verify->settings);
    verify_print_begin(verify);
    if (jobs > 1)
        verify_rows_share(verify, jobs);
    else
        check_rows(verify);
    lock_take(&verify->lock);
    status = verify_print_end(verify);
    lock_give(&verify->lock);
    if (verify->stopped)
        return EXIT_FAILED; /* nobody reads what is missing */
    if (verify_missing(verify) > 0)
        return failed("%zu of %zu rows are missing", verify_missing(verify), verify->row_count);
    return status == EXIT_OK && verify->failed > 0 ? EXIT_FAILED : status;
}

/* With several jobs only the workers open the device. */
static int run(struct verify *verify)
{
    int status = find_target(verify);
    size_t jobs = 1;

    if (status == EXIT_OK)
        status = verify_rows_choose_modes(verify);
    if (status == EXIT_OK)
        jobs = job_count(verify);
    if (status == EXIT_OK && jobs == 1 && !verify->target.reference)
        status = target_open_found(&verify->target);
    if (status == EXIT_OK)
        status = check_sizes(verify);
    return status == EXIT_OK ? check_all(verify, jobs) : status;
}

int verify_main(struct settings *settings)
{
    static struct verify verify; /* the thread that waits for signals may outlive this function */
    int status;

    if (settings->quick && settings->shape_count > 0)
        return bad("--quick and --shape: expected one of them");
    verify.settings = settings;
    lock_init(&verify.lock);
    workers_init(&verify.workers);
    status = verify_rows_make(&verify);
    if (status == EXIT_OK) {
        interrupt_watch(on_interrupt, &verify);
        status = run(&verify);
    }
    lock_take(&verify.lock);
    verify.ended = 1;
    lock_give(&verify.lock);
    target_close(&verify.target);
    verify_rows_free(&verify);
    free(verify.shown.at);
    return status;
}
