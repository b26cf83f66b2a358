/* Tests whether the device's matrix engine computes what it should. */
#ifndef CLATTN_SRC_PROBE_H
#define CLATTN_SRC_PROBE_H

#include "device/engine.h"
#include "solve/kernel_step.h"

/* Builds and runs one product on the context's engine, by a sub-group or a team of sub-groups, once for each storage
 * type, and remembers the answer. UNSUPPORTED: the product is wrong, or the device's compiler refuses the kernel; the
 * reason is logged. A refusal is probed again a few times. DEVICE_ERROR and OUT_OF_MEMORY mean that OpenCL failed. They
 * are not remembered: the next plan probes again. */
clattn_status probe_engine(clattn_context *context, const struct problem *problem, int team);

#endif
