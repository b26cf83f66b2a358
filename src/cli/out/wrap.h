/* Text in two columns, broken between words. */
#ifndef CLATTN_SRC_CLI_OUT_WRAP_H
#define CLATTN_SRC_CLI_OUT_WRAP_H

#include <stddef.h>
#include <stdio.h>

/* The columns of the terminal that file is; 80 if it is none. */
size_t wrap_width(FILE *file);

/* Prints left, and text from column `indent` on, in as many lines as it needs of the width; width 0: in one line. A left
 * that reaches into the text's column has a line of its own. */
void wrap_print(FILE *file, size_t width, const char *left, size_t indent, const char *text);

/* Prints a line: on a terminal between words, those below the first indented; elsewhere whole, so that it can be
 * searched. */
void wrap_line(FILE *file, const char *begin, const char *line);

#endif
