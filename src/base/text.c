#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_add(struct text *text, const char *from, size_t size)
{
    if (text->size + size + 1 > text->capacity) {
        size_t capacity = 2 * text->capacity + size + 1024;
        char *at = realloc(text->at, capacity);
        if (at == NULL) {
            text->failed = 1;
            return;
        }
        text->at = at;
        text->capacity = capacity;
    }
    memcpy(text->at + text->size, from, size);
    text->size += size;
    text->at[text->size] = '\0';
}

void text_format(struct text *text, const char *format, ...)
{
    char part[512];
    va_list args;
    int size;

    va_start(args, format);
    size = vsnprintf(part, sizeof part, format, args);
    va_end(args);
    if (size > 0)
        text_add(text, part, (size_t)size < sizeof part ? (size_t)size : sizeof part - 1);
}

char *text_take(struct text *text)
{
    char *at = text->at;

    if (text->failed || at == NULL) {
        free(at);
        at = NULL;
    }
    memset(text, 0, sizeof *text);
    return at;
}

char *text_copy(const char *from)
{
    char *copy = malloc(strlen(from) + 1);

    return copy != NULL ? strcpy(copy, from) : NULL;
}
