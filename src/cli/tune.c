/* clattn tune: finds the fastest tile sizes on a device. */
#include "cli/tune.h"

#include "cli/process/interrupt.h"
#include "cli/io/output.h"
#include "cli/out/progress.h"
#include "cli/io/words.h"
#include "base/file.h"
#include "base/text.h"
#include "op/problem.h"
#include "op/rule.h"
#include "base/system.h"
#include "tune/tuning_layers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double default_budget = 60;
static const struct shape cpu_shape = {1, 0, 16, 0, 128, 128, 0, 0}, gpu_shape = {1, 0, 32, 0, 128, 128, 0, 0};

struct tuning {
    const struct settings *settings;
    struct target target;
    struct peak peak;
    struct journal journal;
    struct tune tune;
    char *path, *report;
    cJSON *rows;
    size_t done, total; /* problems */
    char name[160];     /* of the current problem */
    double budget;
    int stopped;
};

/* ---- While it runs ----------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static int stop(void *user)
{
    (void)user;
    return interrupted;
}

/* seconds are those of one solver's search; the bar covers all problems. */
static void progress(void *user, double seconds)
{
    const struct tuning *tuning = user;
    double whole = tuning->budget * (double)tuning->total, before = tuning->budget * (double)tuning->done;

    progress_show((size_t)(before + seconds), (size_t)whole, tuning->name);
}

static void ahead(void *user, const struct search_point *points, size_t count, int *sound)
{
    const struct tuning *tuning = user;

    tune_build_ahead(tuning->settings, &tuning->tune.events, points, count, sound);
}

static void improved(void *user, const struct search_result *result, const struct candidate *best)
{
    const struct tuning *tuning = user;
    double default_time = result->all[0].time;
    char text[256];

    progress_clear();
    text_print(stderr, "%s %s, T=%lld: %.3f ms", tuning->name, best->tuned.space->name, (long long)result->tokens,
               1e3 * best->time);
    if (best != result->all)
        text_print(stderr, " (%.0f %% of the default), %s", 100 * best->time / default_time,
                   tuned_name(&best->tuned, text, sizeof text));
    fputc('\n', stderr);
}

/* ---- Problems ---------------------------------------------------------------------------------------------------- */

/* The smallest problem of the rule with the settings' flags. It tells the rule's group. */
static clattn_status smallest(struct problem *problem, const struct settings *settings, clattn_rule rule)
{
    clattn_plan_desc desc = {.rule = rule,
                             .seq_len = 1,
                             .heads = 1,
                             .key_dim = 1,
                             .value_dim = 2, /* complex numbers need two columns */
                             .pass = settings->desc.pass,
                             .flags = settings->desc.flags & CLATTN_UNGATED};

    return problem_init(problem, &desc, NULL);
}

/* The rule that represents the group of a rule. NONE if the settings exclude it. */
static clattn_rule group_of(const struct settings *settings, clattn_rule rule)
{
    struct problem problem;

    return smallest(&problem, settings, rule) == CLATTN_SUCCESS ? tuning_representative(&problem) : CLATTN_RULE_NONE;
}

/* The next rule that represents a group which the settings ask for. NONE past the last. */
static clattn_rule next_group(const struct settings *settings, clattn_rule after)
{
    size_t count = settings->rule_count > 0 ? settings->rule_count : RULE_COUNT - 1;

    for (int r = (int)after + 1; r < RULE_COUNT; r++)
        for (size_t i = 0; i < count; i++)
            if (group_of(settings, settings->rule_count > 0 ? settings->rules[i] : (clattn_rule)(i + 1)) ==
                (clattn_rule)r)
                return (clattn_rule)r;
    return CLATTN_RULE_NONE;
}

/* Prints which rules use what is found: "scalar+key: gated_delta_rule, gated_delta_product". */
static void name_group(const struct settings *settings, clattn_rule group)
{
    struct problem problem;
    const char *before = ": ";
    char name[32];

    if (smallest(&problem, settings, group) != CLATTN_SUCCESS)
        return;
    progress_clear();
    fprintf(stderr, "%s", tuning_group(&problem, name));
    for (int r = CLATTN_RULE_NONE + 1; r < RULE_COUNT; r++)
        if (group_of(settings, (clattn_rule)r) == group) {
            fprintf(stderr, "%s%s", before, rule_get((clattn_rule)r)->name);
            before = ", ";
        }
    fputc('\n', stderr);
}

