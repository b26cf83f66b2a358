/* What `clattn verify` learns of its rows, and what it prints of them. */
#include "base/json.h"
#include "base/system.h"
#include "base/text.h"
#include "cli/verify.h"

#include "check/check.h"
#include "cli/out/origin.h"
#include "cli/out/progress.h"
#include "cli/out/wrap.h"
#include "cli/io/words.h"
#include "op/rule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const struct column row_columns[] = {
    {"rule", "rule", COLUMN_WORD, 0, 0},
    {"dtype", "dtype", COLUMN_WORD, 0, 0},
    {"cases", "cases", COLUMN_FIXED, 0, 0},
    {"failed", "failed", COLUMN_FIXED, 0, 0},
    {"worst_error", "worst error", COLUMN_SCIENTIFIC, 1, 0},
    {"bound", "bound", COLUMN_SCIENTIFIC, 0, 1},
    {"worst_case", "where", COLUMN_WORD, 0, 4},
    {"worst_mode", "mode", COLUMN_WORD, 0, 2},
    {"worst_operand", "operand", COLUMN_WORD, 0, 3},
    {"ok", "result", COLUMN_WORD, 0, 0},
    DEVICE_COLUMNS,
};
static const struct column case_columns[] = {
    {"case", "case", COLUMN_WORD, 0, 0},         {"mode", "mode", COLUMN_WORD, 0, 0},
    {"error", "error", COLUMN_SCIENTIFIC, 1, 0}, {"operand", "operand", COLUMN_WORD, 0, 2},
    {"solver", "solver", COLUMN_WORD, 0, 1},     {"message", "message", COLUMN_WORD, 0, 0},
    {"ok", "result", COLUMN_WORD, 0, 0},
};

static const char *rule_name(clattn_rule rule)
{
    return rule_get(rule)->name;
}

/* ---- Outcomes ---------------------------------------------------------------------------------------------------- */

cJSON *verify_outcome(const struct outcome *outcome)
{
    cJSON *object = cJSON_CreateObject();

    cJSON_AddStringToObject(object, "case", outcome->name);
    cJSON_AddStringToObject(object, "mode", word_name(mode_words, (int)outcome->mode));
    cJSON_AddNumberToObject(object, "error", outcome->error);
    cJSON_AddNumberToObject(object, "bound", outcome->bound);
    if (outcome->message != NULL)
        cJSON_AddStringToObject(object, "message", outcome->message);
    else
        cJSON_AddStringToObject(object, "operand", operand_name(outcome->operand));
    if (outcome->solver != NULL)
        cJSON_AddStringToObject(object, "solver", outcome->solver);
    cJSON_AddBoolToObject(object, "ok", outcome->error <= outcome->bound && outcome->message == NULL);
    return object;
}

static void set_worst(cJSON *row, const cJSON *outcome)
{
    static const char *const keys[][2] = {{"worst_error", "error"},
                                          {"bound", "bound"},
                                          {"worst_case", "case"},
                                          {"worst_mode", "mode"},
                                          {"worst_operand", "operand"}};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(outcome, keys[i][1]);
        cJSON_DeleteItemFromObjectCaseSensitive(row, keys[i][0]);
        if (item != NULL)
            cJSON_AddItemToObject(row, keys[i][0], cJSON_Duplicate(item, 1));
    }
}

static void warn_failure(const struct verify_row *row, const cJSON *outcome, double error)
{
    const char *message = row_string(outcome, "message");

    warn("%s %s, %s, mode %s: %s, error %.2e, bound %.0e", rule_name(row->rule), dtype_name(row->dtype),
         row_string(outcome, "case"), row_string(outcome, "mode"),
         *message != '\0' ? message : row_string(outcome, "operand"), error, json_number(outcome, "bound"));
}

/* Shows the problem that runs next. */
static void show_progress(const struct verify *verify, const struct verify_row *row)
{
    char text[256];
    clattn_mode mode;
    int used = snprintf(text, sizeof text, "%s %s", rule_name(row->rule), dtype_name(row->dtype));

    if (row->cases < verify_row_size(row)) {
        const struct verify_problem *problem = verify_row_problem(row, row->cases, &mode);
        snprintf(text + used, sizeof text - (size_t)used, ", %s, %s", problem->name, word_name(mode_words, (int)mode));
    }
    progress_show(verify->done, verify->total, text);
}

