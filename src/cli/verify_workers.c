/* Rows of `clattn verify` in worker processes, one process a row: a driver's lock, its compiler and its crashes stay
 * within a process. A worker is `clattn verify RULE --dtype TYPE --mode MODES --jsonl` with the other options as the
 * user typed them. It prints its outcomes as lines of JSON; everything else that it prints is a message. */
#include "base/json.h"
#include "check/check.h"
#include "cli/out/progress.h"
#include "cli/verify.h"
#include "op/rule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct job {
    struct verify *verify;
    struct verify_row *row;
};

enum { MODES_TEXT = 32 };

/* ---- What a worker prints ---------------------------------------------------------------------------------------- */

/* JSON has no infinity: there such an error is null. */
static void restore_error(cJSON *outcome)
{
    if (!cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(outcome, "error")))
        cJSON_ReplaceItemInObjectCaseSensitive(outcome, "error", cJSON_CreateNumber((double)INFINITY));
}

static int has_line(const char *lines, const char *line)
{
    size_t length = strlen(line);

    for (; lines != NULL && *lines != '\0'; lines = strchr(lines, '\n') + 1)
        if (strncmp(lines, line, length) == 0 && lines[length] == '\n')
            return 1;
    return 0;
}

/* Every worker prints the same about the device. */
static void show_once(struct verify *verify, const char *line)
{
    lock_take(&verify->lock);
    if (!has_line(verify->shown.at, line)) {
        text_format(&verify->shown, "%s\n", line);
        progress_clear();
        fprintf(stderr, "%s\n", line);
    }
    lock_give(&verify->lock);
}

/* A driver may have printed something in front of an outcome in the same line. */
static void on_line(void *user, char *line)
{
    const struct job *job = user;
    char *at = strstr(line, "{\"rule\":");
    cJSON *outcome = at != NULL ? json_parse(at) : NULL;

    if (outcome != NULL)
        *at = '\0';
    if (*line != '\0')
        show_once(job->verify, line);
    if (outcome == NULL || job->row->cases == verify_row_size(job->row)) {
        cJSON_Delete(outcome);
        return;
    }
    cJSON_DeleteItemFromObjectCaseSensitive(outcome, "rule");
    cJSON_DeleteItemFromObjectCaseSensitive(outcome, "dtype");
    restore_error(outcome);
    verify_record(job->verify, job->row, outcome);
}

/* ---- A worker ---------------------------------------------------------------------------------------------------- */

/* A word as a shell reads it back. */
static void add_shell_word(struct text *text, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=.,:/+@%";

    if (*word != '\0' && word[strspn(word, plain)] == '\0') {
        text_format(text, " %s", word);
        return;
    }
    text_add(text, " '", 2);
    for (; *word != '\0'; word++)
        text_add(text, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
    text_add(text, "'", 1);
}

/* The worker ended before its row: the outcome that it was at has failed. The message has the command that does the
 * row again in one process. */
static void record_death(const struct job *job, const char *how)
{
    const struct settings *settings = job->verify->settings;
    struct verify_row *row = job->row;
    struct outcome outcome = {.error = (double)INFINITY};
    const struct verify_problem *problem = verify_row_problem(row, row->cases, &outcome.mode);
    struct text text = {0};
    char modes[MODES_TEXT], *message;

    text_format(&text, "its process ended with %s; again with: clattn verify %s --dtype %s --mode %s --jobs 1", how,
                rule_get(row->rule)->name, dtype_name(row->dtype), modes_name(&row->modes, modes, sizeof modes));
    for (size_t i = 0; i < settings->passed_on_count; i++)
        add_shell_word(&text, settings->passed_on[i]);
    message = text_take(&text);
    outcome.name = problem->name;
    outcome.bound = check_bound_of(&problem->desc);
    outcome.message = message != NULL ? message : how;
    verify_record(job->verify, row, verify_outcome(&outcome));
    free(message);
}

static void run_row(const struct job *job)
{
    const struct settings *settings = job->verify->settings;
    char modes[MODES_TEXT], how[96] = "no memory";
    const char *const own[] = {settings->program,
                               "verify",
                               rule_get(job->row->rule)->name,
                               "--dtype",
                               dtype_name(job->row->dtype),
                               "--mode",
                               modes_name(&job->row->modes, modes, sizeof modes),
                               "--jobs",
                               "1",
                               "--jsonl"};
    const char **words = calloc(sizeof own / sizeof *own + settings->passed_on_count + 1, sizeof *words);

    if (words != NULL) {
        memcpy(words, own, sizeof own);
        memcpy(words + sizeof own / sizeof *own, settings->passed_on, settings->passed_on_count * sizeof *words);
        workers_run(&job->verify->workers, words, on_line, (void *)(uintptr_t)job, how, sizeof how);
    }
    free(words);
    if (job->row->cases < verify_row_size(job->row) && !job->verify->stopped)
        record_death(job, how);
}

/* ---- All rows ---------------------------------------------------------------------------------------------------- */

/* The waiting row with the most problems, so that no long row runs alone at the end; NULL if none waits. */
static struct verify_row *next_row(struct verify *verify)
{
    struct verify_row *next = NULL;

    lock_take(&verify->lock);
    for (size_t i = 0; i < verify->row_count && !verify->stopped; i++) {
        struct verify_row *row = &verify->rows[i];
        if (row->state == ROW_WAITS && (next == NULL || row->problem_count > next->problem_count))
            next = row;
    }
    if (next != NULL)
        next->state = ROW_RUNS;
    lock_give(&verify->lock);
    return next;
}

static void run_next_row(void *user, int64_t i)
{
    const struct job job = {user, next_row(user)};

    (void)i;
    if (job.row == NULL)
        return;
    verify_row_begin(job.verify, job.row);
    run_row(&job);
    if (!job.verify->stopped)
        verify_row_end(job.verify, job.row);
}

void verify_rows_share(struct verify *verify, size_t jobs)
{
    parallel_on((int)jobs, (int64_t)verify->row_count, run_next_row, verify);
}
