/* Rows as cJSON objects, printed as JSON or, by a list of columns, as text, CSV or Markdown. */
#ifndef CLATTN_SRC_CLI_OUT_TABLE_H
#define CLATTN_SRC_CLI_OUT_TABLE_H

#include "cli/cli.h"

#include <cjson/cJSON.h>

enum column_kind {
    COLUMN_WORD,       /* text, or ok/FAIL for a boolean */
    COLUMN_FIXED,      /* a number with that many decimals */
    COLUMN_SCIENTIFIC, /* 1.2e-06 */
    COLUMN_BYTES,      /* 24 GiB */
    COLUMN_ORIGIN      /* a word that text leaves out; only at the end */
};

struct column {
    const char *key, *title;
    enum column_kind kind;
    int digits;
    int drop; /* text leaves the column out where the table is too wide, those with the largest number first; 0: never */
};

/* A table whose rows come one by one. Its columns keep the widths that they have when the head is printed. On a terminal
 * that is too narrow for all of them some are left out, and if that is not enough, each cell gets a line of its own. */
enum { MAX_COLUMNS = 24 };
struct table {
    const struct column *columns;
    size_t count;
    enum format format; /* not JSON */
    int widths[MAX_COLUMNS];
    int dropped[MAX_COLUMNS];
    int vertical; /* one line per cell */
};
/* Columns are as wide as their titles. */
void table_begin(struct table *table, const struct column *columns, size_t count, enum format format);
/* Makes the columns wide enough for a row. */
void table_widen(struct table *table, const cJSON *row);
void table_head(struct table *table);
void table_row(const struct table *table, const cJSON *row);

/* Prints rows, an array, on stdout and deletes it. The columns apply to all formats but JSON, which has everything.
 * EXIT_OK, or EXIT_FAILED without memory. */
int table_print(cJSON *rows, const struct column *columns, size_t count, enum format format);
/* A row's text, or "" if it has none. */
const char *row_string(const cJSON *row, const char *key);

/* Prints json on stdout and deletes it. */
int json_print(cJSON *json);
/* Writes json to a file, or to stdout if path is NULL or "-". EXIT_OK, or one line and EXIT_FAILED. */
int json_write(const char *path, const cJSON *json);

#endif
