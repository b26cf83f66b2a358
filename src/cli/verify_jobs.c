/* Rows of `clattn verify` in worker processes, a process a row: a driver's lock, its compiler and its crashes are a
 * process's own. A worker is `clattn verify RULE --dtype TYPE --mode MODES --jsonl` with the other options as they were
 * typed; the lines that it prints are its outcomes, and what else it prints is shown once. */
#include "base/json.h"
#include "check/check.h"
#include "cli/out/progress.h"
#include "cli/verify.h"
#include "device/cache.h"
#include "op/rule.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct share {
    struct verify *verify;
    const char **words; /* "clattn", "verify", then the options, with room behind them */
    size_t word_count;
};

enum { WORKER_WORDS = 10, MODES = 32 };

/* ---- What a worker says ------------------------------------------------------------------------------------------ */

/* A line without its end, to be freed; NULL at the end. */
static char *read_line(FILE *file)
{
    struct text line = {0};
    int byte = getc(file);

    if (byte == EOF)
        return NULL;
    for (; byte != EOF && byte != '\n'; byte = getc(file)) {
        char c = (char)byte;
        text_add(&line, &c, 1);
    }
    text_add(&line, "", 0);
    return text_take(&line);
}

/* Numbers that JSON does not have are null there. */
static void restore_error(cJSON *outcome)
{
    if (!cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(outcome, "error")))
        cJSON_ReplaceItemInObjectCaseSensitive(outcome, "error", cJSON_CreateNumber((double)INFINITY));
}

static void take_outcome(struct verify *verify, struct verify_row *row, cJSON *outcome)
{
    cJSON_DeleteItemFromObjectCaseSensitive(outcome, "rule");
    cJSON_DeleteItemFromObjectCaseSensitive(outcome, "dtype");
    restore_error(outcome);
    verify_record(verify, row, outcome);
}

static int said_before(const char *said, const char *line)
{
    size_t length = strlen(line);

    for (; said != NULL && *said != '\0'; said = strchr(said, '\n') + 1)
        if (strncmp(said, line, length) == 0 && said[length] == '\n')
            return 1;
    return 0;
}

/* Every worker has the same to say of the device. */
static void repeat_once(struct verify *verify, const char *line)
{
    lock_take(&verify->lock);
    if (!said_before(verify->said.at, line)) {
        text_add(&verify->said, line, strlen(line));
        text_add(&verify->said, "\n", 1);
        progress_clear();
        fprintf(stderr, "%s\n", line);
    }
    lock_give(&verify->lock);
}

/* What a driver prints may stand before an outcome in its line. */
static void take_line(struct verify *verify, struct verify_row *row, char *line)
{
    char *at = strstr(line, "{\"rule\":");
    cJSON *outcome = at != NULL ? json_parse(at) : NULL;

    if (outcome != NULL)
        *at = '\0';
    if (*line != '\0')
        repeat_once(verify, line);
    if (outcome != NULL && row->cases < verify_row_size(row))
        take_outcome(verify, row, outcome);
    else
        cJSON_Delete(outcome);
}

/* ---- A worker's life --------------------------------------------------------------------------------------------- */

/* A place for a worker. */
static struct process *free_place(struct verify *verify)
{
    struct process *worker = verify->workers;

    while (worker->id != 0)
        worker++;
    return worker;
}

static void add_words(const struct share *share, const struct verify_row *row, const char *modes, const char **words)
{
    const char *const own[WORKER_WORDS] = {
        rule_get(row->rule)->name, "--dtype", dtype_name(row->dtype), "--mode", modes, "--jobs", "1", "--jsonl", NULL};

    memcpy(words, share->words, share->word_count * sizeof *words);
    memcpy(words + share->word_count, own, sizeof own);
}

/* NULL with errno: none could be started. */
static struct process *start_worker(const struct share *share, const struct verify_row *row)
{
    struct verify *verify = share->verify;
    const char **words = calloc(share->word_count + WORKER_WORDS, sizeof *words);
    struct process *worker = NULL;
    char modes[MODES];

    if (words == NULL)
        return NULL;
    add_words(share, row, modes_name(&row->modes, modes, sizeof modes), words);
    lock_take(&verify->lock);
    worker = free_place(verify);
    if (process_start(worker, words) != 0)
        worker = NULL;
    lock_give(&verify->lock);
    free(words);
    return worker;
}

