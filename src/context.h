/* A context: the device, the log, and every program built so far. */
#ifndef CLATTN_SRC_CONTEXT_H
#define CLATTN_SRC_CONTEXT_H

#include "device.h"
#include "engine.h"
#include "thread.h"

struct program {
    struct program *next;
    char *source; /* the whole text: the key */
    cl_program program;
};

enum probed { PROBE_UNKNOWN, PROBE_PASSED, PROBE_FAILED };

struct clattn_context {
    struct log log;
    struct device device;
    cl_context cl;
    const struct engine *engine; /* the matrix engine to use, or NULL */
    mutex probe_lock;            /* over probed, which says by dtype whether it was found to work */
    enum probed probed[CLATTN_BF16 + 1];
    mutex lock; /* over programs */
    struct program *programs;
};

#endif
