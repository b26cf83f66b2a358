#include "base/embedded.h"

#include "base/fold.h"
#include "base/thread.h"

#include <stdlib.h>
#include <string.h>

/* ---- Unfolding, as src/tools/fold.c folds ---- */

struct unfold {
    struct fold_model model;
    const unsigned char *at;
    uint32_t range, code;
};

static void refill(struct unfold *u)
{
    while (u->range < UINT32_C(1) << 24) {
        u->range <<= 8;
        u->code = u->code << 8 | *u->at++;
    }
}

static unsigned take(struct unfold *u, struct fold_bit *bit)
{
    uint32_t bound = (u->range >> 16) * bit->chance;
    int is = u->code >= bound;

    u->code -= is ? bound : 0;
    u->range = is ? u->range - bound : bound;
    fold_learn(bit, is);
    refill(u);
    return (unsigned)is;
}

/* A number of so many bits, the highest first, each with a model by those before it */
static unsigned take_tree(struct unfold *u, struct fold_bit *tree, int bits)
{
    unsigned node = 1;

    for (int i = 0; i < bits; i++)
        node = 2 * node + take(u, &tree[node]);
    return node - (1u << bits);
}

static unsigned take_even(struct unfold *u, unsigned bits)
{
    unsigned number = 0;

    for (; bits > 0; bits--) {
        unsigned is;
        u->range >>= 1;
        is = u->code >= u->range;
        u->code -= is ? u->range : 0;
        number = 2 * number + is;
        refill(u);
    }
    return number;
}

static unsigned take_distance(struct unfold *u, unsigned length)
{
    unsigned kind = length < 3 ? length : 3, slot = take_tree(u, u->model.slot[kind], 5), high;

    if (slot < 4)
        return (1u << slot) + take_tree(u, u->model.high[slot], (int)slot);
    high = take_tree(u, u->model.high[slot], 3);
    return (8 + high) << (slot - 3) | take_even(u, slot - 3);
}

/* The distance of a match, which becomes the first of the last ones */
static unsigned next_distance(struct unfold *u, unsigned *last, unsigned *length)
{
    unsigned which = take_tree(u, u->model.last, 3), distance;

    *length = take_tree(u, u->model.length[which != 0], 8);
    distance = which == 0 ? take_distance(u, *length) : last[which - 1];
    for (unsigned i = which == 0 ? FOLD_LAST - 1 : which - 1; i > 0; i--)
        last[i] = last[i - 1];
    last[0] = distance;
    return distance;
}

static void unfold(struct unfold *u, char *text, size_t size)
{
    unsigned last[FOLD_LAST] = {1, 1, 1, 1}, before = 0, letter = 0;
    size_t at = 0;

    fold_begin(&u->model);
    while (at < size) {
        unsigned is = take(u, &u->model.match[before]), length, distance;
        before = before * 2 % 4 + is;
        if (!is) {
            text[at++] = (char)take_tree(u, u->model.letter[letter], 7);
        } else {
            distance = next_distance(u, last, &length);
            for (unsigned i = 0; i < FOLD_LEAST + length; i++, at++)
                text[at] = text[at - distance];
        }
        letter = (unsigned char)text[at - 1];
    }
}

/* ---- Texts ---- */

static const char *unfold_all(void)
{
    struct unfold *u = malloc(sizeof *u);
    char *all = u != NULL ? malloc(embedded_size) : NULL;

    if (all != NULL) {
        u->at = embedded_bytes;
        u->range = UINT32_MAX;
        u->code = 0;
        for (int i = 0; i < 4; i++)
            u->code = u->code << 8 | *u->at++;
        unfold(u, all, embedded_size);
    }
    free(u);
    return all;
}

static void find_files(struct embedded *files, const char *at)
{
    for (int i = 0; i < FILE_COUNT; i++) {
        files[i].name = at;
        files[i].text = at + strlen(at) + 1;
        files[i].size = strlen(files[i].text);
        at = files[i].text + files[i].size + 1;
    }
}

const struct embedded *embedded_files(void)
{
    static mutex lock = MUTEX_INIT;
    static struct embedded files[FILE_COUNT];
    const struct embedded *found = files;

    lock_take(&lock);
    if (files[0].name == NULL) {
        const char *all = embedded_folded ? unfold_all() : (const char *)embedded_bytes;
        if (all != NULL)
            find_files(files, all);
        else
            found = NULL;
    }
    lock_give(&lock);
    return found;
}
