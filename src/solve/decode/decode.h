/* Attention of a few queries to a long list of keys, which is cut into parts: what the solvers decode and path_decode
 * share. */
#ifndef CLATTN_SRC_SOLVE_DECODE_H
#define CLATTN_SRC_SOLVE_DECODE_H

#include "solve/solve.h"

/* How a kernel works a tile of query rows. */
struct reading {
    int group; /* work-items */
    int keys;  /* worked at once */
    int lanes; /* work-items that share a key's channels */
};

struct decode_tiles {
    int vec;           /* floats that a work-item works at once */
    int tokens, heads; /* a tile's rows: tokens, times query heads that read one key head */
    int splits;        /* parts of the keys */
    int sub_group;     /* work-items of a sub-group; 0: the compiler's choice */
    struct reading read, walk;
};

/* Query heads that read one key head. */
static inline int64_t query_heads(const struct problem *problem)
{
    return problem->desc.heads / problem->desc.kv_heads;
}

/* Tiles of query heads. */
static inline int64_t head_tiles(const struct problem *problem, const struct decode_tiles *tiles)
{
    return problem->desc.kv_heads * divide_up(query_heads(problem), tiles->heads);
}

/* Whether queries walk over the tail of the keys, which is one part more. */
static inline int has_walk(const struct problem *problem)
{
    return problem->rule->erase == ERASE_POSITION;
}

/* A tile's numbers. */
struct decode_sizes {
    int rows;
    int channels, values; /* of a row, in whole vectors */
    int parts;            /* of the keys: splits, and the tail */
    int record;           /* floats that a part leaves */
};
struct decode_sizes decode_sizes(const struct problem *problem, const struct decode_tiles *tiles);

/* The steps: queries walk over the tail, a group reads a part of the keys, the parts are joined. */
struct kernel_step decode_walk_step(const struct problem *problem, const struct decode_tiles *tiles);
struct kernel_step decode_read_step(const struct problem *problem, const struct decode_tiles *tiles);
struct kernel_step decode_join_step(const struct problem *problem, const struct decode_tiles *tiles);

/* Of struct solver. */
clattn_status decode_choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles);

#endif
