#include "cli/table.h"

#include "base/text.h"
#include "cli/progress.h"

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
    snprintf(text, CELL, "%.*f %s", bytes < 10 && bytes != floor(bytes) ? 1 : 0, bytes, units[unit]);
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
    else if (format == FORMAT_CSV)
        snprintf(text, CELL, "%.9g", number);
    else if (column->kind == COLUMN_BYTES)
        bytes_text(number, text);
    else if (column->kind == COLUMN_SCIENTIFIC)
        snprintf(text, CELL, "%.*e", column->digits, number);
    else
        snprintf(text, CELL, "%.*f", column->digits, number);
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

/* How the three tables differ: what stands before, between and after the cells of a line. */
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
    else if (column->kind != COLUMN_WORD)
        printf("%*s", width, text);
    else
        printf("%-*s", last && format == FORMAT_TEXT ? 0 : width, text);
}

/* A line of titles (row NULL) or of a row. */
static void print_line(const cJSON *row, const struct column *columns, size_t count, const int *widths,
                       enum format format)
{
    const struct layout *layout = &layouts[format];
    char text[CELL];

    for (size_t i = 0; i < count; i++) {
        fputs(i == 0 ? layout->before : layout->between, stdout);
        if (row != NULL)
            cell_text(row, &columns[i], format, text);
        else
            snprintf(text, sizeof text, "%s", format == FORMAT_CSV ? columns[i].key : columns[i].title);
        print_cell(text, &columns[i], widths[i], i + 1 == count, format);
    }
    fputs(layout->after, stdout);
}

static void print_rule(const struct column *columns, size_t count, const int *widths)
{
    for (size_t i = 0; i < count; i++) {
        fputs(i == 0 ? "|" : "", stdout);
        putchar(columns[i].kind == COLUMN_WORD ? ':' : '-');
        for (int n = 0; n < widths[i]; n++)
            putchar('-');
        fputs(columns[i].kind == COLUMN_WORD ? "-|" : ":|", stdout);
    }
    putchar('\n');
}

int json_print(cJSON *json)
{
    char *text = cJSON_Print(json);

    cJSON_Delete(json);
    if (text == NULL)
        return failed("no memory for the JSON text");
    puts(text);
    cJSON_free(text);
    return EXIT_OK;
}

int table_print(cJSON *rows, const struct column *columns, size_t count, enum format format)
{
    enum { MOST = 24 };
    int widths[MOST] = {0};
    const cJSON *row;
    char text[CELL];

    progress_clear();
    if (format == FORMAT_JSON)
        return json_print(rows);
    for (size_t i = 0; i < count && i < MOST; i++) {
        widths[i] = (int)strlen(columns[i].title);
        cJSON_ArrayForEach(row, rows)
        {
            cell_text(row, &columns[i], format, text);
            widths[i] = (int)strlen(text) > widths[i] ? (int)strlen(text) : widths[i];
        }
    }
    print_line(NULL, columns, count, widths, format);
    if (format == FORMAT_MARKDOWN)
        print_rule(columns, count, widths);
    cJSON_ArrayForEach(row, rows) print_line(row, columns, count, widths, format);
    cJSON_Delete(rows);
    return EXIT_OK;
}
