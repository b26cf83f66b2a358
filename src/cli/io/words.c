#include "cli/io/words.h"

#include "base/decimal.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct word dtype_words[] = {{"f32", CLATTN_F32}, {"f16", CLATTN_F16}, {"bf16", CLATTN_BF16}, {NULL, 0}};
const struct word file_dtype_words[] = {{"F32", CLATTN_F32}, {"F16", CLATTN_F16}, {"BF16", CLATTN_BF16}, {NULL, 0}};
const struct word mode_words[] = {
    {"auto", CLATTN_MODE_AUTO}, {"recurrent", CLATTN_MODE_RECURRENT}, {"chunk", CLATTN_MODE_CHUNK}, {NULL, 0}};
const struct word pass_words[] = {
    {"forward", BENCH_FORWARD}, {"backward", BENCH_BACKWARD}, {"step", BENCH_STEP}, {NULL, 0}};
const struct word split_words[] = {{"tokens", SPLIT_TOKENS}, {"heads", SPLIT_HEADS}, {"batch", SPLIT_BATCH}, {NULL, 0}};

int word_equal(const char *a, const char *b)
{
    for (; *a != '\0' && (*a == '-' ? '_' : *a) == (*b == '-' ? '_' : *b); a++)
        b++;
    return *a == *b;
}

static int word_unknown(const char *what, const struct word *words, const char *text)
{
    char list[256] = "";

    for (const struct word *word = words; word->name != NULL; word++) {
        const char *join = word == words ? "" : word[1].name != NULL ? ", " : " or ";
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", join, word->name);
    }
    return bad("%s is '%s', expected %s", what, text, list);
}

int word_read(const char *what, const struct word *words, const char *text, int *value)
{
    for (const struct word *word = words; word->name != NULL; word++)
        if (word_equal(word->name, text)) {
            *value = word->value;
            return EXIT_OK;
        }
    return word_unknown(what, words, text);
}

const char *word_name(const struct word *words, int value)
{
    while (words->name != NULL && words->value != value)
        words++;
    return words->name;
}

/* The next comma-separated part of *text in a buffer; NULL past the last. */
static const char *next_part(const char **text, char *part, size_t size)
{
    size_t length;

    if (*text == NULL)
        return NULL;
    length = strcspn(*text, ",");
    text_fit(part, size, "%.*s", (int)length, *text);
    *text = (*text)[length] == ',' ? *text + length + 1 : NULL;
    return part;
}

int word_list_read(const char *what, const struct word *words, const char *text, int *values, size_t capacity,
                   size_t *count)
{
    char part[64];

    for (*count = 0; next_part(&text, part, sizeof part) != NULL; ++*count) {
        int value;
        if (word_read(what, words, part, &value) != EXIT_OK)
            return EXIT_BAD;
        for (size_t i = 0; i < *count; i++)
            if (values[i] == value)
                return bad("%s names '%s' twice", what, part);
        if (*count == capacity)
            return bad("%s names more than %zu", what, capacity);
        values[*count] = value;
    }
    return EXIT_OK;
}

int number_read(const char *what, const char *text, int64_t low, int64_t high, int64_t *value)
{
    char *end;
    long long number;

    errno = 0;
    number = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || number < low || number > high)
        return bad("%s is '%s', expected a whole number from %lld to %lld", what, text, (long long)low,
                   (long long)high);
    *value = number;
    return EXIT_OK;
}

int real_read(const char *what, const char *text, double *value)
{
    const char *end = decimal_read(text, value);

    if (end == NULL || *end != '\0' || !isfinite(*value))
        return bad("%s is '%s', expected a number", what, text);
    return EXIT_OK;
}

int number_list_read(const char *what, const char *text, int64_t **values, size_t *count)
{
    size_t capacity = 1;
    char part[32];

    for (const char *at = text; *at != '\0'; at++)
        capacity += *at == ',';
    free(*values);
    *values = malloc(capacity * sizeof **values);
    if (*values == NULL)
        return failed("%s: no memory for %zu numbers", what, capacity);
    for (*count = 0; next_part(&text, part, sizeof part) != NULL; ++*count)
        if (number_read(what, part, 0, INT64_MAX, *values + *count) != EXIT_OK)
            return EXIT_BAD;
    return EXIT_OK;
}

size_t edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 63 };
    size_t row[LONGEST + 1], m = strlen(a), n = strlen(b);

    if (m > LONGEST || n > LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; i <= m; i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t best = corner + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            corner = row[j];
            row[j] = best;
        }
    }
    return row[n];
}

int edit_close(const char *typed, size_t distance)
{
    return distance <= 1 + strlen(typed) / 3;
}

int cu_seqlens_check(const char *where, const char *name, const int64_t *cu_seqlens, size_t count, int64_t tokens)
{
    if (count < 2)
        return bad("%s: %s has %zu entries, expected 2 or more", where, name, count);
    if (cu_seqlens[0] != 0)
        return bad("%s: %s[0] is %lld, expected 0", where, name, (long long)cu_seqlens[0]);
    for (size_t i = 1; i < count; i++)
        if (cu_seqlens[i] < cu_seqlens[i - 1] || cu_seqlens[i] > tokens)
            return bad("%s: %s[%zu] is %lld, expected %lld to %lld", where, name, i, (long long)cu_seqlens[i],
                       (long long)cu_seqlens[i - 1], (long long)tokens);
    if (cu_seqlens[count - 1] != tokens)
        return bad("%s: %s[%zu] is %lld, expected the number of tokens, %lld", where, name, count - 1,
                   (long long)cu_seqlens[count - 1], (long long)tokens);
    return EXIT_OK;
}
