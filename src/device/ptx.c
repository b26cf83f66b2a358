#include "device/ptx.h"

#include <stdlib.h>
#include <string.h>

static const char cover[] = "//@", target[] = ".target sm_90";

int ptx_hides(const char *source)
{
    return strstr(source, cover) != NULL;
}

/* The text after the target's name if that is sm_90 or sm_90a, or NULL */
static const char *after_target(const char *text)
{
    const char *at = strstr(text, target);

    if (at == NULL)
        return NULL;
    at += strlen(target);
    return *at != '\0' && strchr("a, \t\r\n", *at) != NULL ? at : NULL;
}

static void uncover_all(char *text)
{
    for (char *at = strstr(text, cover); at != NULL; at = strstr(at, cover))
        memset(at, ' ', strlen(cover));
}

unsigned char *ptx_uncover(const unsigned char *binary, size_t size, size_t *uncovered)
{
    char *text = calloc(1, size + 2); /* room for one more letter and a NUL */
    const char *found;
    size_t at;

    if (text == NULL)
        return NULL;
    memcpy(text, binary, size);
    found = after_target(text);
    if (found == NULL) {
        free(text);
        return NULL;
    }
    at = (size_t)(found - text);
    *uncovered = size;
    if (*found != 'a') {
        memmove(text + at + 1, text + at, size - at);
        text[at] = 'a';
        *uncovered = size + 1;
    }
    uncover_all(text);
    return (unsigned char *)text;
}
