/* One call of a plan. */
#ifndef CLATTN_SRC_PLAN_CALL_H
#define CLATTN_SRC_PLAN_CALL_H

#include "plan/plan.h"

struct call {
    const struct clattn_plan *plan;
    struct ir_call ir;
    struct ir_place operands[OPERAND_COUNT];
};

/* What calls of a recipe need beside it. */
struct runner {
    clattn_context *context;
    const struct log *log;
    mutex *lock; /* kernels carry their arguments until enqueued */
    /* Makes the kernel of a step again that cannot be run, where it came from the cache: SUCCESS. */
    clattn_status (*renew)(void *user, int step);
    void *user;
};
/* Enqueues the call while nobody else has the kernels; again from the launch that failed where its kernel was renewed. */
clattn_status run_recipe(const struct runner *runner, struct ir_call *call, uint32_t n_wait, const cl_event *wait,
                         cl_event *event, struct ir_launches *launches);
/* runner->renew of a plan. */
clattn_status plan_renew_step(struct clattn_plan *plan, int step);

/* Whether the queue is of the context, and in order. */
clattn_status queue_check(const clattn_context *context, cl_command_queue queue, const struct log *log, int *in_order);
/* The call and its queue, checked, and every buffer with its view. */
clattn_status call_bind(struct call *call, const struct arguments *arguments);

#endif
