/* A context: the device, the log, and programs. */
#ifndef CLATTN_SRC_CONTEXT_H
#define CLATTN_SRC_CONTEXT_H

#include "device/cache.h"
#include "device/device.h"
#include "device/engine.h"
#include "base/thread.h"

struct clblast_table;
struct tuning_layers;

/* A kernel that was made of it holds a program. The context keeps a few that nobody holds, for the plans to come. */
struct program {
    struct program *next;
    char *source;               /* the whole text: the key */
    cl_program program, broken; /* broken: what the cache had in its place, where no kernel of that can be run */
    const char *name;           /* its kernel's, static */
    char options[96];           /* it was built with */
    int cached;                 /* from the cache */
    int unkept;                 /* built from source, and not in the cache yet */
    int holders;
};
enum { MOST_UNHELD = 64 };

/* What the self-test said of the kernels of a plan: the last MOST_VERDICTS are known without the cache. */
struct verdict {
    struct hash key;
    int passed; /* 1, or -1: failed */
};
enum { MOST_VERDICTS = 1024 };

/* What is known of a product on the context's engine: nothing; that the numbers are right; that they are wrong; that
 * the device's compiler refuses it, so many times, the last when it had built that many other programs. An error of
 * OpenCL is no answer. */
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
    mutex probe_lock;            /* over probed: of it, and of its teams, by dtype */
    struct probed probed[2][CLATTN_BF16 + 1];
    mutex lock;               /* over programs, built and verdicts */
    struct program *programs; /* those last made or let go first */
    int most_unheld;          /* MOST_UNHELD */
    unsigned built;           /* programs, from source or from the cache */
    struct verdict *verdicts;
    size_t verdict_count; /* of all that there were */
    struct cache cache;
    struct tuning_layers *tuning;  /* what is measured of the device */
    char *clblast_name;            /* where CLBlast is looked for; NULL: by its soname, "": nowhere */
    struct clblast_table *clblast; /* what was found of it; NULL: nothing was looked for yet */
    int self_test;                 /* whether plans are tested */
};

/* The bytes of a buffer of the context; refused with the status given, by its name, where it is another's. */
clattn_status context_buffer_size(const clattn_context *context, cl_mem buffer, const char *name, clattn_status refused,
                                  size_t *bytes);

/* What is known of kernels: 1 passed, -1 failed, 0 nothing. */
int context_verdict(clattn_context *context, struct hash key);
void context_set_verdict(clattn_context *context, struct hash key, int passed);

#endif
