/* Points of `clattn tune` that worker processes build ahead, all at once, and leave in the cache of compiled programs,
 * where the plan that is timed finds them: a driver's compiler has a core a process. A worker is `clattn tune --point
 * POINT`, with a device as it was typed; the words of a point are its bytes, for both are the same program. */
#include "cli/process/process.h"
#include "cli/tune.h"
#include "base/system.h"
#include "device/cache.h"

#include <stdlib.h>
#include <string.h>

struct packed {
    clattn_plan_desc desc;
    int32_t space;
    int32_t values[MAX_PARAMETERS];
};
enum { POINT_DIGITS = 2 * sizeof(struct packed), LONGEST_BUILD = 300 /* seconds */ };
static const char digits[] = "0123456789abcdef";

static void write_point(const struct search_point *point, char text[POINT_DIGITS + 1])
{
    struct packed packed;
    const unsigned char *bytes = (const unsigned char *)&packed;

    memset(&packed, 0, sizeof packed);
    packed.desc = point->desc;
    while (space_at(packed.space) != point->tuned.space)
        packed.space++;
    for (int i = 0; i < MAX_PARAMETERS; i++)
        packed.values[i] = point->tuned.values[i];
    for (size_t i = 0; i < sizeof packed; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[POINT_DIGITS] = '\0';
}

static int read_bytes(const char *text, struct packed *packed)
{
    unsigned char *bytes = (unsigned char *)packed;

    if (strlen(text) != POINT_DIGITS || strspn(text, digits) != POINT_DIGITS)
        return 0;
    for (size_t i = 0; i < sizeof *packed; i++)
        bytes[i] =
            (unsigned char)((strchr(digits, text[2 * i]) - digits) << 4 | (strchr(digits, text[2 * i + 1]) - digits));
    return packed->space >= 0 && packed->space < MAX_SPACES && space_at(packed->space) != NULL;
}

int tune_build(const struct settings *settings, struct target *target)
{
    struct search_point point;
    struct packed packed;
    clattn_status status;

    if (!read_bytes(settings->point, &packed))
        return bad("--point is of workers of this very program");
    point = (struct search_point){packed.desc, tuned_default(space_at(packed.space))};
    for (int i = 0; i < MAX_PARAMETERS; i++)
        point.tuned.values[i] = packed.values[i];
    status = search_build(&target->device, &point);
    return status == CLATTN_SUCCESS ? EXIT_OK : library_error(&target->sink, "", status);
}

/* What a worker has to say the search hears for itself when it comes to the point. Returns 0 where the driver ended it,
 * or it was ended: nobody else should try that. */
static int end_worker(struct process *worker, double until, int (*stop)(void *user), void *user)
{
    char how[96];
    int killed = 0, status;

    while (!killed && !process_ended(worker))
        if (stop(user) || now_seconds() > until) {
            unsigned long id = (unsigned long)worker->id;
            process_kill(worker);
            cache_drop_unfinished(id);
            killed = 1;
        }
    status = process_end(worker, how, sizeof how);
    return !killed && status >= 0;
}

static int start_worker(const struct settings *settings, const struct search_point *point, struct process *worker)
{
    char text[POINT_DIGITS + 1];
    const char *words[8] = {settings->program, "tune", "--quiet", "--point", text};

    if (settings->device != NULL) {
        words[5] = "--device";
        words[6] = settings->device;
    }
    write_point(point, text);
    return process_start(worker, words) == 0;
}

void tune_ahead(const struct settings *settings, const struct search_events *events, const struct search_point *points,
                size_t count, int *sound)
{
    const double until = now_seconds() + LONGEST_BUILD;
    struct process workers[MAX_AHEAD];
    size_t started = 0;

    for (size_t i = 0; i < count; i++)
        sound[i] = 1; /* what is not built ahead is built when it is tried */
    while (started < count && start_worker(settings, &points[started], &workers[started]))
        started++;
    for (size_t i = 0; i < started; i++)
        sound[i] = end_worker(&workers[i], until, events->stop, events->user);
}
