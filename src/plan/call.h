/* One call of a plan. */
#ifndef CLATTN_SRC_PLAN_CALL_H
#define CLATTN_SRC_PLAN_CALL_H

#include "plan/plan.h"

/* Every buffer of one call, with its view: operands by id, temporaries, the plan's own. */
struct bound {
    cl_mem memory;
    struct view view;
};

/* Where a call stands. */
struct stand {
    int step;
    int64_t part;      /* of a product's launches */
    int64_t first_row; /* of the stretch at hand */
    int64_t read;      /* which of the heads that read a state is at hand */
};

struct call {
    const struct clattn_plan *plan;
    cl_command_queue queue;
    int in_order;
    struct set_value (*set)[MOST_ARGUMENTS]; /* the plan's, while its lock is held */
    struct log log;                          /* while the plan's lock is held */
    struct extent extent;
    struct stand at;
    cl_event before;  /* of the last launch, on a queue out of order; or NULL */
    size_t workspace; /* its first byte */
    struct bound operands[OPERAND_COUNT], temporaries[TEMPORARY_COUNT], fixed;
};

/* The call and its queue, checked, and every buffer with its view. */
clattn_status call_bind(struct call *call, const struct arguments *arguments);

#endif
