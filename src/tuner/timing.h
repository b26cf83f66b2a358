/* Timing of something that is enqueued again and again. */
#ifndef CLATTN_SRC_TUNER_TIMING_H
#define CLATTN_SRC_TUNER_TIMING_H

#include "device/opencl.h"

struct timing {
    double median, min, max, spread; /* seconds; spread: between the quartiles, over the median */
    double wall;                     /* seconds by the host's clock for a run, median */
    size_t runs;
    int events; /* by the device's clock, else the host's with a finish after every run */
};

struct timing_job {
    cl_command_queue queue; /* in order, profiling; NULL: enqueue returns when all is done */
    clattn_status (*enqueue)(void *user, size_t run, cl_event *event);
    void *user;
    struct log log;
};

/* Three warm-ups, then runs timed runs; fewer, but at least 5, when that takes longer than budget seconds. The time of
 * a run is from the end of what was enqueued before it to its end. */
clattn_status timing_measure(const struct timing_job *job, size_t runs, double budget, struct timing *timing);

/* Sorts the samples. 0 if there are none. */
double timing_median(double *samples, size_t count);

/* Seconds of count runs, without warm-ups; by the device's clock while *by_events, which becomes 0 when it does not
 * tell. */
clattn_status timing_batch(const struct timing_job *job, size_t count, double *samples, int *by_events);

#endif
