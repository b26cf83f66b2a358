/* A problem with numbers of the library's own, on a device and in the reference: what the self-test runs. */
#ifndef CLATTN_SRC_SAMPLE_H
#define CLATTN_SRC_SAMPLE_H

#include "plan/plan.h"

/* Runs the plan once, in outputs and a workspace of NaN with room behind each that must stay as it is. *verdict: 1 when
 * every output is within its type's bound of the reference, -1 when one is not or that room was written to; 0 when
 * nothing was learnt, which the status explains. */
clattn_status sample_run(clattn_plan *plan, cl_command_queue queue, int *verdict);

#endif
