/* One call of a plan. */
#ifndef CLATTN_SRC_PLAN_CALL_H
#define CLATTN_SRC_PLAN_CALL_H

#include "plan/plan.h"

struct call {
    const struct clattn_plan *plan;
    struct ir_call ir;
    struct ir_place operands[OPERAND_COUNT];
};

/* Whether the queue is of the context, and in order. */
clattn_status queue_check(const clattn_context *context, cl_command_queue queue, const struct log *log, int *in_order);
/* Checks the call and its queue, and finds every operand's buffer and view. */
clattn_status call_bind(struct call *call, const struct arguments *arguments);

#endif
