/* DeltaFormer on a matrix engine: what the files of delta_matrix and delta_team share. */
#ifndef CLATTN_SRC_SOLVE_DELTAFORMER_MATRIX_H
#define CLATTN_SRC_SOLVE_DELTAFORMER_MATRIX_H

#include "solve/deltaformer/deltaformer.h"

struct deltaformer_matrix_tiles {
    int span;   /* keys whose values are written at once */
    int splits; /* parts of the keys before a span */
    struct flash_matrix_tiles before;
    struct {
        int group, subs; /* work-items, and sub-groups, each of which has a tile of rows */
        int block_v;     /* value columns of a group */
    } solve;
    struct flash_matrix_tiles read;
};

/* Floats of a span of a key head that the first kernel leaves the second (cl/deltaformer/flash_write.clh): sums, logs,
 * weights. */
int64_t deltaformer_part_floats(const struct problem *problem, const struct deltaformer_matrix_tiles *t);
/* The steps: sums over the keys before a span, and the weights of its own; then what is written of it. */
struct kernel_step deltaformer_before_step(const struct engine *engine, const struct problem *problem,
                                           const struct deltaformer_matrix_tiles *tiles);
struct kernel_step deltaformer_solve_step(const struct engine *engine, const struct problem *problem,
                                          const struct deltaformer_matrix_tiles *tiles);

/* Of both solvers. */
clattn_status deltaformer_choose_tiles(const struct device_facts *facts, const struct problem *problem, int team,
                                       struct deltaformer_matrix_tiles *tiles);

#endif
