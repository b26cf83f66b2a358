#include "tune/tuning_layers.h"

#include "base/embedded.h"
#include "base/file.h"
#include "base/system.h"
#include "device/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Keys ---------------------------------------------------------------------------------------------------------
 */

/* Whether the rule is a group by itself: no other rule has its solvers. */
static int is_alone(const struct rule *rule)
{
    return rule->op != OP_MIXER || rule_has_levels(rule) || rule_is_solved(rule);
}

const char *tuning_group(const struct problem *problem, char name[32])
{
    const char *erase = erase_name(problem->rule->erase), *decay = decay_name(problem_decay(problem));

    if (is_alone(problem->rule))
        snprintf(name, 32, "%s", problem->rule->name);
    else if (!rule_has_list(problem->rule))
        snprintf(name, 32, "%s+%s", decay, erase);
    else if (problem->rule->erase == ERASE_NONE)
        snprintf(name, 32, "%s+list", decay);
    else
        snprintf(name, 32, "%s+list+%s", decay, erase);
    return name;
}

const char *tuning_group_of(clattn_rule rule, char name[32])
{
    /* values in pairs, as lru has them, and keys as wide, as ttt has them */
    const clattn_plan_desc desc = {
        .rule = rule, .seq_len = 1, .heads = 1, .key_dim = rule_asks_key_dim(rule_get(rule)) ? 2 : 1, .value_dim = 2};
    struct problem problem;

    return problem_init(&problem, &desc, NULL) == CLATTN_SUCCESS ? tuning_group(&problem, name) : rule_get(rule)->name;
}

clattn_rule tuning_representative(const struct problem *problem)
{
    enum decay decay = problem_decay(problem);
    const struct rule *rule;

    if (is_alone(problem->rule))
        return problem->desc.rule;
    for (int r = CLATTN_RULE_NONE + 1; (rule = rule_get((clattn_rule)r)) != NULL; r++)
        if (rule->decay == decay && rule->erase == problem->rule->erase && rule->read != READ_STABILIZED &&
            !is_alone(rule) && rule_has_list(rule) == rule_has_list(problem->rule))
            return (clattn_rule)r;
    return problem->desc.rule;
}

static int64_t bucket(const struct problem *problem)
{
    const clattn_plan_desc *desc = &problem->desc;
    int64_t heads = problem_work_heads(problem) * (desc->flags & CLATTN_CU_SEQLENS ? desc->sequences : desc->batch),
            power = 1;

    while (power < heads)
        power *= 2;
    return power;
}

void tuning_key(struct tuning_entry *entry, const clattn_context *context, const struct problem *problem,
                const struct space *space)
{
    const struct device *device = &context->device;

    memset(entry, 0, sizeof *entry);
    snprintf(entry->device, sizeof entry->device, "%s", device->info.name);
    snprintf(entry->vendor, sizeof entry->vendor, "%s", device->vendor);
    snprintf(entry->driver, sizeof entry->driver, "%s", device->info.driver);
    tuning_group(problem, entry->group);
    snprintf(entry->dtype, sizeof entry->dtype, "%s", dtype_name(problem->desc.dtype));
    snprintf(entry->solver, sizeof entry->solver, "%s", space->name);
    if (space->engine && context->engine != NULL)
        snprintf(entry->engine, sizeof entry->engine, "%s", context->engine->name);
    entry->format = space->format;
    entry->key_dim = problem->desc.key_dim;
    entry->value_dim = problem->desc.value_dim;
    entry->heads = bucket(problem);
    entry->tuned = tuned_default(space);
}

/* ---- Layers -------------------------------------------------------------------------------------------------------
 */

static void load_file(struct tuning_layers *layers, int named, const struct device *device, const struct log *log)
{
    char why[96] = "";
    uint64_t bytes;
    size_t size;
    char *json = file_read(layers->path, TUNING_FILE_LIMIT, &size);
    int left_out;

    if (json == NULL) {
        if (file_kind(layers->path, &bytes) != FILE_MISSING)
            log_line(log, CLATTN_LOG_WARNING, "%s: no file that can be read, of at most %d MiB; it is not used",
                     layers->path, TUNING_FILE_LIMIT >> 20);
        else if (named)
            log_line(log, CLATTN_LOG_INFO, "%s: there is no such file of measured parameters", layers->path);
        return;
    }
    left_out = tuning_table_parse(&layers->tables[LAYER_FILE], json, device->info.name, why, sizeof why);
    if (left_out < 0)
        log_line(log, CLATTN_LOG_WARNING, "%s: %s; it is not used", layers->path, why);
    if (left_out > 0)
        log_line(log, CLATTN_LOG_WARNING, "%s: %d entries are not understood and not used: %s", layers->path, left_out,
                 why);
    free(json);
}

