/* A recipe bound to a device: its kernels, and the arguments that they have at present. */
#ifndef CLATTN_SRC_PLAN_BOUND_H
#define CLATTN_SRC_PLAN_BOUND_H

#include "ir/ir.h"
#include "solve/builder.h"

struct bound {
    clattn_context *context;
    struct ir_recipe ir;    /* the steps */
    struct built built;     /* the kernels of the steps, and the solvers that added them */
    struct kernel *kernels; /* by step; empty for a foreign one. NULL: nothing is built */
    cl_kernel *launched;    /* the kernels' OpenCL handles, by step */
    struct ir_set *set;     /* the arguments that the kernels have at present */
    struct hash hash;       /* of the sources of all kernels */
    mutex lock;             /* kernels keep their arguments until they are enqueued; guards `set`, too */
};

void bound_open(struct bound *bound, clattn_context *context);
/* Builds the recipe's kernels. UNSUPPORTED, BUILD_FAILED, OUT_OF_MEMORY, DEVICE_ERROR. */
clattn_status bound_build(struct bound *bound, const struct log *log);
/* Releases the recipe and its kernels, so that another recipe can be built. */
void bound_drop(struct bound *bound);
void bound_close(struct bound *bound);

/* Enqueues the launches of a call, after setting the call's recipe and kernels. Errors are logged at its end. */
clattn_status bound_run(struct bound *bound, struct ir_call *call, const struct log *log, uint32_t n_wait,
                        const cl_event *wait, cl_event *event, struct ir_launches *launches);
/* Builds the kernel of a step again if it came from the cache and cannot be run. SUCCESS: it was built. */
clattn_status bound_renew_step(struct bound *bound, int step);
/* The same for all steps. Returns whether any was built. */
int bound_renew(struct bound *bound);

/* What the execution of a recipe needs besides the recipe. */
struct runner {
    clattn_context *context;
    const struct log *log;
    mutex *lock; /* kernels keep their arguments until they are enqueued; NULL: there are no kernels */
    /* Builds the kernel of a step again if it came from the cache and cannot be run. SUCCESS: it was built. */
    clattn_status (*renew)(void *user, int step);
    void *user;
};
/* Enqueues the call while this thread alone has the kernels. If a kernel was renewed after its launch failed, enqueuing
 * resumes at that launch. */
clattn_status run_recipe(const struct runner *runner, struct ir_call *call, uint32_t n_wait, const cl_event *wait,
                         cl_event *event, struct ir_launches *launches);

#endif
