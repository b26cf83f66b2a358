#include "cli/cli.h"

#include "base/text.h"
#include "cli/out/progress.h"
#include "cli/out/wrap.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int quiet, verbose;
static char *kept; /* NULL: messages are printed */
static size_t kept_size;

void messages_quiet(void)
{
    quiet = 1;
    progress_hide();
}

void messages_keep(char *line, size_t size)
{
    messages_quiet();
    kept = line;
    kept_size = size;
}

void messages_verbose(void)
{
    verbose = 1;
}

/* Names and values of files appear in messages. They must not move the cursor, start a line or fill the screen. */
enum { LONGEST = 2000 };
static void shorten(char *line)
{
    size_t size = strlen(line);

    if (size <= LONGEST)
        return;
    memcpy(line + LONGEST / 2 - 3, "...", 3);
    memmove(line + LONGEST / 2, line + size - LONGEST / 2, LONGEST / 2 + 1);
}

PRINTF_LIKE(2, 0)
static void print_line(const char *kind, const char *format, va_list args)
{
    struct text text = {0};
    char begin[32], *line;

    text_vformat(&text, format, args);
    line = text_take(&text);
    if (line == NULL)
        return;
    shorten(line);
    for (char *at = line; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = at[1] == '\0' ? '\0' : strchr("\n\r\t", *at) != NULL ? ' ' : '?';
    if (kept == NULL) {
        progress_clear();
        text_fit(begin, sizeof begin, "clattn: %s", kind);
        wrap_line(stderr, begin, line);
    } else if (*kept == '\0')
        text_fit(kept, kept_size, "%s", line);
    free(line);
}

int bad(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    print_line("", format, args);
    va_end(args);
    return EXIT_BAD;
}

int failed(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    print_line("", format, args);
    va_end(args);
    return EXIT_FAILED;
}

void warn(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (!quiet)
        print_line("warning: ", format, args);
    va_end(args);
}

void note(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (!quiet)
        print_line("", format, args);
    va_end(args);
}

void sink_log(void *user, clattn_log_level level, const char *message)
{
    struct sink *sink = user;

    switch (level) {
    case CLATTN_LOG_ERROR:
        if (sink->error[0] == '\0')
            text_fit(sink->error, sizeof sink->error, "%s", message);
        break;
    case CLATTN_LOG_WARNING:
        if (sink->warning[0] == '\0')
            text_fit(sink->warning, sizeof sink->warning, "%s", message);
        warn("%s", message);
        break;
    case CLATTN_LOG_INFO:
        if (verbose)
            note("%s", message);
        break;
    }
}

static int status_exit(clattn_status status)
{
    switch (status) {
    case CLATTN_SUCCESS: return EXIT_OK;
    case CLATTN_INVALID_ARGUMENT:
    case CLATTN_INVALID_DESC:
    case CLATTN_INVALID_OPERAND:
    case CLATTN_INVALID_WORKSPACE: return EXIT_BAD;
    case CLATTN_UNSUPPORTED:
    case CLATTN_NO_OPENCL:
    case CLATTN_NO_DEVICE:
    case CLATTN_BUILD_FAILED:
    case CLATTN_OUT_OF_MEMORY:
    case CLATTN_DEVICE_ERROR: return EXIT_FAILED;
    }
    return EXIT_FAILED;
}

int library_error(struct sink *sink, const char *where, clattn_status status)
{
    const char *text = sink->error[0] != '\0' ? sink->error : clattn_status_text(status);

    failed("%s%s%s", where, *where != '\0' ? ": " : "", text);
    sink->error[0] = '\0';
    return status_exit(status);
}
