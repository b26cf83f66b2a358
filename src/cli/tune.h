/* The parts of `clattn tune`. */
#ifndef CLATTN_SRC_CLI_TUNE_H
#define CLATTN_SRC_CLI_TUNE_H

#include "cli/cli.h"
#include "cli/device/peak.h"
#include "cli/device/target.h"
#include "tuner/tune.h"

#include <cjson/cJSON.h>

/* ---- Rows: what a tuned problem came to, an object a solver ------------------------------------------------------ */

/* "chunk=32 scan.block_v=64", or "default" if all parameters are left to the heuristic. */
const char *tuned_name(const struct tuned *tuned, char *text, size_t size);
/* Appends a row for each solver that was searched: its entry, all candidates, and shares of the peaks. */
void tune_rows(cJSON *rows, const struct tune_result *result, const struct peak *peak);
/* An entry as a row of a table. */
cJSON *tune_entry_row(const struct tuning_entry *entry);
int tune_print(cJSON *rows, enum format format);

/* ---- The user's file --------------------------------------------------------------------------------------------- */

int tune_show(const struct settings *settings, struct target *target);
int tune_export(const struct settings *settings, const char *path);
/* Writes the device's facts and its entries of the file at path, in the format of devices/. */
int tune_submit(const struct settings *settings, const struct target *target, const char *path);
int tune_import(const struct settings *settings, const char *path);
int tune_reset(struct target *target, const char *path);

/* ---- Other modes of the command ---------------------------------------------------------------------------------- */

/* clattn tune --gemm */
int tune_gemm(struct settings *settings);
/* Times the measured parameters that plans of the rules take against the default. EXIT_FAILED if some are slower. */
int tune_compare(const struct settings *settings, struct target *target, const clattn_plan_desc *sizes);

/* ---- Points built ahead ------------------------------------------------------------------------------------------ */

/* Builds the points' plans in as many processes. Returns when all have ended; an interrupt ends them. sound[i]
 * becomes 0 if a driver crashed. */
void tune_build_ahead(const struct settings *settings, const struct search_events *events,
                      const struct search_point *points, size_t count, int *sound);
/* What such a process does. */
int tune_build(const struct settings *settings, struct target *target);

/* ---- The report -------------------------------------------------------------------------------------------------- */

/* The device, its peaks and all rows with their candidates, as JSON: bench/draw.py draws it. EXIT_OK, or one line and
 * EXIT_FAILED. */
int tune_report(const char *path, const cJSON *rows, const struct target *target, const struct peak *peak);

#endif
