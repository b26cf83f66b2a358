/* Points of `clattn tune` that worker processes build at the same time, before the search tries them. A driver's
 * compiler uses one core of a process. The plan that is timed later finds the compiled programs in the cache. A
 * worker is `clattn tune --point POINT` with the device as the user typed it. */
#include "base/system.h"
#include "cli/process/process.h"
#include "cli/tune.h"
#include "device/cache.h"

#include <stdlib.h>

enum { MAX_BUILD_SECONDS = 300 };

int tune_build(const struct settings *settings, struct target *target)
{
    struct search_point point;
    clattn_status status;

    if (!search_point_read(settings->point, &point))
        return bad("--point is for workers of this very program");
    status = search_build(&target->device, &point);
    return status == CLATTN_SUCCESS ? EXIT_OK : library_error(&target->sink, "", status);
}

static int start_worker(const struct settings *settings, const struct search_point *point, struct process *worker)
{
    char *text = search_point_write(point);
    const char *words[8] = {settings->program, "tune", "--quiet", "--point", text};
    int started;

    if (settings->device != NULL) {
        words[5] = "--device";
        words[6] = settings->device;
    }
    started = text != NULL && process_start(worker, words) == 0;
    free(text);
    return started;
}

/* Waits until the worker ends, the search stops or the time is over. Returns 0 if the driver or this function ended
 * it: then nobody should try its point. What it prints is dropped, for the search meets the same messages. */
static int end_worker(struct process *worker, double deadline, const struct search_events *events)
{
    char how[96];
    int killed = 0, status;

    while (!killed && !process_ended(worker))
        if (events->stop(events->user) || now_seconds() > deadline) {
            unsigned long id = (unsigned long)worker->id;
            process_kill(worker);
            cache_drop_unfinished(id);
            killed = 1;
        }
    status = process_end(worker, how, sizeof how);
    return !killed && status >= 0;
}

void tune_build_ahead(const struct settings *settings, const struct search_events *events,
                      const struct search_point *points, size_t count, int *sound)
{
    const double deadline = now_seconds() + MAX_BUILD_SECONDS;
    struct process workers[MAX_AHEAD];
    size_t started = 0;

    for (size_t i = 0; i < count; i++)
        sound[i] = 1; /* also without a worker: the point is built when it is tried */
    while (started < count && start_worker(settings, &points[started], &workers[started]))
        started++;
    for (size_t i = 0; i < started; i++)
        sound[i] = end_worker(&workers[i], deadline, events);
}
