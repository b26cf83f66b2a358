/* The time of each kernel of a plan. */
#ifndef CLATTN_SRC_TUNER_KERNEL_TIMES_H
#define CLATTN_SRC_TUNER_KERNEL_TIMES_H

#include "tuner/buffers.h"

enum { MAX_KERNELS = 56 };

struct kernel_times {
    int count; /* in the order that they run; only the first MAX_KERNELS */
    const char *names[MAX_KERNELS];
    double seconds[MAX_KERNELS]; /* from the end of the previous kernel to its own end, median */
};

/* Medians over `runs` runs on the profiling queue, which use the sets of operands in turn. count is 0 if the device's
 * clock does not work. */
clattn_status kernel_times(struct kernel_times *times, struct clattn_plan *plan, cl_command_queue queue,
                           const struct buffers *buffers, size_t runs);

#endif
