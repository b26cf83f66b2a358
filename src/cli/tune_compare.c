/* clattn tune --compare: for every rule, the measured parameters that its plans take against the default, interleaved.
 */
#include "cli/tune.h"

#include "cli/out/progress.h"
#include "cli/io/words.h"
#include "op/problem.h"
#include "op/rule.h"
#include "tuner/propose.h"
#include "tune/tuning_layers.h"

#include <string.h>

enum { RUNS = 20, SIDES = 2 }; /* the default, and what was measured */

struct comparison {
    struct target *target;
    struct log log;
    cJSON *rows;
    size_t slower;
};

/* A run of either, in turns; the first of both is not timed. */
static clattn_status time_both(struct trial *trial, clattn_plan *const plans[SIDES], double medians[SIDES])
{
    double samples[SIDES][RUNS], warm;
    int64_t tokens = trial->tensors.desc.seq_len;

    for (int side = 0; side < SIDES; side++)
        TRY(trial_time(trial, plans[side], tokens, 1, &warm));
    for (int run = 0; run < RUNS; run++)
        for (int turn = 0; turn < SIDES; turn++) {
            int side = (run + turn) % SIDES;
            TRY(trial_time(trial, plans[side], tokens, 1, &samples[side][run]));
        }
    for (int side = 0; side < SIDES; side++)
        medians[side] = median_of(samples[side], RUNS);
    return CLATTN_SUCCESS;
}

static clattn_status compare_plans(struct trial *trial, const struct tuned *measured, double medians[SIDES])
{
    const struct tuned usual = tuned_default(measured->space);
    clattn_plan *plans[SIDES] = {NULL};
    enum trial_state state;
    clattn_status status = trial_plan(trial, &usual, &plans[0], &state);

    if (status == CLATTN_SUCCESS)
        status = trial_plan(trial, measured, &plans[1], &state);
    if (status == CLATTN_SUCCESS)
        status = time_both(trial, plans, medians);
    for (int side = 0; side < SIDES; side++)
        clattn_plan_destroy(plans[side]);
    return status;
}

static void add_row(struct comparison *comparison, const clattn_plan_desc *desc, const struct tuning_entry *entry,
                    int64_t tokens, const double medians[SIDES], int layer)
{
    const struct tuning_layers *layers = comparison->target->device.context->tuning;
    const struct tuned usual = tuned_default(entry->tuned.space);
    struct tuning_entry now = *entry;
    cJSON *row;

    now.seq_len = tokens;
    now.default_ms = 1e3 * medians[0];
    now.time_ms = 1e3 * medians[1];
    row = tune_entry_row(&now);
    cJSON_ReplaceItemInObjectCaseSensitive(row, "group", cJSON_CreateString(rule_get(desc->rule)->name));
    cJSON_AddStringToObject(row, "note", tuning_layer_name(layers, layer));
    cJSON_AddItemToArray(comparison->rows, row);
    /* where the default was kept, a difference is noise */
    comparison->slower += !tuned_equal(&entry->tuned, &usual) && medians[1] > (1 + KEEP_MARGIN) * medians[0];
}

/* One rule with one space, where that has an entry. */
static clattn_status compare_solver(struct comparison *comparison, const clattn_plan_desc *desc,
                                    const struct space *space)
{
    struct clattn_context *context = comparison->target->device.context;
    const struct tuning_entry *entry;
    struct problem problem;
    struct trial trial;
    double medians[SIDES] = {0};
    clattn_plan_desc open = *desc;
    clattn_status status;
    int layer;

    TRY(problem_init(&problem, desc, &comparison->log));
    entry = tuning_find(context, &problem, space, 1, &layer);
    if (entry == NULL)
        return CLATTN_SUCCESS;
    open.seq_len = 0;
    status = trial_open(&trial, &comparison->target->device, space, &open, comparison->log);
    if (status == CLATTN_SUCCESS)
        status = compare_plans(&trial, &entry->tuned, medians);
    if (status == CLATTN_SUCCESS)
        add_row(comparison, desc, entry, trial.tensors.desc.seq_len, medians, layer);
    trial_close(&trial);
    return status;
}

int tune_compare(const struct settings *settings, struct target *target, const clattn_plan_desc *sizes)
{
    struct comparison comparison = {target, {sink_log, &target->sink}, cJSON_CreateArray(), 0};
    size_t count = settings->rule_count > 0 ? settings->rule_count : RULE_COUNT - 1;
    int status;

    for (size_t i = 0; i < count; i++) {
        clattn_plan_desc desc = *sizes;
        desc.scale = 0; /* each rule has its own */
        desc.rule = settings->rule_count > 0 ? settings->rules[i] : (clattn_rule)(i + 1);
        progress_show(i, count, rule_get(desc.rule)->name);
        for (int s = 0; space_at(s) != NULL; s++) {
            clattn_status result = compare_solver(&comparison, &desc, space_at(s));
            if (result != CLATTN_SUCCESS) {
                cJSON_Delete(comparison.rows);
                return library_error(&target->sink, rule_get(desc.rule)->name, result);
            }
        }
    }
    status = tune_print(comparison.rows, settings->format);
    return status == EXIT_OK && comparison.slower > 0
               ? failed("%zu of these are slower than the default by more than 3 %%", comparison.slower)
               : status;
}
