/* clattn bench: the time of rules on a device, and how far that is from what the device can do. */
#include "check/check.h"
#include "cli/cli.h"
#include "cli/measure.h"
#include "cli/modes.h"
#include "cli/operands.h"
#include "cli/peak.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/words.h"
#include "op/rule.h"

#include <stdio.h>
#include <stdlib.h>

static const struct shape default_shape = {1, 1024, 16, 0, 128, 128, 0, 0};

static const struct column columns[] = {
    {"rule", "rule", COLUMN_WORD, 0},
    {"pass", "pass", COLUMN_WORD, 0},
    {"mode", "mode", COLUMN_WORD, 0},
    {"dtype", "dtype", COLUMN_WORD, 0},
    {"shape", "shape", COLUMN_WORD, 0},
    {"time_ms", "ms", COLUMN_FIXED, 3},
    {"min_ms", "min", COLUMN_FIXED, 3},
    {"spread_percent", "spread %", COLUMN_FIXED, 1},
    {"runs", "runs", COLUMN_FIXED, 0},
    {"gb_per_s", "GB/s", COLUMN_FIXED, 1},
    {"memory_percent", "% copy", COLUMN_FIXED, 1},
    {"gflop_per_s", "GFLOP/s", COLUMN_FIXED, 1},
    {"compute_percent", "% mad", COLUMN_FIXED, 1},
    {"error", "error", COLUMN_SCIENTIFIC, 1},
    {"ok", "result", COLUMN_WORD, 0},
};

struct bench_run {
    const struct settings *settings;
    struct target target;
    struct peak peak;
    clattn_plan_desc *descs; /* a row each, completed */
    size_t count, done, failed;
    cJSON *rows;
};

static void add_problem(cJSON *row, const struct bench_run *bench, const clattn_plan_desc *desc)
{
    char shape[128];

    cJSON_AddStringToObject(row, "rule", rule_get(desc->rule)->name);
    cJSON_AddStringToObject(row, "pass", word_name(pass_words, bench->settings->step));
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
    cJSON_AddStringToObject(row, "device", target_name(&bench->target));
    cJSON_AddStringToObject(row, "driver", bench->target.info.driver);
}

/* A peak, and the share of it that was reached; null for a peak that is not known. */
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

/* One line of the result: a time only when the answer was right. */
static void bench_problem(struct bench_run *bench, const clattn_plan_desc *desc)
{
    const struct settings *settings = bench->settings;
    size_t runs = settings->repeat > 0 ? (size_t)settings->repeat : MEASURE_RUNS;
    double bound = check_bound(desc->dtype);
    cJSON *row = cJSON_CreateObject();
    struct measurement result;
    clattn_status status;
    int ok;

    progress_show(bench->done++, bench->count, rule_get(desc->rule)->name);
    cJSON_AddItemToArray(bench->rows, row);
    add_problem(row, bench, desc);
    status = measure(&bench->target, desc, settings->step, settings->seed + 1, runs, &result);
    ok = status == CLATTN_SUCCESS && result.error <= bound;
    if (ok)
        add_times(row, bench, desc, &result);
    if (status == CLATTN_SUCCESS)
        add_check(row, &result, bound);
    if (status == CLATTN_SUCCESS && !ok)
        failed("%s: error %.2e of %s, expected at most %.0e", rule_get(desc->rule)->name, result.error,
               operand_name(result.worst), bound);
    if (status == CLATTN_SUCCESS && settings->verbose)
        fprintf(stderr, "%s\n", result.plan);
    if (status != CLATTN_SUCCESS) {
        const char *said = bench->target.sink.error;
        cJSON_AddStringToObject(row, "message", *said != '\0' ? said : clattn_status_text(status));
        library_error(&bench->target.sink, rule_get(desc->rule)->name, status);
    }
    cJSON_AddBoolToObject(row, "ok", ok);
    bench->failed += !ok;
}

