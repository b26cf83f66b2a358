/* A rank's part of a problem's tensors, cut along one dimension, and the way back to the whole. */
#ifndef CLATTN_SRC_MPI_COMMAND_SLICE_H
#define CLATTN_SRC_MPI_COMMAND_SLICE_H

#include "clattn_mpi.h"

#include "check/check.h"
#include "op/problem.h"

/* The dimension of an operand that is cut. -1: none, and each rank has all of it. */
int slice_dimension(const struct operand_row *row, clattn_mpi_split split);
/* A copy of a part of a tensor along a dimension, or back. */
void slice_copy(const struct check_tensor *tensor, int dimension, int64_t first, int64_t count, char *part, int back);

/* What a rank has of `total` tokens, heads or batch elements. */
struct slice {
    clattn_mpi_split split;
    int64_t first, count, total;
};
/* The same of an operand's elements along its cut dimension, of which there may be several for one thing that is cut. */
int64_t slice_scaled(const struct slice *slice, int64_t things, int64_t size);
/* Allocates *part, with a copy of this rank's part of every tensor. check_free in all cases. */
clattn_status slice_take(struct check_tensors *part, const struct check_tensors *whole, const struct slice *slice);

#endif
