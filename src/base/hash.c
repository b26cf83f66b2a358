#include "base/hash.h"

#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

struct hash hash_add(struct hash before, const void *data, size_t size)
{
    XXH128_hash_t piece = XXH3_128bits_withSeed(data, size, before.low);

    /* the piece's own hash, and everything before it: each half depends on both halves of either */
    return (struct hash){piece.high64 ^ (before.high * UINT64_C(0x9e3779b97f4a7c15) + (before.high >> 29)),
                         piece.low64};
}

struct hash hash_text(struct hash before, const char *text)
{
    return hash_add(before, text, strlen(text) + 1);
}

const char *hash_name(struct hash hash, char name[HASH_DIGITS])
{
    snprintf(name, HASH_DIGITS, "%016llx%016llx", (unsigned long long)hash.high, (unsigned long long)hash.low);
    return name;
}
