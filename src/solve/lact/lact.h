/* lact: a learner, whose state is a network of three matrices that takes a step of learning after every batch of tokens.
 * Its work is matrix products; the kernels here are what stands between them. */
#ifndef CLATTN_SRC_SOLVE_LACT_H
#define CLATTN_SRC_SOLVE_LACT_H

#include "solve/solve.h"

enum lact_kernel {
    LACT_OPEN,   /* the caller's weights to the workspace */
    LACT_MIX,    /* h of the read, of tokens */
    LACT_SLOPE,  /* what the gradients are products of, of tokens */
    LACT_MOMENT, /* with Muon: the update with its moment, and the squares of its rows */
    LACT_UNIT,   /* with Muon: the update over its size */
    LACT_STEP,   /* the weights after the step */
    LACT_CLOSE,  /* the weights back to the caller */
    LACT_KERNELS
};

/* A group of MIX and SLOPE works rows of a batch of tokens, one of the others rows of a head's weights. */
struct lact_tiles {
    int group, vec, sub_group;
    int token_rows, weight_rows;   /* rows of a group */
    int token_lanes, weight_lanes; /* work-items that share a row */
};

struct lact_shape {
    struct lact_tiles tiles;
    int weight_groups; /* groups that a head's weights take */
    struct kernel_step kernels[LACT_KERNELS];
    enum lact_kernel order[LACT_KERNELS]; /* of the kernels that the recipe has */
    int count;                            /* how many these are */
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
