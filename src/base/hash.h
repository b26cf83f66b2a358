/* 128-bit XXH3 over several pieces of data. It gives cached files their names and checksums, and identifies kernels. */
#ifndef CLATTN_SRC_HASH_H
#define CLATTN_SRC_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash {
    uint64_t high, low;
};

/* 32 hexadecimal digits and a NUL. */
enum { HASH_DIGITS = 33 };

/* The hash of all data so far: `before` is the hash of the earlier pieces, zero for the first one. */
struct hash hash_add(struct hash before, const void *data, size_t size);
/* The same for a string, including its NUL. */
struct hash hash_text(struct hash before, const char *text);
const char *hash_name(struct hash hash, char name[HASH_DIGITS]);

#endif
