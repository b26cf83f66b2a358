#include "cli/progress.h"

#include "base/system.h"

#include <stdio.h>

enum { BAR = 24 };

static int drawn;

void progress_show(size_t done, size_t total, const char *what)
{
    size_t filled = total > 0 ? done * BAR / total : 0;

    if (!stderr_is_terminal())
        return;
    fputs("\r[", stderr);
    for (size_t i = 0; i < BAR; i++)
        fputc(i < filled ? '#' : '.', stderr);
    fprintf(stderr, "] %zu/%zu %.48s\033[K", done, total, what);
    fflush(stderr);
    drawn = 1;
}

void progress_clear(void)
{
    if (drawn)
        fputs("\r\033[K", stderr);
    drawn = 0;
}
