/* The backward passes of pieces: like the pieces, each is one kernel over chunks of rows of a head, which leaves parts of the
 * gradients that tokens share. */
#ifndef CLATTN_SRC_SOLVE_PIECES_BACK_H
#define CLATTN_SRC_SOLVE_PIECES_BACK_H

#include "solve/pieces.h"
#include "solve/shares.h"

struct piece_back_body {
    struct piece_body main;
    /* The gradients that tokens share. */
    void (*share)(struct shares *shares, const struct problem *problem, const struct piece_tiles *tiles);
    /* Rows of parts that a group leaves. */
    int (*rows)(const struct piece_tiles *tiles);
};

struct piece_back_shape {
    struct piece_shape main;
    struct shares shares;
    int rows;
};

clattn_status piece_back_derive_shape(const struct solver *solver, const struct device_facts *facts,
                                      const struct problem *problem, const void *tiles, void *shape);
clattn_status piece_back_recipe(struct builder *b, const struct problem *problem, const void *shape);

/* The kernels of the forward pass have runs of `tokens` in a chunk. */
int piece_back_runs(const struct piece_tiles *tiles);

/* Initialises the fields of such a solver. */
#define PIECE_BACK_SOLVER(name, body)                                                                                  \
    .space = {name, piece_parameters, 1024, 0, 0, 1}, .mode = CLATTN_MODE_RECURRENT, .backward = 1, .variant = body,   \
    .tiles_size = sizeof(struct piece_tiles), .shape_size = sizeof(struct piece_back_shape), .applies = piece_applies, \
    .choose_tiles = piece_choose_tiles, .derive_shape = piece_back_derive_shape, .reach = piece_reach,                 \
    .recipe = piece_back_recipe, .describe = piece_describe

#endif
