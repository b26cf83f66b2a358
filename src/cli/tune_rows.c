#include "cli/tune.h"

#include "cli/out/origin.h"
#include "cli/out/table.h"
#include "cli/io/words.h"
#include "op/problem.h"
#include "op/rule.h"
#include "tune/tuning_layers.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const struct column columns[] = {
    {"rule", "rule", COLUMN_WORD, 0, 0},
    {"group", "rules", COLUMN_WORD, 0, 10},
    {"dtype", "dtype", COLUMN_WORD, 0, 0},
    {"key_dim", "K", COLUMN_FIXED, 0, 2},
    {"value_dim", "V", COLUMN_FIXED, 0, 3},
    {"heads", "heads", COLUMN_FIXED, 0, 6},
    {"solver", "solver", COLUMN_WORD, 0, 0},
    {"from_rows", "from", COLUMN_FIXED, 0, 7},
    {"tokens", "T", COLUMN_FIXED, 0, 0},
    {"default_ms", "default ms", COLUMN_FIXED, 3, 4},
    {"time_ms", "tuned ms", COLUMN_FIXED, 3, 0},
    {"speedup", "faster", COLUMN_FIXED, 2, 0},
    {"tried", "tried", COLUMN_FIXED, 0, 9},
    {"error", "error", COLUMN_SCIENTIFIC, 1, 8},
    {"note", "note", COLUMN_WORD, 0, 5},
    {"parameters", "parameters", COLUMN_WORD, 0, 1},
    DEVICE_COLUMNS,
};

const char *tuned_name(const struct tuned *tuned, char *text, size_t size)
{
    size_t used = 0;

    snprintf(text, size, "default");
    for (int i = 0; tuned->space->parameters[i].name != NULL && used < size; i++)
        if (tuned->values[i] != BY_HEURISTIC)
            used += (size_t)snprintf(text + used, size - used, "%s%s=%d", used > 0 ? " " : "",
                                     tuned->space->parameters[i].name, tuned->values[i]);
    return text;
}

/* The first rule of a group, which stands for all of them. NULL: another version's group. */
static const char *rule_of(const char *group)
{
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++) {
        char name[32];
        if (strcmp(tuning_group_of(rule, name), group) == 0)
            return rule_get(rule)->name;
    }
    return NULL;
}

cJSON *tune_entry_row(const struct tuning_entry *entry)
{
    cJSON *row = cJSON_CreateObject();
    const char *rule = rule_of(entry->group);
    char text[256];

    cJSON_AddStringToObject(row, "device", entry->device);
    cJSON_AddStringToObject(row, "driver", entry->driver);
    if (rule != NULL)
        cJSON_AddStringToObject(row, "rule", rule);
    cJSON_AddStringToObject(row, "group", entry->group);
    cJSON_AddStringToObject(row, "dtype", entry->dtype);
    cJSON_AddNumberToObject(row, "key_dim", (double)entry->key_dim);
    cJSON_AddNumberToObject(row, "value_dim", (double)entry->value_dim);
    cJSON_AddNumberToObject(row, "heads", (double)entry->heads);
    cJSON_AddStringToObject(row, "solver", entry->solver);
    if (entry->from_rows >= 0)
        cJSON_AddNumberToObject(row, "from_rows", (double)entry->from_rows);
    cJSON_AddNumberToObject(row, "tokens", (double)entry->seq_len);
    cJSON_AddNumberToObject(row, "default_ms", entry->default_ms);
    cJSON_AddNumberToObject(row, "time_ms", entry->time_ms);
    if (entry->time_ms > 0)
        cJSON_AddNumberToObject(row, "speedup", entry->default_ms / entry->time_ms);
    if (entry->error > 0) /* on a very slow device the default is not checked */
        cJSON_AddNumberToObject(row, "error", entry->error);
    cJSON_AddStringToObject(row, "engine", entry->engine);
    cJSON_AddStringToObject(row, "date", entry->date);
    cJSON_AddStringToObject(row, "parameters", tuned_name(&entry->tuned, text, sizeof text));
    return row;
}

