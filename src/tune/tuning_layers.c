#include "tune/tuning_layers.h"

#include "tune/gemm_space.h"

#include "base/file.h"
#include "base/system.h"
#include "kernel/kernel.h"
#include "tune/shipped.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Keys ---------------------------------------------------------------------------------------------------------
 */

const char *tuning_group(const struct problem *problem, char name[32])
{
    const char *erase = erase_name(problem->rule->erase), *decay = decay_name(problem_decay(problem));

    if (problem->rule->op != OP_MIXER)
        snprintf(name, 32, "%s", problem->rule->name);
    else if (!rule_has_list(problem->rule))
        snprintf(name, 32, "%s+%s", decay, erase);
    else if (problem->rule->erase == ERASE_NONE)
        snprintf(name, 32, "%s+list", decay);
    else
        snprintf(name, 32, "%s+list+%s", decay, erase);
    return name;
}

clattn_rule tuning_representative(const struct problem *problem)
{
    enum decay decay = problem_decay(problem);
    const struct rule *rule;

    if (problem->rule->op != OP_MIXER)
        return problem->desc.rule;
    for (int r = CLATTN_RULE_NONE + 1; (rule = rule_get((clattn_rule)r)) != NULL; r++)
        if (rule->decay == decay && rule->erase == problem->rule->erase && rule->read != READ_STABILIZED &&
            rule_has_list(rule) == rule_has_list(problem->rule))
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

/* What a scan on a matrix engine may be composed of, as its tiles are. The plain kernels' words do not depend on them.
 */
#define TILES                                                                                                          \
    .group = 1, .vec = 4, .chunk = 16, .block_k = 16, .block_v = 16, .lanes_k = 1, .value_tiles = 1, .span = 1,        \
    .stages = 2, .keys = 16, .step = 1, .share = 1, .heads = 1, .splits = 1
static const struct variant compositions[] = {
    {.tiles = {TILES, .key_split = 1, .segments = 1}},
    {.tiles = {TILES, .key_split = 1, .segments = 1, .readers = 1}},
    {.tiles = {TILES, .key_split = 2, .segments = 2}},
    {.tiles = {TILES, .key_split = 1, .segments = 2}, .gather = 1},
};

/* A kernel's words for the problem, however its tiles are, after a hash. As they are embedded: without comments. */
static struct hash hash_words(struct hash hash, const clattn_context *context, const struct problem *problem,
                              const struct space *space, enum kernel_id id)
{
    const size_t count = kernel_family(id)->needs_engine ? sizeof compositions / sizeof *compositions : 1;

    if (space->engine && context->engine == NULL)
        return hash;
    for (size_t i = 0; i < count; i++) {
        struct variant variant = compositions[i];
        char *words;
        variant.kernel = id;
        variant.problem = problem;
        variant.engine = space->engine ? context->engine : NULL;
        words = kernel_words(&variant);
        if (words != NULL)
            hash = hash_text(hash, words);
        free(words);
    }
    return hash;
}

/* The solver's kernels for the group's representative. */
static struct hash kernel_hash(const clattn_context *context, const struct problem *problem, const struct space *space)
{
    clattn_plan_desc desc = {.rule = tuning_representative(problem),
                             .dtype = problem->desc.dtype,
                             .seq_len = 1,
                             .heads = 1,
                             .key_dim = problem->desc.key_dim,
                             .value_dim = problem->desc.value_dim};
    struct hash hash = {0, 0};
    struct problem usual;

    if (problem_init(&usual, &desc, NULL) != CLATTN_SUCCESS)
        return hash;
    for (int id = 0; id < KERNEL_COUNT; id++)
        if ((space_kernels(space) >> id & 1) && kernel_takes((enum kernel_id)id, usual.rule))
            hash = hash_words(hash, context, &usual, space, (enum kernel_id)id);
    return hash;
}

/* Without the kernels */
static void make_key(struct tuning_entry *entry, const clattn_context *context, const struct problem *problem,
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
    entry->key_dim = problem->desc.key_dim;
    entry->value_dim = problem->desc.value_dim;
    entry->heads = bucket(problem);
    entry->tuned = tuned_default(space);
}

void tuning_key(struct tuning_entry *entry, const clattn_context *context, const struct problem *problem,
                const struct space *space)
{
    char name[HASH_DIGITS];

    make_key(entry, context, problem, space);
    snprintf(entry->kernel, sizeof entry->kernel, "%s", hash_name(kernel_hash(context, problem, space), name));
}

static clattn_dtype dtype_named(const char *name)
{
    clattn_dtype dtype = CLATTN_BF16;

    while (dtype > CLATTN_F32 && strcmp(dtype_name(dtype), name) != 0)
        dtype--;
    return dtype;
}

static int tuning_rule_kernel(const struct tuning_entry *entry, const clattn_context *context, char kernel[HASH_DIGITS])
{
    clattn_plan_desc desc = {.seq_len = 1,
                             .heads = 1,
                             .key_dim = entry->key_dim,
                             .value_dim = entry->value_dim,
                             .dtype = dtype_named(entry->dtype)};
    struct problem problem;
    char group[32];

    for (int r = CLATTN_RULE_NONE + 1; r < RULE_COUNT; r++) {
        desc.rule = (clattn_rule)r;
        if (problem_init(&problem, &desc, NULL) != CLATTN_SUCCESS ||
            strcmp(tuning_group(&problem, group), entry->group) != 0)
            continue;
        hash_name(kernel_hash(context, &problem, entry->tuned.space), kernel);
        return 1;
    }
    return 0;
}

int tuning_kernel(const struct tuning_entry *entry, const clattn_context *context, char kernel[HASH_DIGITS])
{
    if (gemm_space_find(entry->solver) != NULL) {
        gemm_kernel(entry->tuned.space, kernel);
        return 1;
    }
    return tuning_rule_kernel(entry, context, kernel);
}

/* ---- Layers -------------------------------------------------------------------------------------------------------
 */

static void load_file(struct tuning_layers *layers, const struct device *device, const struct log *log)
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

/* 0 where a parameter is none of the solver's, or has a value that it never takes. */
static int take_parameters(struct tuned *tuned, const struct shipped_entry *shipped)
{
    const uint8_t *names = shipped_parameters[shipped->parameters];

    for (size_t i = 0; names[i] != 0; i++)
        if (!tuned_set(tuned, shipped_texts[names[i]], shipped_values[shipped->values + i]))
            return 0;
    return 1;
}

#define COPY(to, from) snprintf(to, sizeof(to), "%s", from)

int tuning_shipped(size_t index, struct tuning_entry *entry)
{
    const struct shipped_entry *shipped = &shipped_entries[index];
    const struct shipped_device *device = &shipped_devices[shipped->device];
    char kernel[HASH_DIGITS];

    *entry = (struct tuning_entry){.key_dim = shipped->key_dim,
                                   .value_dim = shipped->value_dim,
                                   .heads = shipped->heads,
                                   .from_rows = shipped->from_rows,
                                   .seq_len = shipped->seq_len,
                                   .time_ms = (double)shipped->time_ms,
                                   .default_ms = (double)shipped->default_ms,
                                   .error = (double)shipped->error};
    COPY(entry->device, device->device);
    COPY(entry->vendor, device->vendor);
    COPY(entry->driver, device->driver);
    COPY(entry->group, shipped_texts[shipped->group]);
    COPY(entry->dtype, shipped_texts[shipped->dtype]);
    COPY(entry->solver, shipped_texts[shipped->solver]);
    COPY(entry->kernel, hash_name(shipped_kernels[shipped->kernel], kernel));
    COPY(entry->tuner, shipped_texts[shipped->tuner]);
    COPY(entry->date, shipped_texts[shipped->date]);
    entry->tuned = tuned_default(gemm_space_find(entry->solver) != NULL ? gemm_space_find(entry->solver)
                                                                        : space_find(entry->solver));
    return entry->tuned.space != NULL && take_parameters(&entry->tuned, shipped);
}

static void load_shipped(struct tuning_layers *layers, const struct device *device)
{
    for (size_t i = 0; i < shipped_entry_count; i++) {
        struct tuning_entry entry;
        if (strcmp(shipped_devices[shipped_entries[i].device].device, device->info.name) == 0 &&
            tuning_shipped(i, &entry))
            tuning_table_put(&layers->tables[LAYER_SHIPPED], &entry);
    }
}

void tuning_layers_load(struct tuning_layers *layers, char *path, const struct device *device, const struct log *log)
{
    layers->path = path;
    if (path != NULL && *path == '\0')
        return;
    if (layers->path != NULL)
        load_file(layers, device, log);
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

/* How far two numbers of heads are apart, in doublings. */
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
        if (!tuning_same_key(entry, &asked) || strcmp(entry->kernel, key->kernel) != 0 || entry->heads < 1 ||
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

int tuning_was_first(const clattn_context *context, const struct problem *problem, const struct space *space, int last)
{
    const int64_t rows = problem_rows(problem);
    struct tuning_entry key;

    make_key(&key, context, problem, space);
    for (int layer = 0; layer <= last; layer++)
        for (size_t i = 0; i < context->tuning->tables[layer].count; i++) {
            const struct tuning_entry *entry = &context->tuning->tables[layer].entries[i];
            key.heads = entry->heads;
            memcpy(key.driver, entry->driver, sizeof key.driver);
            if (tuning_same_key(entry, &key) && entry->from_rows >= 0 && entry->from_rows <= rows &&
                tuning_is_near(entry, context, problem))
                return 1;
        }
    return 0;
}
