/* The charts of the report of `clattn tune`, as inline SVG. */
#ifndef CLATTN_SRC_CLI_REPORT_H
#define CLATTN_SRC_CLI_REPORT_H

#include <cjson/cJSON.h>
#include <stdio.h>

/* A row's number; 0 where it has none. */
double report_number(const cJSON *row, const char *key);
/* A row's text, with what HTML would take for markup made harmless. */
void report_text(FILE *file, const cJSON *row, const char *key);

/* Whether two rows are of one problem, which has a row a solver. */
int report_same(const cJSON *a, const cJSON *b);

/* How many points came to which time; the default and the winner marked. */
void chart_distribution(FILE *file, const cJSON *row);
/* Every point when it was tried, and the best until then. */
void chart_progress(FILE *file, const cJSON *row);
/* Time by length, a line a solver: rows from first on that share its problem. */
void chart_lengths(FILE *file, const cJSON *first);
/* A bar for a share of a peak in percent. */
void chart_share(FILE *file, const char *label, double percent);

#endif
