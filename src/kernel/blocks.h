/* Kernels of register blocks: what follows from a variant, asked once. */
#ifndef CLATTN_SRC_BLOCKS_H
#define CLATTN_SRC_BLOCKS_H

#include "kernel/kernel.h"

enum {
    BLOCKS_VEC = 4,
    BLOCKS_SPOT = 8, /* rows of a block of scores */
    BLOCKS_MOST_COLUMNS = 128,
    BLOCKS_ENGINE_TILE = 16,  /* rows, columns and depth of an engine's product */
    BLOCKS_ENGINE_COLUMNS = 4 /* lanes of a sub-group along its columns */
};

/* How its rows and matrices lie. */
struct blocks_shape {
    int erases, second; /* whether anything is erased; whether a second stream of rows is written */
    int made;           /* whether prepare leaves rows as they meet the state */
    int channels;       /* padded: a power of two from 32 on */
    int values, widest; /* value columns, padded to whole tiles of the widest kind */
    int streams;        /* of rows in prepare */
    int scores;         /* matrices of scores */
    int scored;         /* whether the outputs make theirs: prepare leaves them none */
};

struct blocks_shape blocks_shape(const struct variant *variant);

/* The grid of lanes over a result, a power of two each way. */
struct grid_lanes {
    int rows, columns;
};

/* Whether a lane should hold half as much as usual: of Intel's sub-groups, whose registers are 128 floats a lane. */
static inline int blocks_lean(const struct tiles *t)
{
    return t->sub_group != 0;
}

int blocks_pairs(const struct tiles *t, const struct blocks_shape *s);

/* Of the kernel's result; and the rows of lanes of the state where no engine works it. */
struct grid_lanes blocks_lanes(const struct variant *variant, const struct blocks_shape *s);
int blocks_state_rows(const struct tiles *t, const struct blocks_shape *s);

/* The family's, whose tiles blocks_tiles.c finds. */
void blocks_lay_out(const struct variant *variant, struct layout *layout);
void blocks_describe(struct text *text, const struct variant *variant, const struct layout *layout);

#endif
