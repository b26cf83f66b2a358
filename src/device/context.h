/* A context: the device, the log, and the programs built for it. */
#ifndef CLATTN_SRC_CONTEXT_H
#define CLATTN_SRC_CONTEXT_H

#include "device/cache.h"
#include "device/device.h"
#include "device/engine.h"
#include "base/thread.h"

struct clblast_table;
struct tuning_layers;

/* A program, held by each kernel that was created from it. The context keeps a few programs that no kernel holds,
 * because later plans may need them. */
struct program {
    struct program *next;
    char *source;               /* the whole text, which is the key */
    cl_program program, broken; /* broken: the program from the cache that was replaced because its kernel could not be
                                 * run */
    const char *name;           /* the name of its kernel, static */
    char options[96];           /* for the compiler */
    int cached;                 /* it came from the cache */
    int uncached;               /* it was built from source and is not in the cache yet */
    int holders;
};
enum { MOST_UNHELD = 64 };

/* The verdict of a self-test. The last MOST_VERDICTS are known without reading the cache. */
struct verdict {
    struct hash key;
    int passed; /* 1: passed, -1: failed */
};
enum { MOST_VERDICTS = 1024 };

/* The answer of a probe of the context's engine: unknown; right numbers; wrong numbers; or refused by the device's
 * compiler. `refusals` counts refusals, and `built` is the number of programs built before the last one. A failure of
 * OpenCL is not an answer. */
struct probed {
    enum probe_answer { PROBE_UNKNOWN, PROBE_RIGHT, PROBE_WRONG, PROBE_REFUSED } answer;
    int refusals;
    unsigned built;
};

struct clattn_context {
    struct log log;
    struct device device;
    cl_context cl;
    const struct engine *engine; /* the matrix engine to use, or NULL */
    mutex probe_lock;            /* guards `probed`, which is for the engine and for its teams, by dtype */
    struct probed probed[2][CLATTN_BF16 + 1];
    mutex lock;               /* guards programs, built and verdicts */
    struct program *programs; /* most recently created or released first */
    int most_unheld;          /* the most programs that no kernel holds; MOST_UNHELD */
    unsigned built;           /* number of programs so far, from source or from the cache */
    struct verdict *verdicts;
    size_t verdict_count; /* number of verdicts so far */
    struct cache cache;
    struct tuning_layers *tuning;  /* measured parameters for the device */
    char *clblast_name;            /* the library file of CLBlast; NULL: its soname, "": do not use CLBlast */
    struct clblast_table *clblast; /* what was found of CLBlast; NULL: not looked up yet */
    int self_test;                 /* whether plans are tested */
    int verbose;                   /* CLATTN_VERBOSE: a line on stderr a kernel, a plan and a call */
};

/* The size of a buffer of the context in bytes. If the buffer belongs to another context, logs its name and returns the
 * status `refused`. */
clattn_status context_buffer_size(const clattn_context *context, cl_mem buffer, const char *name, clattn_status refused,
                                  size_t *bytes);

/* The verdict on kernels: 1 passed, -1 failed, 0 unknown. */
int context_verdict(clattn_context *context, struct hash key);
void context_set_verdict(clattn_context *context, struct hash key, int passed);

#endif
