/* Runs a fuzz target without libFuzzer: over every file named, over mutants of them, and over noise.
 *     replay MUTANTS [FILE…] */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 1 << 16 };

static uint64_t state = 0x9e3779b97f4a7c15;

static size_t draw(size_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (size_t)(state >> 11) % below;
}

/* One change: a byte, a run of bytes made equal, a piece moved, an end cut off or grown. */
static size_t mutate(uint8_t *data, size_t size)
{
    static const uint8_t favourites[] = {0, 1, 4, 0x7f, 0x80, 0xff, '"', ',', '{', '}', '[', ']', '0', '9', 'e', '\\'};
    size_t at = size > 0 ? draw(size) : 0, length = size > 0 ? 1 + draw(size - at > 8 ? 8 : size - at) : 0;

    switch (draw(6)) {
    case 0: memset(data + at, favourites[draw(sizeof favourites)], size > 0 ? 1 : 0); break;
    case 1: memset(data + at, favourites[draw(sizeof favourites)], length); break;
    case 2: memmove(data + (size > 0 ? draw(size - length + 1) : 0), data + at, length); break;
    case 3: return at;
    case 4:
        for (length = 1 + draw(64); length > 0 && size < LARGEST; length--)
            data[size++] = (uint8_t)draw(256);
        break;
    case 5:
        if (size > 0)
            data[at] ^= (uint8_t)(1 << draw(8));
        break;
    }
    return size;
}

/* In memory of its own, so that a sanitizer sees a read past its end. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size > 0 ? size : 1);

    if (exact == NULL)
        abort();
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static void run_mutants(const uint8_t *seed, size_t size, long mutants)
{
    static uint8_t data[LARGEST];

    run(seed, size);
    for (long i = 0; i < mutants; i++) {
        size_t length = size;
        memcpy(data, seed, size);
        for (size_t changes = 1 + draw(6); changes > 0; changes--)
            length = mutate(data, length);
        run(data, length);
    }
}

static void run_noise(long count)
{
    uint8_t data[512];

    for (long i = 0; i < count; i++) {
        size_t size = draw(sizeof data);
        for (size_t at = 0; at < size; at++)
            data[at] = (uint8_t)draw(256);
        run(data, size);
    }
}

int main(int argc, char **argv)
{
    static uint8_t seed[LARGEST];
    long mutants = argc > 1 ? strtol(argv[1], NULL, 10) : 0;

    run_noise(mutants);
    for (int i = 2; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        size_t size;
        if (file == NULL) {
            fprintf(stderr, "%s: cannot read\n", argv[i]);
            return 1;
        }
        size = fread(seed, 1, sizeof seed, file);
        fclose(file);
        run_mutants(seed, size, mutants);
    }
    return 0;
}
