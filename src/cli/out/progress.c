#include "cli/out/progress.h"

#include "base/system.h"
#include "base/text.h"
#include "base/thread.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BAR = 24 };

static mutex lock = MUTEX_INIT; /* guards what is on the line */
static int drawn, hidden;

void progress_hide(void)
{
    hidden = 1;
}

/* Whether stderr is a terminal on which a line can be replaced. */
static int can_draw(void)
{
    const char *kind = getenv("TERM");

    return !hidden && stderr_is_terminal() && (kind == NULL || strcmp(kind, "dumb") != 0);
}

/* "0:12", and after the first steps "0:12 of about 3:40", as if every step took equally long. */
static const char *time_text(size_t done, size_t total, char text[48])
{
    static double start = -1;
    double spent, whole;

    start = start < 0 ? now_seconds() : start;
    spent = now_seconds() - start;
    whole = done > 0 ? spent * (double)total / (double)done : 0;
    if (done > 0 && done < total && spent >= 1)
        text_fit(text, 48, "%.0f:%02.0f of about %.0f:%02.0f", floor(spent / 60), fmod(floor(spent), 60),
                 floor(whole / 60), fmod(floor(whole), 60));
    else
        text_fit(text, 48, "%.0f:%02.0f", floor(spent / 60), fmod(floor(spent), 60));
    return text;
}

static void draw(const char *line)
{
    lock_take(&lock);
    fprintf(stderr, "\r%s\033[K", line);
    fflush(stderr);
    drawn = 1;
    lock_give(&lock);
}

/* A line longer than the terminal, or than the usual 80 columns, could not be erased. */
static int line_size(void)
{
    int columns = stream_columns(stderr);

    return columns > 0 && columns < 80 ? columns : 80;
}

void progress_show(size_t done, size_t total, const char *what)
{
    size_t filled = total > 0 ? done * BAR / total : 0;
    char line[80], bar[BAR + 1] = "", time[48];

    if (!can_draw())
        return;
    for (size_t i = 0; i < BAR; i++)
        bar[i] = i < filled ? '#' : '.';
    snprintf(line, (size_t)line_size(), "[%s] %zu/%zu %s %s", bar, done, total, time_text(done, total, time), what);
    draw(line);
}

void progress_clear(void)
{
    lock_take(&lock);
    if (drawn)
        fputs("\r\033[K", stderr);
    drawn = 0;
    lock_give(&lock);
}

struct waiting {
    const char *_Atomic *phase;
    void (*work)(void *user);
    void *user;
    atomic_int ended;
};

static void watch(const struct waiting *waiting)
{
    const double start = now_seconds();
    char line[80];

    while (!waiting->ended) {
        const char *phase = *waiting->phase;
        double spent = now_seconds() - start;
        if (spent >= 1 && phase != NULL) {
            snprintf(line, (size_t)line_size(), "%s... %d s", phase, (int)spent);
            draw(line);
        }
        sleep_seconds(0.05);
    }
}

/* Without a second thread the work comes first, and nothing is left to watch. */
static void work_or_watch(void *user, int64_t i)
{
    struct waiting *waiting = user;

    if (i > 0) {
        watch(waiting);
        return;
    }
    waiting->work(waiting->user);
    waiting->ended = 1;
}

void progress_while(const char *_Atomic *phase, void (*work)(void *user), void *user)
{
    struct waiting waiting = {.phase = phase, .work = work, .user = user};

    if (!can_draw()) {
        work(user);
        return;
    }
    parallel_on(2, 2, work_or_watch, &waiting);
    progress_clear();
}