void verify_row_begin(struct verify *verify, struct verify_row *row)
{
    lock_take(&verify->lock);
    row->state = ROW_RUNS;
    show_progress(verify, row);
    lock_give(&verify->lock);
}

/* Where stdout is closed, nobody reads what would come. */
static void flush(struct verify *verify)
{
    if (fflush(stdout) == 0 || verify->stopped)
        return;
    verify->stopped = 1;
    workers_stop(&verify->workers);
}

static void print_json_line(const struct verify_row *row, const cJSON *outcome)
{
    char *text = json_text(outcome);

    if (text != NULL)
        printf("{\"rule\":\"%s\",\"dtype\":\"%s\",%s\n", rule_name(row->rule), dtype_name(row->dtype), text + 1);
    cJSON_free(text);
}

void verify_record(struct verify *verify, struct verify_row *row, cJSON *outcome)
{
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(outcome, "error");
    double error = cJSON_IsNumber(number) ? number->valuedouble : (double)INFINITY;
    int ok = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(outcome, "ok"));
    int is_jsonl = verify->settings->format == FORMAT_JSONL;

    lock_take(&verify->lock);
    if (row->cases++ == 0 || error > row->worst) {
        row->worst = error;
        set_worst(row->object, outcome);
    }
    verify->done++;
    verify->failed += !ok;
    if (!ok && row->failed++ == 0 && !is_jsonl)
        warn_failure(row, outcome, error);
    if (is_jsonl) {
        print_json_line(row, outcome);
        flush(verify);
    }
    cJSON_AddItemToArray(row->outcomes, outcome);
    show_progress(verify, row);
    lock_give(&verify->lock);
}

/* ---- Output ------------------------------------------------------------------------------------------------------ */

static int is_verbose(const struct verify *verify)
{
    return verify->settings->verbose && verify->settings->format == FORMAT_TEXT;
}

/* Whether each row is printed when it is done: -v prints the rows after all cases, and JSON comes at the end. */
static int prints_rows(const struct verify *verify)
{
    return verify->settings->format != FORMAT_JSON && verify->settings->format != FORMAT_JSONL && !is_verbose(verify);
}

static void widen(struct table *table, const char *key, const char *text)
{
    cJSON *row = cJSON_CreateObject();

    cJSON_AddStringToObject(row, key, text);
    table_widen(table, row);
    cJSON_Delete(row);
}

/* Makes the columns as wide as any row may be. */
static void widen_all(struct verify *verify)
{
    struct table *table = &verify->table;

    for (size_t i = 0; i < verify->row_count; i++) {
        const struct verify_row *row = &verify->rows[i];
        widen(table, "rule", rule_name(row->rule));
        widen(table, "dtype", dtype_name(row->dtype));
        for (size_t n = 0; n < row->problem_count; n++)
            widen(table, "worst_case", row->problems[n].name);
        for (size_t n = 0; n < row->modes.count; n++)
            widen(table, "worst_mode", word_name(mode_words, (int)row->modes.at[n]));
    }
    for (int id = 1; id < OPERAND_COUNT; id++)
        widen(table, "worst_operand", operand_name((clattn_operand_id)id));
}

static void print_head(struct verify *verify)
{
    if (verify->settings->format == FORMAT_TEXT)
        printf("device: %s\n", target_name(&verify->target));
    table_head(&verify->table);
}

void verify_print_begin(struct verify *verify)
{
    lock_take(&verify->lock);
    table_begin(&verify->table, row_columns, sizeof row_columns / sizeof *row_columns, verify->settings->format);
    widen_all(verify);
    verify->start = now_seconds();
    if (prints_rows(verify))
        print_head(verify);
    flush(verify);
    lock_give(&verify->lock);
}

