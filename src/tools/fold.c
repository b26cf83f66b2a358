/* clattn_fold FOLDER NAME…: folds the texts FOLDER/NAME, one after the other, into FOLDER/all.folded (src/base/fold.h),
 * so that little of them is embedded. Of all ways to write them as letters and matches it takes the shortest, by prices
 * that the way before has shown. A tool of the build: it runs where the compiler does, and knows nothing of the
 * library. */
#include "base/fold.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *path, const char *why)
{
    fprintf(stderr, "clattn_fold: %s: %s\n", path, why);
    exit(EXIT_FAILURE);
}

static FILE *open_in(const char *folder, const char *name, const char *mode)
{
    char path[4096];
    FILE *file;

    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        fail(name, "the path is too long");
    file = fopen(path, mode);
    if (file == NULL)
        fail(path, "cannot be opened");
    return file;
}

static void *more(void *at, size_t bytes)
{
    at = realloc(at, bytes);
    if (at == NULL)
        fail("the texts", "no memory");
    return at;
}

static unsigned char *text;
static size_t size;

static void add_letter(unsigned letter)
{
    if (size % 4096 == 0)
        text = more(text, size + 4096);
    text[size++] = (unsigned char)letter;
}

/* Its name and its text, each with a NUL */
static void read_text(const char *folder, const char *name)
{
    FILE *file = open_in(folder, name, "rb");
    int letter;

    for (const char *of = name; *of != '\0'; of++)
        add_letter((unsigned char)*of);
    add_letter(0);
    while ((letter = getc(file)) != EOF) {
        if (letter >= 128 || letter == 0)
            fail(name, "has a letter that is not ASCII");
        add_letter((unsigned)letter);
    }
    add_letter(0);
    fclose(file);
}

/* ---- Bits to bytes ---- */

static unsigned char *out;
static size_t written;

static struct {
    uint64_t low;
    uint32_t range;
    unsigned char held;
    size_t pending; /* bytes held back, for a carry may reach them */
} coder = {0, UINT32_MAX, 0, 0};

static void put_byte(unsigned byte)
{
    if (written % 4096 == 0)
        out = more(out, written + 4096);
    out[written++] = (unsigned char)byte;
}

static void shift(void)
{
    if (coder.low < 0xff000000u || coder.low > UINT32_MAX) {
        for (unsigned byte = coder.held; coder.pending > 0; coder.pending--, byte = 0xff)
            put_byte(byte + (unsigned)(coder.low >> 32));
        coder.held = (unsigned char)(coder.low >> 24);
    }
    coder.pending++;
    coder.low = (coder.low & 0x00ffffffu) << 8;
}

/* A bit, by the model; or, where it only counts, its price. */
static int counting;
static double bits_counted;

static void put(struct fold_bit *bit, int is)
{
    uint32_t chance = bit->chance, bound = (coder.range >> 16) * chance;

    if (counting) {
        bits_counted -= log2((is ? 65536.0 - chance : chance) / 65536);
    } else {
        coder.low += is ? bound : 0;
        coder.range = is ? coder.range - bound : bound;
        for (; coder.range < UINT32_C(1) << 24; coder.range <<= 8)
            shift();
    }
    fold_learn(bit, is);
}

static void put_even(unsigned number, unsigned bits)
{
    bits_counted += bits;
    while (bits-- > 0 && !counting) {
        coder.range >>= 1;
        coder.low += number >> bits & 1 ? coder.range : 0;
        for (; coder.range < UINT32_C(1) << 24; coder.range <<= 8)
            shift();
    }
}

static void put_tree(struct fold_bit *tree, unsigned number, int bits)
{
    unsigned node = 1;

    for (int i = bits - 1; i >= 0; i--) {
        int is = (int)(number >> i & 1);
        put(&tree[node], is);
        node = 2 * node + (unsigned)is;
    }
}

/* ---- What the stream consists of ---- */

static struct fold_model model;
static unsigned before;

static unsigned slot_of(unsigned distance)
{
    unsigned slot = 0;

    while (distance >> (slot + 1) != 0)
        slot++;
    return slot;
}

