/* The note of a code object: maps, arrays, strings and numbers in MessagePack. */
#ifndef CLATTN_TESTS_AMD_NOTE_H
#define CLATTN_TESTS_AMD_NOTE_H

#include <stddef.h>
#include <stdint.h>

/* The place of a value; at NULL: there is none. */
struct note {
    const unsigned char *at, *end;
};

/* The value of a key in a map. */
struct note note_get(struct note map, const char *key);
/* How many elements an array has; what is no array has 0. */
uint64_t note_count(struct note array);
struct note note_element(struct note array, uint64_t index);
/* What is no number, or none of 32 bits, is 0. */
uint32_t note_number(struct note number);
/* Copies a string, cut to fit; what is no string is "". */
void note_text(struct note text, char *to, size_t size);

#endif
