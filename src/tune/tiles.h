/* Tiles for a device: those of a point of a solver's space, and where it says nothing the heuristic's. */
#ifndef CLATTN_SRC_TILES_H
#define CLATTN_SRC_TILES_H

#include "kernel/kernel.h"
#include "tune/space.h"

/* The tiles that a point comes to, of the solver, at the beginning; 0 where the device cannot have them. */
int tuning_point_tiles(const clattn_context *context, const struct problem *problem, const struct tuned *tuned,
                       struct tiles tiles[KERNEL_COUNT]);

#endif
