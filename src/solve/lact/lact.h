/* lact: a learner, whose state is a network of three matrices that takes a learning step after every batch of tokens.
 * Most of its work is matrix products. The kernels here do what is between them. */
#ifndef CLATTN_SRC_SOLVE_LACT_H
#define CLATTN_SRC_SOLVE_LACT_H

#include "solve/solve.h"

enum lact_kernel {
    LACT_OPEN,   /* copies the caller's weights to the workspace */
    LACT_MIX,    /* tokens: h of the read */
    LACT_SLOPE,  /* tokens: the factors of the gradients' products */
    LACT_MOMENT, /* Muon: the update with momentum, and the squares of its rows */
    LACT_UNIT,   /* Muon: the update divided by its norm */
    LACT_STEP,   /* the weights after the step */
    LACT_CLOSE,  /* copies the weights back to the caller */
    LACT_KERNELS
};

/* A group of MIX and SLOPE processes rows of a batch of tokens; a group of the other kernels processes rows of a head's
 * weights. */
struct lact_tiles {
    int group, vec, sub_group;
    int token_rows, weight_rows;   /* rows of a group */
    int token_lanes, weight_lanes; /* work-items that share a row */
};

struct lact_shape {
    struct lact_tiles tiles;
    int weight_groups; /* number of groups for a head's weights */
    struct kernel_step kernels[LACT_KERNELS];
    enum lact_kernel order[LACT_KERNELS]; /* the kernels of the recipe */
    int count;                            /* and their number */
};

static inline int lact_is_of_tokens(enum lact_kernel kernel)
{
    return kernel == LACT_MIX || kernel == LACT_SLOPE;
}

/* Whether all tokens are learned from before any is read. */
static inline int lact_learns_first(const struct problem *problem)
{
    return (problem->desc.flags & CLATTN_NONCAUSAL) != 0;
}

clattn_status lact_recipe(struct builder *b, const struct problem *problem, const void *shape);

#endif
