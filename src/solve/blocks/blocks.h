/* Register blocks (cl/blocks/README.md): what the files of the module share. */
#ifndef CLATTN_SRC_SOLVE_BLOCKS_H
#define CLATTN_SRC_SOLVE_BLOCKS_H

#include "solve/register_blocks.h"

enum {
    BLOCKS_SPOT = 8, /* rows of a block of scores */
    BLOCKS_MOST_COLUMNS = 128,
    BLOCKS_PASSES = 2 /* outputs and denominators: enum pass */
};

/* The kernels. The last three run once for each pass. */
enum blocks_part { BLOCKS_PREPARE, BLOCKS_STATES, BLOCKS_JOIN, BLOCKS_OUTPUTS, BLOCKS_PARTS };

/* How one kernel cuts its work. */
struct blocks_part_tiles {
    int group, sub_group; /* work-items; those of a sub-group, 0: the compiler's choice */
    int block_k;          /* channels in local memory at once */
    int block_v;          /* value columns of a group */
    int tokens;           /* of keys in local memory at once */
    int ahead;            /* slices of rows on their way to a group at once */
    int split;            /* parts of a group that share the depth of its products */
    int rows, wide;       /* rows and vectors of a result that a work-item holds */
    int residents; /* groups that a compute unit's registers are shared among; 1: as many as it happens to hold */
    int registers; /* of a work-item, at most; 0: as many as the compiler wants */
};

struct blocks_tiles {
    int chunk;                                                /* tokens */
    int stretch;                                              /* chunks of a sequence at once; 0: all of them */
    int segments, sum_segments;                               /* of a stretch; of the denominators' pass */
    struct blocks_part_tiles of[BLOCKS_PASSES][BLOCKS_PARTS]; /* zeros where the problem has no such kernel */
};

/* A kernel: all that its text depends on. */
struct blocks_kernel {
    enum blocks_part part;
    const struct problem *problem; /* of the kernel's pass */
    const struct engine *engine;   /* whose products it has; NULL: multiply-adds */
    int chunk, stretch, segments;
    struct blocks_part_tiles tiles;
};

/* How rows and matrices of a problem lie. */
struct blocks_sizes {
    int erases, second;    /* whether anything is erased; whether a second stream of rows is written */
    int leaves_rows;       /* whether prepare leaves rows as they meet the state */
    int channels;          /* padded: a power of two from 32 on */
    int values, widest;    /* value columns, padded to whole tiles of the widest kind */
    int streams;           /* of rows in prepare */
    int scores;            /* matrices of scores */
    int scored_by_outputs; /* whether the outputs make the scores: prepare leaves them none */
};
struct blocks_sizes blocks_sizes(const struct blocks_kernel *kernel);

/* The grid of lanes over a result, a power of two each way. */
struct grid_lanes {
    int rows, columns;
};
/* Of the kernel's result; and the rows of lanes of the state where no engine multiplies. */
struct grid_lanes blocks_lanes(const struct blocks_kernel *kernel, const struct blocks_sizes *s);
int blocks_state_rows(const struct blocks_part_tiles *t, const struct blocks_sizes *s);
/* Blocks of BLOCKS_SPOT rows by as many columns that lanes have scores of. */
int blocks_pairs(int chunk, const struct blocks_sizes *s);

/* Whether a lane should hold half as much as usual: of Intel's sub-groups, whose registers are 128 floats a lane. */
static inline int blocks_lean(const struct blocks_part_tiles *t)
{
    return t->sub_group != 0;
}

/* Floats of the workspace. */
struct blocks_workspace {
    int64_t record, rows; /* of a chunk and head */
    int64_t state;        /* of a head */
    int64_t kept;         /* of a segment and head */
};
struct blocks_workspace blocks_workspace(const struct blocks_kernel *kernel);

/* The kernel as a step: its constants, local arrays and words. */
struct kernel_step blocks_step(const struct blocks_kernel *kernel);
/* Groups along the third dimension of its grid. */
int64_t blocks_value_groups(const struct blocks_kernel *kernel);

/* ---- By heuristic, for groups of at most facts->most_group work-items --------------------------------------------
 */

/* Tokens of a chunk, of all kernels; 0: none fits. */
int blocks_choose_chunk(const struct device_facts *facts, const struct problem *problem, const struct engine *engine);
/* Chunks of every sequence at once, such that their workspace stays below a bound; 0: all of them; -1: one of each is
 * too much. The kernel is of the outputs' pass, its tiles do not matter. */
int blocks_choose_stretch(const struct device_facts *facts, const struct blocks_kernel *kernel);
/* Segments of a stretch, in the kernel's pass. */
int blocks_choose_segments(const struct device_facts *facts, const struct blocks_kernel *kernel);
/* Tiles for the kernel's chunk. UNSUPPORTED where nothing fits. */
clattn_status blocks_choose_tiles(const struct device_facts *facts, struct blocks_kernel *kernel);
/* What follows from tiles of which tuning chose some. UNSUPPORTED where they do not go together. */
clattn_status blocks_complete(const struct device_facts *facts, struct blocks_kernel *kernel);

#endif
