/* clattn cache: the compiled programs on disk. */
#include "base/text.h"
#include "device/cache.h"

#include "cli/cli.h"
#include "cli/out/origin.h"
#include "cli/out/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct column columns[] = {
    {"key", "key", COLUMN_WORD, 0, 2},
    {"bytes", "size", COLUMN_BYTES, 0, 0},
    {"used_seconds_ago", "used s ago", COLUMN_FIXED, 0, 1},
    {"intact", "result", COLUMN_WORD, 0, 0},
    {"label", "what", COLUMN_WORD, 0, 0},
    {"device", "device", COLUMN_WORD, 0, 3},
    BUILD_COLUMNS,
};

/* "kernel gates, DEVICE, DRIVER", as what it is and where */
static void add_label(cJSON *row, const char *label)
{
    const char *comma = strstr(label, ", ");
    char *what = text_copy(label);

    if (what != NULL && comma != NULL)
        what[comma - label] = '\0';
    cJSON_AddStringToObject(row, "label", what != NULL ? what : label);
    cJSON_AddStringToObject(row, "device", comma != NULL ? comma + 2 : "");
    free(what);
}

static void add_row(void *rows, const struct cache_entry *entry)
{
    cJSON *row = cJSON_CreateObject();

    cJSON_AddStringToObject(row, "key", entry->key);
    cJSON_AddNumberToObject(row, "bytes", (double)entry->bytes);
    cJSON_AddNumberToObject(row, "used_seconds_ago", fmax(entry->used, 0)); /* clocks differ */
    cJSON_AddBoolToObject(row, "intact", entry->intact);
    add_label(row, entry->label);
    cJSON_AddItemToArray(rows, row);
}

static int list(const char *folder, enum format format)
{
    cJSON *rows = cJSON_CreateArray();

    if (format == FORMAT_TEXT)
        printf("%s\n", folder);
    cache_list(folder, add_row, rows);
    origin_add_all(rows, NULL);
    return table_print(rows, columns, sizeof columns / sizeof *columns, format);
}

static int clear(const char *folder)
{
    int count = cache_clear(folder);

    printf("%s: %d entries removed\n", folder, count > 0 ? count : 0);
    return EXIT_OK;
}

int cache_main(struct settings *settings)
{
    char *folder;
    int status;

    if (settings->list && settings->clear)
        return bad("expected one of --list and --clear");
    folder = cache_folder();
    if (folder == NULL)
        return bad("there is no cache folder: CLATTN_CACHE_DIR is empty, or the user has no home");
    status = settings->clear ? clear(folder) : list(folder, settings->format);
    free(folder);
    return status;
}
