/* CLBlast, where it is on the machine: opened at run time, never linked. */
#ifndef CLATTN_SRC_CLBLAST_H
#define CLATTN_SRC_CLBLAST_H

#include "device/context.h"
#include "op/gemm.h"
#include "tune/space.h"

/* Whether CLBlast is there and takes the product on the device. It is not asked for what it would refuse, which it
 * would say on stderr. */
int clblast_takes(clattn_context *context, const struct gemm *gemm);

/* Gives its kernel the parameters of a point of its space, where all are given, for the whole process and the device.
 * Those that break its constraints are UNSUPPORTED; what it computes with others is to be checked. */
clattn_status clblast_override(const clattn_context *context, clattn_dtype dtype, const struct tuned *tuned);

/* Enqueues the product. CLBlast knows no wait list: a barrier stands before where there is one. */
clattn_status clblast_enqueue(const clattn_context *context, const struct gemm *gemm, cl_command_queue queue,
                              const clattn_gemm_call *call, uint32_t n_wait, const cl_event *wait, cl_event *event);

#endif
