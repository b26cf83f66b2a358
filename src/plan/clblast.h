/* CLBlast, if the machine has it. The library is opened at run time, never linked. */
#ifndef CLATTN_SRC_CLBLAST_H
#define CLATTN_SRC_CLBLAST_H

#include "device/context.h"
#include "op/gemm.h"
#include "tune/space.h"

/* Whether CLBlast is installed and can compute the product on the device. This avoids calls that CLBlast would refuse,
 * because it prints refusals to stderr. */
int clblast_takes(clattn_context *context, const struct gemm *gemm);

/* Sets the parameters of CLBlast's kernel for the device, in the whole process, if the point gives all of them.
 * Parameters that break CLBlast's constraints are UNSUPPORTED. CLBlast does not check its results with others: the
 * caller must. */
clattn_status clblast_override(const clattn_context *context, clattn_dtype dtype, const struct tuned *tuned);

/* Enqueues the product. CLBlast takes no wait list: if there is one, a barrier is enqueued first. */
clattn_status clblast_enqueue(const clattn_context *context, const struct gemm *gemm, cl_command_queue queue,
                              const clattn_gemm_call *call, uint32_t n_wait, const cl_event *wait, cl_event *event);

#endif
