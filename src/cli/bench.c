/* clattn bench: times rules on a device and compares them with the device's peaks. */
#include "check/check.h"
#include "cli/cli.h"
#include "cli/device/measure.h"
#include "cli/io/modes.h"
#include "cli/io/operands.h"
#include "cli/out/origin.h"
#include "cli/device/peak.h"
#include "cli/out/progress.h"
#include "cli/out/stream.h"
#include "cli/io/words.h"
#include "op/rule.h"

#include <stdio.h>
#include <stdlib.h>

static const struct shape default_shape = {1, 1024, 16, 0, 128, 128, 0, 0};

static const struct column columns[] = {
    {"rule", "rule", COLUMN_WORD, 0, 0},
    {"pass", "pass", COLUMN_WORD, 0, 10},
    {"mode", "mode", COLUMN_WORD, 0, 1},
    {"dtype", "dtype", COLUMN_WORD, 0, 0},
    {"shape", "shape", COLUMN_WORD, 0, 0},
    {"time_ms", "ms", COLUMN_FIXED, 3, 0},
    {"min_ms", "min", COLUMN_FIXED, 3, 9},
    {"spread_percent", "spread %", COLUMN_FIXED, 1, 4},
    {"runs", "runs", COLUMN_FIXED, 0, 8},
    {"gb_per_s", "GB/s", COLUMN_FIXED, 1, 5},
    {"memory_percent", "% copy", COLUMN_FIXED, 1, 7},
    {"gflop_per_s", "GFLOP/s", COLUMN_FIXED, 1, 3},
    {"compute_percent", "% mad", COLUMN_FIXED, 1, 6},
    {"workspace_bytes", "workspace", COLUMN_BYTES, 0, 11},
    {"error", "error", COLUMN_SCIENTIFIC, 1, 2},
    {"ok", "result", COLUMN_WORD, 0, 0},
    DEVICE_COLUMNS,
};

struct bench_row {
    clattn_plan_desc desc; /* completed */
    enum bench_pass pass;
};

struct bench_run {
    const struct settings *settings;
    struct target target;
    struct peak peak;
    struct bench_row *rows;
    size_t count;
    struct stream stream;
};

static void add_problem(cJSON *row, const struct bench_run *bench, const struct bench_row *problem)
{
    const clattn_plan_desc *desc = &problem->desc;
    char shape[128];

    cJSON_AddStringToObject(row, "rule", rule_get(desc->rule)->name);
    cJSON_AddStringToObject(row, "pass", word_name(pass_words, (int)problem->pass));
    if (bench->target.reference)
        cJSON_AddNullToObject(row, "mode");
    else
        cJSON_AddStringToObject(row, "mode", word_name(mode_words, (int)desc->mode));
    cJSON_AddStringToObject(row, "dtype", word_name(dtype_words, (int)desc->dtype));
    cJSON_AddStringToObject(row, "shape", shape_name(desc, shape, sizeof shape));
    cJSON_AddNumberToObject(row, "batch", (double)desc->batch);
    cJSON_AddNumberToObject(row, "seq_len", (double)desc->seq_len);
    cJSON_AddNumberToObject(row, "heads", (double)desc->heads);
    cJSON_AddNumberToObject(row, "qk_heads", (double)desc->qk_heads);
    cJSON_AddNumberToObject(row, "kv_heads", (double)desc->kv_heads);
    cJSON_AddNumberToObject(row, "kv_len", (double)desc->kv_len);
    cJSON_AddNumberToObject(row, "key_dim", (double)desc->key_dim);
    cJSON_AddNumberToObject(row, "value_dim", (double)desc->value_dim);
    origin_add(row, &bench->target);
}

/* Adds a peak and the share of it that was reached; null if the peak is unknown. */
static void add_share(cJSON *row, const char *share_key, const char *peak_key, double rate, double peak)
{
    if (peak > 0) {
        cJSON_AddNumberToObject(row, share_key, 100 * rate / peak);
        cJSON_AddNumberToObject(row, peak_key, 1e-9 * peak);
    } else {
        cJSON_AddNullToObject(row, share_key);
        cJSON_AddNullToObject(row, peak_key);
    }
}

