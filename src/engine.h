/* Matrix engines: which headers of cl/ make one, and which the device has. */
#ifndef CLATTN_SRC_ENGINE_H
#define CLATTN_SRC_ENGINE_H

#include "device.h"

struct engine {
    const char *name;
    const char *instructions, *words; /* headers of cl/ */
    int lanes;                        /* of a sub-group */
    int key_split;                    /* sub-groups that share value columns, as its registers want it */
    int loaders;                      /* sub-groups that only move what the others compute with */
    cl_uint vendor; /* CL_DEVICE_VENDOR_ID of the devices that have it; 0: an emulation, for any device */
    int generation; /* the least that has it: for NVIDIA ten times the compute capability */
};

/* By name; NULL for none of that name. */
const struct engine *engine_get(const char *name);
/* The names, for messages: "none, nvidia, …". */
const char *engine_names(void);

/* The engine of the device itself by its vendor, still to be probed; or NULL. */
const struct engine *engine_of(const struct device *device);

#endif
