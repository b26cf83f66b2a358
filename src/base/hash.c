#include "base/hash.h"

#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* The previous hash is hashed as 16 bytes before the data. */
struct hash hash_add(struct hash before, const void *data, size_t size)
{
    XXH128_canonical_t ahead;
    XXH128_hash_t hash;
    XXH3_state_t state;

    XXH128_canonicalFromHash(&ahead, (XXH128_hash_t){.low64 = before.low, .high64 = before.high});
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, &ahead, sizeof ahead);
    XXH3_128bits_update(&state, data, size);
    hash = XXH3_128bits_digest(&state);
    return (struct hash){hash.high64, hash.low64};
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
