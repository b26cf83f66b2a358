/* Replaces a device's limits by those in somebody else's report. */
#ifndef CLATTN_SRC_DEVICE_FACTS_H
#define CLATTN_SRC_DEVICE_FACTS_H

#include "device/device.h"

/* Plans are then made as for the device in the file. The file is a report of `clattn report`, output of
 * `clattn tune --submit`, the rows of `clattn devices --json`, or one of them. If it lists several devices, the first
 * counts. Limits are never above the device's own.
 * INVALID_ARGUMENT: the log names the file. */
clattn_status device_facts_read(const char *path, struct device *device, const struct log *log);

#endif
