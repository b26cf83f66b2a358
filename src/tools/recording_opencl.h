/* OpenCL functions without a device: plans can be created with them, but nothing is compiled or run. They record the
 * sources. */
#ifndef CLATTN_SRC_TOOLS_RECORDING_OPENCL_H
#define CLATTN_SRC_TOOLS_RECORDING_OPENCL_H

#include "device/context.h"
#include "tune/tuning_layers.h"

/* The state of the functions. A context's OpenCL context, programs and kernels are all pointers to it. */
struct recording {
    /* Called once for every program with its name, options and source. NULL: nothing is recorded. */
    void (*kernel)(void *user, const char *name, const char *options, const char *source);
    void *user;
    char *source; /* of a program whose kernel has no name yet */
    char options[128];
};

/* Initialises *context with these functions: no engine, no measured tiles, no self-test, no CLBlast. The caller sets
 * the log and the device's limits. */
void recording_open(clattn_context *context, struct recording *recording, struct tuning_layers *tuning);
void recording_close(clattn_context *context, struct recording *recording);

/* Gives the context an engine that counts as tested, for products and teams. */
void recording_set_engine(clattn_context *context, const struct engine *engine);

#endif
