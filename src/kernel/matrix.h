/* The kernels on matrix engines: what follows from a variant. */
#ifndef CLATTN_SRC_MATRIX_H
#define CLATTN_SRC_MATRIX_H

#include "kernel/kernel.h"

enum { MATRIX_TILE = 16 }; /* numbers on a side of what an engine multiplies */

/* A variant as its kernels see it. Those above the line follow from the problem
 * alone. */
struct matrix_shape {
    int erasing, decayed;
    int before;     /* whether it reads before the write */
    int most_chunk; /* tokens of a chunk that the words take */
    int may_read;   /* whether sub-groups of their own may make the output: 2 where they usually do */
    int tiles;      /* streams that prepare reads */
    int norms;      /* those of them that may be normalised */
    int recorded;   /* matrices of a record, were the scores not made by the scan */
    int floats;     /* matrices of floats in prepare */
    int streams;    /* of rows */
    /* ---- */
    int width;      /* channels, padded to whole tiles of every sub-group that shares them */
    int made;       /* whether prepare writes the rows that scan reads */
    int strips;     /* whether sub-groups move their values themselves, and may have several tiles of them */
    int scored;     /* whether the scan makes the scores of a chunk itself, so that they are no part of a record */
    int matrices;   /* of a record */
    int reads_rows; /* whether something is to be prepared of q and k, not factors alone */
    int row_factors, decay_factors; /* of a stage: factors a row, and of the state */
    int divided;                    /* whether the output is over what an earlier launch left */
    int depth;                      /* chunks on their way to a group at once */
    int value_groups;
};

struct matrix_shape matrix_shape(const struct variant *variant);

/* The family's, whose tiles matrix_tiles.c finds. */
void matrix_lay_out(const struct variant *variant, struct layout *layout);
void matrix_describe(struct text *text, const struct variant *variant, const struct layout *layout);

#endif
