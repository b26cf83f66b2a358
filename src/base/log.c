#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void log_line(const struct log *log, clattn_log_level level, const char *format, ...)
{
    char line[1024];
    va_list args;

    if (log == NULL || log->fn == NULL)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    log->fn(log->user, level, line);
}
