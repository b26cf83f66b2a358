#include "base/hash.h"

#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* The hash before goes in as 16 bytes ahead of the piece: each half depends on both halves of it and on the piece. */
static uint64_t half_of(struct hash before, const void *data, size_t size, XXH64_hash_t seed)
{
    XXH64_canonical_t ahead[2];
    XXH64_state_t state;

    XXH64_canonicalFromHash(&ahead[0], before.high);
    XXH64_canonicalFromHash(&ahead[1], before.low);
    XXH64_reset(&state, seed);
    XXH64_update(&state, ahead, sizeof ahead);
    XXH64_update(&state, data, size);
    return XXH64_digest(&state);
}

/* XXH3 has 128 bits at once, and three thousand bytes of code more. */
struct hash hash_add(struct hash before, const void *data, size_t size)
{
    return (struct hash){half_of(before, data, size, 0), half_of(before, data, size, 1)};
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
