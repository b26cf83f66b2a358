/* A device as a row of a table. */
#ifndef CLATTN_SRC_CLI_DEVICES_H
#define CLATTN_SRC_CLI_DEVICES_H

#include "cli/cli.h"

#include <cjson/cJSON.h>

/* Name, driver, limits, and what else decides which kernels it gets. To be deleted. */
cJSON *device_row(const clattn_device_info *info);

#endif
