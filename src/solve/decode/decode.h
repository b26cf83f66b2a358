/* Attention of a few queries to a long list of keys, which is cut into parts. This is what the solvers decode and
 * path_decode share. */
#ifndef CLATTN_SRC_SOLVE_DECODE_H
#define CLATTN_SRC_SOLVE_DECODE_H

#include "solve/solve.h"

/* How a kernel processes a tile of query rows. */
struct reading {
    int group; /* work-items */
    int keys;  /* keys that are loaded together */
    int lanes; /* work-items that share a key's channels */
};

struct decode_tiles {
    int vec;           /* floats of a vector */
    int tokens, heads; /* a tile's rows: tokens times query heads that share a key head */
    int splits;        /* parts of the keys */
    int sub_group;     /* work-items of a sub-group; 0: the compiler's choice */
    struct reading read, walk;
};

/* The number of query heads that share a key head. */
static inline int64_t query_heads(const struct problem *problem)
{
    return problem->desc.heads / problem->desc.kv_heads;
}

/* The number of tiles along the query heads. */
static inline int64_t head_tiles(const struct problem *problem, const struct decode_tiles *tiles)
{
    return problem->desc.kv_heads * divide_up(query_heads(problem), tiles->heads);
}

/* Whether queries walk over the tail of the keys, which counts as one more part. */
static inline int has_walk(const struct problem *problem)
{
    return problem->rule->erase == ERASE_POSITION;
}

/* The sizes of a tile. */
struct decode_sizes {
    int rows;
    int channels, values; /* of a row, padded to whole vectors */
    int parts;            /* parts of the keys: the splits, and the tail */
    int record;           /* the floats that are stored for a part */
};
struct decode_sizes decode_sizes(const struct problem *problem, const struct decode_tiles *tiles);

/* The steps: queries walk over the tail, a group reads a part of the keys, the parts are joined. */
struct kernel_step decode_walk_step(const struct problem *problem, const struct decode_tiles *tiles);
struct kernel_step decode_read_step(const struct problem *problem, const struct decode_tiles *tiles);
struct kernel_step decode_join_step(const struct problem *problem, const struct decode_tiles *tiles);

/* Members of struct solver. */
clattn_status decode_choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles);

#endif
