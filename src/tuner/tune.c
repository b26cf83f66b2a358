#include "tuner/tune.h"

#include "base/file.h"
#include "base/system.h"
#include "tuner/propose.h"
#include "tune/tuning_layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The name of one search in the journal: all that its results depend on. */
static void name_item(char *name, size_t size, const struct tuning_entry *key)
{
    snprintf(name, size, "%s|%s|%s|%s|K%lld|V%lld|H%lld|%s|%s|%lld", key->device, key->driver, key->group, key->dtype,
             (long long)key->key_dim, (long long)key->value_dim, (long long)key->heads, key->solver, key->engine,
             (long long)key->format);
}

static clattn_status save(const struct tune *tune, const struct tuning_entry *entry)
{
    struct tuning_entry copy = *entry;
    struct tuning_table one = {&copy, 1};

    return tune->path != NULL ? tuning_table_save(&one, tune->path, &tune->log) : CLATTN_SUCCESS;
}

/* What an earlier run has already written. */
static int find_saved(const struct tune *tune, struct tuning_entry *entry)
{
    struct tuning_table table = {NULL, 0};
    char why[96], *json;
    size_t size;
    int found = 0;

    json = tune->path != NULL ? file_read(tune->path, TUNING_FILE_LIMIT, &size) : NULL;
    if (json != NULL)
        tuning_table_parse(&table, json, entry->device, why, sizeof why);
    for (size_t i = 0; i < table.count && !found; i++)
        if (tuning_same_key(&table.entries[i], entry) && table.entries[i].format == entry->format) {
            *entry = table.entries[i];
            found = 1;
        }
    free(json);
    tuning_table_free(&table);
    return found;
}

/* entry->from_rows: the length from which plans have the solver now, until it is measured. */
static void keep_length(const struct clattn_context *context, const struct problem *problem,
                        struct tune_outcome *outcome)
{
    int layer;
    const struct tuning_entry *now = tuning_find(context, problem, outcome->space, context->self_test, &layer);

    outcome->entry.from_rows = now != NULL ? now->from_rows : -1;
}

static void fill_entry(struct tuning_entry *entry, const struct search_result *result)
{
    const struct candidate *winner = &result->all[result->winner];
    time_t now = time(NULL);

    entry->tuned = winner->tuned;
    entry->seq_len = result->tokens;
    entry->time_ms = 1e3 * winner->time;
    entry->default_ms = 1e3 * result->all[0].time;
    entry->error = winner->error;
    snprintf(entry->tuner, sizeof entry->tuner, "%s", clattn_version());
    strftime(entry->date, sizeof entry->date, "%Y-%m-%d", gmtime(&now));
}

/* What was found for the key earlier, for whatever driver and kernels; returns the number. */
enum { MAX_KNOWN = 8 };
static size_t list_known(const clattn_context *context, const struct tuning_entry *key, struct tuned known[MAX_KNOWN])
{
    size_t count = 0;

    for (int layer = 0; layer < LAYER_COUNT; layer++)
        for (size_t i = 0; i < context->tuning->tables[layer].count && count < MAX_KNOWN; i++) {
            const struct tuning_entry *entry = &context->tuning->tables[layer].entries[i];
            struct tuning_entry asked = *key;
            memcpy(asked.driver, entry->driver, sizeof asked.driver);
            if (tuning_same_key(entry, &asked))
                known[count++] = entry->tuned;
        }
    return count;
}

double tune_times_beaten(const struct tune_result *whole, const struct tune_outcome *outcome)
{
    double most = 1;

    for (int s = 0; s < whole->count; s++) {
        const struct tuning_entry *other = &whole->outcomes[s].entry;
        if (other->seq_len == outcome->entry.seq_len && other->default_ms > 0 &&
            outcome->entry.default_ms > most * other->default_ms)
            most = outcome->entry.default_ms / other->default_ms;
    }
    return most >= LEFT_OUT ? most : 0;
}

static clattn_status keep(const struct tune *tune, const struct tune_outcome *outcome, const char *item)
{
    TRY(save(tune, &outcome->entry));
    if (!outcome->result.stopped)
        journal_finish(tune->journal, item);
    return CLATTN_SUCCESS;
}

/* A solver's space, in a context of its own: programs that were only tried go with it, but for those built ahead, which
 * the cache drops when it is full. */
static clattn_status tune_solver(const struct tune *tune, const struct tune_result *whole, double budget,
                                 int only_default, struct tune_outcome *outcome)
{
    struct check_device device;
    struct search search = {.device = &device,
                            .log = tune->log,
                            .space = outcome->space,
                            .desc = whole->desc,
                            .budget = budget,
                            .only_default = only_default,
                            .seed = tune->seed,
                            .journal = tune->journal,
                            .events = tune->events};
    struct tuned known[MAX_KNOWN];
    struct problem problem;
    char item[384];

    TRY(problem_init(&problem, &whole->desc, &tune->log));
    search.desc.seq_len = 0;
    if (only_default)
        search.events.improved = NULL;
    TRY(check_device_open(&device, tune->device, tune->log.fn, tune->log.user));
    tuning_key(&outcome->entry, device.context, &problem, outcome->space);
    keep_length(device.context, &problem, outcome);
    name_item(item, sizeof item, &outcome->entry);
    search.item = item;
    search.known = known;
    search.known_count = list_known(device.context, &outcome->entry, known);
    outcome->known = journal_finished(tune->journal, item) && find_saved(tune, &outcome->entry);
    if (!outcome->known && outcome->beaten == 0) {
        search_free(&outcome->result);
        outcome->status = search_run(&search, &outcome->result);
    }
    check_device_close(&device);
    if (outcome->known || outcome->status != CLATTN_SUCCESS)
        return CLATTN_SUCCESS;
    fill_entry(&outcome->entry, &outcome->result);
    return only_default ? CLATTN_SUCCESS : keep(tune, outcome, item);
}

