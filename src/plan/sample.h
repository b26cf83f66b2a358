/* A problem with generated numbers, run on a device and in the reference. The self-test uses it. */
#ifndef CLATTN_SRC_SAMPLE_H
#define CLATTN_SRC_SAMPLE_H

#include "plan/plan.h"

/* Runs the plan once. Outputs and workspace are filled with NaN before, and guard bytes behind each buffer must not
 * change. *verdict: 1 if every output is within its type's bound of the reference, -1 if one is not or a guard byte
 * changed, 0 if the run failed, which the status explains. */
clattn_status sample_run(clattn_plan *plan, cl_command_queue queue, int *verdict);

#endif
