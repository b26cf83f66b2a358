/* A table of OpenCL functions behind which is no device: plans can be made on it, and nothing is compiled or run. */
#ifndef CLATTN_SRC_NOTED_OPENCL_H
#define CLATTN_SRC_NOTED_OPENCL_H

#include "device/context.h"
#include "tune/tuning_layers.h"

/* What the functions know; a context's OpenCL context, programs and kernels are all pointers to it. */
struct noted {
    /* Receives the name, options and source of every program that is built, once; NULL: nothing is kept. */
    void (*kernel)(void *user, const char *name, const char *options, const char *source);
    void *user;
    char *source; /* of a program whose kernel's name is not known yet */
    char options[128];
};

/* Makes *context one on these functions: no engine, no measured tiles, no self-test, no CLBlast. The caller fills in
 * the log and what the device is. */
void noted_open(clattn_context *context, struct noted *noted, struct tuning_layers *tuning);
void noted_close(clattn_context *context, struct noted *noted);

/* The context's engine from then on: one whose products, and teams', are right. */
void noted_set_engine(clattn_context *context, const struct engine *engine);

#endif
