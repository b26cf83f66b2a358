/* What the pieces share: how a row of a head is cut for work-items. */
#ifndef CLATTN_SRC_SOLVE_PIECES_H
#define CLATTN_SRC_SOLVE_PIECES_H

#include "solve/solve.h"

/* How the columns of a row are shared out. */
struct columns {
    int group;     /* work-items */
    int vec;       /* columns that a work-item works at once */
    int block_v;   /* columns of a group */
    int sub_group; /* work-items of a sub-group; 0: the compiler's choice */
};

/* By heuristic. */
struct columns piece_columns(const struct device_facts *facts, const struct problem *problem);
/* The same with what tuning chose, each TILE_OPEN where it chose nothing; block_v follows vec. */
void columns_complete(struct columns *columns, int group, int vec);

/* A step of a piece's kernel: tile, and BV. */
struct kernel_step piece_step(enum embedded_file file, const struct problem *problem, const struct columns *columns,
                              int chunk);
/* Adds it for slots of chunks; of a piece that leaves a state, of no tokens a sequence each. */
void piece_add(struct builder *b, const struct kernel_step *step, int chunk, int64_t head_groups, int64_t value_groups,
               int leaves_state);
/* "group 128, vec 4, chunk 16, 4 tokens of 128 columns, local 0 bytes" */
void piece_describe(struct text *text, const struct columns *columns, int chunk, int tokens, size_t local_bytes);

#endif
