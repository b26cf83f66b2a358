/* Programs: built once a context, and taken from the cache where any process has built them before. */
#ifndef CLATTN_SRC_PROGRAM_H
#define CLATTN_SRC_PROGRAM_H

#include "device/context.h"

/* The program of a source, which is taken over and freed; the context keeps it. name is its kernel's, for messages, and
 * static. */
clattn_status program_get(clattn_context *context, char *source, const char *name, const char *options,
                          cl_program *program);

/* How many programs the context has built so far. */
unsigned program_count(clattn_context *context);

/* Puts the programs that were built since into the cache: a plan calls it when all is well, since a driver may finish
 * its binaries only when they first run. */
void program_keep(clattn_context *context);

/* What a source becomes on this device depends on: hash begun with library version, device, driver and platform. */
struct hash program_device_hash(const clattn_context *context);

#endif
