/* PaTH attention (cl/path/README.md): every token turns the keys before it on their way to a query. What the files of
 * the module share. */
#ifndef CLATTN_SRC_SOLVE_PATH_H
#define CLATTN_SRC_SOLVE_PATH_H

#include "solve/flash/flash.h"
#include "solve/solve.h"

/* Keys of a span. Crossing it costs a product with a matrix of key_dim rows, walking it two with each block's. Like the
 * blocks it does not depend on lengths: packed sequences have the bits that they have alone. */
enum { PATH_SPAN_TOKENS = 512 };

/* ---- On any device ------------------------------------------------------------------------------------------------
 * Blocks of `chunk` keys are prepared, and carried to the ends of their spans; then queries read them. */

struct path_tiles {
    int vec;            /* floats that a work-item works at once */
    int chunk;          /* queries of a group, and keys of a block */
    int span;           /* blocks that are crossed at once */
    int block_k;        /* channels in local memory at once */
    int prepare_group;  /* work-items of the kernels ahead of the read */
    int read_group;     /* of the read: work-items, */
    int block_v;        /* and value columns of a group; */
    int matrix_block_v; /* the same where it leaves the attention matrix */
    int sub_group;      /* work-items of a sub-group; 0: the compiler's choice */
};

/* Such tiles where problem has queries and keys turned each by itself (CLATTN_ABSOLUTE), to be read as if nothing
 * turned. */
struct path_turning {
    struct path_tiles tiles;
    struct kernel_step prepare, carry, turn;
};

/* The heuristic's tiles. */
clattn_status path_by_heuristic(const struct device_facts *facts, const struct problem *problem,
                                struct path_tiles *tiles);
/* The same but for those that are not TILE_OPEN. */
clattn_status path_choose_tiles(const struct device_facts *facts, const struct problem *problem,
                                struct path_tiles *tiles);

/* The kernels. */
struct kernel_step path_prepare_step(const struct problem *problem, const struct path_tiles *tiles);
struct kernel_step path_carry_step(const struct problem *problem, const struct path_tiles *tiles);
struct kernel_step path_turn_step(const struct problem *problem, const struct path_tiles *tiles);
struct kernel_step path_read_step(const struct problem *problem, const struct path_tiles *tiles);
struct kernel_step path_fold_step(const struct problem *problem, const struct path_tiles *tiles);

/* Adds the first two, with memory for what they leave. */
void path_add_prepared(struct builder *b, const struct path_tiles *tiles, const struct kernel_step *prepare,
                       const struct kernel_step *carry);
void path_describe(struct text *text, const struct path_tiles *tiles, const struct kernel_step *step, int block_v);

clattn_status path_derive_turning(const struct device_facts *facts, const struct problem *problem,
                                  const struct path_tiles *tiles, struct path_turning *turning);
/* Adds the kernels; from there on "q" and "k" are those that have turned. */
void path_add_turning(struct builder *b, const struct path_turning *turning);
/* Of these kernels, the step-th. */
enum { PATH_TURNING_STEPS = 3 };
void path_describe_turning(struct text *text, const struct path_turning *turning, int step);

/* Last of all steps, where the caller wants keys carried to the end of their sequence (CLATTN_CARRY): they are, in their
 * own memory. */
clattn_status path_add_carry(struct builder *b, const struct problem *problem);

#endif
