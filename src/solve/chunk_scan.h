/* prepare of chunk_scan, for other solvers that need the matrices of chunks: the scores A, T if the rule erases, and
 * the factors of rows, in a record of state_sizes().record floats for each chunk of each head. */
#ifndef CLATTN_SRC_SOLVE_CHUNK_SCAN_H
#define CLATTN_SRC_SOLVE_CHUNK_SCAN_H

#include "solve/state_tile.h"

struct kernel_step chunk_scan_prepare(const struct problem *problem, const struct state_tile *tile);
/* The heuristic's tiles for it. UNSUPPORTED: local memory does not hold the smallest. */
clattn_status chunk_scan_prepare_tile(const struct device_facts *facts, const struct problem *problem,
                                      struct state_tile *tile);
/* Adds it to the recipe and binds "records". */
void chunk_scan_add_prepare(struct builder *b, const struct problem *problem, const struct kernel_step *step,
                            const struct state_tile *tile);

#endif
