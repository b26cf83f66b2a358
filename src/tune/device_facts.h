/* A device's limits as somebody else's report has them, in the place of this machine's. */
#ifndef CLATTN_SRC_DEVICE_FACTS_H
#define CLATTN_SRC_DEVICE_FACTS_H

#include "device/device.h"

/* From then on plans are made as for the device of the file: a report of `clattn report`, what
 * `clattn tune --submit` wrote, the rows of `clattn devices --json`, or one of them; of several the first. A limit is
 * never above the device's own.
 * INVALID_ARGUMENT names the file. */
clattn_status device_facts_read(const char *path, struct device *device, const struct log *log);

#endif
