/* Programs: each is built once, or taken from the cache if any process has built it before. */
#ifndef CLATTN_SRC_PROGRAM_H
#define CLATTN_SRC_PROGRAM_H

#include "device/context.h"

/* The program for a source. It takes ownership of `source` and holds the program until program_release. `name` is its
 * kernel's, for messages, and static. */
clattn_status program_get(clattn_context *context, const struct log *log, char *source, const char *name,
                          const char *options, struct program **program);
/* The OpenCL program from which kernels are created. */
cl_program program_cl(clattn_context *context, const struct program *program);
/* Replaces a program whose kernel cannot be run although it was built; `from` is what that kernel was created from. If
 * it came from the cache, it is removed there and built from source, once. SUCCESS: program_cl returns another program.
 * UNSUPPORTED: it does not, because the cache is not to blame. */
clattn_status program_renew(clattn_context *context, struct program *program, cl_program from);
/* Releases the program. If nobody else holds it, the context keeps it for a while. */
void program_release(clattn_context *context, struct program *program);
/* Frees all programs, held or not, when the context is destroyed. */
void program_free_all(clattn_context *context);

/* The number of programs that the context has built so far. */
unsigned program_count(clattn_context *context);

/* Stores the programs that were built since the last call in the cache. A plan calls it after its kernels have run,
 * because some drivers finish their binaries only then. */
void program_keep(clattn_context *context);

/* The hash of everything besides the source that decides a program: library version, device, driver and platform. */
struct hash program_device_hash(const clattn_context *context);

#endif
