/* Pieces: the operations around the rules. Each is one kernel over chunks of rows of a head. All pieces share one
 * implementation of the solver interface; struct piece_body says where they differ. */
#ifndef CLATTN_SRC_SOLVE_PIECES_H
#define CLATTN_SRC_SOLVE_PIECES_H

#include "solve/solve.h"

struct piece_tiles {
    int group;     /* work-items */
    int vec;       /* columns that a work-item computes at once */
    int block_v;   /* columns of a group */
    int sub_group; /* work-items of a sub-group; 0: the compiler's choice */
    int chunk;     /* tokens of a group */
    int tokens;    /* tokens of a work-item */
    int share;     /* rms_norm: work-items that share a row; rope: heads that share angles; else 1 */
};

/* The size of the grid in its second and third dimension. */
struct piece_groups {
    int64_t heads, values;
};

/* What differs between pieces. */
struct piece_body {
    enum piece piece;
    enum embedded_file file;
    /* Chooses chunk, tokens and share. */
    void (*choose)(const struct device_facts *facts, const struct problem *problem, struct piece_tiles *tiles);
    /* Whether tiles that tuning chose in part are consistent. NULL: they are if work-items divide the chunk evenly. */
    int (*is_sound)(const struct problem *problem, const struct piece_tiles *tiles);
    /* Adds constants and local arrays to those that every piece has. */
    void (*add)(struct kernel_step *step, const struct problem *problem, const struct piece_tiles *tiles);
    /* NULL: one group for all columns, and the heads. */
    struct piece_groups (*groups)(const struct problem *problem, const struct piece_tiles *tiles);
};

struct piece_shape {
    struct piece_tiles tiles;
    struct kernel_step step;
    struct piece_groups groups;
};

extern const struct parameter piece_parameters[];
int piece_applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem);
clattn_status piece_choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                 const struct problem *problem, void *tiles);
clattn_status piece_derive_shape(const struct solver *solver, const struct device_facts *facts,
                                 const struct problem *problem, const void *tiles, void *shape);
struct reach piece_reach(const struct problem *problem, const void *shape);
clattn_status piece_recipe(struct builder *b, const struct problem *problem, const void *shape);
/* Chunks of a call, or sequences if it has no tokens and they have states to be written; and the most of them. */
ir_expression piece_slots(const struct builder *b, int chunk);
int64_t piece_most_slots(const struct problem *problem, int chunk);
void piece_describe(struct text *text, const void *shape, int step);

/* Initialises the fields of a piece's solver. */
#define PIECE_SOLVER(name, body)                                                                                       \
    .space = {name, piece_parameters, 1024, 0, 0, 1}, .mode = CLATTN_MODE_RECURRENT, .variant = body,                  \
    .tiles_size = sizeof(struct piece_tiles), .shape_size = sizeof(struct piece_shape), .applies = piece_applies,      \
    .choose_tiles = piece_choose_tiles, .derive_shape = piece_derive_shape, .reach = piece_reach,                      \
    .recipe = piece_recipe, .describe = piece_describe

#endif
