/* clattn verify: a device held to the double-precision reference over the awkward shapes. */
#include "cli/verify.h"

#include "base/system.h"
#include "check/check.h"
#include "cli/cli.h"
#include "cli/process/interrupt.h"
#include "device/cache.h"

#include <stdlib.h>

/* SIGINT and its like, on a thread of its own. */
static void interrupted(void *user, int signal)
{
    struct verify *verify = user;

    lock_take(&verify->lock);
    if (verify->ended) {
        lock_give(&verify->lock);
        return;
    }
    verify_workers_stop(verify);
    verify_print_end(verify);
    failed("interrupted, %zu of %zu rows are missing", verify_missing(verify), verify->row_count);
    cache_drop_unfinished(process_id());
    interrupt_exit(signal);
}

/* ---- The command ------------------------------------------------------------------------------------------------- */

static size_t job_count(const struct verify *verify)
{
    size_t jobs = target_jobs(&verify->target, verify->settings->jobs);

    return jobs < verify->row_count ? jobs : verify->row_count > 0 ? verify->row_count : 1;
}

static void check_rows(struct verify *verify)
{
    for (size_t i = 0; i < verify->row_count && !verify->stopped; i++) {
        verify_row_begin(verify, &verify->rows[i]);
        verify_row_run(verify, &verify->rows[i]);
        if (!verify->stopped)
            verify_row_done(verify, &verify->rows[i]);
    }
}

/* Before the first row is run: what the device has no memory for costs no time. */
static int check_fits(struct verify *verify)
{
    int status = EXIT_OK;

    for (size_t i = 0; i < verify->row_count; i++)
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
    if (verify_missing(verify) > 0 && !verify->stopped)
        return failed("%zu of %zu rows are missing", verify_missing(verify), verify->row_count);
    return status == EXIT_OK && verify->failed > 0 ? EXIT_FAILED : status;
}

static int find_target(struct verify *verify)
{
    const char *spec = verify->settings->device;
    int status = target_find(&verify->target, spec);

    if (status == EXIT_OK && spec == NULL && verify->target.reference)
        return failed("verify needs an OpenCL device, or --device reference to check the reference's own rounding");
    return status;
}

/* Workers have the device, where there are any. */
static int open_target(struct verify *verify, size_t *jobs)
{
    *jobs = job_count(verify);
    return *jobs > 1 || verify->target.reference ? EXIT_OK : target_use(&verify->target);
}

int verify_main(struct settings *settings)
{
    static struct verify verify; /* outlived by who waits for signals */
    size_t jobs = 1;
    int status;

    verify.settings = settings;
    lock_init(&verify.lock);
    verify_table_begin(&verify);
    if (settings->quick && settings->shape_count > 0)
        return bad("--quick and --shape: expected one of them");
    status = verify_rows_make(&verify);
    if (status == EXIT_OK) {
        interrupt_watch(interrupted, &verify);
        status = find_target(&verify);
    }
    if (status == EXIT_OK)
        status = verify_modes_choose(&verify);
    if (status == EXIT_OK)
        status = open_target(&verify, &jobs);
    if (status == EXIT_OK && settings->shape_count > 0)
        status = check_fits(&verify);
    if (status == EXIT_OK)
        status = check_all(&verify, jobs);
    lock_take(&verify.lock);
    verify.ended = 1;
    lock_give(&verify.lock);
    target_close(&verify.target);
    verify_rows_free(&verify);
    free(verify.said.at);
    return status;
}
