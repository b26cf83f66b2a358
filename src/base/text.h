/* A growing string. */
#ifndef CLATTN_SRC_TEXT_H
#define CLATTN_SRC_TEXT_H

#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

struct text {
    char *at;
    size_t size, capacity;
    int failed; /* memory ran out: the text is incomplete */
};

void text_add(struct text *text, const char *from, size_t size);
void text_format(struct text *text, const char *format, ...) PRINTF_LIKE(2, 3);
void text_vformat(struct text *text, const char *format, va_list args) PRINTF_LIKE(2, 0);
/* Adds another program's output in readable form. It drops control characters except newlines and tabs, replaces
 * invalid UTF-8 by U+FFFD, and ends with "..." after `most` bytes. */
void text_add_readable(struct text *text, const char *from, size_t most);
/* fprintf with a decimal point in every locale. */
void text_print(FILE *file, const char *format, ...) PRINTF_LIKE(2, 3);
/* The string, to be freed. NULL: out of memory. The text is empty afterwards. */
char *text_take(struct text *text);
/* A copy, to be freed. NULL: out of memory. */
char *text_copy(const char *from);
/* snprintf into size >= 1 bytes, with a decimal point in every locale. A text that does not fit ends in "...". */
void text_fit(char *to, size_t size, const char *format, ...) PRINTF_LIKE(3, 4);
void text_vfit(char *to, size_t size, const char *format, va_list args) PRINTF_LIKE(3, 0);

#endif
