#include "cli/out/table.h"

#include "base/file.h"
#include "base/json.h"
#include "base/system.h"
#include "base/text.h"
#include "cli/out/progress.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELL = 160 };

static void bytes_text(double bytes, char text[CELL])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;

    while (bytes >= 1024 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    text_fit(text, CELL, "%.*f %s", bytes < 10 && bytes != floor(bytes) ? 1 : 0, bytes, units[unit]);
}

/* Names must not move the cursor or start a line. */
static void make_plain(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

static int is_word(const struct column *column)
{
    return column->kind == COLUMN_WORD || column->kind == COLUMN_ORIGIN;
}

static void cell_text(const cJSON *row, const struct column *column, enum format format, char text[CELL])
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(row, column->key);
    double number = cJSON_IsNumber(item) ? item->valuedouble : 0;

    text[0] = '\0';
    if (cJSON_IsBool(item))
        snprintf(text, CELL, "%s", cJSON_IsTrue(item) ? "ok" : "FAIL");
    else if (cJSON_IsString(item))
        text_fit(text, CELL, "%s", item->valuestring);
    else if (!cJSON_IsNumber(item))
        snprintf(text, CELL, "%s", format == FORMAT_CSV ? "" : "-");
    else if (format == FORMAT_CSV && fabs(number) < 9007199254740992.0 && number == floor(number))
        text_fit(text, CELL, "%.0f", number);
    else if (format == FORMAT_CSV)
        text_fit(text, CELL, "%.9g", number);
    else if (column->kind == COLUMN_BYTES)
        bytes_text(number, text);
    else if (column->kind == COLUMN_SCIENTIFIC)
        text_fit(text, CELL, "%.*e", column->digits, number);
    else
        text_fit(text, CELL, "%.*f", column->digits, number);
    if (format != FORMAT_CSV)
        make_plain(text);
}

static void print_csv(const char *text)
{
    int quoted = strpbrk(text, ",\"\n") != NULL;

    if (quoted)
        putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"')
            putchar('"');
        putchar(*text);
    }
    if (quoted)
        putchar('"');
}

/* What is printed before, between and after the cells of a line. */
struct layout {
    const char *before, *between, *after;
};
static const struct layout layouts[] = {[FORMAT_TEXT] = {"", "  ", "\n"},
                                        [FORMAT_JSON] = {"", "", ""},
                                        [FORMAT_CSV] = {"", ",", "\n"},
                                        [FORMAT_MARKDOWN] = {"| ", " | ", " |\n"}};

static void print_cell(const char *text, const struct column *column, int width, int last, enum format format)
{
    if (format == FORMAT_CSV)
        print_csv(text);
    else if (!is_word(column))
        printf("%*s", width, text);
    else
        printf("%-*s", last && format == FORMAT_TEXT ? 0 : width, text);
}

/* Text for other programs is never shortened. */
static const char *whole_text(const struct table *table, const cJSON *row, const struct column *column)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(row, column->key);

    return table->format == FORMAT_CSV ? cJSON_GetStringValue(item) : NULL;
}

static size_t last_column(const struct table *table)
{
    size_t last = table->count - 1;

    while (last > 0 && table->dropped[last])
        last--;
    return last;
}

/* Prints a row, or the titles if row is NULL. */
static void print_line(const struct table *table, const cJSON *row)
{
    const struct layout *layout = &layouts[table->format];
    const size_t last = last_column(table);
    size_t printed = 0;
    char text[CELL];

    for (size_t i = 0; i <= last; i++) {
        const struct column *column = &table->columns[i];
        const char *whole = whole_text(table, row, column);
        if (table->dropped[i])
            continue;
        fputs(printed++ == 0 ? layout->before : layout->between, stdout);
        if (row != NULL)
            cell_text(row, column, table->format, text);
        else
            snprintf(text, sizeof text, "%s", table->format == FORMAT_CSV ? column->key : column->title);
        print_cell(whole != NULL ? whole : text, column, table->widths[i], i == last, table->format);
    }
    fputs(layout->after, stdout);
}

