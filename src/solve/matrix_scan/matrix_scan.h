/* What the files of matrix_scan share: its kernels, the tiles of each, and what follows from these. */
#ifndef CLATTN_SRC_MATRIX_SCAN_H
#define CLATTN_SRC_MATRIX_SCAN_H

#include "device/engine.h"
#include "solve/solve.h"

/* The kernels: what does not depend on the state, chunk by chunk, or of that the factors alone; the scan; and the scan
 * that comes before it where sequences are cut into segments, for the state alone. */
enum part_kind { PART_PREPARE, PART_FACTORS, PART_SCAN, PART_GATHER };

/* The tiles of one kernel. */
struct part_tiles {
    int group;       /* work-items */
    int chunk;       /* tokens that are worked at once */
    int key_split;   /* sub-groups that share value columns, each with a part of the channels */
    int sub_group;   /* work-items of a sub-group; 0: the compiler's choice */
    int block_v;     /* value columns of a group; from here on of scans alone */
    int value_tiles; /* sub-groups side by side */
    int span;        /* tiles of value columns of a sub-group */
    int loaders;     /* sub-groups that only move */
    int readers;     /* 1 where sub-groups of their own make the output */
    int depth;       /* chunks on their way to a group at once; 0: the usual number */
    int segments;    /* parts of a sequence that are scanned at once */
    int stages;      /* chunks in local memory at once */
};

struct matrix_scan_tiles {
    struct part_tiles prepare;
    struct part_tiles scan[2], gather[2]; /* by pass; gather where a sequence has segments, else 0 */
};

/* A kernel of a problem on a device. */
struct part {
    enum part_kind kind;
    const struct problem *problem; /* with the pass */
    const struct device_facts *facts;
    struct part_tiles tiles;
};

/* What a kernel's text follows from. */
struct part_traits {
    /* Of the problem alone: */
    int erasing, decayed; /* whether something is erased, and channels have a decay each */
    int before;           /* whether it reads before the write */
    int most_chunk;       /* tokens of a chunk that the words take */
    int may_read;         /* whether sub-groups of their own may make the output: 2 where they usually do */
    int streams;          /* of rows */
    int prepared_streams; /* those that prepare reads */
    int norms;            /* those of them that may be normalised */
    int solved;           /* matrices of floats in prepare */
    /* And of tiles: */
    int width;         /* channels, padded to whole tiles of every sub-group that shares them */
    int made;          /* whether prepare writes the rows that the scan reads */
    int strips;        /* whether sub-groups move their values themselves, and may have several tiles of them */
    int scan_scores;   /* whether the scan makes the scores of a chunk itself, so that they are no part of a record */
    int matrices;      /* of a record */
    int reads_rows;    /* whether something is to be prepared of q and k, not factors alone */
    int row_factors;   /* factors of each row in a stage */
    int state_factors; /* and of the state */
    int divided;       /* whether the output is over what an earlier pass left */
    int depth;         /* chunks on their way to a group at once */
    int value_groups;  /* groups that share the value columns */
};

struct part_traits part_traits(const struct part *part);
/* Whether prepare makes the values of the pass. */
int makes_values(const struct problem *problem);
/* The headers of all kernels, and then those of scans. */
void add_shared_headers(struct kernel_step *step, const struct part *part, const struct part_traits *traits);
void add_scan_headers(struct kernel_step *step, const struct part *part, const struct part_traits *traits);

/* A kernel, and the sizes of what it leaves others. */
struct part_layout {
    struct kernel_step step;
    int slots;                     /* chunks that a group of what prepares has */
    int groups;                    /* groups of a scan that a head of a sequence has */
    int64_t record, rows;          /* words of 32 bits of the workspace, for a chunk of a head */
    int64_t segment, segment_kept; /* floats of it, for a segment of a head */
};

struct part_layout part_layout(const struct part *part);

clattn_status matrix_scan_choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                       const struct problem *problem, void *tiles);

#endif
