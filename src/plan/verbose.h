/* CLATTN_VERBOSE: a line on stderr for each plan and each call; device/program.c writes those of kernels. */
#ifndef CLATTN_SRC_PLAN_VERBOSE_H
#define CLATTN_SRC_PLAN_VERBOSE_H

#include "plan/plan.h"

/* "clattn: plan gla f32 B=2,T=1000,H=4,HQ=4,K=64,V=64: chunk_scan, tiles by rule of thumb, 812 ms" */
void verbose_plan(const struct clattn_plan *plan, double seconds);
/* "clattn: call gla f32 B=2,T=1000,H=4,HQ=4,K=64,V=64: chunk_scan, 15.7 ms" */
void verbose_call(const struct clattn_plan *plan, const struct arguments *arguments, double seconds);
/* The same for a call that was enqueued at `begin` and is done when the event is: the line is printed then. The event
 * stays the caller's. */
void verbose_enqueued(const struct clattn_plan *plan, const struct arguments *arguments, double begin, cl_event event);

#endif