static void add_times(cJSON *row, const struct bench_run *bench, const clattn_plan_desc *desc,
                      const struct measurement *result)
{
    const struct timing *timing = &result->timing;
    double bytes = result->bytes / timing->median, flops = flops_of(desc) / timing->median;

    cJSON_AddNumberToObject(row, "time_ms", 1e3 * timing->median);
    cJSON_AddNumberToObject(row, "min_ms", 1e3 * timing->min);
    cJSON_AddNumberToObject(row, "max_ms", 1e3 * timing->max);
    cJSON_AddNumberToObject(row, "spread_percent", 100 * timing->spread);
    cJSON_AddNumberToObject(row, "wall_ms", 1e3 * timing->wall);
    cJSON_AddNumberToObject(row, "runs", (double)timing->runs);
    cJSON_AddStringToObject(row, "clock", timing->events ? "device" : "host");
    cJSON_AddNumberToObject(row, "operand_sets", (double)result->sets);
    cJSON_AddNumberToObject(row, "bytes", result->bytes);
    cJSON_AddNumberToObject(row, "workspace_bytes", (double)result->workspace);
    cJSON_AddNumberToObject(row, "flops", flops_of(desc));
    cJSON_AddNumberToObject(row, "gb_per_s", 1e-9 * bytes);
    cJSON_AddNumberToObject(row, "gflop_per_s", 1e-9 * flops);
    add_share(row, "memory_percent", "peak_gb_per_s", bytes, bench->peak.bytes);
    add_share(row, "compute_percent", "peak_gflop_per_s", flops, bench->peak.flops);
}

static void add_check(cJSON *row, const struct measurement *result, double bound)
{
    char shape[128];

    cJSON_AddNumberToObject(row, "error", result->error);
    cJSON_AddNumberToObject(row, "bound", bound);
    cJSON_AddStringToObject(row, "error_operand", operand_name(result->worst));
    cJSON_AddStringToObject(row, "checked_shape", shape_name(&result->checked, shape, sizeof shape));
    cJSON_AddStringToObject(row, "plan", result->plan);
}

/* Adds a row's results. There is a time only if the results were right. */
static int add_results(cJSON *row, struct bench_run *bench, const clattn_plan_desc *desc,
                       const struct measurement *result)
{
    double bound = check_bound_of(desc);
    int ok = result->error <= bound;

    if (ok)
        add_times(row, bench, desc, result);
    add_check(row, result, bound);
    if (!ok)
        failed("%s: error %.2e of %s, expected at most %.0e", rule_get(desc->rule)->name, result->error,
               operand_name(result->worst), bound);
    if (bench->settings->verbose)
        fprintf(stderr, "%s\n", result->plan);
    return ok;
}

static void add_failure(cJSON *row, struct bench_run *bench, const clattn_plan_desc *desc, clattn_status status)
{
    const char *error = bench->target.sink.error;

    cJSON_AddStringToObject(row, "message", *error != '\0' ? error : clattn_status_text(status));
    library_error(&bench->target.sink, rule_get(desc->rule)->name, status);
}

static void bench_problem(struct bench_run *bench, const struct bench_row *problem)
{
    const struct settings *settings = bench->settings;
    const clattn_plan_desc *desc = &problem->desc;
    size_t runs = settings->repeat > 0 ? (size_t)settings->repeat : MEASURE_RUNS;
    cJSON *row = cJSON_CreateObject();
    struct measurement result;
    clattn_status status;
    int ok = 0;

    progress_show(bench->stream.done, bench->stream.count, rule_get(desc->rule)->name);
    add_problem(row, bench, problem);
    if (settings->ranks != NULL)
        status = settings->ranks->measure(settings->ranks, &bench->target, desc, settings->seed + 1, runs, &result);
    else
        status = measure(&bench->target, desc, problem->pass == BENCH_STEP, settings->seed + 1, runs, &result);
    if (status == CLATTN_SUCCESS)
        ok = add_results(row, bench, desc, &result);
    else
        add_failure(row, bench, desc, status);
    stream_row(&bench->stream, row, ok);
}

/* One token that continues a sequence: with a state, or for rules whose state is a list, with as many keys as the shape
 * has tokens. */
static void make_step(clattn_plan_desc *desc)
{
    if (rule_has_list(rule_get(desc->rule)))
        desc->kv_len = desc->kv_len != 0 ? desc->kv_len : desc->seq_len;
    else if (rule_has_state(rule_get(desc->rule)))
        desc->flags |= rule_flags(rule_get(desc->rule)) & (CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE);
    desc->seq_len = 1;
}

/* Completes the desc of one row, which has its rule, type and mode already. */
static int complete(const struct settings *settings, const struct shape *shape, struct bench_row *row)
{
    clattn_plan_desc desc = settings->desc, *full = &row->desc;
    struct sink sink = {.error = ""};
    clattn_status status;

    desc.rule = full->rule;
    desc.dtype = full->dtype;
    desc.mode = full->mode;
    shape_apply(&desc, shape, &default_shape);
    check_fit(&desc);
    desc.pass = row->pass == BENCH_BACKWARD ? CLATTN_PASS_BACKWARD : CLATTN_PASS_FORWARD;
    if (row->pass == BENCH_STEP)
        make_step(&desc), check_fit(&desc);
    status = clattn_plan_desc_complete(full, &desc, sink_log, &sink);
    if (status != CLATTN_SUCCESS)
        return library_error(&sink, "", status);
    return operands_size_check(full);
}

