/* A context: the device, the log, and every program built so far. */
#ifndef CLATTN_SRC_CONTEXT_H
#define CLATTN_SRC_CONTEXT_H

#include "cache.h"
#include "device.h"
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
    mutex lock; /* over programs */
    struct program *programs;
    struct cache cache;
};

#endif
