/* A recipe bound to a device: its kernels, and what they were last set to. */
#ifndef CLATTN_SRC_PLAN_BOUND_H
#define CLATTN_SRC_PLAN_BOUND_H

#include "ir/ir.h"
#include "solve/builder.h"

struct bound {
    clattn_context *context;
    struct ir_recipe ir;    /* what is computed, */
    struct built built;     /* its kernels, and the solvers that added them */
    struct kernel *kernels; /* by step; none of a foreign one. NULL: none is built */
    cl_kernel *launched;    /* what calls launch: the kernels' handles */
    struct ir_set *set;     /* what they were last set to */
    struct hash hash;       /* of their sources */
    mutex lock;             /* kernels carry their arguments until enqueued; over set too */
};

void bound_open(struct bound *bound, clattn_context *context);
/* Builds the recipe's kernels. UNSUPPORTED, BUILD_FAILED, OUT_OF_MEMORY, DEVICE_ERROR. */
clattn_status bound_build(struct bound *bound, const struct log *log);
/* Gives back the recipe and its kernels: another may be built then. */
void bound_drop(struct bound *bound);
void bound_close(struct bound *bound);

/* Enqueues the launches of a call, whose recipe and kernels are set here. Errors are logged once it is over. */
clattn_status bound_run(struct bound *bound, struct ir_call *call, const struct log *log, uint32_t n_wait,
                        const cl_event *wait, cl_event *event, struct ir_launches *launches);
/* Makes the kernel of a step again that cannot be run, where it came from the cache: SUCCESS. */
clattn_status bound_renew_step(struct bound *bound, int step);
/* The same of all steps; whether any was. */
int bound_renew(struct bound *bound);

/* What calls of a recipe need beside it. */
struct runner {
    clattn_context *context;
    const struct log *log;
    mutex *lock; /* kernels carry their arguments until enqueued; NULL: there is no kernel */
    /* Makes the kernel of a step again that cannot be run, where it came from the cache: SUCCESS. */
    clattn_status (*renew)(void *user, int step);
    void *user;
};
/* Enqueues the call while nobody else has the kernels; again from the launch that failed where its kernel was renewed. */
clattn_status run_recipe(const struct runner *runner, struct ir_call *call, uint32_t n_wait, const cl_event *wait,
                         cl_event *event, struct ir_launches *launches);

#endif
