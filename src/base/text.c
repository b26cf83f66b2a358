#include "base/text.h"

#include "base/decimal.h"

#include <stdlib.h>
#include <string.h>

/* Reserves room for that many characters and a NUL. 0: out of memory. */
static int reserve(struct text *text, size_t size)
{
    if (text->size + size + 1 > text->capacity) {
        size_t capacity = 2 * text->capacity + size + 1024;
        char *at = realloc(text->at, capacity);
        if (at == NULL) {
            text->failed = 1;
            return 0;
        }
        text->at = at;
        text->capacity = capacity;
    }
    return 1;
}

void text_add(struct text *text, const char *from, size_t size)
{
    if (!reserve(text, size))
        return;
    memcpy(text->at + text->size, from, size);
    text->size += size;
    text->at[text->size] = '\0';
}

/* The length of the UTF-8 character at the beginning of the text. 0: it is invalid or overlong. */
static size_t character_size(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t size = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;

    for (size_t i = 1; i < size; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf0 && at[1] < 0x90) ||
        (at[0] == 0xf4 && at[1] > 0x8f))
        return 0;
    return size;
}

static int is_control(const char *character, size_t size)
{
    const unsigned char *at = (const unsigned char *)character;

    if (size == 2)
        return at[0] == 0xc2 && at[1] < 0xa0;
    return size == 1 && (at[0] < ' ' || at[0] == 0x7f) && at[0] != '\n' && at[0] != '\t';
}

void text_add_readable(struct text *text, const char *from, size_t most)
{
    const size_t start = text->size;

    for (size_t size; *from != '\0'; from += size > 0 ? size : 1) {
        const char *character = from;
        size = character_size(from);
        if (size > 0 && is_control(from, size))
            continue;
        if (size == 0)
            character = "\xef\xbf\xbd";
        if (text->size - start + (size > 0 ? size : 3) > most) {
            text_add(text, "...", 3);
            return;
        }
        text_add(text, character, size > 0 ? size : 3);
    }
    text_add(text, "", 0);
}

void text_vformat(struct text *text, const char *format, va_list args)
{
    size_t size = decimal_vprint(NULL, 0, format, args);

    if (!reserve(text, size))
        return;
    decimal_vprint(text->at + text->size, size + 1, format, args);
    text->size += size;
}

void text_format(struct text *text, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    text_vformat(text, format, args);
    va_end(args);
}

void text_print(FILE *file, const char *format, ...)
{
    struct text text = {0};
    va_list args;

    va_start(args, format);
    text_vformat(&text, format, args);
    va_end(args);
    if (text.at != NULL && !text.failed)
        fwrite(text.at, 1, text.size, file);
    free(text.at);
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

void text_vfit(char *to, size_t size, const char *format, va_list args)
{
    static const char more[] = "...";
    size_t mark = size < sizeof more ? size : sizeof more;

    if (decimal_vprint(to, size, format, args) >= size)
        memcpy(to + size - mark, more + sizeof more - mark, mark);
}

void text_fit(char *to, size_t size, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    text_vfit(to, size, format, args);
    va_end(args);
}
