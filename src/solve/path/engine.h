/* PaTH attention on a matrix engine, its sub-groups by themselves or in teams: what the files of this part share. */
#ifndef CLATTN_SRC_SOLVE_PATH_ENGINE_H
#define CLATTN_SRC_SOLVE_PATH_ENGINE_H

#include "solve/path/path.h"

struct path_engine_tiles {
    int chunk;     /* queries of a group, and keys that a group carries */
    int span;      /* keys that are crossed at once */
    int keys;      /* of a block, which is walked at once */
    int stages;    /* blocks of carried keys in local memory at once */
    int block_v;   /* value columns of a group */
    int subs;      /* sub-groups that compute: those of the read, and of what carries keys */
    int loaders;   /* sub-groups of the read that only move blocks */
    int team;      /* whether sub-groups multiply in teams */
    int sub_group; /* work-items of a sub-group; 0: the compiler's choice */
};

clattn_status path_engine_choose_tiles(const struct device_facts *facts, const struct problem *problem, int team,
                                       struct path_engine_tiles *tiles);

/* The kernels: prepared keys are carried to the ends of their spans, then queries read them. */
enum path_engine_kernel { PATH_PREPARE, PATH_CARRY, PATH_READ, PATH_ENGINE_KERNELS };
struct kernel_step path_engine_step(enum path_engine_kernel kernel, const struct engine *engine,
                                    const struct problem *problem, const struct path_engine_tiles *tiles);
/* Groups along the third dimension of the grid. */
int64_t path_engine_groups(enum path_engine_kernel kernel, const struct problem *problem,
                           const struct path_engine_tiles *tiles);

/* Floats that are left of `chunk` keys of a head, and of a span of it. */
int64_t path_engine_slot_floats(const struct problem *problem, const struct path_engine_tiles *tiles);
int64_t path_engine_span_floats(const struct problem *problem, const struct path_engine_tiles *tiles);

#endif