static size_t at_least_one(size_t count)
{
    return count > 0 ? count : 1;
}

/* The n-th pass to time: of --pass, else that of --option pass. */
static enum bench_pass pass_at(const struct settings *settings, size_t n)
{
    if (settings->pass_count > 0)
        return (enum bench_pass)settings->passes[n];
    return settings->desc.pass == CLATTN_PASS_BACKWARD ? BENCH_BACKWARD : BENCH_FORWARD;
}

/* Without names, a rule that has no such pass has no row. */
static int is_left_out(const struct settings *settings, clattn_rule rule, enum bench_pass pass)
{
    return settings->rule_count == 0 && pass == BENCH_BACKWARD && !rule_takes(rule_get(rule), OPTION_pass);
}

/* Adds a row for every shape, type, mode and pass of a rule. */
static int add_rule(struct bench_run *bench, clattn_rule rule)
{
    const struct settings *settings = bench->settings;
    const struct modes wanted = modes_wanted(settings, 1);
    const size_t dtypes = at_least_one(settings->dtype_count), passes = at_least_one(settings->pass_count);
    struct modes modes;
    int status = modes_choose(settings, &wanted, rule, &modes);
    const size_t count = at_least_one(settings->shape_count) * dtypes * modes.count * passes;

    for (size_t i = 0; i < count && status == EXIT_OK; i++) {
        const size_t mode = i / passes % modes.count, dtype = i / passes / modes.count % dtypes;
        const size_t shape = i / passes / modes.count / dtypes;
        struct bench_row *row = &bench->rows[bench->count];
        row->desc = (clattn_plan_desc){.rule = rule, .dtype = settings->dtypes[dtype], .mode = modes.at[mode]};
        row->pass = pass_at(settings, i % passes);
        if (is_left_out(settings, rule, row->pass))
            continue;
        bench->count++;
        status = complete(settings, &settings->shapes[shape], row);
    }
    return status;
}

/* Makes all rows before the first one runs, so that a mistake in one of them costs no time. */
static int make_rows(struct bench_run *bench)
{
    const struct settings *settings = bench->settings;
    size_t rules = settings->rule_count > 0 ? settings->rule_count : RULE_COUNT - 1;
    int status = EXIT_OK;

    bench->rows = calloc(rules * at_least_one(settings->shape_count) * at_least_one(settings->dtype_count) *
                             at_least_one(settings->mode_count) * at_least_one(settings->pass_count),
                         sizeof *bench->rows);
    if (bench->rows == NULL)
        return failed("no memory for the rows");
    for (size_t i = 0; i < rules && status == EXIT_OK; i++)
        status = add_rule(bench, settings->rule_count > 0 ? settings->rules[i] : (clattn_rule)(i + 1));
    stream_expect(&bench->stream, bench->count);
    return status;
}

/* ---- The command ------------------------------------------------------------------------------------------------- */

/* The columns of every row that are known before it runs. */
static cJSON *make_problems(const struct bench_run *bench)
{
    cJSON *rows = cJSON_CreateArray();

    for (size_t i = 0; i < bench->stream.count; i++) {
        cJSON *row = cJSON_CreateObject();
        add_problem(row, bench, &bench->rows[i]);
        cJSON_AddItemToArray(rows, row);
    }
    return rows;
}

static int bench_all(struct bench_run *bench)
{
    struct stream *stream = &bench->stream;

    for (size_t i = 0; i < stream->count; i++)
        if (target_fits(&bench->target, &bench->rows[i].desc) != EXIT_OK)
            return EXIT_FAILED;
    target_note_cache(&bench->target, bench->settings);
    if (bench->settings->ranks == NULL) { /* of several devices there is no common peak */
        progress_show(0, stream->count, "peaks of the device");
        peak_measure(&bench->target, &bench->peak);
    }
    stream_head(stream, columns, sizeof columns / sizeof *columns, make_problems(bench), &bench->target, &bench->peak);
    for (size_t i = 0; i < stream->count && ranks_agree(bench->settings->ranks, stream->stopped) == EXIT_OK; i++)
        bench_problem(bench, &bench->rows[i]);
    return stream_end(stream);
}

int bench_main(struct settings *settings)
{
    static struct bench_run bench; /* the thread that waits for signals may outlive this function */
    int status;

    bench.settings = settings;
    stream_begin(&bench.stream, settings->format);
    status = make_rows(&bench);
    if (status == EXIT_OK)
        status = target_open_of(&bench.target, settings);
    if (status == EXIT_OK && bench.target.reference && settings->mode_count > 0)
        status = bad("--mode chooses solvers, and the reference has none");
    if (status == EXIT_OK)
        status = bench_all(&bench);
    stream_close(&bench.stream);
    free(bench.rows);
    target_close(&bench.target);
    return status;
}