/* One token with the state of those before: where that is a list, with as many keys as the shape has tokens. */
static void take_step(clattn_plan_desc *desc)
{
    if (rule_has_list(rule_get(desc->rule)))
        desc->kv_len = desc->kv_len != 0 ? desc->kv_len : desc->seq_len;
    else
        desc->flags |= CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE;
    desc->seq_len = 1;
}

/* The desc of one line, completed, with the type and mode that it has. */
static int complete(const struct settings *settings, const struct shape *shape, clattn_plan_desc *full)
{
    clattn_plan_desc desc = settings->desc;
    struct sink sink = {.error = ""};
    clattn_status status;

    desc.rule = full->rule;
    desc.dtype = full->dtype;
    desc.mode = full->mode;
    shape_apply(&desc, shape, &default_shape);
    if (settings->step)
        take_step(&desc);
    status = clattn_plan_desc_complete(full, &desc, sink_log, &sink);
    if (status != CLATTN_SUCCESS)
        return library_error(&sink, "", status);
    return operands_size_check(full);
}

static size_t at_least_one(size_t count)
{
    return count > 0 ? count : 1;
}

/* Every shape, type and mode of a rule. */
static int add_rule(struct bench_run *bench, clattn_rule rule)
{
    const struct settings *settings = bench->settings;
    const struct modes wanted = modes_wanted(settings, 1);
    size_t dtypes = at_least_one(settings->dtype_count);
    struct modes modes;
    int status = modes_choose(settings, &wanted, rule, &modes);

    for (size_t i = 0; i < at_least_one(settings->shape_count) * dtypes * modes.count && status == EXIT_OK; i++) {
        size_t shape = i / modes.count / dtypes, dtype = i / modes.count % dtypes;
        clattn_plan_desc *desc = &bench->descs[bench->count++];
        *desc = (clattn_plan_desc){.rule = rule, .dtype = settings->dtypes[dtype], .mode = modes.at[i % modes.count]};
        status = complete(settings, &settings->shapes[shape], desc);
    }
    return status;
}

/* All rows, before the first is run: what is wrong with one costs no time. */
static int make_rows(struct bench_run *bench)
{
    const struct settings *settings = bench->settings;
    size_t rules = settings->rule_count > 0 ? settings->rule_count : RULE_COUNT - 1;
    int status = EXIT_OK;

    bench->rows = cJSON_CreateArray();
    bench->descs = calloc(rules * at_least_one(settings->shape_count) * at_least_one(settings->dtype_count) *
                              at_least_one(settings->mode_count),
                          sizeof *bench->descs);
    if (bench->descs == NULL)
        return failed("no memory for the rows");
    for (size_t i = 0; i < rules && status == EXIT_OK; i++)
        status = add_rule(bench, settings->rule_count > 0 ? settings->rules[i] : (clattn_rule)(i + 1));
    return status;
}

static int print_results(struct bench_run *bench)
{
    cJSON *rows = bench->rows;

    progress_clear();
    bench->rows = NULL;
    if (bench->settings->format == FORMAT_TEXT)
        printf("device: %s, peaks measured: %.0f GFLOP/s f32, %.1f GB/s\n", target_name(&bench->target),
               1e-9 * bench->peak.flops, 1e-9 * bench->peak.bytes);
    return table_print(rows, columns, sizeof columns / sizeof *columns, bench->settings->format);
}

static int bench_all(struct bench_run *bench)
{
    int status;

    progress_show(0, 1, "peaks of the device");
    peak_measure(&bench->target, &bench->peak);
    for (size_t i = 0; i < bench->count; i++)
        bench_problem(bench, &bench->descs[i]);
    status = print_results(bench);
    return status == EXIT_OK && bench->failed > 0 ? EXIT_FAILED : status;
}

int bench_main(struct settings *settings)
{
    struct bench_run bench = {.settings = settings};
    int status = make_rows(&bench);

    if (status == EXIT_OK)
        status = target_open(&bench.target, settings->device);
    if (status == EXIT_OK)
        status = bench_all(&bench);
    cJSON_Delete(bench.rows);
    free(bench.descs);
    target_close(&bench.target);
    return status;
}
