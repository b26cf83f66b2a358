/* Whether the device computes what its matrix engine is said to. */
#ifndef CLATTN_SRC_PROBE_H
#define CLATTN_SRC_PROBE_H

#include "device/engine.h"
#include "solve/kernel_step.h"

/* Builds and runs one product on the context's engine, by a sub-group or a team of them, once a storage type, and keeps
 * the answer. UNSUPPORTED, with the reason in the log, when the numbers are wrong or the device's compiler refuses it,
 * which is asked again a few times. DEVICE_ERROR and OUT_OF_MEMORY, when OpenCL fails, are not kept: the next plan
 * probes again. */
clattn_status probe_engine(clattn_context *context, const struct problem *problem, int team);

#endif
