/* What a device can do, asked once. */
#ifndef CLATTN_SRC_DEVICE_H
#define CLATTN_SRC_DEVICE_H

#include "device/opencl.h"

struct device {
    const struct opencl *cl;
    clattn_device_info info;
    char vendor[64], platform_version[128];
    int sub_group; /* the narrowest that a kernel can ask for, on Intel; else 0 */
    int registers; /* of a compute unit, where the compiler can be told to share them out; else 0 */
    int serial;    /* a work-item is a thread with wide vectors (a CPU): tiles belong to one work-item */
    int optimised; /* its compiler fails where it is told not to: PoCL from 4.0 on */
    int in_part;   /* such a CPU, taken for a device whose work-items share a tile (CLATTN_DEVICE_FACTS) */
};

/* What the device says of itself, CL_DEVICE_EXTENSIONS and its like, to be freed; NULL where it cannot be had. */
char *device_text(const struct device *device, cl_device_info what);
/* Whether the device reports the extension. */
int device_has(const struct device *device, const char *extension);

/* The narrowest sub-group that a kernel can ask for, on Intel; else 0. */
int device_narrowest_sub_group(const struct opencl *cl, cl_device_id id);

/* NO_DEVICE, with the reason in the log, where it cannot be used. */
clattn_status device_init(struct device *device, cl_device_id id, const struct log *log);

#endif
