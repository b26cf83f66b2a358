/* The order of a machine's devices, best first. */
#ifndef CLATTN_SRC_RANK_H
#define CLATTN_SRC_RANK_H

#include "device/opencl.h"

/* Whether the device emulates a GPU to check programs, and is not meant to be fast. */
int rank_is_emulator(const clattn_device_info *info);

/* Sorts devices. Usable ones come before unusable ones; then GPUs with memory of their own, GPUs that share the host's
 * memory, CPUs, other devices, emulators; then by estimated speed. A GPU that two platforms list is ranked by its
 * vendor's platform, which comes first. */
void rank_devices(const struct opencl *cl, clattn_device_info *infos, size_t count);

#endif
