/* Which clattn wrote something, and of which device: in every table and document for other programs. */
#ifndef CLATTN_SRC_CLI_OUT_ORIGIN_H
#define CLATTN_SRC_CLI_OUT_ORIGIN_H

#include "cli/out/table.h"
#include "cli/device/target.h"

/* The commit that was built, "97e7c32" or "97e7c32-dirty"; "" where the sources are no repository and no archive. */
const char *origin_commit(void);
const char *origin_compiler(void); /* "gcc 12.2.0" */
const char *origin_system(void);   /* "linux" */

/* The columns at the end of a table, which text leaves out, and what object has of them: target NULL is no device's. */
#define BUILD_COLUMNS                                                                                                  \
    {"clattn", "clattn", COLUMN_ORIGIN, 0},                                                                            \
    {                                                                                                                  \
        "commit", "commit", COLUMN_ORIGIN, 0                                                                           \
    }
#define DEVICE_COLUMNS {"device", "device", COLUMN_ORIGIN, 0}, {"driver", "driver", COLUMN_ORIGIN, 0}, BUILD_COLUMNS
void origin_add(cJSON *object, const struct target *target);
/* The same for each of an array's. */
void origin_add_all(cJSON *rows, const struct target *target);

#endif
