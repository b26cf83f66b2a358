#include "cli/out/progress.h"

#include "base/system.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BAR = 24 };

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

/* A line longer than the terminal, or than the usual 80 columns, could not be erased. */
void progress_show(size_t done, size_t total, const char *what)
{
    size_t filled = total > 0 ? done * BAR / total : 0;
    char line[80], bar[BAR + 1] = "", time[48];
    int columns = stream_columns(stderr), size = (int)sizeof line;

    if (!can_draw())
        return;
    for (size_t i = 0; i < BAR; i++)
        bar[i] = i < filled ? '#' : '.';
    size = columns > 0 && columns < size ? columns : size;
    snprintf(line, (size_t)size, "[%s] %zu/%zu %s %s", bar, done, total, time_text(done, total, time), what);
    fprintf(stderr, "\r%s\033[K", line);
    fflush(stderr);
    drawn = 1;
}

void progress_clear(void)
{
    if (drawn)
        fputs("\r\033[K", stderr);
    drawn = 0;
}
