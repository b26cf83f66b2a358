/* One call of a plan. */
#ifndef CLATTN_SRC_PLAN_CALL_H
#define CLATTN_SRC_PLAN_CALL_H

#include "plan/plan.h"

struct call {
    const struct clattn_plan *plan;
    struct ir_call ir;
    struct ir_place operands[OPERAND_COUNT];
};

/* What the execution of a recipe needs besides the recipe. */
struct runner {
    clattn_context *context;
    const struct log *log;
    mutex *lock; /* kernels carry their arguments until enqueued */
    /* Builds the kernel of a step again if it came from the cache and cannot be run. SUCCESS: it was built. */
    clattn_status (*renew)(void *user, int step);
    void *user;
};
/* Enqueues the call while this thread alone has the kernels. If a kernel was renewed after its launch failed, enqueuing
 * resumes at that launch. */
clattn_status run_recipe(const struct runner *runner, struct ir_call *call, uint32_t n_wait, const cl_event *wait,
                         cl_event *event, struct ir_launches *launches);
/* The `renew` of a plan's runner. */
clattn_status plan_renew_step(struct clattn_plan *plan, int step);

/* Whether the queue belongs to the context and is in order. */
clattn_status queue_check(const clattn_context *context, cl_command_queue queue, const struct log *log, int *in_order);
/* Checks the call and its queue, and finds every operand's buffer and view. */
clattn_status call_bind(struct call *call, const struct arguments *arguments);

#endif
