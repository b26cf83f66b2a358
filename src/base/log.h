/* The log callback, and the macros that pass a failure up. */
#ifndef CLATTN_SRC_LOG_H
#define CLATTN_SRC_LOG_H

#include "clattn.h"

struct log {
    clattn_log_fn fn; /* NULL: silent */
    void *user;
};

#if defined(__MINGW32__)
#include <stdio.h> /* for the choice of printf: C11's, or that of Windows without %zu */
#define PRINTF_LIKE(text, first) __attribute__((format(__MINGW_PRINTF_FORMAT, text, first)))
#elif defined(__GNUC__)
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#else
#define PRINTF_LIKE(text, first)
#endif

void log_line(const struct log *log, clattn_log_level level, const char *format, ...) PRINTF_LIKE(3, 4);

/* One line kept for later, because callbacks run outside of all locks. */
struct log_held {
    clattn_log_level level;
    char line[1024];
};
/* A log function whose user is a struct log_held. It keeps the last line. */
void log_hold(void *user, clattn_log_level level, const char *message);
/* Logs the line that was kept, if there is one. */
void log_release(const struct log_held *held, const struct log *log);

/* A log function whose user is a struct log_tried, for attempts that may fail because there is an alternative. It logs
 * errors as warnings and keeps the last one. */
struct log_tried {
    struct log to;
    char error[1024];
};
void log_try(void *user, clattn_log_level level, const char *message);
/* Call this if no alternative succeeded: logs the kept error as an error. */
void log_give_up(const struct log_tried *tried);

/* Logs an error and evaluates to its status: return FAIL(log, INVALID_DESC, "heads is %d", heads); */
#define FAIL(log, status, ...) (log_line(log, CLATTN_LOG_ERROR, __VA_ARGS__), CLATTN_##status)

#define TRY(expr)                                                                                                      \
    do {                                                                                                               \
        clattn_status try_status_ = (expr);                                                                            \
        if (try_status_ != CLATTN_SUCCESS)                                                                             \
            return try_status_;                                                                                        \
    } while (0)

#endif
