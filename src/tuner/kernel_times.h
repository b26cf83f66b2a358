/* The time of each kernel of a plan. */
#ifndef CLATTN_SRC_TUNER_KERNEL_TIMES_H
#define CLATTN_SRC_TUNER_KERNEL_TIMES_H

#include "tuner/buffers.h"

enum { MOST_KERNELS = 56 };

struct kernel_times {
    int count; /* in the order that they run; of more than MOST_KERNELS the first */
    const char *names[MOST_KERNELS];
    double seconds[MOST_KERNELS]; /* from the end of the one before to its end, median */
};

/* runs of them, round the sets of operands, on the profiling queue; count 0 where the device's clock does not tell. */
clattn_status kernel_times(struct kernel_times *times, struct clattn_plan *plan, cl_command_queue queue,
                           const struct buffers *buffers, size_t runs);

#endif
