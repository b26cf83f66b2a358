/* How texts are folded: one text after the other as a stream of letters and of matches with what stands before, each
 * bit by its probability (an adaptive binary range coder). src/tools/fold.c folds them when the library is built,
 * embedded.c unfolds them. */
#ifndef CLATTN_SRC_FOLD_H
#define CLATTN_SRC_FOLD_H

#include <stdint.h>

enum {
    FOLD_LEAST = 2, /* letters of a match, */
    FOLD_MOST = FOLD_LEAST + 255,
    FOLD_LAST = 4,  /* distances that are remembered, each a code of its own */
    FOLD_SLOTS = 32 /* a distance's slot is the number of its bits */
};

/* How likely a bit is 0, of 2^16: the mean of what was seen, and later rather of what was seen last. */
struct fold_bit {
    uint16_t chance, seen;
};

/* Everything that is learnt of the stream so far. */
struct fold_model {
    struct fold_bit match[4];            /* whether a match follows, by what the last two were */
    struct fold_bit letter[128][128];    /* by the letter before */
    struct fold_bit last[8];             /* which of the last distances, or a new one; */
    struct fold_bit length[2][256];      /* of a new distance, of a last one */
    struct fold_bit slot[4][FOLD_SLOTS]; /* by length */
    struct fold_bit high[FOLD_SLOTS][8]; /* the bits after the first */
};

static inline void fold_begin(struct fold_model *model)
{
    struct fold_bit *bit = (struct fold_bit *)model;

    for (unsigned i = 0; i < sizeof *model / sizeof *bit; i++)
        bit[i] = (struct fold_bit){1 << 15, 0};
}

static inline void fold_learn(struct fold_bit *bit, int is)
{
    enum { MEMORY = 48, EDGE = 64 };
    int to = is ? EDGE : (1 << 16) - EDGE;

    bit->chance = (uint16_t)(bit->chance + 2 * (to - bit->chance) / (2 * bit->seen + 3));
    bit->seen = (uint16_t)(bit->seen + (bit->seen < MEMORY));
}

#endif
