/* Tiles for a device: those of a point in the solver's space, completed by the heuristic of the kernel's family. */
#ifndef CLATTN_SRC_TILES_H
#define CLATTN_SRC_TILES_H

#include "kernel/kernel.h"
#include "tune/space.h"

/* Chooses tiles for one kernel of the problem, with groups of at most most_group work-items, so that local memory holds
 * the variant. tuned may be NULL. The result is variant->tiles. UNSUPPORTED: nothing fits, or the tuned values do
 * not. */
clattn_status tuning_tiles(const struct device *device, const struct tuned *tuned, struct variant *variant,
                           int most_group);

/* The tiles of a point for each kernel of its solver. 0: the device cannot run them. */
int tuning_point_tiles(const clattn_context *context, const struct problem *problem, const struct tuned *tuned,
                       struct tiles tiles[KERNEL_COUNT]);

#endif
