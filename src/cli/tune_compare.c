/* clattn tune --compare: the measured parameters that plans of each rule take, timed against the default. */
#include "cli/tune.h"

#include "cli/out/progress.h"
#include "device/context.h"
#include "op/rule.h"
#include "tune/tuning_layers.h"
#include "tuner/comparison.h"
#include "tuner/propose.h"

/* The entry's row with the rule's own name, and the new times. */
static cJSON *make_row(const struct target *target, const clattn_plan_desc *desc, const struct comparison *comparison)
{
    struct tuning_entry now = *comparison->entry;
    cJSON *row;

    now.seq_len = comparison->tokens;
    now.default_ms = 1e3 * comparison->default_seconds;
    now.time_ms = 1e3 * comparison->tuned_seconds;
    row = tune_entry_row(&now);
    cJSON_DeleteItemFromObjectCaseSensitive(row, "rule");
    cJSON_AddStringToObject(row, "rule", rule_get(desc->rule)->name);
    cJSON_AddStringToObject(row, "note", tuning_layer_name(target->device.context->tuning, comparison->layer));
    return row;
}

/* Where the search kept the default there is nothing to compare: a difference would be noise. */
static int is_default(const struct tuning_entry *entry)
{
    const struct tuned tuned = tuned_default(entry->tuned.space);

    return tuned_equal(&entry->tuned, &tuned);
}

/* Adds a row for each solver for which parameters are known. */
static int compare_rule(struct target *target, const clattn_plan_desc *desc, cJSON *rows, size_t *slower)
{
    const struct log log = {sink_log, &target->sink};

    for (int i = 0; space_at(i) != NULL; i++) {
        struct comparison comparison;
        clattn_status status = comparison_run(&target->device, desc, space_at(i), log, &comparison);
        if (status != CLATTN_SUCCESS)
            return library_error(&target->sink, rule_get(desc->rule)->name, status);
        if (comparison.entry == NULL || is_default(comparison.entry))
            continue;
        cJSON_AddItemToArray(rows, make_row(target, desc, &comparison));
        *slower += comparison.slower != 0;
    }
    return EXIT_OK;
}

int tune_compare(const struct settings *settings, struct target *target, const clattn_plan_desc *sizes)
{
    size_t count = settings->rule_count > 0 ? settings->rule_count : RULE_COUNT - 1, slower = 0;
    cJSON *rows = cJSON_CreateArray();
    int status = EXIT_OK;

    for (size_t i = 0; i < count && status == EXIT_OK; i++) {
        clattn_plan_desc desc = *sizes;
        desc.scale = 0; /* each rule has its own */
        desc.rule = settings->rule_count > 0 ? settings->rules[i] : (clattn_rule)(i + 1);
        progress_show(i, count, rule_get(desc.rule)->name);
        status = compare_rule(target, &desc, rows, &slower);
    }
    if (status != EXIT_OK) {
        cJSON_Delete(rows);
        return status;
    }
    if (cJSON_GetArraySize(rows) == 0)
        note("nothing to compare: no measured parameters for these rules and sizes, or only those of the default");
    status = tune_print(rows, settings->format);
    return status == EXIT_OK && slower > 0
               ? failed("%zu of these are slower than the default by more than 3 %%", slower)
               : status;
}
