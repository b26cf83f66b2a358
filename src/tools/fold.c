/* clattn_fold FOLDER NAME…: folds the texts FOLDER/NAME, one after the other, into FOLDER/all.folded, so that little of
 * them is embedded, and prints how many signs they are (src/base/fold.h). A tool of the build: it runs where the
 * compiler does, and knows nothing of the library. */
#include "base/fold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *path, const char *why)
{
    fprintf(stderr, "clattn_fold: %s: %s\n", path, why);
    exit(EXIT_FAILURE);
}

static FILE *open_in(const char *folder, const char *name, const char *mode)
{
    char path[4096];
    FILE *file;

    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        fail(name, "the path is too long");
    file = fopen(path, mode);
    if (file == NULL)
        fail(path, "cannot be opened");
    return file;
}

static void *more(void *at, size_t bytes)
{
    at = realloc(at, bytes);
    if (at == NULL)
        fail("the texts", "no memory");
    return at;
}

/* ---- Signs: the pairs, and the texts ---- */

static unsigned char *signs;
static size_t count;

static void add_sign(unsigned sign)
{
    if (count % 4096 == 0)
        signs = more(signs, count + 4096);
    signs[count++] = (unsigned char)sign;
}

/* Its name and its text, each with a NUL */
static void read_text(const char *folder, const char *name)
{
    FILE *file = open_in(folder, name, "rb");
    int letter;

    for (const char *of = name; *of != '\0'; of++)
        add_sign((unsigned char)*of);
    add_sign(0);
    while ((letter = getc(file)) != EOF) {
        if (letter >= 128 || letter == 0)
            fail(name, "has a letter that is not ASCII");
        add_sign((unsigned)letter);
    }
    add_sign(0);
    fclose(file);
}

/* Which letters a sign begins and ends with */
static unsigned char firsts[256], lasts[256];

static int in_word(unsigned letter)
{
    return (letter >= '0' && letter <= '9') || (letter >= 'A' && letter <= 'Z') || (letter >= 'a' && letter <= 'z');
}

/* How often two signs of a word stand side by side; of three alike only the first two do. */
static unsigned pairs[256][256];

static void count_pairs(void)
{
    memset(pairs, 0, sizeof pairs);
    for (size_t i = 2 * FOLD_PAIRS; i + 1 < count; i++) {
        unsigned first = signs[i], second = signs[i + 1];
        if (!in_word(lasts[first]) || !in_word(firsts[second]))
            continue;
        pairs[first][second]++;
        i += first == second && i + 2 < count && signs[i + 2] == first;
    }
}

static void join_pair(unsigned first, unsigned second, unsigned as)
{
    size_t end = 2 * FOLD_PAIRS;

    for (size_t i = end; i < count; end++) {
        int joined = i + 1 < count && signs[i] == first && signs[i + 1] == second;
        signs[end] = (unsigned char)(joined ? as : signs[i]);
        i += joined ? 2 : 1;
    }
    count = end;
    firsts[as] = firsts[first];
    lasts[as] = lasts[second];
    signs[2 * (as - FOLD_LETTERS)] = (unsigned char)first;
    signs[2 * (as - FOLD_LETTERS) + 1] = (unsigned char)second;
}

/* The pair that is there most often becomes a sign, and so on. */
static void join_pairs(void)
{
    enum { LEAST = 4 };

    for (unsigned letter = 0; letter < FOLD_LETTERS; letter++)
        firsts[letter] = lasts[letter] = (unsigned char)letter;
    for (unsigned as = FOLD_LETTERS; as < FOLD_LETTERS + FOLD_PAIRS; as++) {
        unsigned best = 0;
        count_pairs();
        for (unsigned i = 1; i < 256 * 256; i++)
            best = pairs[i / 256][i % 256] > pairs[best / 256][best % 256] ? i : best;
        if (pairs[best / 256][best % 256] < LEAST)
            return;
        join_pair(best / 256, best % 256, as);
    }
}

/* ---- Bytes ---- */

static FILE *out;

static unsigned fold_answer(const struct fold *fold, uint32_t middle, unsigned is)
{
    (void)fold;
    (void)middle;
    return is;
}

static void fold_byte(struct fold *fold)
{
    putc((int)(fold->high >> 24), out);
}

int main(int argc, char **argv)
{
    static struct fold fold;

    for (int i = 0; i < 2 * FOLD_PAIRS; i++)
        add_sign(0);
    for (int i = 2; i < argc; i++)
        read_text(argv[1], argv[i]);
    join_pairs();
    out = open_in(argv[1], "all.folded", "wb");
    fold_begin(&fold);
    fold_signs(&fold, signs, count);
    for (int i = 0; i < 4; i++, fold.high <<= 8) /* and what is read ahead */
        fold_byte(&fold);
    if (ferror(out) || fclose(out) != 0)
        fail("all.folded", "cannot be written");
    printf("%lu", (unsigned long)count);
    return EXIT_SUCCESS;
}
