#include "base/embedded.h"

#include "base/fold.h"

#include <stdlib.h>
#include <string.h>

/* What a code stands for, to `to`; where it ends. */
static char *unfold(char *to, unsigned code)
{
    const struct phrase *phrase;

    if (code < FOLD_LETTERS) {
        *to = (char)code;
        return to + 1;
    }
    phrase = &embedded_phrases[code - FOLD_LETTERS];
    memcpy(to, embedded_letters + phrase->from, phrase->length);
    return to + phrase->length;
}

char *embedded_text(enum embedded_file file)
{
    const struct embedded *of = &embedded_files[file];
    const unsigned char *at = embedded_bytes + of->from, *end = at + of->folded;
    char *text = malloc(of->size + 1u), *to = text;

    if (text == NULL)
        return NULL;
    while (at < end) {
        unsigned code = *at++;
        if (code >= FOLD_LONG)
            code = FOLD_LONG + (code - FOLD_LONG) * 256 + *at++;
        to = unfold(to, code);
    }
    *to = '\0';
    return text;
}
