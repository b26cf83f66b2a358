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

void log_hold(void *user, clattn_log_level level, const char *message)
{
    struct log_held *held = user;

    held->level = level;
    snprintf(held->line, sizeof held->line, "%s", message);
}

void log_release(const struct log_held *held, const struct log *log)
{
    if (held->line[0] != '\0')
        log_line(log, held->level, "%s", held->line);
}
