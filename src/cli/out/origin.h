/* The build and the device behind a result, for every table and document that other programs read. */
#ifndef CLATTN_SRC_CLI_OUT_ORIGIN_H
#define CLATTN_SRC_CLI_OUT_ORIGIN_H

#include "cli/out/table.h"
#include "cli/device/target.h"

/* The commit that was built, "97e7c32" or "97e7c32-dirty". "" if the sources are neither a repository nor an
 * archive. */
const char *origin_commit(void);
const char *origin_compiler(void); /* "gcc 12.2.0" */
const char *origin_system(void);   /* "linux" */

/* The last columns of a table, which text leaves out, and the fields of an object. target NULL: the result has no
 * device. */
#define BUILD_COLUMNS                                                                                                  \
    {"clattn", "clattn", COLUMN_ORIGIN, 0, 0},                                                                         \
    {                                                                                                                  \
        "commit", "commit", COLUMN_ORIGIN, 0, 0                                                                        \
    }
#define DEVICE_COLUMNS                                                                                                 \
    {"device", "device", COLUMN_ORIGIN, 0, 0}, {"driver", "driver", COLUMN_ORIGIN, 0, 0}, BUILD_COLUMNS
void origin_add(cJSON *object, const struct target *target);
/* The same for each object of an array. */
void origin_add_all(cJSON *rows, const struct target *target);

#endif