/* The tuner chooses the lengths: each solver is timed where it is used. */
static void warn_of_lengths(const struct settings *settings)
{
    for (size_t i = 0; i < settings->shape_count; i++)
        if (settings->shapes[i].seq_len > 0) {
            warn("T of --shape is not used: tune times each solver at lengths of its own");
            return;
        }
}

/* Completes desc and sets tuning->name. */
static int make_desc(struct tuning *tuning, clattn_rule rule, const struct shape *shape, clattn_dtype dtype,
                     clattn_plan_desc *desc)
{
    struct shape sizes = *shape;
    struct problem problem;
    struct sink sink = {.error = ""};
    const struct log log = {sink_log, &sink};
    clattn_status status;
    char group[32];

    sizes.seq_len = 1;
    *desc = (clattn_plan_desc){.rule = rule, .dtype = dtype, .pass = tuning->settings->desc.pass};
    shape_apply(desc, &sizes, tuning->target.info.gpu ? &gpu_shape : &cpu_shape);
    status = problem_init(&problem, desc, &log);
    if (status != CLATTN_SUCCESS)
        return library_error(&sink, "", status);
    *desc = problem.desc;
    snprintf(tuning->name, sizeof tuning->name, "%s%s %s B=%lld H=%lld K=%lld V=%lld",
             desc->pass == CLATTN_PASS_BACKWARD ? "backward " : "", tuning_group(&problem, group), dtype_name(dtype),
             (long long)desc->batch, (long long)desc->heads, (long long)desc->key_dim, (long long)desc->value_dim);
    return EXIT_OK;
}

/* A solver whose search failed has no row. One with few points has a row that says little. */
static void warn_of_failure(const struct tuning *tuning, const struct tune_outcome *outcome)
{
    const char *message =
        outcome->status == CLATTN_OUT_OF_MEMORY ? tuning->target.sink.error : ""; /* of the first failure */

    if (outcome->space == NULL)
        return;
    if (outcome->status != CLATTN_SUCCESS)
        warn("%s %s: not tuned: %s", tuning->name, outcome->space->name,
             *message != '\0' ? message : clattn_status_text(outcome->status));
    else if (outcome->times_slower > 0)
        warn("%s %s: takes %.1f times as long as another solver: its tiles are not searched", tuning->name,
             outcome->space->name, outcome->times_slower);
    else if (outcome->result.budget_too_small)
        warn("%s %s: budget too small: %zu of up to %.0f points were tried; --budget is %g s", tuning->name,
             outcome->space->name, outcome->result.count, space_points(outcome->space), tuning->budget);
}

static void warn_of_outcome(const struct tuning *tuning, const struct tune_outcome *outcome)
{
    if (interrupted && outcome->space != NULL && outcome->status != CLATTN_SUCCESS) {
        warn("%s %s: not tuned: interrupted", tuning->name, outcome->space->name);
        return;
    }
    warn_of_failure(tuning, outcome);
}

static int tune_one(struct tuning *tuning, clattn_rule rule, const struct shape *shape, clattn_dtype dtype)
{
    struct tune_result result;
    clattn_plan_desc desc;
    clattn_status status;
    int code = make_desc(tuning, rule, shape, dtype, &desc);

    if (code != EXIT_OK)
        return code;
    progress(tuning, 0);
    status = tune_problem(&tuning->tune, &desc, &result);
    if (status != CLATTN_SUCCESS)
        code = library_error(&tuning->target.sink, tuning->name, status);
    progress_clear();
    for (int s = 0; s < result.count; s++)
        warn_of_outcome(tuning, &result.outcomes[s]);
    tuning->target.sink.error[0] = '\0';
    tune_rows(tuning->rows, &result, &tuning->peak);
    tuning->stopped = result.stopped || interrupted;
    tuning->done++;
    tune_free(&result);
    return code;
}