/* A word as a shell takes it. */
static void add_word(struct text *text, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=.,:/+@%";

    if (*word != '\0' && word[strspn(word, plain)] == '\0') {
        text_add(text, " ", 1);
        text_add(text, word, strlen(word));
        return;
    }
    text_add(text, " '", 2);
    for (; *word != '\0'; word++)
        text_add(text, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
    text_add(text, "'", 1);
}

/* The line that does in one process what the worker did. */
static char *line_again(const struct share *share, const struct verify_row *row)
{
    struct text text = {0};
    char modes[MODES];

    text_format(&text, "clattn verify %s --dtype %s --mode %s --jobs 1", rule_get(row->rule)->name,
                dtype_name(row->dtype), modes_name(&row->modes, modes, sizeof modes));
    for (size_t i = 2; i < share->word_count; i++)
        add_word(&text, share->words[i]);
    return text_take(&text);
}

/* A worker that ended before its row: the outcome that it was at failed. */
static void record_death(const struct share *share, struct verify_row *row, const char *how)
{
    struct verify *verify = share->verify;
    struct outcome outcome = {.error = (double)INFINITY};
    const struct verify_problem *problem;
    char *again = line_again(share, row), *text;
    struct text message = {0};

    text_format(&message, "its process ended with %s; again with: ", how);
    if (again != NULL)
        text_add(&message, again, strlen(again));
    text = text_take(&message);
    problem = verify_problem_of(row, row->cases, &outcome.mode);
    outcome.name = problem->name;
    outcome.bound = check_bound_of(&problem->desc);
    outcome.message = text != NULL ? text : how;
    verify_record(verify, row, verify_outcome(&outcome));
    free(text);
    free(again);
}

static void end_worker(const struct share *share, struct verify_row *row, struct process *worker)
{
    struct verify *verify = share->verify;
    char how[96];

    process_await(worker);
    lock_take(&verify->lock);
    process_end(worker, how, sizeof how);
    lock_give(&verify->lock);
    if (row->cases < verify_row_size(row))
        record_death(share, row, how);
}

static void run_worker(const struct share *share, struct verify_row *row)
{
    struct process *worker = start_worker(share, row);
    char reason[96], *line;

    if (worker == NULL) {
        snprintf(reason, sizeof reason, "none started: %s", strerror(errno));
        record_death(share, row, reason);
        return;
    }
    while (worker->output != NULL && !share->verify->stopped && (line = read_line(worker->output)) != NULL) {
        take_line(share->verify, row, line);
        free(line);
    }
    if (!share->verify->stopped)
        end_worker(share, row, worker);
}

/* ---- All workers ------------------------------------------------------------------------------------------------- */

/* The row with the most to do, so that none is left alone at the end; NULL when there is none. */
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

static void run_next(void *user, int64_t i)
{
    const struct share *share = user;
    struct verify_row *row = next_row(share->verify);

    (void)i;
    if (row == NULL)
        return;
    verify_row_begin(share->verify, row);
    run_worker(share, row);
    verify_row_done(share->verify, row);
}

void verify_rows_share(struct verify *verify, size_t jobs)
{
    const struct settings *settings = verify->settings;
    struct share share = {.verify = verify, .word_count = settings->passed_on_count + 2};

    share.words = calloc(share.word_count, sizeof *share.words);
    verify->workers = calloc(jobs, sizeof *verify->workers);
    if (share.words != NULL && verify->workers != NULL) {
        share.words[0] = settings->program;
        share.words[1] = "verify";
        memcpy(share.words + 2, settings->passed_on, settings->passed_on_count * sizeof *share.words);
        verify->worker_count = jobs;
        parallel_on((int)jobs, (int64_t)verify->row_count, run_next, &share);
    }
    verify_workers_stop(verify);
    free(share.words);
    free(verify->workers);
    verify->worker_count = 0;
}

void verify_workers_stop(struct verify *verify)
{
    for (size_t i = 0; i < verify->worker_count; i++)
        if (verify->workers[i].id != 0) {
            process_kill(&verify->workers[i]);
            cache_drop_unfinished((unsigned long)verify->workers[i].id);
        }
}
