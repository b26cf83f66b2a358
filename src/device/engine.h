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
    enum embedded_file exact; /* its products of floats, with their instructions; FILE_nothing: it has none */
    enum embedded_file team;  /* products by TEAM sub-groups together; FILE_nothing: it has none */
    const char *options;      /* to the compiler */
    int lanes;                /* of a sub-group */
    int rows;                 /* value columns of a sub-group: ACC_ROWS of the words */
    int key_split;            /* the most sub-groups that share value columns, as its registers want it */
    int span;          /* the most tiles of value columns of a sub-group, where nothing is erased; above 1 its words
                            make scores and strips (cl/matrix_scan/README.md: SCORED, STRIPS) */
    int loaders;       /* sub-groups that only move what the others compute with */
    int readers;       /* 1 where sub-groups of their own may make the output: its words have signals */
    int chunk;         /* the most tokens of a chunk that its registers want */
    int registers;     /* of a compute unit, where the compiler can be told to share them out; 0: it cannot */
    int scratch;       /* local memory that a work-item's instructions take, in bytes: the emulations', */
    int exact_scratch; /* and of products of floats */
    cl_uint vendor;    /* CL_DEVICE_VENDOR_ID of the devices that have it; 0: an emulation, for any device */
    int first, last;   /* of the vendor's generations (engine.c) that have it */
};

/* The engine of that name, or NULL. */
const struct engine *engine_get(const char *name);
/* The names for messages: "none, nvidia, …". */
const char *engine_names(void);

/* The engine of the device, which must still be probed, or NULL. */
const struct engine *engine_of(const struct device *device);

#endif
