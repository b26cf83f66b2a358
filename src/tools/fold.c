/* clattn_fold FOLDER NAME…: folds the texts FOLDER/NAME together (src/base/fold.h), so that little of them is embedded.
 * Writes each as FOLDER/NAME.folded; FOLDER/phrases, as C, where the phrases lie, and in FOLDER/letters their text. A
 * phrase is made of the two codes that stand side by side most often; in the end the commonest have the codes of one
 * byte. A tool of the build: it runs where the compiler does, and knows nothing of the library. */
#include "base/fold.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 6, END = FOLD_CODES }; /* times that a pair must be met, to be worth its place; the end of a text */

static uint16_t *codes; /* of all texts, an END after each */
static size_t count, capacity;
static uint16_t pairs[FOLD_CODES][2];
static int pair_count;
static unsigned met[FOLD_CODES][FOLD_CODES], used[FOLD_CODES];
static size_t lengths[FOLD_CODES]; /* in letters */
static uint16_t named[FOLD_CODES]; /* the code that a code gets in the end, and by that its phrase: */
static size_t places[FOLD_CODES], named_lengths[FOLD_CODES];
static char letters[65536]; /* of all phrases */
static size_t letter_count;

static void fail(const char *path, const char *why)
{
    fprintf(stderr, "clattn_fold: %s: %s\n", path, why);
    exit(EXIT_FAILURE);
}

static FILE *open_in(const char *folder, const char *name, const char *more, const char *mode)
{
    char path[4096];
    FILE *file;

    if (snprintf(path, sizeof path, "%s/%s%s", folder, name, more) >= (int)sizeof path)
        fail(name, "the path is too long");
    file = fopen(path, mode);
    if (file == NULL)
        fail(path, "cannot be opened");
    return file;
}

static void close_written(FILE *file, const char *name)
{
    int failed = ferror(file);

    if (fclose(file) != 0 || failed)
        fail(name, "cannot be written");
}

static void add(int code)
{
    if (count == capacity) {
        capacity = capacity * 2 + 65536;
        codes = realloc(codes, capacity * sizeof *codes);
        if (codes == NULL)
            fail("texts", "no memory");
    }
    codes[count++] = (uint16_t)code;
}

static void read_text(const char *folder, const char *name)
{
    FILE *file = open_in(folder, name, "", "rb");
    int letter;

    while ((letter = getc(file)) != EOF) {
        if (letter >= FOLD_LETTERS)
            fail(name, "has a letter that is not ASCII");
        add(letter);
    }
    fclose(file);
    add(END);
}

static int may_join(size_t i)
{
    return codes[i] != END && codes[i + 1] != END && lengths[codes[i]] + lengths[codes[i + 1]] <= FOLD_LONGEST;
}

/* How often the pair is met that is met most; met[][] is all zero before and after. */
static unsigned commonest(uint16_t pair[2])
{
    unsigned most = 0;

    for (size_t i = 0; i + 1 < count; i++)
        if (may_join(i) && ++met[codes[i]][codes[i + 1]] > most) {
            most = met[codes[i]][codes[i + 1]];
            memcpy(pair, &codes[i], 2 * sizeof *pair);
        }
    for (size_t i = 0; i + 1 < count; i++)
        if (may_join(i))
            met[codes[i]][codes[i + 1]] = 0;
    return most;
}

static void replace(const uint16_t pair[2], int code)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; kept++)
        if (i + 1 < count && codes[i] == pair[0] && codes[i + 1] == pair[1]) {
            codes[kept] = (uint16_t)code;
            i += 2;
        } else
            codes[kept] = codes[i++];
    count = kept;
}

static void make_pairs(void)
{
    for (int i = 0; i < FOLD_LETTERS; i++)
        lengths[i] = 1;
    for (int code = FOLD_LETTERS; code < FOLD_CODES && commonest(pairs[pair_count]) >= LEAST; code++) {
        replace(pairs[pair_count], code);
        lengths[code] = lengths[pairs[pair_count][0]] + lengths[pairs[pair_count][1]];
        pair_count++;
    }
}

static int by_use(const void *one, const void *other)
{
    const uint16_t *a = one, *b = other;

    return used[*a] != used[*b] ? (used[*a] < used[*b] ? 1 : -1) : *a - *b;
}

static void name_pairs(void)
{
    static uint16_t order[FOLD_CODES];

    for (size_t i = 0; i < count; i++)
        if (codes[i] != END)
            used[codes[i]]++;
    for (int i = 0; i < FOLD_LETTERS; i++)
        named[i] = (uint16_t)i;
    for (int i = 0; i < pair_count; i++)
        order[i] = (uint16_t)(FOLD_LETTERS + i);
    qsort(order, (size_t)pair_count, sizeof *order, by_use);
    for (int i = 0; i < pair_count; i++)
        named[order[i]] = (uint16_t)(FOLD_LETTERS + i);
}

/* The letters of a code, to `to`; how many they are */
static size_t unfold(int code, char *to)
{
    size_t first;

    if (code < FOLD_LETTERS) {
        *to = (char)code;
        return 1;
    }
    first = unfold(pairs[code - FOLD_LETTERS][0], to);
    return first + unfold(pairs[code - FOLD_LETTERS][1], to + first);
}

/* Where the phrase lies among the letters of those before, or at their end, to which it is added. */
static size_t place_of(const char *phrase, size_t length)
{
    for (size_t at = 0; at + length <= letter_count; at++)
        if (memcmp(letters + at, phrase, length) == 0)
            return at;
    if (letter_count + length > sizeof letters)
        fail("phrases", "have too many letters");
    memcpy(letters + letter_count, phrase, length);
    letter_count += length;
    return letter_count - length;
}

/* The longest first, which have the others in them */
static void make_phrases(void)
{
    char phrase[FOLD_LONGEST];

    for (size_t length = FOLD_LONGEST; length > 1; length--)
        for (int i = 0; i < pair_count; i++)
            if (lengths[FOLD_LETTERS + i] == length) {
                unfold(FOLD_LETTERS + i, phrase);
                places[named[FOLD_LETTERS + i]] = place_of(phrase, length);
                named_lengths[named[FOLD_LETTERS + i]] = length;
            }
}

static void write_phrases(const char *folder)
{
    FILE *file = open_in(folder, "phrases", "", "wb");

    for (int i = FOLD_LETTERS; i < FOLD_LETTERS + pair_count; i++)
        fprintf(file, "{%zu, %zu},\n", places[i], named_lengths[i]);
    close_written(file, "phrases");
    file = open_in(folder, "letters", "", "wb");
    fwrite(letters, 1, letter_count, file);
    close_written(file, "letters");
}

/* One text from the `at`-th code on; where the next begins */
static size_t write_text(const char *folder, const char *name, size_t at)
{
    FILE *file = open_in(folder, name, ".folded", "wb");

    for (; codes[at] != END; at++) {
        int code = named[codes[at]], past = code - FOLD_LONG;
        if (past >= 0)
            putc(FOLD_LONG + past / 256, file);
        putc(past >= 0 ? past % 256 : code, file);
    }
    close_written(file, name);
    return at + 1;
}

int main(int argc, char **argv)
{
    size_t at = 0;

    for (int i = 2; i < argc; i++)
        read_text(argv[1], argv[i]);
    make_pairs();
    name_pairs();
    for (int i = 2; i < argc; i++)
        at = write_text(argv[1], argv[i], at);
    make_phrases();
    write_phrases(argv[1]);
    free(codes);
    return EXIT_SUCCESS;
}
