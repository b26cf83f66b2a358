#include "base/log.h"

#include "base/text.h"

#include <stdlib.h>

void log_line(const struct log *log, clattn_log_level level, const char *format, ...)
{
    struct text text = {0};
    va_list args, args_copy;
    char brief[256], *line;

    if (log == NULL || log->fn == NULL)
        return;
    va_start(args, format);
    va_copy(args_copy, args);
    text_vformat(&text, format, args);
    line = text_take(&text);
    if (line == NULL) /* there is no memory for the whole line */
        text_vfit(brief, sizeof brief, format, args_copy);
    log->fn(log->user, level, line != NULL ? line : brief);
    va_end(args_copy);
    va_end(args);
    free(line);
}

void log_hold(void *user, clattn_log_level level, const char *message)
{
    struct log_held *held = user;

    held->level = level;
    text_fit(held->line, sizeof held->line, "%s", message);
}

void log_try(void *user, clattn_log_level level, const char *message)
{
    struct log_tried *tried = user;

    if (level == CLATTN_LOG_ERROR)
        text_fit(tried->error, sizeof tried->error, "%s", message);
    log_line(&tried->to, level == CLATTN_LOG_ERROR ? CLATTN_LOG_WARNING : level, "%s", message);
}

void log_give_up(const struct log_tried *tried)
{
    if (tried->error[0] != '\0')
        log_line(&tried->to, CLATTN_LOG_ERROR, "%s", tried->error);
}

void log_release(const struct log_held *held, const struct log *log)
{
    if (held->line[0] != '\0')
        log_line(log, held->level, "%s", held->line);
}
