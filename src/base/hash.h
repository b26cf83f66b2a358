/* XXH3 with 128 bits over pieces: the names and the checksums of cached files, and what a kernel is recognised by. */
#ifndef CLATTN_SRC_HASH_H
#define CLATTN_SRC_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash {
    uint64_t high, low;
};

/* 32 hexadecimal digits and a NUL. */
enum { HASH_DIGITS = 33 };

/* The hash of a piece that follows what `before` is the hash of; begin with an empty one. */
struct hash hash_add(struct hash before, const void *data, size_t size);
/* The same of a string, with its end. */
struct hash hash_text(struct hash before, const char *text);
const char *hash_name(struct hash hash, char name[HASH_DIGITS]);

#endif
