/* What a device reaches at best: the yardstick of `clattn bench`. */
#ifndef CLATTN_SRC_CLI_DEVICE_PEAK_H
#define CLATTN_SRC_CLI_DEVICE_PEAK_H

#include "cli/device/target.h"

struct peak {
    double flops; /* f32 multiply-adds a second, each counted as two; 0: could not be measured */
    double bytes; /* a second, read and written by a copy between buffers larger than any cache */
};

/* Measured with small kernels, under a second each. */
void peak_measure(struct target *target, struct peak *peak);

/* Measures until two measurements agree, for nobody else was at the device then, or three times; into peak the largest,
 * which is nearest to what it can do. The first that fails ends it, with its status. */
clattn_status peak_often(clattn_status (*once)(void *user, struct peak *now), void *user, struct peak *peak);

/* Multiplies and adds that a problem's recurrence needs, and bytes of all its operands. */
double flops_of(const clattn_plan_desc *desc);
double bytes_of(const clattn_plan_desc *desc);

#endif
