/* The peaks of a device, with which `clattn bench` compares. */
#ifndef CLATTN_SRC_CLI_DEVICE_PEAK_H
#define CLATTN_SRC_CLI_DEVICE_PEAK_H

#include "cli/device/target.h"

struct peak {
    double flops; /* f32 multiply-adds per second, each counted as two; 0: could not be measured */
    double bytes; /* per second, read and written by a copy between buffers larger than any cache */
};

/* Measures with small kernels that take less than a second each. */
void peak_measure(struct target *target, struct peak *peak);

/* Measures until two measurements agree, or three times: they differ if something else used the device. *peak is the
 * largest. Stops at the first failure and returns its status. */
clattn_status peak_often(clattn_status (*once)(void *user, struct peak *now), void *user, struct peak *peak);

/* Multiplies and adds that a problem needs, and the bytes of all its operands. A pair of a query and a key counts 2 (K
 * + V). With a state, each of erase, write and read counts 2 K V, and a low-rank erase twice that. The backward pass has
 * two such products for each of them, and makes the states again. */
double flops_of(const clattn_plan_desc *desc);
double bytes_of(const clattn_plan_desc *desc);

#endif
