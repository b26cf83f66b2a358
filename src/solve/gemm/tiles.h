/* What ways share whose groups have a tile of D each. */
#ifndef CLATTN_SRC_SOLVE_GEMM_TILES_H
#define CLATTN_SRC_SOLVE_GEMM_TILES_H

#include "device/engine.h"
#include "solve/gemm/way.h"

struct gemm_tiles {
    int group;         /* work-items */
    int rows, columns; /* of D, a group's */
    int depth;         /* that is in local memory at once */
    int own_rows;      /* of a work-item, or on a matrix engine tiles of a sub-group */
    int own_columns;   /* likewise; vectors of a work-item */
    int band;          /* tiles below each other that are worked one after the other */
    int stages;        /* slices of the depth in local memory */
    int movers;        /* sub-groups that only move */
};

enum {
    TILE = MATRIX_TILE,
    TILE_PAD = 8,        /* numbers after a row in local memory */
    MOST_LANE_SUMS = 128 /* floats of a work-item */
};

extern const struct parameter gemm_tile_parameters[];
extern const struct space gemm_space_plain, gemm_space_engine;

/* Begins a shape: the kernel of the file, with the constants that all kernels of tiles have. */
void tiles_shape(struct gemm_shape *shape, enum embedded_file file, const struct gemm *gemm, const struct gemm_tiles *t,
                 int vec, int sub_group);
/* How slices of A and B lie in local memory: A's rows as in memory, B's likewise or always by depth. */
struct tile_pads {
    int left, right; /* numbers after each row, so that work-items that read a column use all banks */
    int right_as_it_lies;
};
/* Adds the constants of both; returns how many numbers they have together. */
int64_t tiles_local(struct kernel_step *step, const struct gemm *gemm, const struct gemm_tiles *t,
                    struct tile_pads pads);
/* The constants and headers of kernels of 16 bits on a matrix engine. */
void tiles_engine(struct kernel_step *step, const struct gemm *gemm, const struct engine *engine,
                  const struct gemm_tiles *t);

/* Whether there is a matrix engine for the product's type, one of 16 bits. */
int tiles_are_for_engine(const clattn_context *context, const struct gemm *gemm);
/* x halved as long as it is at least `least` and holds what is needed. */
int halved(int x, int64_t needed, int least);
/* Tiles of the whole product. */
int64_t tiles_count(const struct gemm *gemm, const struct gemm_tiles *t);
/* Fills all tiles, or completes and checks them. UNSUPPORTED where the device cannot have them. */
typedef clattn_status (*tiles_fn)(const struct device_facts *facts, const struct gemm *gemm, struct gemm_tiles *t);
/* Halves rows or columns, the longer of them first, until groups are enough for the device and local memory holds a
 * tile. */
clattn_status tiles_shrink(const struct device_facts *facts, const struct gemm *gemm, struct gemm_tiles *t,
                           tiles_fn complete, int least_rows, int least_columns);
/* The heuristic's tiles, with those that are given in their places. */
clattn_status tiles_choose(const struct device_facts *facts, const struct gemm *gemm, void *tiles, tiles_fn heuristic,
                           tiles_fn complete);

void tiles_add(struct builder *b, const struct built_product *product);
void tiles_describe(struct text *text, const void *tiles, const struct gemm_shape *shape);

#endif
