/* Times work that can be enqueued repeatedly. */
#ifndef CLATTN_SRC_TUNER_TIMING_H
#define CLATTN_SRC_TUNER_TIMING_H

#include "device/opencl.h"

struct timing {
    double median, min, max, spread; /* seconds; spread: the quartiles' difference divided by the median */
    double wall;                     /* median seconds of a run by the host's clock */
    size_t runs;
    int events; /* timed by the device's clock; otherwise by the host's, with a finish after every run */
};

struct timing_job {
    cl_command_queue queue; /* in order, with profiling; NULL: enqueue returns when the work is done */
    clattn_status (*enqueue)(void *user, size_t run, cl_event *event);
    void *user;
    struct log log;
};

/* Runs three times without timing, then `runs` times; fewer, but at least 5, if that takes longer than budget seconds.
 * A run's time is from the end of the previous work to its own end. */
clattn_status timing_measure(const struct timing_job *job, size_t runs, double budget, struct timing *timing);

/* Sorts the samples. 0 if there are none. */
double timing_median(double *samples, size_t count);

/* Times `count` runs in seconds, without warm-ups: by the device's clock while *by_events, which becomes 0 if that does
 * not work. */
clattn_status timing_batch(const struct timing_job *job, size_t count, double *samples, int *by_events);

#endif
