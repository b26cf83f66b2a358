#include "found.h"

#include "threads.h"

#include <stdio.h>
#include <string.h>

enum { MOST_LINES = 8 };

static char report[8192];
static int lines;
static struct {
    char object[1024], source[1024];
    const char *base;
} in;

void found(const char *format, ...)
{
    size_t used = strlen(report);
    va_list arguments;

    if (++lines > MOST_LINES)
        return;
    va_start(arguments, format);
    vsnprintf(report + used, sizeof report - used, format, arguments);
    va_end(arguments);
    used = strlen(report);
    snprintf(report + used, sizeof report - used, "\n");
}

int found_count(void)
{
    return lines;
}

const char *threads_report(void)
{
    return report;
}

void threads_clear(void)
{
    report[0] = '\0';
    lines = 0;
}

void found_in(const char *object, const char *source, const void *base)
{
    snprintf(in.object, sizeof in.object, "%s", object);
    snprintf(in.source, sizeof in.source, "%s", source);
    in.base = base;
}

/* That line of the source, without the spaces around it */
static void add_line(int number, char *text, size_t size)
{
    FILE *file = fopen(in.source, "r");
    size_t used = strlen(text);
    char line[512] = "";
    int n = number;

    while (file != NULL && n > 0 && fgets(line, sizeof line, file) != NULL)
        n -= strchr(line, '\n') != NULL;
    if (file != NULL)
        fclose(file);
    line[strcspn(line, "\\\n")] = '\0';
    snprintf(text + used, size - used, "%s%d: %s", used > 0 ? " in " : "", number, line + strspn(line, " "));
}

/* By addr2line, where there is one: the innermost line, and where a word was inlined, the outermost. */
void found_line(const void *pc, char *text, size_t size)
{
    char command[2304], answer[64];
    unsigned long offset = (unsigned long)((const char *)pc - in.base) - 1;
    FILE *output;
    int inner = 0, outer = 0;

    text[0] = '\0';
    if (lines >= MOST_LINES)
        return;
    snprintf(command, sizeof command, "addr2line -i -s -e '%s' 0x%lx 2>/dev/null", in.object, offset);
    output = popen(command, "r");
    while (output != NULL && fgets(answer, sizeof answer, output) != NULL) {
        const char *colon = strchr(answer, ':');
        outer = colon != NULL && atoi(colon + 1) > 0 ? atoi(colon + 1) : outer;
        inner = inner == 0 ? outer : inner;
    }
    if (output != NULL)
        pclose(output);
    if (inner == 0) {
        snprintf(text, size, "0x%lx of %s", offset, in.object);
        return;
    }
    add_line(inner, text, size);
    if (outer != inner)
        add_line(outer, text, size);
}