/* The types to tune: those that were asked for, otherwise f32, and on a GPU also bf16. */
static size_t choose_dtypes(const struct tuning *tuning, clattn_dtype dtypes[DTYPE_COUNT])
{
    memcpy(dtypes, tuning->settings->dtypes, sizeof tuning->settings->dtypes);
    if (tuning->settings->dtype_count > 0)
        return tuning->settings->dtype_count;
    dtypes[0] = CLATTN_F32;
    dtypes[1] = CLATTN_BF16;
    return tuning->target.info.gpu ? 2 : 1;
}

/* This time counts towards the budget. */
static void measure_peaks(struct tuning *tuning)
{
    double start = now_seconds();

    progress_show(0, tuning->total, "peaks of the device");
    peak_measure(&tuning->target, &tuning->peak);
    tuning->tune.budget = tuning->budget - (now_seconds() - start) / (double)(tuning->total > 0 ? tuning->total : 1);
}

static int tune_all(struct tuning *tuning)
{
    const struct settings *settings = tuning->settings;
    size_t shapes = settings->shape_count > 0 ? settings->shape_count : 1, dtypes, groups = 0;
    clattn_dtype dtype[DTYPE_COUNT];
    int status = EXIT_OK;

    warn_of_lengths(settings);
    dtypes = choose_dtypes(tuning, dtype);
    for (clattn_rule r = next_group(settings, CLATTN_RULE_NONE); r != CLATTN_RULE_NONE; r = next_group(settings, r))
        groups++;
    tuning->total = groups * shapes * dtypes;
    measure_peaks(tuning);
    for (clattn_rule r = next_group(settings, CLATTN_RULE_NONE); r != CLATTN_RULE_NONE && !tuning->stopped;
         r = next_group(settings, r)) {
        name_group(settings, r);
        for (size_t i = 0; i < shapes * dtypes && !tuning->stopped && status == EXIT_OK; i++)
            status = tune_one(tuning, r, &settings->shapes[i / dtypes], dtype[i % dtypes]);
    }
    progress_clear();
    return status;
}

/* ---- The command ------------------------------------------------------------------------------------------------- */

static int open_journal(struct tuning *tuning)
{
    struct text name = {0};
    char *path;
    clattn_status status;

    if (tuning->settings->dry_run)
        return EXIT_OK;
    text_format(&name, "%s.journal", tuning->path);
    path = text_take(&name);
    if (path == NULL)
        return failed("no memory");
    status = journal_open(&tuning->journal, path, &tuning->tune.log);
    free(path);
    if (status != CLATTN_SUCCESS)
        return library_error(&tuning->target.sink, "", status);
    if (tuning->journal.count > 0)
        warn("resuming: %zu points are known from a run that was stopped", tuning->journal.count);
    tuning->tune.journal = &tuning->journal;
    tuning->tune.path = tuning->path;
    return EXIT_OK;
}

/* What --report says, else a file beside the user's parameters; NULL: a dry run has no report. */
static char *report_path(const struct tuning *tuning)
{
    static const char name[] = "tuning-report.json";
    struct text path = {0};
    size_t folder;

    if (tuning->settings->report != NULL)
        return text_copy(tuning->settings->report);
    if (tuning->settings->dry_run)
        return NULL;
    for (folder = strlen(tuning->path); folder > 0 && strchr("/\\", tuning->path[folder - 1]) == NULL; folder--)
        ;
    text_add(&path, tuning->path, folder);
    text_add(&path, name, sizeof name - 1);
    return text_take(&path);
}

/* Before the search, which takes minutes. */
static int check_report(const char *path)
{
    if (path == NULL)
        return EXIT_OK;
    if (strcmp(path, "-") == 0)
        return bad("--report is '-', expected a file: the table is on standard output");
    if (file_make_folders(path) != 0)
        return failed("%s: its folder cannot be made: %s", path, strerror(errno));
    return output_check(&(struct output){.path = path});
}

static int write_report(const struct tuning *tuning)
{
    int status = tune_report(tuning->report, tuning->rows, &tuning->target, &tuning->peak);

    if (status == EXIT_OK)
        fprintf(stderr, "report: %s\n", tuning->report);
    return status;
}

