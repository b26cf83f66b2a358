/* Matrix engines: the headers of cl/ that make up each of them, and which one a device has. */
#ifndef CLATTN_SRC_ENGINE_H
#define CLATTN_SRC_ENGINE_H

#include "base/embedded.h"
#include "device/device.h"

/* Compiler options of every kernel. */
#define PLAIN_OPTIONS "-cl-std=CL1.2 -w"
#define UNOPTIMISED_OPTIONS PLAIN_OPTIONS " -cl-opt-disable"
/* Limits the registers of a work-item. Only NVIDIA has this option. */
#define REGISTERS_OPTION "-cl-nv-maxrregcount="

enum {
    MATRIX_TILE = 16, /* rows and columns of the tiles that an engine multiplies */
    TEAM = 4,         /* sub-groups that compute a product together */
    PANEL = 64,       /* elements in a row of a team's operands in local memory (cl/engines/panels.clh) */
    MOVERS = 4        /* sub-groups that only move data for teams, in two halves */
};

struct engine {
    const char *name;
    enum embedded_file instructions, words;
    enum embedded_file exact; /* products of f32, with their instructions; FILE_nothing: it has none */
    enum embedded_file team;  /* products that TEAM sub-groups compute together; FILE_nothing: it has none */
    const char *options;      /* for the compiler */
    int lanes;                /* work-items of a sub-group */
    int rows;                 /* value columns of a sub-group: ACC_ROWS in its header */
    int key_split;            /* the largest number of sub-groups that should share value columns, given its
                               * registers */
    int span;          /* The largest number of tiles of value columns of a sub-group, in rules that do not erase. If it
                        * is above 1, its words compute scores and strips (cl/matrix_scan/README.md: SCAN_SCORES, STRIPS). */
    int loaders;       /* sub-groups that only move data for the sub-groups that compute */
    int readers;       /* 1: separate sub-groups may compute the output, because its words have signals */
    int chunk;         /* the largest chunk that suits its registers */
    int registers;     /* registers of a compute unit, if the compiler can limit how many a work-item uses; else 0 */
    int scratch;       /* local memory for each work-item's instructions, in bytes, which emulations need */
    int exact_scratch; /* the same for products of f32 */
    cl_uint vendor;    /* CL_DEVICE_VENDOR_ID of the devices that have it; 0: an emulation, which runs on any device */
    int first, last;   /* the generations that have it, numbered as in engine.c */
};

/* The engine of that name, or NULL. */
const struct engine *engine_get(const char *name);
/* The names for messages: "none, nvidia, …". */
const char *engine_names(void);

/* The engine of the device, which must still be probed, or NULL. */
const struct engine *engine_of(const struct device *device);

#endif
