/* The capabilities of a device, which are queried once. */
#ifndef CLATTN_SRC_DEVICE_H
#define CLATTN_SRC_DEVICE_H

#include "device/opencl.h"

struct device {
    const struct opencl *cl;
    clattn_device_info info;
    char vendor[64], platform_version[128];
    int sub_group;      /* Intel: the smallest sub-group size that a kernel can require; else 0 */
    int registers;      /* registers of a compute unit, if the compiler can limit how many a work-item uses; else 0 */
    int serial;         /* a CPU, whose work-items are threads with wide vectors: each has a tile of its own */
    int optimised;      /* its compiler fails if told not to optimise: PoCL 4.0 and later */
    int64_t loop_turns; /* turns of all loops of a kernel after which the device leaves them; 0: it never does */
    int in_part;        /* a CPU that is treated as a device whose work-items share a tile (CLATTN_DEVICE_FACTS) */
};

/* A text property such as CL_DEVICE_EXTENSIONS, to be freed. NULL: it cannot be read. */
char *device_text(const struct device *device, cl_device_info what);
/* Whether the device reports the extension. */
int device_has(const struct device *device, const char *extension);

/* The smallest sub-group size that a kernel can require, on Intel; else 0. */
int device_narrowest_sub_group(const struct opencl *cl, cl_device_id id);

/* NO_DEVICE, with the reason in the log: the device cannot be used. */
clattn_status device_init(struct device *device, cl_device_id id, const struct log *log);

#endif