/* The defaults of all solvers, before any is timed: one that a driver does not survive is seen again, and ends this
 * process as it does without. */
static clattn_status defaults_ahead(const struct tune *tune, const struct tune_result *result)
{
    struct search_point points[MAX_SPACES];
    int sound[MAX_SPACES];
    clattn_plan_desc desc = result->desc;
    struct check_device device;

    if (tune->events.ahead == NULL || tune->events.width <= 1)
        return CLATTN_SUCCESS;
    desc.seq_len = 0;
    TRY(check_device_open(&device, tune->device, tune->log.fn, tune->log.user));
    for (int s = 0; s < result->count; s++) {
        const struct space *space = result->outcomes[s].space;
        points[s] = (struct search_point){trial_desc(&device, space, &desc), tuned_default(space)};
    }
    check_device_close(&device);
    search_ahead(&tune->events, points, (size_t)result->count, sound);
    return CLATTN_SUCCESS;
}

/* The defaults, then the spaces of those that may win: a small space leaves its time to the others. */
static clattn_status tune_solvers(const struct tune *tune, double budget, struct tune_result *result)
{
    double start = now_seconds();

    TRY(defaults_ahead(tune, result));
    for (int left = result->count; left > 0 && !result->stopped; left--) {
        TRY(tune_solver(tune, result, budget, 1, &result->outcomes[left - 1]));
        result->stopped = tune->events.stop != NULL && tune->events.stop(tune->events.user);
    }
    for (int left = result->count; left > 0 && !result->stopped; left--) {
        struct tune_outcome *outcome = &result->outcomes[left - 1];
        double rest = budget - (now_seconds() - start);
        if (outcome->status != CLATTN_SUCCESS)
            continue;
        outcome->beaten = tune_times_beaten(result, outcome);
        TRY(tune_solver(tune, result, rest / left, 0, outcome));
        result->stopped = outcome->result.stopped;
    }
    return CLATTN_SUCCESS;
}

/* The lengths, and every entry once more with its own. */
static clattn_status finish(const struct tune *tune, struct tune_result *result)
{
    struct check_device device;
    clattn_status status;

    TRY(check_device_open(&device, tune->device, tune->log.fn, tune->log.user));
    status = tune_crossover(tune, &device, result);
    check_device_close(&device);
    for (int s = 0; s < result->count && status == CLATTN_SUCCESS; s++)
        if (result->outcomes[s].status == CLATTN_SUCCESS)
            status = save(tune, &result->outcomes[s].entry);
    return status;
}

/* The solvers that are chosen on the device, and whose default it can have for the problem. */
static clattn_status list_solvers(const struct tune *tune, const struct problem *problem, struct tune_result *result)
{
    struct check_device device;

    TRY(check_device_open(&device, tune->device, tune->log.fn, tune->log.user));
    for (int i = 0; space_at(i) != NULL; i++) {
        const struct propose propose = {device.context, problem, 0};
        const struct tuned usual = tuned_default(space_at(i));
        if (plan_chooses(device.context, usual.space) && propose_is_sound(&propose, &usual))
            result->outcomes[result->count++] =
                (struct tune_outcome){.space = usual.space, .status = CLATTN_UNSUPPORTED};
    }
    check_device_close(&device);
    return CLATTN_SUCCESS;
}

/* What the lengths take of the budget: their inputs and plans, then runs. */
static double crossover_seconds(double budget)
{
    double seconds = 2.5 + 0.05 * budget;

    return seconds < budget / 2 ? seconds : budget / 2;
}

clattn_status tune_problem(const struct tune *tune, const clattn_plan_desc *desc, struct tune_result *result)
{
    clattn_plan_desc full = *desc;
    struct problem problem;

    memset(result, 0, sizeof *result);
    full.seq_len = full.seq_len != 0 ? full.seq_len : 1;
    TRY(problem_init(&problem, &full, &tune->log));
    result->desc = problem.desc;
    tuning_group(&problem, result->group);
    TRY(list_solvers(tune, &problem, result));
    TRY(tune_solvers(tune, tune->budget - crossover_seconds(tune->budget), result));
    return result->stopped ? CLATTN_SUCCESS : finish(tune, result);
}

void tune_free(struct tune_result *result)
{
    for (int s = 0; s < MAX_SPACES; s++)
        search_free(&result->outcomes[s].result);
}
