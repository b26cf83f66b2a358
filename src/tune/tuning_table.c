#include "tune/tuning_table.h"

#include "base/json.h"
#include "solve/gemm/gemm.h"

#include "base/file.h"
#include "base/text.h"
#include "base/system.h"

#include <math.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char format_name[] = "clattn tuning";
enum { FORMAT_VERSION = 2 };

static const struct {
    const char *key;
    size_t offset, size;
} texts[] = {
#define TEXT_ROW(key, size) {#key, offsetof(struct tuning_entry, key), size},
    TUNING_TEXTS(TEXT_ROW)
#undef TEXT_ROW
};
static const struct {
    const char *key;
    size_t offset;
} numbers[] = {
#define NUMBER_ROW(key) {#key, offsetof(struct tuning_entry, key)},
    TUNING_NUMBERS(NUMBER_ROW)
#undef NUMBER_ROW
};
static const struct {
    const char *key;
    size_t offset;
} reals[] = {
#define REAL_ROW(key) {#key, offsetof(struct tuning_entry, key)},
    TUNING_REALS(REAL_ROW)
#undef REAL_ROW
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void *field(struct tuning_entry *entry, size_t offset)
{
    return (char *)entry + offset;
}

static const void *field_of(const struct tuning_entry *entry, size_t offset)
{
    return (const char *)entry + offset;
}

/* ---- Reading ------------------------------------------------------------------------------------------------------
 */

static int read_text(const cJSON *object, const char *key, char *to, size_t size)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));

    if (text == NULL || strlen(text) >= size)
        return 0;
    strcpy(to, text);
    return 1;
}

static int read_real(const cJSON *object, const char *key, double *to)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble))
        return 0;
    *to = item->valuedouble;
    return 1;
}

static int read_number(const cJSON *object, const char *key, int64_t *to)
{
    double value;

    if (!read_real(object, key, &value) || value != floor(value) || fabs(value) > INT32_MAX)
        return 0;
    *to = (int64_t)value;
    return 1;
}

/* Accepts only values that the solver has. */
static int read_parameters(const cJSON *object, struct tuned *tuned)
{
    const struct parameter *parameter = tuned->space->parameters;
    int known = 0;

    if (!cJSON_IsObject(object))
        return 0;
    for (int i = 0; parameter[i].name != NULL; i++) {
        int64_t value;
        if (cJSON_GetObjectItemCaseSensitive(object, parameter[i].name) == NULL)
            continue;
        if (!read_number(object, parameter[i].name, &value) || !parameter_has(&parameter[i], (int)value))
            return 0;
        tuned->values[i] = (int)value;
        known++;
    }
    return known == cJSON_GetArraySize(object);
}

static int is_plausible(const char *key, int64_t number)
{
    int64_t least = strcmp(key, "from_rows") == 0 ? -1 : strcmp(key, "seq_len") == 0 ? 0 : 1;

    return number >= least;
}

/* NULL: success; else the key that is missing or has an invalid value. */
static const char *read_entry(const cJSON *object, struct tuning_entry *entry)
{
    memset(entry, 0, sizeof *entry);
    for (size_t i = 0; i < COUNT(texts); i++)
        if (!read_text(object, texts[i].key, field(entry, texts[i].offset), texts[i].size))
            return texts[i].key;
    for (size_t i = 0; i < COUNT(numbers); i++)
        if (!read_number(object, numbers[i].key, field(entry, numbers[i].offset)) ||
            !is_plausible(numbers[i].key, *(int64_t *)field(entry, numbers[i].offset)))
            return numbers[i].key;
    for (size_t i = 0; i < COUNT(reals); i++)
        if (!read_real(object, reals[i].key, field(entry, reals[i].offset)))
            return reals[i].key;
    entry->tuned = tuned_default(gemm_space_find(entry->solver) != NULL ? gemm_space_find(entry->solver)
                                                                        : space_find(entry->solver));
    if (entry->tuned.space == NULL)
        return "solver";
    return read_parameters(cJSON_GetObjectItemCaseSensitive(object, "parameters"), &entry->tuned) ? NULL : "parameters";
}

