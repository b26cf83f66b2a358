/* Programs: built once, and taken from the cache where any process has built them before. */
#ifndef CLATTN_SRC_PROGRAM_H
#define CLATTN_SRC_PROGRAM_H

#include "device/context.h"

/* The program of a source, which is taken over and freed; held until program_release. name is its kernel's, for
 * messages, and static. */
clattn_status program_get(clattn_context *context, const struct log *log, char *source, const char *name,
                          const char *options, struct program **program);
/* What kernels are made of. */
cl_program program_cl(clattn_context *context, const struct program *program);
/* Of what the kernel `from` was made of, which cannot be run, though it was built. Where it came from the cache it is
 * removed there, and the program built from its source: once. SUCCESS: program_cl is another. UNSUPPORTED: it is not,
 * since nothing is wrong with the cache. */
clattn_status program_renew(clattn_context *context, struct program *program, cl_program from);
/* The context keeps it for a while, where nobody else holds it. */
void program_release(clattn_context *context, struct program *program);
/* All programs, held or not: the context's end. */
void program_free_all(clattn_context *context);

/* How many programs the context has built so far. */
unsigned program_count(clattn_context *context);

/* Puts the programs that were built since into the cache: a plan calls it when all is well, since a driver may finish
 * its binaries only when they first run. */
void program_keep(clattn_context *context);

/* What a source becomes on this device depends on: hash begun with library version, device, driver and platform. */
struct hash program_device_hash(const clattn_context *context);

#endif
