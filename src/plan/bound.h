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

/* Enqueues the launches of a call, whose recipe, kernels and log are set here; a kernel that cannot be run is made again
 * where it came from the cache. Errors are logged once it is over. */
clattn_status bound_run(struct bound *bound, struct ir_call *call, const struct log *log, uint32_t n_wait,
                        const cl_event *wait, cl_event *event, struct ir_launches *launches);
/* Makes the kernels again whose programs came from the cache, for those fail when they are run; whether any did. */
int bound_renew(struct bound *bound);

#endif
