/* Pieces around the rules: one kernel each, over chunks of rows of a head. Their solvers have one body, of which a piece
 * says what is its own. */
#ifndef CLATTN_SRC_SOLVE_PIECES_H
#define CLATTN_SRC_SOLVE_PIECES_H

#include "solve/solve.h"

struct piece_tiles {
    int group;     /* work-items */
    int vec;       /* columns that a work-item works at once */
    int block_v;   /* columns of a group */
    int sub_group; /* work-items of a sub-group; 0: the compiler's choice */
    int chunk;     /* tokens of a group */
    int tokens;    /* tokens of a work-item */
    int share;     /* rms_norm: work-items that share a row; rope: heads that share angles; else 1 */
};

/* Groups of the second and third dimension of the grid. */
struct piece_groups {
    int64_t heads, values;
};

/* What is a piece's own. */
struct piece_body {
    enum piece piece;
    enum embedded_file file;
    /* Fills chunk, tokens and share. */
    void (*choose)(const struct device_facts *facts, const struct problem *problem, struct piece_tiles *tiles);
    /* Whether tiles that tuning chose some of go together; NULL: whenever chunks are whole tasks. */
    int (*is_sound)(const struct problem *problem, const struct piece_tiles *tiles);
    /* Constants and local arrays beside those of every piece. */
    void (*add)(struct kernel_step *step, const struct problem *problem, const struct piece_tiles *tiles);
    /* NULL: the heads, and groups of all columns. */
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
void piece_describe(struct text *text, const void *shape, int step);

/* The fields of a piece's solver. */
#define PIECE_SOLVER(name, body)                                                                                       \
    .space = {name, piece_parameters, 1024, 0, 0, 1}, .mode = CLATTN_MODE_RECURRENT, .variant = body,                  \
    .tiles_size = sizeof(struct piece_tiles), .shape_size = sizeof(struct piece_shape), .applies = piece_applies,      \
    .choose_tiles = piece_choose_tiles, .derive_shape = piece_derive_shape, .reach = piece_reach,                      \
    .recipe = piece_recipe, .describe = piece_describe

#endif