/* Prints the table even if the search or the report failed. */
static int show_rows(struct tuning *tuning, int status)
{
    int is_empty = cJSON_GetArraySize(tuning->rows) == 0, printed;

    if (is_empty && !tuning->stopped && status == EXIT_OK)
        status = failed("nothing was tuned");
    if (!is_empty && status == EXIT_OK && tuning->report != NULL)
        status = write_report(tuning);
    printed = tune_print(tuning->rows, tuning->settings->format);
    if (interrupted)
        return 128 + SIGINT;
    return status != EXIT_OK ? status : printed;
}

/* How many points are built at the same time. 1 if a worker could not leave programs for the search. */
static size_t points_at_once(const struct tuning *tuning)
{
    size_t jobs = target_jobs(&tuning->target, tuning->settings->jobs);

    if (jobs <= 1 || !target_keeps_programs())
        return 1;
    return jobs < MAX_AHEAD ? jobs : MAX_AHEAD;
}

static int run(struct tuning *tuning)
{
    const struct settings *settings = tuning->settings;
    int status;

    tuning->report = report_path(tuning);
    status = check_report(tuning->report);
    if (status == EXIT_OK)
        status = open_journal(tuning);
    if (status != EXIT_OK)
        return status;
    tuning->budget = settings->budget > 0 ? settings->budget : default_budget;
    tuning->tune.device = tuning->target.info.device;
    tuning->tune.seed = settings->seed + 1;
    tuning->tune.events = (struct search_events){improved, progress, stop, ahead, points_at_once(tuning), tuning};
    tuning->rows = cJSON_CreateArray();
    interrupt_flag(&interrupted,
                   settings->quiet ? "" : "\nclattn: stopping: results are kept; press again to end at once\n");
    return show_rows(tuning, tune_all(tuning));
}

static int compare(struct tuning *tuning)
{
    const struct settings *settings = tuning->settings;
    clattn_plan_desc desc;
    clattn_dtype dtype[DTYPE_COUNT];

    choose_dtypes(tuning, dtype);
    if (make_desc(tuning, CLATTN_LINEAR_ATTN, &settings->shapes[0], dtype[0], &desc) != EXIT_OK)
        return EXIT_BAD;
    return tune_compare(settings, &tuning->target, &desc);
}

static int run_mode(struct tuning *tuning)
{
    const struct settings *settings = tuning->settings;

    if (settings->export_to != NULL)
        return tune_export(settings, tuning->path);
    if (settings->import_from != NULL)
        return tune_import(settings, tuning->path);
    if (tuning->target.reference)
        return bad("the reference has nothing to tune");
    if (settings->point != NULL)
        return tune_build(settings, &tuning->target);
    if (settings->show)
        return tune_show(settings, &tuning->target);
    if (settings->submit_to != NULL)
        return tune_submit(settings, &tuning->target, tuning->path);
    if (settings->compare)
        return compare(tuning);
    if (settings->reset)
        return tune_reset(&tuning->target, tuning->path);
    return run(tuning);
}

/* A point that does not build or run is not an error of the command. It is counted. */
static void quiet_log(void *user, clattn_log_level level, const char *message)
{
    if (level == CLATTN_LOG_ERROR)
        sink_log(user, level, message);
}

int tune_main(struct settings *settings)
{
    struct tuning tuning = {.settings = settings, .journal = {.lock = -1}};
    int needs_device = settings->export_to == NULL && settings->import_from == NULL, status = EXIT_OK;

    if (settings->gemm)
        return tune_gemm(settings);

    if ((settings->export_to != NULL) + (settings->import_from != NULL) + settings->show + settings->reset +
            settings->compare + (settings->submit_to != NULL) >
        1)
        return bad("expected one of --show, --export, --import, --submit, --reset and --compare");
    tuning.path = tuning_user_path();
    if (tuning.path == NULL && !settings->show && !settings->compare && !settings->dry_run && settings->point == NULL)
        return bad("there is no tuning file: CLATTN_TUNING is empty, or the user has no home");
    tuning.tune.log = (struct log){quiet_log, &tuning.target.sink};
    if (needs_device)
        status = target_open(&tuning.target, settings->device);
    if (status == EXIT_OK)
        status = run_mode(&tuning);
    journal_close(&tuning.journal, status == EXIT_OK && !tuning.stopped);
    target_close(&tuning.target);
    free(tuning.report);
    free(tuning.path);
    return status;
}
