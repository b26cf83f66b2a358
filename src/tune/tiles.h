/* The tiles of a point of a solver's parameters on a device. */
#ifndef CLATTN_SRC_TILES_H
#define CLATTN_SRC_TILES_H

#include "tune/space.h"

/* A solver's tiles, whichever solver's. */
struct point_tiles {
    int numbers[256];
};

/* The tiles that a point comes to, in groups of work-items as the heuristic has them; 0 where the device cannot have
 * them. */
int tuning_point_tiles(const clattn_context *context, const struct problem *problem, const struct tuned *tuned,
                       struct point_tiles *tiles);

#endif