static void load_shipped(struct tuning_layers *layers, const struct device *device)
{
    char why[96];

    tuning_table_parse(&layers->tables[LAYER_SHIPPED], embedded_files[FILE_shipped].text, device->info.name, why,
                       sizeof why);
}

void tuning_layers_load(struct tuning_layers *layers, char *path, int named, const struct device *device,
                        const struct log *log)
{
    layers->path = path;
    if (path != NULL && *path == '\0')
        return;
    if (layers->path != NULL)
        load_file(layers, named, device, log);
    load_shipped(layers, device);
}

void tuning_layers_free(struct tuning_layers *layers)
{
    for (int i = 0; i < LAYER_COUNT; i++)
        tuning_table_free(&layers->tables[i]);
    free(layers->path);
    layers->path = NULL;
}

const char *tuning_layer_name(const struct tuning_layers *layers, int layer)
{
    const char *const names[] = {[LAYER_APPLICATION] = "the application",
                                 [LAYER_FILE] = layers->path != NULL ? layers->path : "the user's file",
                                 [LAYER_SHIPPED] = "the shipped table"};

    return names[layer];
}

/* ---- Finding ------------------------------------------------------------------------------------------------------
 */

/* The ratio of two numbers of heads, in doublings. */
static int distance(int64_t a, int64_t b)
{
    int steps = 0;

    for (; a < b; a *= 2)
        steps++;
    for (; b > 0 && b < a; b *= 2)
        steps++;
    return steps;
}

static const struct tuning_entry *find_in(const struct tuning_table *table, const struct tuning_entry *key,
                                          int any_driver)
{
    const struct tuning_entry *best = NULL;
    int least = 0;

    for (size_t i = 0; i < table->count; i++) {
        struct tuning_entry asked = *key;
        const struct tuning_entry *entry = &table->entries[i];
        int other = strcmp(entry->driver, key->driver) != 0, cost;
        asked.heads = entry->heads;
        memcpy(asked.driver, entry->driver, sizeof asked.driver);
        if (!tuning_same_key(entry, &asked) || entry->format != key->format || entry->heads < 1 ||
            (other && !any_driver))
            continue;
        cost = 2 * distance(entry->heads, key->heads) + other;
        if (best == NULL || cost < least) {
            best = entry;
            least = cost;
        }
    }
    return best;
}

const struct tuning_entry *tuning_find_key(const clattn_context *context, const struct tuning_entry *key,
                                           int any_driver, int *layer)
{
    const struct tuning_entry *entry = NULL;

    for (*layer = 0; *layer < LAYER_COUNT && entry == NULL; ++*layer)
        entry = find_in(&context->tuning->tables[*layer], key, any_driver);
    --*layer;
    return entry;
}

int tuning_is_empty(const clattn_context *context)
{
    for (int layer = 0; layer < LAYER_COUNT; layer++)
        if (context->tuning->tables[layer].count > 0)
            return 0;
    return 1;
}

const struct tuning_entry *tuning_find(const clattn_context *context, const struct problem *problem,
                                       const struct space *space, int any_driver, int *layer)
{
    struct tuning_entry key;

    if (tuning_is_empty(context))
        return NULL;
    tuning_key(&key, context, problem, space);
    return tuning_find_key(context, &key, any_driver, layer);
}

int tuning_is_near(const struct tuning_entry *entry, const clattn_context *context, const struct problem *problem)
{
    enum { NEAR = 2 };

    return context->device.serial || distance(entry->heads, bucket(problem)) <= NEAR;
}

int tuning_was_fastest(const clattn_context *context, const struct problem *problem, const struct space *space,
                       int last)
{
    const int64_t rows = problem_rows(problem);
    struct tuning_entry key;

    tuning_key(&key, context, problem, space);
    for (int layer = 0; layer <= last; layer++)
        for (size_t i = 0; i < context->tuning->tables[layer].count; i++) {
            const struct tuning_entry *entry = &context->tuning->tables[layer].entries[i];
            key.heads = entry->heads;
            memcpy(key.driver, entry->driver, sizeof key.driver);
            memcpy(key.engine, entry->engine, sizeof key.engine);
            if (tuning_same_key(entry, &key) && entry->from_rows >= 0 && entry->from_rows <= rows &&
                tuning_is_near(entry, context, problem))
                return 1;
        }
    return 0;
}
