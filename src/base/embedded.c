#include "base/embedded.h"

#include "base/fold.h"
#include "base/thread.h"

#include <stdlib.h>
#include <string.h>

/* ---- Unfolding ---- */

static unsigned fold_answer(const struct fold *fold, uint32_t middle, unsigned is)
{
    (void)is;
    return fold->code <= middle;
}

static void fold_byte(struct fold *fold)
{
    fold->code = fold->code << 8 | *fold->next++;
}

static void unfold(struct fold *fold, unsigned char *signs)
{
    fold_begin(fold);
    fold->next = embedded_bytes;
    for (int i = 0; i < 4; i++)
        fold_byte(fold);
    fold_signs(fold, signs, embedded_signs);
}

/* The letters of a sign, and where they end */
static char *spell(const unsigned char *signs, unsigned sign, char *to)
{
    if (sign >= FOLD_LETTERS) {
        const unsigned char *pair = signs + 2 * (sign - FOLD_LETTERS);
        return spell(signs, pair[1], spell(signs, pair[0], to));
    }
    *to = (char)sign;
    return to + 1;
}

/* ---- Texts ---- */

static const char *unfold_all(void)
{
    struct fold *fold = calloc(1, sizeof *fold);
    unsigned char *signs = fold != NULL ? calloc(embedded_signs, 1) : NULL;
    char *all = signs != NULL ? malloc(embedded_size) : NULL, *end = all;

    if (all != NULL) {
        unfold(fold, signs);
        for (size_t i = 2 * FOLD_PAIRS; i < embedded_signs; i++)
            end = spell(signs, signs[i], end);
    }
    free(signs);
    free(fold);
    return all;
}

static void find_files(struct embedded *files, const char *at)
{
    for (int i = 0; i < FILE_COUNT; i++) {
        files[i].name = at;
        files[i].text = at + strlen(at) + 1;
        files[i].size = strlen(files[i].text);
        at = files[i].text + files[i].size + 1;
    }
}

const struct embedded *embedded_files(void)
{
    static mutex lock = MUTEX_INIT;
    static struct embedded files[FILE_COUNT];
    const struct embedded *found = files;

    lock_take(&lock);
    if (files[0].name == NULL) {
        const char *all = embedded_signs > 0 ? unfold_all() : (const char *)embedded_bytes;
        if (all != NULL)
            find_files(files, all);
        else
            found = NULL;
    }
    lock_give(&lock);
    return found;
}