static void put_distance(unsigned distance, unsigned length)
{
    unsigned slot = slot_of(distance), rest = distance - (1u << slot);

    put_tree(model.slot[length < 3 ? length : 3], slot, 5);
    if (slot < 4) {
        put_tree(model.high[slot], rest, (int)slot);
        return;
    }
    put_tree(model.high[slot], rest >> (slot - 3), 3);
    put_even(rest & ((1u << (slot - 3)) - 1), slot - 3);
}

static void put_match(unsigned which, unsigned distance, unsigned length)
{
    put(&model.match[before], 1);
    before = before * 2 % 4 + 1;
    put_tree(model.last, which, 3);
    put_tree(model.length[which != 0], length - FOLD_LEAST, 8);
    if (which == 0)
        put_distance(distance, length - FOLD_LEAST);
}

static void put_letter(size_t at)
{
    put(&model.match[before], 0);
    before = before * 2 % 4;
    put_tree(model.letter[at > 0 ? text[at - 1] : 0], text[at], 7);
}

/* ---- The shortest way ---- */

/* A way to a place in the text: how the last step came, and what it costs. */
struct place {
    double price;
    unsigned length, distance, which; /* of the step: 1 letter; which 0: a new distance */
    unsigned last[FOLD_LAST];
};
static struct place *places;

/* Bits: of a letter after each other, of a step's parts */
static struct {
    double letter[128][128], match[2], which[8], length[2][256], slot[4][FOLD_SLOTS], high[FOLD_SLOTS][8];
} prices;

static void set_prices(double *to, const double *counts, int count)
{
    double all = 0;

    for (int i = 0; i < count; i++)
        all += counts[i] + 0.25;
    for (int i = 0; i < count; i++)
        to[i] = log2(all / (counts[i] + 0.25));
}

static double price_distance(unsigned distance, unsigned length)
{
    unsigned slot = slot_of(distance), rest = distance - (1u << slot);

    return prices.slot[length < 3 ? length : 3][slot] +
           (slot < 4 ? prices.high[slot][rest] : prices.high[slot][rest >> (slot - 3)] + slot - 3);
}

static void remember(unsigned *last, const unsigned *old, unsigned which, unsigned distance)
{
    unsigned end = which == 0 ? FOLD_LAST - 1 : which - 1;

    memcpy(last, old, FOLD_LAST * sizeof *last);
    for (unsigned i = end; i > 0; i--)
        last[i] = old[i - 1];
    last[0] = distance;
}

static void step(size_t at, unsigned length, unsigned distance, unsigned which, double price)
{
    struct place *to = &places[at + length];

    if (places[at].price + price >= to->price)
        return;
    to->price = places[at].price + price;
    to->length = length;
    to->distance = distance;
    to->which = which;
    if (length > 1)
        remember(to->last, places[at].last, which, distance);
    else
        memcpy(to->last, places[at].last, sizeof to->last);
}

static unsigned match_length(size_t at, size_t distance)
{
    unsigned length = 0;

    while (length < FOLD_MOST && at + length < size && text[at + length] == text[at + length - distance])
        length++;
    return length;
}

static void try_lasts(size_t at)
{
    for (unsigned which = 1; which <= FOLD_LAST; which++) {
        unsigned distance = places[at].last[which - 1], length;
        if (distance > at)
            continue;
        length = match_length(at, distance);
        for (unsigned i = FOLD_LEAST; i <= length; i++)
            step(at, i, distance, which, prices.match[1] + prices.which[which] + prices.length[1][i - FOLD_LEAST]);
    }
}

enum { HASHES = 1 << 16, MOST_TRIED = 1000 };
static int32_t heads[HASHES], *chain;

static unsigned hash_at(size_t at)
{
    return (text[at] * 4099u + text[at + 1] * 257u + (at + 2 < size ? text[at + 2] : 0u)) % HASHES;
}

