/* A string that grows. */
#ifndef CLATTN_SRC_TEXT_H
#define CLATTN_SRC_TEXT_H

#include "base/log.h"

struct text {
    char *at;
    size_t size, capacity;
    int failed; /* memory ran out: the text is incomplete */
};

void text_add(struct text *text, const char *from, size_t size);
void text_format(struct text *text, const char *format, ...) PRINTF_LIKE(2, 3);
/* The string, to be freed; NULL when memory ran out. The text is empty again. */
char *text_take(struct text *text);
/* A string of its own, to be freed; NULL without memory. */
char *text_copy(const char *from);

#endif
