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

struct clattn_context {
    struct log log;
    struct device device;
    cl_context cl;
    const struct engine *engine; /* the matrix engine to use, or NULL */
    mutex lock; /* over programs */
    struct program *programs;
};

#endif
