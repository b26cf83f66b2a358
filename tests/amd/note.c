#include "note.h"

#include <string.h>

enum type { NUMBER, TEXT, ARRAY, MAP };

/* A value without what it contains. */
struct head {
    enum type type;
    uint64_t value; /* the number, or the length */
};

/* By the first byte of a value: its type, and the bytes of the number or length that follows. With 0 of them, it is how
 * far the byte is from the first of its row. */
static const struct {
    unsigned char first, last;
    enum type type;
    int bytes;
} forms[] = {
    {0x00, 0x7f, NUMBER, 0}, {0x80, 0x8f, MAP, 0},    {0x90, 0x9f, ARRAY, 0},  {0xa0, 0xbf, TEXT, 0},
    {0xc0, 0xc0, NUMBER, 0}, {0xc2, 0xc3, NUMBER, 0}, {0xcc, 0xcc, NUMBER, 1}, {0xcd, 0xcd, NUMBER, 2},
    {0xce, 0xce, NUMBER, 4}, {0xcf, 0xcf, NUMBER, 8}, {0xd9, 0xd9, TEXT, 1},   {0xda, 0xda, TEXT, 2},
    {0xdb, 0xdb, TEXT, 4},   {0xdc, 0xdc, ARRAY, 2},  {0xdd, 0xdd, ARRAY, 4},  {0xde, 0xde, MAP, 2},
    {0xdf, 0xdf, MAP, 4},
};

/* Moves on behind the head. 0: the note is at its end, or damaged. */
static int read_head(struct note *note, struct head *head)
{
    for (size_t i = 0; note->at != NULL && note->at < note->end && i < sizeof forms / sizeof *forms; i++) {
        const unsigned char first = *note->at;
        if (first < forms[i].first || first > forms[i].last)
            continue;
        if (note->end - note->at <= forms[i].bytes)
            break;
        *head = (struct head){forms[i].type, forms[i].bytes == 0 ? (uint64_t)(first - forms[i].first) : 0};
        for (int byte = 1; byte <= forms[i].bytes; byte++)
            head->value = head->value << 8 | note->at[byte];
        note->at += 1 + forms[i].bytes;
        return head->type != TEXT || head->value <= (uint64_t)(note->end - note->at);
    }
    note->at = NULL;
    return 0;
}

/* Moves on behind the value and all that it contains. */
static void skip(struct note *note)
{
    struct head head;

    for (uint64_t values = 1; values > 0 && read_head(note, &head); values--) {
        if (head.type == TEXT)
            note->at += head.value;
        else if (head.type != NUMBER)
            values += head.type == MAP ? 2 * head.value : head.value;
    }
}

struct note note_get(struct note map, const char *key)
{
    struct head head, name;

    if (read_head(&map, &head) && head.type == MAP)
        for (uint64_t i = 0; i < head.value && read_head(&map, &name) && name.type == TEXT; i++) {
            const int found = name.value == strlen(key) && memcmp(map.at, key, name.value) == 0;
            map.at += name.value;
            if (found)
                return map;
            skip(&map);
        }
    return (struct note){NULL, NULL};
}

uint64_t note_count(struct note array)
{
    struct head head;

    return read_head(&array, &head) && head.type == ARRAY ? head.value : 0;
}

struct note note_element(struct note array, uint64_t index)
{
    struct head head;

    if (!read_head(&array, &head) || head.type != ARRAY || index >= head.value)
        return (struct note){NULL, NULL};
    for (uint64_t i = 0; i < index && array.at != NULL; i++)
        skip(&array);
    return array;
}

uint32_t note_number(struct note number)
{
    struct head head;

    return read_head(&number, &head) && head.type == NUMBER && head.value <= UINT32_MAX ? (uint32_t)head.value : 0;
}

void note_text(struct note text, char *to, size_t size)
{
    struct head head;

    to[0] = '\0';
    if (!read_head(&text, &head) || head.type != TEXT)
        return;
    if (head.value < size)
        size = head.value + 1;
    memcpy(to, text.at, size - 1);
    to[size - 1] = '\0';
}
