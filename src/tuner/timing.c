#include "tuner/timing.h"

#include "base/system.h"

#include <stdlib.h>
#include <string.h>

enum { WARM_UPS = 3, FEWEST = 5, BATCH = 16 };

/* Shorter runs are enqueued in batches behind a run that is not timed, so that the device does not wait for the host.
 */
static const double short_run = 10e-3;

static clattn_status finish(const struct timing_job *job)
{
    if (job->queue != NULL)
        TRY_CL(&job->log, opencl_get(), Finish, job->queue);
    return CLATTN_SUCCESS;
}

/* One run by the host's clock. */
static clattn_status run_by_wall(const struct timing_job *job, size_t run, double *seconds)
{
    double start = now_seconds();

    TRY(job->enqueue(job->user, run, NULL));
    TRY(finish(job));
    *seconds = now_seconds() - start;
    return CLATTN_SUCCESS;
}

/* The end of a finished event in seconds; 0 when the device does not say. */
static double event_end(cl_event event)
{
    cl_ulong nanoseconds = 0;

    if (event == NULL || opencl_get()->GetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof nanoseconds,
                                                             &nanoseconds, NULL) != CL_SUCCESS)
        return 0;
    return 1e-9 * (double)nanoseconds;
}

/* Enqueues `count` runs, each between two events. The first event is that of a marker or of a run that is not timed. */
static clattn_status enqueue_batch(const struct timing_job *job, size_t run, size_t count, cl_event events[BATCH + 1])
{
    if (count > 1)
        TRY(job->enqueue(job->user, run, &events[0]));
    else
        TRY_CL(&job->log, opencl_get(), EnqueueMarkerWithWaitList, job->queue, 0, NULL, &events[0]);
    for (size_t i = 0; i < count; i++)
        TRY(job->enqueue(job->user, run + 1 + i, &events[i + 1]));
    return finish(job);
}

/* Times `count` runs by the device's clock. *known becomes 0 if the clock does not work. */
static clattn_status run_by_events(const struct timing_job *job, size_t run, size_t count, double *samples, int *known)
{
    cl_event events[BATCH + 1] = {NULL};
    clattn_status status = enqueue_batch(job, run, count, events);

    for (size_t i = 0; i < count && status == CLATTN_SUCCESS; i++) {
        double start = event_end(events[i]), end = event_end(events[i + 1]);
        samples[i] = end - start;
        *known = *known && start > 0 && end > start;
    }
    for (size_t i = 0; i <= count; i++)
        if (events[i] != NULL)
            opencl_get()->ReleaseEvent(events[i]);
    return status;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double timing_median(double *samples, size_t count)
{
    if (count == 0)
        return 0;
    qsort(samples, count, sizeof *samples, by_size);
    return (samples[(count - 1) / 2] + samples[count / 2]) / 2;
}

static void summarize(double *samples, size_t count, struct timing *timing)
{
    timing->median = timing_median(samples, count);
    timing->runs = count;
    timing->min = samples[0];
    timing->max = samples[count - 1];
    timing->spread = (samples[count - 1 - count / 4] - samples[count / 4]) / timing->median;
}

/* Runs until there are enough samples or the budget is spent. */
static clattn_status collect(const struct timing_job *job, size_t runs, double budget, double *samples, size_t *count,
                             struct timing *timing)
{
    double start = now_seconds();

    for (*count = 0; *count < runs && (*count < FEWEST || now_seconds() - start < budget);) {
        size_t batch = timing->wall < short_run && timing->events ? runs - *count : 1;
        batch = batch > BATCH ? BATCH : batch;
        if (timing->events)
            TRY(run_by_events(job, *count, batch, samples + *count, &timing->events));
        else
            TRY(run_by_wall(job, *count, samples + *count));
        *count += batch;
    }
    return CLATTN_SUCCESS;
}

clattn_status timing_measure(const struct timing_job *job, size_t runs, double budget, struct timing *timing)
{
    double *samples, warm[WARM_UPS];
    size_t count = 0;
    clattn_status status = CLATTN_SUCCESS;

    memset(timing, 0, sizeof *timing);
    for (size_t i = 0; i < WARM_UPS; i++)
        TRY(run_by_wall(job, i, &warm[i]));
    qsort(warm, WARM_UPS, sizeof *warm, by_size);
    timing->wall = warm[WARM_UPS / 2];
    timing->events = job->queue != NULL;
    samples = malloc((runs + BATCH) * sizeof *samples);
    if (samples == NULL)
        return FAIL(&job->log, OUT_OF_MEMORY, "no memory for %zu times", runs);
    if (timing->events)
        status = collect(job, runs, budget, samples, &count, timing);
    if (status == CLATTN_SUCCESS && !timing->events) /* no queue, or the device's clock does not work */
        status = collect(job, runs, budget, samples, &count, timing);
    if (status == CLATTN_SUCCESS)
        summarize(samples, count, timing);
    free(samples);
    return status;
}

clattn_status timing_batch(const struct timing_job *job, size_t count, double *samples, int *by_events)
{
    for (size_t done = 0; done < count && *by_events;) {
        size_t batch = count - done > BATCH ? BATCH : count - done;
        TRY(run_by_events(job, done, batch, samples + done, by_events));
        done += batch;
    }
    for (size_t i = 0; i < count && !*by_events; i++)
        TRY(run_by_wall(job, i, &samples[i]));
    return CLATTN_SUCCESS;
}
