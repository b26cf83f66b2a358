/* Tiles for a device: those of a point of the solver's space, and where it says nothing the family's rule of thumb. */
#ifndef CLATTN_SRC_TILES_H
#define CLATTN_SRC_TILES_H

#include "kernel/kernel.h"
#include "tune/space.h"

/* Tiles for one kernel of the problem on groups of at most most_group work-items, chosen so that the variant's local
 * memory fits the device; tuned may be NULL. variant->tiles is the result; UNSUPPORTED when nothing fits, or when what
 * tuned asks for does not. */
clattn_status tuning_tiles(const struct device *device, const struct tuned *tuned, struct variant *variant,
                           int most_group);

/* The tiles that a point comes to, kernel by kernel of its solver; 0 where the device cannot have them. */
int tuning_point_tiles(const clattn_context *context, const struct problem *problem, const struct tuned *tuned,
                       struct tiles tiles[KERNEL_COUNT]);

#endif