/* Each longer match at the nearest place where it is */
static void try_matches(size_t at)
{
    unsigned best = FOLD_LEAST - 1;
    int tried = 0;

    if (at + FOLD_LEAST >= size)
        return;
    for (int32_t from = heads[hash_at(at)]; from >= 0 && tried < MOST_TRIED; from = chain[from], tried++) {
        unsigned distance = (unsigned)(at - (size_t)from), length = match_length(at, distance);
        for (unsigned i = best + 1; i <= length; i++)
            step(at, i, distance, 0,
                 prices.match[1] + prices.which[0] + prices.length[0][i - FOLD_LEAST] +
                     price_distance(distance, i - FOLD_LEAST));
        best = length > best ? length : best;
    }
    chain[at] = heads[hash_at(at)];
    heads[hash_at(at)] = (int32_t)at;
}

static void find_way(void)
{
    for (size_t i = 1; i <= size; i++)
        places[i].price = HUGE_VAL;
    places[0] = (struct place){.last = {1, 1, 1, 1}};
    memset(heads, 0xff, sizeof heads);
    for (size_t at = 0; at < size; at++) {
        step(at, 1, 0, 0, prices.match[0] + prices.letter[at > 0 ? text[at - 1] : 0][text[at]]);
        try_lasts(at);
        try_matches(at);
    }
}

/* The steps in order: of each place the next, in `length` of the place where it begins */
static unsigned *steps;
static void mark_way(void)
{
    for (size_t at = size; at > 0; at -= places[at].length)
        steps[at - places[at].length] = places[at].length;
}

/* What the way's steps were, as prices of the next */
static void learn_prices(void)
{
    static struct {
        double letter[128][128], match[2], which[8], length[2][256], slot[4][FOLD_SLOTS], high[FOLD_SLOTS][8];
    } counts;

    memset(&counts, 0, sizeof counts);
    for (size_t at = 0; at < size; at += steps[at]) {
        const struct place *to = &places[at + steps[at]];
        unsigned length = steps[at] - FOLD_LEAST, slot;
        counts.match[steps[at] > 1]++;
        if (steps[at] == 1) {
            counts.letter[at > 0 ? text[at - 1] : 0][text[at]]++;
            continue;
        }
        counts.which[to->which]++;
        counts.length[to->which != 0][length]++;
        if (to->which != 0)
            continue;
        slot = slot_of(to->distance);
        counts.slot[length < 3 ? length : 3][slot]++;
        counts.high[slot][(to->distance - (1u << slot)) >> (slot < 4 ? 0 : slot - 3)]++;
    }
    for (int i = 0; i < 128; i++)
        set_prices(prices.letter[i], counts.letter[i], 128);
    set_prices(prices.match, counts.match, 2);
    set_prices(prices.which, counts.which, 1 + FOLD_LAST);
    for (int i = 0; i < 2; i++)
        set_prices(prices.length[i], counts.length[i], 256);
    for (int i = 0; i < 4; i++)
        set_prices(prices.slot[i], counts.slot[i], FOLD_SLOTS);
    for (int i = 0; i < FOLD_SLOTS; i++)
        set_prices(prices.high[i], counts.high[i], 8);
}

/* Before any way is known */
static void guess_prices(void)
{
    double *all = (double *)&prices;

    for (size_t i = 0; i < sizeof prices / sizeof *all; i++)
        all[i] = 4;
    prices.match[0] = prices.match[1] = 1;
}

static void write_way(void)
{
    fold_begin(&model);
    before = 0;
    for (size_t at = 0; at < size; at += steps[at]) {
        const struct place *to = &places[at + steps[at]];
        if (steps[at] == 1)
            put_letter(at);
        else
            put_match(to->which, to->distance, steps[at]);
    }
}

int main(int argc, char **argv)
{
    enum { WAYS = 4 };
    FILE *file;

    for (int i = 2; i < argc; i++)
        read_text(argv[1], argv[i]);
    places = more(NULL, (size + 1) * sizeof *places);
    steps = more(NULL, (size + 1) * sizeof *steps);
    chain = more(NULL, (size + 1) * sizeof *chain);
    guess_prices();
    for (int i = 0; i < WAYS; i++) {
        find_way();
        mark_way();
        learn_prices();
    }
    write_way();
    for (int i = 0; i < 5; i++)
        shift();
    file = open_in(argv[1], "all.folded", "wb");
    if (fwrite(out, 1, written, file) != written || fclose(file) != 0)
        fail("all.folded", "cannot be written");
    return EXIT_SUCCESS;
}