/* why: the reason for the first entry that is left out */
static int read_entries(struct tuning_table *table, const cJSON *entries, const char *device, char *why,
                        size_t why_size)
{
    struct tuning_entry entry;
    const cJSON *object;
    int left_out = 0, number = 0;

    cJSON_ArrayForEach(object, entries)
    {
        const char *wrong = read_entry(object, &entry);
        number++;
        if (wrong != NULL && left_out++ == 0)
            snprintf(why, why_size, "entry %d has no \"%s\" of use", number, wrong);
        if (wrong != NULL)
            continue;
        if (device == NULL || strcmp(entry.device, device) == 0)
            left_out += tuning_table_put(table, &entry) != CLATTN_SUCCESS;
    }
    return left_out;
}

int tuning_table_parse(struct tuning_table *table, const char *json, const char *device, char *why, size_t why_size)
{
    cJSON *root = json_parse(json);
    const cJSON *entries = cJSON_GetObjectItemCaseSensitive(root, "entries");
    char format[32] = "";
    int64_t version = 0;
    int left_out = -1;

    if (root == NULL)
        snprintf(why, why_size, "is no JSON");
    else if (!read_text(root, "format", format, sizeof format) || strcmp(format, format_name) != 0)
        snprintf(why, why_size, "is no tuning file: its \"format\" is not \"%s\"", format_name);
    else if (!read_number(root, "version", &version) || version != FORMAT_VERSION)
        snprintf(why, why_size, "has version %lld, expected %d", (long long)version, FORMAT_VERSION);
    else if (!cJSON_IsArray(entries))
        snprintf(why, why_size, "has no array \"entries\"");
    else
        left_out = read_entries(table, entries, device, why, why_size);
    cJSON_Delete(root);
    return left_out;
}

void tuning_table_free(struct tuning_table *table)
{
    free(table->entries);
    memset(table, 0, sizeof *table);
}

int tuning_same_key(const struct tuning_entry *a, const struct tuning_entry *b)
{
    return strcmp(a->device, b->device) == 0 && strcmp(a->vendor, b->vendor) == 0 &&
           strcmp(a->driver, b->driver) == 0 && strcmp(a->group, b->group) == 0 && strcmp(a->dtype, b->dtype) == 0 &&
           strcmp(a->solver, b->solver) == 0 && strcmp(a->engine, b->engine) == 0 && a->key_dim == b->key_dim &&
           a->value_dim == b->value_dim && a->heads == b->heads;
}

clattn_status tuning_table_put(struct tuning_table *table, const struct tuning_entry *entry)
{
    struct tuning_entry *entries;

    for (size_t i = 0; i < table->count; i++)
        if (tuning_same_key(&table->entries[i], entry)) {
            table->entries[i] = *entry;
            return CLATTN_SUCCESS;
        }
    entries = realloc(table->entries, (table->count + 1) * sizeof *entries);
    if (entries == NULL)
        return CLATTN_OUT_OF_MEMORY;
    table->entries = entries;
    entries[table->count++] = *entry;
    return CLATTN_SUCCESS;
}

/* ---- Writing ------------------------------------------------------------------------------------------------------
 */

static cJSON *parameters_object(const struct tuned *tuned)
{
    const struct parameter *parameter = tuned->space->parameters;
    cJSON *object = cJSON_CreateObject();

    for (int i = 0; parameter[i].name != NULL; i++)
        if (tuned->values[i] != BY_HEURISTIC)
            cJSON_AddNumberToObject(object, parameter[i].name, tuned->values[i]);
    return object;
}

