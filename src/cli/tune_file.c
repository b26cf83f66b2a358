/* clattn tune --show, --export, --import, --submit, --reset: the user's file of parameters. */
#include "base/json.h"
#include "cli/tune.h"

#include "cli/devices.h"
#include "device/context.h"
#include "base/file.h"
#include "base/system.h"
#include "base/text.h"
#include "op/problem.h"
#include "tune/tuning_layers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *why_unread(const char *path)
{
    uint64_t bytes;

    switch (file_kind(path, &bytes)) {
    case FILE_MISSING: return strerror(errno);
    case FILE_FOLDER: return strerror(EISDIR);
    case FILE_OTHER: return "it is not a regular file";
    case FILE_REGULAR: break;
    }
    return bytes > TUNING_FILE_LIMIT ? "it has more than 16 MiB" : strerror(errno);
}

/* Reads the table of a file. EXIT_OK, or one line and a code. */
static int read_table(const char *path, struct tuning_table *table)
{
    char why[96];
    size_t size;
    char *json = file_read(path, TUNING_FILE_LIMIT, &size);
    int left_out;

    *table = (struct tuning_table){NULL, 0};
    if (json == NULL)
        return bad("%s: cannot read: %s", path, why_unread(path));
    left_out = tuning_table_parse(table, json, NULL, why, sizeof why);
    free(json);
    if (left_out < 0)
        return bad("%s: %s", path, why);
    if (left_out > 0)
        return bad("%s: %d of its entries are not understood: %s", path, left_out, why);
    return EXIT_OK;
}

static int write_text(const char *path, char *json)
{
    int status = EXIT_OK;

    if (json == NULL)
        return failed("%s: no memory", path);
    if (file_write(path, json, strlen(json), NULL, 0) != 0)
        status = failed("%s: cannot write: %s", path, strerror(errno));
    free(json);
    return status;
}

/* An entry's row with the table that it comes from, and why it may not be used. */
static cJSON *annotated_row(const struct tuning_entry *entry, const struct clattn_context *context, int layer)
{
    cJSON *row = tune_entry_row(entry);
    const int is_file = layer == LAYER_FILE;
    struct text text = {0};
    char *note;

    if (is_file)
        cJSON_AddStringToObject(row, "path", context->tuning->path);
    text_format(&text, "%s%s%s", is_file ? "the user's file" : tuning_layer_name(context->tuning, layer),
                entry->format == entry->tuned.space->format ? ""
                                                            : "; not used: its parameters have another meaning now",
                strcmp(entry->driver, context->device.info.driver) == 0 ? "" : "; another driver");
    note = text_take(&text);
    cJSON_AddStringToObject(row, "note", note != NULL ? note : "");
    free(note);
    return row;
}

int tune_show(const struct settings *settings, struct target *target)
{
    const struct clattn_context *context = target->device.context;
    cJSON *rows = cJSON_CreateArray();

    if (settings->format == FORMAT_TEXT && context->tuning->tables[LAYER_FILE].count > 0)
        printf("the user's file: %s\n", context->tuning->path);
    for (int layer = 0; layer < LAYER_COUNT; layer++)
        for (size_t i = 0; i < context->tuning->tables[layer].count; i++)
            cJSON_AddItemToArray(rows, annotated_row(&context->tuning->tables[layer].entries[i], context, layer));
    return tune_print(rows, settings->format);
}

int tune_export(const struct settings *settings, const char *path)
{
    struct tuning_table table;
    int status = read_table(path, &table);

    if (status == EXIT_OK)
        status = write_text(settings->export_to, tuning_table_print(&table));
    tuning_table_free(&table);
    return status;
}

/* The table and the device as text. NULL without memory. */
static char *submission_text(const struct tuning_table *table, const clattn_device_info *info)
{
    char *entries = tuning_table_print(table), *text = NULL;
    cJSON *whole = entries != NULL ? json_parse(entries) : NULL;

    if (whole != NULL) {
        cJSON_AddStringToObject(whole, "clattn", clattn_version());
        cJSON_AddItemToObject(whole, "device", device_row(info));
        text = json_text_indented(whole);
    }
    cJSON_Delete(whole);
    free(entries);
    return text;
}

int tune_submit(const struct settings *settings, const struct target *target, const char *path)
{
    const clattn_device_info *info = &target->info;
    struct tuning_table table, of_device = {NULL, 0};
    int status = read_table(path, &table);

    for (size_t i = 0; i < table.count; i++)
        if (strcmp(table.entries[i].device, info->name) == 0 && strcmp(table.entries[i].driver, info->driver) == 0)
            tuning_table_put(&of_device, &table.entries[i]);
    if (status == EXIT_OK && of_device.count == 0)
        status =
            bad("%s: has no parameters for %s with driver %s: run `clattn tune` first", path, info->name, info->driver);
    if (status == EXIT_OK)
        status = write_text(settings->submit_to, submission_text(&of_device, info));
    if (status == EXIT_OK)
        printf("%s: %zu entries of %s\n", settings->submit_to, of_device.count, info->name);
    tuning_table_free(&table);
    tuning_table_free(&of_device);
    return status;
}

int tune_import(const struct settings *settings, const char *path)
{
    struct sink sink = {.error = ""};
    const struct log log = {sink_log, &sink};
    struct tuning_table table;
    int status = read_table(settings->import_from, &table);

    if (status == EXIT_OK) {
        clattn_status saved = tuning_table_save(&table, path, &log);
        if (saved != CLATTN_SUCCESS)
            status = (library_error(&sink, "", saved), EXIT_FAILED);
        else
            printf("%s: %zu entries\n", path, table.count);
    }
    tuning_table_free(&table);
    return status;
}

int tune_reset(struct target *target, const char *path)
{
    struct tuning_table table, kept = {NULL, 0};
    size_t size;
    char *json = file_read(path, TUNING_FILE_LIMIT, &size);
    int status = EXIT_OK;

    free(json);
    if (json == NULL)
        return EXIT_OK; /* there is nothing to forget */
    status = read_table(path, &table);
    for (size_t i = 0; i < table.count; i++)
        if (strcmp(table.entries[i].device, target->info.name) != 0)
            tuning_table_put(&kept, &table.entries[i]);
    if (status == EXIT_OK)
        status = write_text(path, tuning_table_print(&kept));
    if (status == EXIT_OK)
        printf("%s: %zu entries removed\n", path, table.count - kept.count);
    tuning_table_free(&table);
    tuning_table_free(&kept);
    return status;
}
