/* A string that grows. */
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
/* What another program says: control characters but ends of lines and tabs are left out, what is no UTF-8 is U+FFFD,
 * and what comes after `most` bytes is "...". */
void text_add_readable(struct text *text, const char *from, size_t most);
/* fprintf with a decimal point in every locale. */
void text_print(FILE *file, const char *format, ...) PRINTF_LIKE(2, 3);
/* The string, to be freed; NULL when memory ran out. The text is empty again. */
char *text_take(struct text *text);
/* A string of its own, to be freed; NULL without memory. */
char *text_copy(const char *from);
/* snprintf into size bytes, one or more, with a decimal point in every locale, and it says so where it cuts: what does
 * not fit ends in "...". */
void text_fit(char *to, size_t size, const char *format, ...) PRINTF_LIKE(3, 4);
void text_vfit(char *to, size_t size, const char *format, va_list args) PRINTF_LIKE(3, 0);

#endif