static void print_separator(const struct table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        int word = is_word(&table->columns[i]);
        fputs(i == 0 ? "|" : "", stdout);
        putchar(word ? ':' : '-');
        for (int n = 0; n < table->widths[i]; n++)
            putchar('-');
        fputs(word ? "-|" : ":|", stdout);
    }
    putchar('\n');
}

/* Prints one line per cell, and an empty line after the row. */
static void print_record(const struct table *table, const cJSON *row)
{
    char text[CELL];
    size_t width = 0;

    for (size_t i = 0; i < table->count; i++)
        width = strlen(table->columns[i].title) > width ? strlen(table->columns[i].title) : width;
    for (size_t i = 0; i < table->count; i++) {
        cell_text(row, &table->columns[i], table->format, text);
        printf("%-*s  %s\n", (int)width, table->columns[i].title, text);
    }
    putchar('\n');
}

/* The columns that the table needs beyond those of the terminal; 0: it fits. */
static int missing_width(const struct table *table)
{
    int columns = table->format == FORMAT_TEXT ? stream_columns(stdout) : 0, width = -2;

    for (size_t i = 0; i < table->count; i++)
        width += table->dropped[i] ? 0 : 2 + table->widths[i];
    return columns > 0 && width > columns ? width - columns : 0;
}

/* Drops one column more. 0: no other may go. */
static int drop_column(struct table *table)
{
    size_t next = table->count;

    for (size_t i = 0; i < table->count; i++)
        if (!table->dropped[i] && table->columns[i].drop > (next < table->count ? table->columns[next].drop : 0))
            next = i;
    if (next < table->count)
        table->dropped[next] = 1;
    return next < table->count;
}

/* Where no choice of columns fits, all of them are printed below each other. */
static void fit(struct table *table)
{
    memset(table->dropped, 0, sizeof table->dropped);
    while (missing_width(table) > 0 && drop_column(table))
        ;
    table->vertical = missing_width(table) > 0;
    if (table->vertical)
        memset(table->dropped, 0, sizeof table->dropped);
}

void table_begin(struct table *table, const struct column *columns, size_t count, enum format format)
{
    while (format == FORMAT_TEXT && count > 0 && columns[count - 1].kind == COLUMN_ORIGIN)
        count--;
    *table = (struct table){.columns = columns, .count = count, .format = format};
    for (size_t i = 0; i < table->count; i++)
        table->widths[i] = (int)strlen(columns[i].title);
}

void table_widen(struct table *table, const cJSON *row)
{
    char text[CELL];

    for (size_t i = 0; i < table->count; i++) {
        cell_text(row, &table->columns[i], table->format, text);
        table->widths[i] = (int)strlen(text) > table->widths[i] ? (int)strlen(text) : table->widths[i];
    }
}

void table_head(struct table *table)
{
    progress_clear();
    fit(table);
    if (table->vertical)
        return;
    print_line(table, NULL);
    if (table->format == FORMAT_MARKDOWN)
        print_separator(table);
}

void table_row(const struct table *table, const cJSON *row)
{
    progress_clear();
    if (table->vertical)
        print_record(table, row);
    else
        print_line(table, row);
}

const char *row_string(const cJSON *row, const char *key)
{
    const char *text = json_string(row, key);

    return text != NULL ? text : "";
}

int json_print(cJSON *json)
{
    int status = json_write("-", json);

    cJSON_Delete(json);
    return status;
}

int json_write(const char *path, const cJSON *json)
{
    char *text = json_text_indented(json);
    int status = EXIT_OK;

    if (text == NULL)
        return failed("no memory for the JSON text");
    if (path == NULL || strcmp(path, "-") == 0)
        puts(text);
    else if (file_write(path, text, strlen(text), "\n", 1) != 0)
        status = failed("%s: cannot write: %s", path, strerror(errno));
    cJSON_free(text);
    return status;
}

int table_print(cJSON *rows, const struct column *columns, size_t count, enum format format)
{
    struct table table;
    const cJSON *row;

    progress_clear();
    if (format == FORMAT_JSON)
        return json_print(rows);
    table_begin(&table, columns, count, format);
    cJSON_ArrayForEach(row, rows) table_widen(&table, row);
    table_head(&table);
    cJSON_ArrayForEach(row, rows) table_row(&table, row);
    cJSON_Delete(rows);
    return EXIT_OK;
}