static void print_cases(const struct verify_row *row)
{
    progress_clear();
    printf("%s %s\n", rule_name(row->rule), dtype_name(row->dtype));
    table_print(cJSON_Duplicate(row->outcomes, 1), case_columns, sizeof case_columns / sizeof *case_columns,
                FORMAT_TEXT);
    putchar('\n');
}

void verify_row_end(struct verify *verify, struct verify_row *row)
{
    lock_take(&verify->lock);
    cJSON_AddNumberToObject(row->object, "cases", (double)row->cases);
    cJSON_AddNumberToObject(row->object, "failed", (double)row->failed);
    cJSON_AddBoolToObject(row->object, "ok", row->failed == 0 && row->cases > 0);
    verify->failed += row->cases == 0;           /* nothing was compared */
    if (verify->settings->format != FORMAT_JSON) /* which has it once, for all */
        origin_add(row->object, &verify->target);
    row->state = ROW_DONE;
    if (is_verbose(verify))
        print_cases(row);
    else if (prints_rows(verify))
        table_row(&verify->table, row->object);
    flush(verify);
    lock_give(&verify->lock);
}

size_t verify_missing(const struct verify *verify)
{
    size_t missing = 0;

    for (size_t i = 0; i < verify->row_count; i++)
        missing += verify->rows[i].state != ROW_DONE;
    return missing;
}

static cJSON *results(struct verify *verify)
{
    cJSON *rows = cJSON_CreateArray();

    for (size_t i = 0; i < verify->row_count; i++) {
        struct verify_row *row = &verify->rows[i];
        if (row->state != ROW_DONE)
            continue;
        cJSON_AddItemToObject(row->object, "outcomes", row->outcomes);
        cJSON_AddItemToArray(rows, row->object);
        row->object = row->outcomes = NULL;
    }
    return rows;
}

static int print_json(struct verify *verify)
{
    size_t missing = verify_missing(verify);
    cJSON *object = cJSON_CreateObject();

    origin_add(object, &verify->target);
    cJSON_AddBoolToObject(object, "ok", verify->failed == 0 && missing == 0);
    cJSON_AddNumberToObject(object, "missing", (double)missing);
    cJSON_AddItemToObject(object, "results", results(verify));
    return json_print(object);
}

/* "33 rules, 100 cases, 0 failed, worst 7.4e-07 of kda f32, 118 s" */
static void print_summary(const struct verify *verify)
{
    const struct verify_row *worst = NULL;
    const double seconds = now_seconds() - verify->start;
    struct text text = {0};
    char *line;
    size_t rules = 0, cases = 0, failed_cases = 0;
    clattn_rule last = CLATTN_RULE_NONE;

    for (size_t i = 0; i < verify->row_count; i++) {
        const struct verify_row *row = &verify->rows[i];
        rules += row->state == ROW_DONE && row->rule != last;
        last = row->state == ROW_DONE ? row->rule : last;
        cases += row->cases;
        failed_cases += row->failed;
        if (row->cases > 0 && (worst == NULL || row->worst > worst->worst))
            worst = row;
    }
    text_format(&text, "%zu rule%s, %zu case%s, %zu failed", rules, rules == 1 ? "" : "s", cases, cases == 1 ? "" : "s",
                failed_cases);
    if (worst != NULL)
        text_format(&text, ", worst %.1e of %s %s", worst->worst, rule_name(worst->rule), dtype_name(worst->dtype));
    text_format(&text, seconds < 100 ? ", %.3g s" : ", %.0f s", seconds);
    if ((line = text_take(&text)) != NULL)
        wrap_line(stdout, "", line);
    free(line);
}

int verify_print_end(struct verify *verify)
{
    int status = EXIT_OK;

    progress_clear();
    if (verify->settings->format == FORMAT_JSON)
        status = print_json(verify);
    if (is_verbose(verify) && verify->table.count > 0) {
        print_head(verify);
        for (size_t i = 0; i < verify->row_count; i++)
            if (verify->rows[i].state == ROW_DONE)
                table_row(&verify->table, verify->rows[i].object);
    }
    if (verify->settings->format == FORMAT_TEXT && verify->table.count > 0)
        print_summary(verify);
    flush(verify);
    verify->ended = 1;
    return status;
}
