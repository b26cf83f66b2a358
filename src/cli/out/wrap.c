#include "cli/out/wrap.h"

#include "base/system.h"

#include <string.h>

enum { USUAL = 80, NARROWEST = 20 };

size_t wrap_width(FILE *file)
{
    int columns = stream_columns(file);

    return columns > 0 ? (size_t)columns : USUAL;
}

/* A word that is longer than a line is not broken. */
static void print_words(FILE *file, size_t width, size_t column, size_t indent, const char *text)
{
    if (width != 0 && width < indent + NARROWEST) /* the terminal breaks the lines */
        width = 0;
    for (int begins = 1; *text != '\0'; begins = 0) {
        size_t blanks = strspn(text, " "), length = strcspn(text + blanks, " ");

        if (!begins && width != 0 && column + blanks + length > width) {
            fprintf(file, "\n%*s", (int)indent, "");
            column = indent;
            text += blanks;
            blanks = 0;
        }
        fprintf(file, "%.*s", (int)(blanks + length), text);
        column += blanks + length;
        text += blanks + length;
    }
    fputc('\n', file);
}

void wrap_print(FILE *file, size_t width, const char *left, size_t indent, const char *text)
{
    if (strlen(left) < indent || *left == '\0')
        fprintf(file, "%-*s", (int)indent, left);
    else
        fprintf(file, "%s\n%*s", left, (int)indent, "");
    print_words(file, width, indent, indent, text);
}

void wrap_line(FILE *file, const char *begin, const char *line)
{
    enum { INDENT = 2 };

    fputs(begin, file);
    print_words(file, stream_columns(file) > 0 ? wrap_width(file) : 0, strlen(begin), INDENT, line);
}
