#include "tuner/tune.h"

#include "base/file.h"
#include "base/system.h"
#include "tuner/propose.h"
#include "tune/tuning_layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The name of a search in the journal. It contains everything that the results depend on. */
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

/* Looks for the entry in the user's file, where an earlier run may have written it. */
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

/* Keeps entry->from_rows, the length from which on plans use the solver, until it is measured again. */
static void keep_from_rows(const struct clattn_context *context, const struct problem *problem,
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

/* Lists points that were found earlier for the key, with any driver and format. Returns their number. */
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

double tune_times_slower(const struct tune_result *whole, const struct tune_outcome *outcome)
{
    double most = 1;

    for (int s = 0; s < whole->count; s++) {
        const struct tuning_entry *other = &whole->outcomes[s].entry;
        if (other->seq_len == outcome->entry.seq_len && other->default_ms > 0 &&
            outcome->entry.default_ms > most * other->default_ms)
            most = outcome->entry.default_ms / other->default_ms;
    }
    return most >= SKIP_FACTOR ? most : 0;
}

static clattn_status save_finished(const struct tune *tune, const struct tune_outcome *outcome, const char *item)
{
    TRY(save(tune, &outcome->entry));
    if (!outcome->result.stopped)
        journal_finish(tune->journal, item);
    return CLATTN_SUCCESS;
}

/* Searches a solver's space in a context of its own, so that programs which were only tried go with it. Those built
 * ahead stay in the cache until it is full. */
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
    keep_from_rows(device.context, &problem, outcome);
    name_item(item, sizeof item, &outcome->entry);
    search.item = item;
    search.known = known;
    search.known_count = list_known(device.context, &outcome->entry, known);
    outcome->known = journal_finished(tune->journal, item) && find_saved(tune, &outcome->entry);
    if (!outcome->known && outcome->times_slower == 0) {
        search_free(&outcome->result);
        outcome->status = search_run(&search, &outcome->result);
    }
    check_device_close(&device);
    if (outcome->known || outcome->status != CLATTN_SUCCESS)
        return CLATTN_SUCCESS;
    fill_entry(&outcome->entry, &outcome->result);
    return only_default ? CLATTN_SUCCESS : save_finished(tune, outcome, item);
}

/* Builds the defaults of all solvers before any is timed. If a driver crashes at one, that happens again in this
 * process. */
static clattn_status build_defaults_ahead(const struct tune *tune, const struct tune_result *result)
{
    struct search_point points[MAX_SPACES];
    int sound[MAX_SPACES];
    clattn_plan_desc desc = result->desc;
    struct check_device device;

    if (tune->events.build_ahead == NULL || tune->events.width <= 1)
        return CLATTN_SUCCESS;
    desc.seq_len = 0;
    TRY(check_device_open(&device, tune->device, tune->log.fn, tune->log.user));
    for (int s = 0; s < result->count; s++) {
        const struct space *space = result->outcomes[s].space;
        points[s] = (struct search_point){trial_desc(&device, space, &desc), tuned_default(space)};
    }
    check_device_close(&device);
    search_build_ahead(&tune->events, points, (size_t)result->count, sound);
    return CLATTN_SUCCESS;
}

/* Times all defaults, then searches the spaces of solvers that may win. A small space leaves its time to the others. */
static clattn_status tune_solvers(const struct tune *tune, double budget, struct tune_result *result)
{
    double start = now_seconds();

    TRY(build_defaults_ahead(tune, result));
    for (int left = result->count; left > 0 && !result->stopped; left--) {
        TRY(tune_solver(tune, result, budget, 1, &result->outcomes[left - 1]));
        result->stopped = tune->events.stop != NULL && tune->events.stop(tune->events.user);
    }
    for (int left = result->count; left > 0 && !result->stopped; left--) {
        struct tune_outcome *outcome = &result->outcomes[left - 1];
        double rest = budget - (now_seconds() - start);
        if (outcome->status != CLATTN_SUCCESS)
            continue;
        outcome->times_slower = tune_times_slower(result, outcome);
        TRY(tune_solver(tune, result, rest / left, 0, outcome));
        result->stopped = outcome->result.stopped;
    }
    return CLATTN_SUCCESS;
}

/* Measures the lengths, and saves every entry again with its own. */
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

/* Lists the solvers that plans choose on the device and whose default is valid for the problem. */
static clattn_status list_solvers(const struct tune *tune, const struct problem *problem, struct tune_result *result)
{
    struct check_device device;

    TRY(check_device_open(&device, tune->device, tune->log.fn, tune->log.user));
    for (int i = 0; space_at(i) != NULL; i++) {
        const struct propose propose = {device.context, problem, 0};
        const struct tuned default_point = tuned_default(space_at(i));
        if (plan_chooses(device.context, default_point.space) && propose_is_valid(&propose, &default_point))
            result->outcomes[result->count++] =
                (struct tune_outcome){.space = default_point.space, .status = CLATTN_UNSUPPORTED};
    }
    check_device_close(&device);
    return CLATTN_SUCCESS;
}

/* Seconds of the budget that the comparison by length takes: inputs and plans, then runs. */
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