static void add_candidates(cJSON *row, const struct search_result *result)
{
    cJSON *list = cJSON_AddArrayToObject(row, "candidates");
    char text[256];

    for (size_t i = 0; i < result->count; i++) {
        const struct candidate *candidate = &result->all[i];
        cJSON *object = cJSON_CreateObject();
        cJSON_AddStringToObject(object, "state", trial_state_text(candidate->state));
        cJSON_AddNumberToObject(object, "at", candidate->at);
        cJSON_AddNumberToObject(object, "time_ms", 1e3 * candidate->time);
        cJSON_AddBoolToObject(object, "resumed", candidate->resumed);
        cJSON_AddStringToObject(object, "parameters", tuned_name(&candidate->tuned, text, sizeof text));
        cJSON_AddItemToArray(list, object);
    }
}

/* Counts points whose results people should know about: "2 wrong results, 1 does not build". */
static void add_note(cJSON *row, const struct search_result *result)
{
    size_t counts[TRIAL_STATE_COUNT] = {0}, used = 0;
    char text[160] = "";

    for (size_t i = 0; i < result->count; i++)
        counts[result->all[i].state]++;
    for (int s = TRIAL_SLOW; s < TRIAL_STATE_COUNT; s++)
        if (counts[s] > 0 && used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%zu %s", used > 0 ? ", " : "", counts[s],
                                     trial_state_text((enum trial_state)s));
    cJSON_AddStringToObject(row, "note", text);
}

static void add_shares(cJSON *row, const struct tune_result *whole, const struct tuning_entry *entry,
                       const struct peak *peak)
{
    clattn_plan_desc desc = whole->desc;
    double seconds = 1e-3 * entry->time_ms;

    desc.seq_len = entry->seq_len;
    if (peak->flops > 0 && seconds > 0)
        cJSON_AddNumberToObject(row, "compute_percent", 100 * flops_of(&desc) / seconds / peak->flops);
    if (peak->bytes > 0 && seconds > 0)
        cJSON_AddNumberToObject(row, "memory_percent", 100 * bytes_of(&desc) / seconds / peak->bytes);
}

static void add_lengths(cJSON *row, const struct tune_lengths *lengths, int s)
{
    cJSON *list = cJSON_AddArrayToObject(row, "lengths");

    for (size_t i = 0; i < lengths->count; i++) {
        cJSON *pair = cJSON_CreateObject();
        cJSON_AddNumberToObject(pair, "tokens", (double)lengths->tokens[i]);
        cJSON_AddNumberToObject(pair, "time_ms", 1e3 * lengths->seconds[i][s]);
        cJSON_AddItemToArray(list, pair);
    }
}

void tune_rows(cJSON *rows, const struct tune_result *result, const struct peak *peak)
{
    for (int s = 0; s < result->count; s++) {
        const struct tune_outcome *outcome = &result->outcomes[s];
        cJSON *row;
        if (outcome->space == NULL || outcome->status != CLATTN_SUCCESS)
            continue;
        row = tune_entry_row(&outcome->entry);
        add_shares(row, result, &outcome->entry, peak);
        add_lengths(row, &result->lengths, s);
        if (outcome->known) {
            cJSON_AddStringToObject(row, "note", "from the run before");
        } else {
            cJSON_AddNumberToObject(row, "tried", (double)outcome->result.count);
            cJSON_AddNumberToObject(row, "seconds", outcome->result.seconds);
            add_note(row, &outcome->result);
            add_candidates(row, &outcome->result);
        }
        cJSON_AddItemToArray(rows, row);
    }
}

int tune_print(cJSON *rows, enum format format)
{
    origin_add_all(rows, NULL);
    return table_print(rows, columns, sizeof columns / sizeof *columns, format);
}

int tune_report(const char *path, const cJSON *rows, const struct target *target, const struct peak *peak)
{
    cJSON *report = cJSON_CreateObject();
    time_t now = time(NULL);
    char date[32];
    int status;

    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    origin_add(report, target);
    cJSON_AddStringToObject(report, "platform", target->info.platform);
    cJSON_AddStringToObject(report, "date", date);
    cJSON_AddNumberToObject(report, "peak_gflop_per_s", 1e-9 * peak->flops);
    cJSON_AddNumberToObject(report, "peak_gb_per_s", 1e-9 * peak->bytes);
    cJSON_AddItemToObject(report, "rows", cJSON_Duplicate(rows, 1));
    status = json_write(path, report);
    cJSON_Delete(report);
    return status;
}