static cJSON *entry_object(const struct tuning_entry *entry)
{
    cJSON *object = cJSON_CreateObject();
    int64_t number;
    double real;

    for (size_t i = 0; i < COUNT(texts); i++)
        cJSON_AddStringToObject(object, texts[i].key, field_of(entry, texts[i].offset));
    for (size_t i = 0; i < COUNT(numbers); i++) {
        memcpy(&number, field_of(entry, numbers[i].offset), sizeof number);
        cJSON_AddNumberToObject(object, numbers[i].key, (double)number);
    }
    for (size_t i = 0; i < COUNT(reals); i++) {
        char text[32];
        memcpy(&real, field_of(entry, reals[i].offset), sizeof real);
        text_fit(text, sizeof text, "%.5g", real);
        cJSON_AddRawToObject(object, reals[i].key, text);
    }
    cJSON_AddItemToObject(object, "parameters", parameters_object(&entry->tuned));
    return object;
}

char *tuning_table_print(const struct tuning_table *table)
{
    struct text text = {0};

    text_format(&text, "{\"format\": \"%s\", \"version\": %d, \"entries\": [", format_name, FORMAT_VERSION);
    for (size_t i = 0; i < table->count; i++) {
        cJSON *object = entry_object(&table->entries[i]);
        char *line = json_text(object);
        text_format(&text, "%s\n", i > 0 ? "," : "");
        if (line != NULL)
            text_add(&text, line, strlen(line));
        text.failed |= line == NULL;
        cJSON_free(line);
        cJSON_Delete(object);
    }
    text_format(&text, "\n]}\n");
    return text_take(&text);
}

/* Reads the file at path and adds the table's entries, which win. */
static clattn_status merge(const struct tuning_table *table, const char *path, struct tuning_table *merged,
                           const struct log *log)
{
    char why[96];
    size_t size;
    char *json = file_read(path, TUNING_FILE_LIMIT, &size);

    if (json != NULL && tuning_table_parse(merged, json, NULL, why, sizeof why) < 0)
        log_line(log, CLATTN_LOG_WARNING, "%s: %s; it is written anew", path, why);
    free(json);
    for (size_t i = 0; i < table->count; i++)
        TRY(tuning_table_put(merged, &table->entries[i]));
    return CLATTN_SUCCESS;
}

static clattn_status write_merged(const struct tuning_table *table, const char *path, const struct log *log)
{
    struct tuning_table merged = {NULL, 0};
    clattn_status status = merge(table, path, &merged, log);
    char *json = status == CLATTN_SUCCESS ? tuning_table_print(&merged) : NULL;

    if (json == NULL)
        status = CLATTN_OUT_OF_MEMORY;
    else if (file_write(path, json, strlen(json), NULL, 0) != 0)
        status = FAIL(log, INVALID_ARGUMENT, "%s: cannot write: %s", path, strerror(errno));
    free(json);
    tuning_table_free(&merged);
    return status;
}

clattn_status tuning_table_save(const struct tuning_table *table, const char *path, const struct log *log)
{
    struct text name = {0};
    clattn_status status;
    char *lock_path;
    int lock;

    if (file_make_folders(path) != 0)
        return FAIL(log, INVALID_ARGUMENT, "%s: its folder cannot be made: %s", path, strerror(errno));
    text_format(&name, "%s.lock", path);
    lock_path = text_take(&name);
    if (lock_path == NULL)
        return CLATTN_OUT_OF_MEMORY;
    lock = file_lock(lock_path, 1);
    status = write_merged(table, path, log);
    file_unlock(lock);
    free(lock_path);
    return status;
}

char *tuning_user_path(void)
{
    char *variable = environment_copy("CLATTN_TUNING"), *folder, *path;

    if (variable != NULL && *variable != '\0')
        return variable;
    free(variable);
    if (variable != NULL)
        return NULL;
    folder = file_user_folder(USER_CONFIG);
    path = file_join(folder, "tuning.json");
    free(folder);
    return path;
}
