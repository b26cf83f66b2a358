/* Which of a machine's devices is the best. */
#ifndef CLATTN_SRC_RANK_H
#define CLATTN_SRC_RANK_H

#include "device/opencl.h"

/* Whether it is there to check programs with and not to be fast, though it has a GPU's work-items. */
int rank_is_emulator(const clattn_device_info *info);

/* Sorts: what can be used before what cannot; a GPU with memory of its own, a GPU that shares the host's, a CPU,
 * another device, an emulator; then by an estimate of the speed. A GPU that two platforms list is ranked once: by its
 * vendor's platform, which comes first. */
void rank_devices(const struct opencl *cl, clattn_device_info *infos, size_t count);

#endif
