#include "base/json.h"
#include "tune/tuning_table.h"
#include "tuner/journal.h"

#include "base/file.h"
#include "base/system.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

static enum trial_state state_by_name(const char *name)
{
    for (int s = 0; name != NULL && s < TRIAL_STATE_COUNT; s++)
        if (strcmp(trial_state_name((enum trial_state)s), name) == 0)
            return (enum trial_state)s;
    return TRIAL_NEW;
}

static void read_values(const cJSON *object, struct tuned *tuned)
{
    for (int i = 0; tuned->space->parameters[i].name != NULL; i++) {
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, tuned->space->parameters[i].name);
        if (cJSON_IsNumber(value) && parameter_has(&tuned->space->parameters[i], value->valueint))
            tuned->values[i] = value->valueint;
    }
}

static struct journal_entry *find(struct journal *journal, const char *item, const struct tuned *tuned)
{
    for (size_t i = 0; i < journal->count; i++)
        if (strcmp(journal->entries[i].item, item) == 0 && journal->entries[i].tuned.space == tuned->space &&
            memcmp(journal->entries[i].tuned.values, tuned->values, sizeof tuned->values) == 0)
            return &journal->entries[i];
    return NULL;
}

static struct journal_entry *append(struct journal *journal, const char *item, const struct tuned *tuned)
{
    struct journal_entry *all = realloc(journal->entries, (journal->count + 1) * sizeof *all);

    if (all == NULL)
        return NULL;
    journal->entries = all;
    all[journal->count] = (struct journal_entry){.item = text_copy(item), .tuned = *tuned};
    return all[journal->count].item != NULL ? &all[journal->count++] : NULL;
}

static void remember_finished(struct journal *journal, const char *item)
{
    char **all = realloc(journal->finished, (journal->finished_count + 1) * sizeof *all);

    if (all == NULL)
        return;
    journal->finished = all;
    all[journal->finished_count] = text_copy(item);
    journal->finished_count += all[journal->finished_count] != NULL;
}

/* A line that was cut off because its process ended is ignored. */
static void read_line(struct journal *journal, const cJSON *line)
{
    const char *item = json_string(line, "item");
    const char *solver = json_string(line, "solver");
    struct tuned tuned = tuned_default(solver != NULL ? space_find(solver) : NULL);
    struct journal_entry *entry;

    if (item != NULL && solver == NULL)
        remember_finished(journal, item);
    if (item == NULL || tuned.space == NULL)
        return;
    read_values(cJSON_GetObjectItemCaseSensitive(line, "point"), &tuned);
    entry = find(journal, item, &tuned);
    if (entry == NULL)
        entry = append(journal, item, &tuned);
    if (entry == NULL)
        return;
    entry->state = state_by_name(json_string(line, "state"));
    entry->time = json_number(line, "time");
    entry->error = json_number(line, "error");
}

static void read_file(struct journal *journal)
{
    size_t size;
    char *text = file_read(journal->path, TUNING_FILE_LIMIT, &size), *line = text;

    while (line != NULL && *line != '\0') {
        char *end = strchr(line, '\n');
        cJSON *object;
        if (end != NULL)
            *end = '\0';
        object = json_parse(line);
        read_line(journal, object);
        cJSON_Delete(object);
        line = end != NULL ? end + 1 : NULL;
    }
    free(text);
    for (size_t i = 0; i < journal->count; i++)
        if (journal->entries[i].state == TRIAL_TRYING)
            journal->entries[i].state = TRIAL_CRASHED;
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

static void write_line(struct journal *journal, cJSON *object)
{
    char *line = json_text(object);

    if (line != NULL && journal->file != NULL) {
        fprintf(journal->file, "%s\n", line);
        file_sync(journal->file);
    }
    cJSON_free(line);
    cJSON_Delete(object);
}

void journal_write(struct journal *journal, const char *item, const struct tuned *tuned, enum trial_state state,
                   double time, double error)
{
    cJSON *object, *point;

    if (journal == NULL)
        return;
    object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "item", item);
    cJSON_AddStringToObject(object, "solver", tuned->space->name);
    cJSON_AddStringToObject(object, "state", trial_state_name(state));
    cJSON_AddNumberToObject(object, "time", time);
    cJSON_AddNumberToObject(object, "error", error);
    point = cJSON_AddObjectToObject(object, "point");
    for (int i = 0; tuned->space->parameters[i].name != NULL; i++)
        if (tuned->values[i] != BY_HEURISTIC)
            cJSON_AddNumberToObject(point, tuned->space->parameters[i].name, tuned->values[i]);
    write_line(journal, object);
}

void journal_finish(struct journal *journal, const char *item)
{
    cJSON *object;

    if (journal == NULL)
        return;
    object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "item", item);
    write_line(journal, object);
    remember_finished(journal, item);
}

int journal_finished(const struct journal *journal, const char *item)
{
    for (size_t i = 0; journal != NULL && i < journal->finished_count; i++)
        if (strcmp(journal->finished[i], item) == 0)
            return 1;
    return 0;
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

static char *lock_path(const char *path)
{
    struct text text = {0};

    text_format(&text, "%s.lock", path);
    return text_take(&text);
}

clattn_status journal_open(struct journal *journal, const char *path, const struct log *log)
{
    char *lock = lock_path(path);

    *journal = (struct journal){.path = text_copy(path), .lock = -1};
    if (lock == NULL || journal->path == NULL) {
        free(lock);
        return CLATTN_OUT_OF_MEMORY;
    }
    if (file_make_folders(path) == 0)
        journal->lock = file_lock(lock, 0);
    free(lock);
    if (journal->lock < 0)
        return FAIL(log, INVALID_ARGUMENT, "%s: cannot be locked: %s", path,
                    errno == EWOULDBLOCK ? "another `clattn tune` is running" : strerror(errno));
    read_file(journal);
    journal->file = file_open(path, "a");
    if (journal->file == NULL)
        return FAIL(log, INVALID_ARGUMENT, "%s: cannot write: %s", path, strerror(errno));
    fputc('\n', journal->file); /* ends a line that was cut off */
    return CLATTN_SUCCESS;
}

void journal_close(struct journal *journal, int done)
{
    if (journal->file != NULL)
        fclose(journal->file);
    if (done && journal->path != NULL)
        file_remove(journal->path);
    file_unlock(journal->lock);
    for (size_t i = 0; i < journal->count; i++)
        free(journal->entries[i].item);
    for (size_t i = 0; i < journal->finished_count; i++)
        free(journal->finished[i]);
    free(journal->entries);
    free(journal->finished);
    free(journal->path);
    *journal = (struct journal){.lock = -1};
}
