/* Attention to a list of keys and values (cl/flash/README.md): what the files of the module share, and the reads that
 * other modules build in behind what they make of queries, keys or values. */
#ifndef CLATTN_SRC_SOLVE_FLASH_H
#define CLATTN_SRC_SOLVE_FLASH_H

#include "device/engine.h"
#include "solve/solve.h"

/* ---- On any device: flash.cl ---------------------------------------------------------------------------------------
 * A module that builds the read in has struct flash_tiles among its tiles, which are TILE_OPEN where tuning chose none,
 * and struct flash_shape in its shape. It binds "q", "k" and "v" to what it made, where these are not the problem's. */

struct flash_tiles {
    int group;     /* work-items */
    int vec;       /* floats that a work-item works at once */
    int chunk;     /* queries of a group, and keys of a block */
    int block_k;   /* channels in local memory at once */
    int block_v;   /* value columns of a group */
    int pad;       /* floats after a row of a slice of channels */
    int sub_group; /* work-items of a sub-group; 0: the compiler's choice */
};

struct flash_shape {
    struct flash_tiles tiles;
    struct kernel_step step;
};

/* As struct solver has them. */
clattn_status flash_choose_tiles(const struct device_facts *facts, const struct problem *problem,
                                 struct flash_tiles *tiles);
clattn_status flash_derive_shape(const struct device_facts *facts, const struct problem *problem,
                                 const struct flash_tiles *tiles, struct flash_shape *shape);
/* Turns of loops of a work-item: of a block of queries with one of keys, and with all. */
int64_t list_block_turns(const struct problem *problem, int group, int vec, int chunk, int block_v);
int64_t flash_turns(const struct problem *problem, const struct flash_tiles *tiles);
struct reach flash_reach(const struct flash_shape *shape);
void flash_add(struct builder *b, const struct problem *problem, const struct flash_shape *shape);
void flash_describe(struct text *text, const struct flash_shape *shape);

/* What other kernels of lists have, too: the headers of biases, weights, values and outputs, in this order; and the header
 * of weights. */
void flash_add_words(struct kernel_step *step, const struct problem *problem, enum embedded_file weights);
enum embedded_file flash_weights(clattn_weights weights);
/* Channels of a slice: a multiple of unit, at most `most` of them, such that whole slices have little padding. */
int flash_slice(int64_t channels, int most, int unit);

/* ---- On a matrix engine: flash_matrix.cl, and by teams of sub-groups flash_team.cl ---------------------------------
 * To be built in likewise. */

struct flash_matrix_tiles {
    int chunk;     /* tokens of a group */
    int share;     /* heads of a key head that share a group */
    int span;      /* tiles of rows of a sub-group */
    int subs;      /* sub-groups that compute */
    int loaders;   /* and those that only move blocks of keys and values */
    int keys;      /* of a block */
    int step;      /* tiles of keys that are worked at once: a unit of the block */
    int stages;    /* blocks in local memory at once; of a team halves of them: keys, or values */
    int block_v;   /* value columns of a group */
    int team;      /* whether sub-groups multiply in teams */
    int group;     /* work-items */
    int sub_group; /* those of a sub-group; 0: the compiler's choice */
};

struct flash_matrix_shape {
    struct flash_matrix_tiles tiles;
    int rows;                      /* of a group */
    int held;                      /* whether queries are in registers */
    int summed;                    /* whether decays are summed ahead of the read */
    struct kernel_step sums, read; /* sums: where they are */
};

/* Whether the engine can read the problem's list, by teams where that is asked for. */
int flash_matrix_applies(const struct device_facts *facts, const struct problem *problem, int team);
clattn_status flash_matrix_choose_tiles(const struct device_facts *facts, const struct problem *problem, int team,
                                        struct flash_matrix_tiles *tiles);
/* By teams where the engine has them and these fit, with the heuristic's tiles; else without. */
clattn_status flash_matrix_choose_best(const struct device_facts *facts, const struct problem *problem,
                                       struct flash_matrix_tiles *tiles);
clattn_status flash_matrix_derive_shape(const struct device_facts *facts, const struct problem *problem,
                                        const struct flash_matrix_tiles *tiles, struct flash_matrix_shape *shape);
struct reach flash_matrix_reach(const struct flash_matrix_shape *shape);
void flash_matrix_add(struct builder *b, const struct problem *problem, const struct flash_matrix_shape *shape);
/* Of the read's kernels, the step-th. */
void flash_matrix_describe(struct text *text, const struct flash_matrix_shape *shape, int step);

/* ---- For kernels that are made of the same words ------------------------------------------------------------------
 */

/* A kernel with the constants, local arrays and words of flash_matrix.cl, or of flash_team.cl. */
struct kernel_step flash_matrix_step(enum embedded_file file, const struct engine *engine,
                                     const struct problem *problem, const struct flash_matrix_tiles *tiles);

/* Registers of a lane for what it sums. */
int flash_sum_registers(const struct engine *engine, const struct flash_matrix_tiles *tiles);

/* Tiles on their way. */
struct flash_read {
    const struct device_facts *facts;
    const struct problem *problem;
    struct flash_matrix_tiles tiles;
};
/* Value columns of a group: all, where registers hold their sums. */
void flash_cut_values(struct flash_read *read);
/* Fewer keys and stages until local memory and registers hold them; 0 where nothing does. */
int flash_cut_keys(struct flash_read *read);

/* The words of what decays add to scores, in a team's kernel or another; and what these have in local memory of a block
 * of keys in units of so many. */
enum embedded_file flash_bias(const struct problem *problem, int team);
void flash_add_bias_locals(struct kernel_step *step, int keys, int unit);

/* The sums of decays that a team's kernel adds to scores, of units of so many keys: the kernel that makes them
 * (flash_sums.cl), the constants of those that read them, and the step of the former with memory for them, which kernels
 * find as "after". */
struct kernel_step flash_sums_step(const struct device_facts *facts, const struct problem *problem, int keys,
                                   int sub_group);
void flash_add_sums_constants(struct kernel_step *step, const struct problem *problem, int keys);
void flash_add_sums(struct builder *b, const struct problem *problem, const struct kernel_step *step, int keys);
void flash_describe_sums(struct text *text, const struct kernel_step *step, int keys);

#endif
