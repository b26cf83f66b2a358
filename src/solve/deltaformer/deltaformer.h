/* DeltaFormer (cl/deltaformer/README.md): what the solvers delta, delta_matrix and delta_team share. */
#ifndef CLATTN_SRC_SOLVE_DELTAFORMER_H
#define CLATTN_SRC_SOLVE_DELTAFORMER_H

#include "solve/flash/flash.h"

/* Whether the values of the problem's list depend on those before; the attention matrix of that is the reference's
 * alone. */
int deltaformer_applies(const struct problem *problem);

/* A span's two kernels: sums over the keys before the span, then what is written of its rows. */
struct deltaformer_span {
    const struct kernel_step *before, *solve;
    int64_t before_groups, solve_groups; /* along the third dimension of their grids */
    int64_t part;                        /* floats that the first leaves the second of a key head */
    int64_t rows;                        /* of a span */
};
/* Adds both in a loop over the spans of every sequence. From here on kernels find what is written as "v". */
void deltaformer_add_spans(struct builder *b, const struct problem *problem, const struct deltaformer_span *span);

#endif
