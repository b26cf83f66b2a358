/* How texts are folded: src/tools/fold.c does it when the library is built, embedded.c unfolds them.
 *
 * They are a row of signs: letters, and pairs of signs that are one and spell parts of words (P. Gage, A new algorithm
 * for data compression, 1994). Of each sign is asked whether it is the guess, which came when the last signs stood
 * there before; if not, what its bits are. How likely an answer is, each of five contexts has learnt from those before;
 * what they say is mixed by weights that are learnt, too (M. Mahoney, Adaptive weighing of context models for lossless
 * data compression, 2005), and a binary arithmetic coder spends the fewer bits the likelier the answer was. Both sides
 * walk through the signs with fold_signs() and learn the same, all in integers, so that they agree everywhere. */
#ifndef CLATTN_SRC_FOLD_H
#define CLATTN_SRC_FOLD_H

#include <stddef.h>
#include <stdint.h>

enum {
    FOLD_LETTERS = 128, /* ASCII. Sign FOLD_LETTERS + i is the pair signs[2 i], signs[2 i + 1]: */
    FOLD_PAIRS = 128,   /* all of them come first */
    FOLD_CONTEXTS = 5,
    FOLD_LENGTHS = 16,    /* of guesses: longer ones are alike */
    FOLD_SECOND = 256,    /* Questions: from 1 on the four bits of a sign's first half, from here on of its second, */
    FOLD_GUESSED = 512,   /* from here on whether it is the guess */
    FOLD_QUESTIONS = 768, /* all */
    FOLD_SLOT_BITS = 21,
    FOLD_PLACE_BITS = 17,
    FOLD_HALF = 1 << 15, /* a chance is of 2^16; stretched it is 256 ln(p / (1 - p)), */
    FOLD_EDGE = 2048,    /* below this, either way */
    FOLD_WEIGHT = 18000  /* of 2^16, that each context has at first */
};
_Static_assert(-1 >> 1 == -1, "negative numbers keep their sign when shifted");

/* All zeros, and fold_begin(), at first */
struct fold {
    uint32_t low, high;                       /* what the coder has between; */
    uint32_t code;                            /* the unfolder's: where in there it is, */
    const unsigned char *next;                /* what it reads */
    size_t from;                              /* where the guess stands, */
    unsigned length;                          /* after so many signs as stand here; 0: there is none */
    uint32_t contexts[FOLD_CONTEXTS];         /* none, the last sign, two, the line's first and the last, the guess */
    uint16_t slots[1 << FOLD_SLOT_BITS];      /* of a question in a context: chance ^ FOLD_HALF, how often in 3 bits */
    uint32_t places[2][1 << FOLD_PLACE_BITS]; /* by the last two signs and the last five: of the next */
    int32_t by_length[FOLD_LENGTHS][FOLD_CONTEXTS]; /* weights are FOLD_WEIGHT and these two */
    int32_t by_question[FOLD_QUESTIONS][FOLD_CONTEXTS];
    int16_t stretched[4096];
    uint16_t squashed[2 * FOLD_EDGE];
};

/* Each side's own: the answer, which the folder knows; and a byte that low and high agree on, which goes or comes. */
static unsigned fold_answer(const struct fold *fold, uint32_t middle, unsigned is);
static void fold_byte(struct fold *fold);

/* The logistic curve as it grows, p' = p (1 - p), and back */
static inline void fold_begin(struct fold *fold)
{
    uint32_t p = UINT32_C(1) << 31; /* of 2^32 */
    int stretched = 1 - FOLD_EDGE;

    fold->high = UINT32_MAX;
    for (int i = 0; i < FOLD_EDGE; i++, p += (p >> 16) * ((UINT32_MAX - p) >> 16) >> 8) {
        fold->squashed[FOLD_EDGE + i] = (uint16_t)(p >> 16);
        fold->squashed[FOLD_EDGE - i] = (uint16_t)(UINT16_MAX - (p >> 16));
    }
    for (int i = 0; i < 4096; i++) {
        while (stretched < FOLD_EDGE - 1 && fold->squashed[FOLD_EDGE + stretched] < 16 * i)
            stretched++;
        fold->stretched[i] = (int16_t)stretched;
    }
}

/* A branch rather than two choices: what is foretold well the processor foretells, too. */
static inline unsigned fold_code(struct fold *fold, uint32_t chance, unsigned is)
{
    uint32_t middle = fold->low + (uint32_t)((uint64_t)(fold->high - fold->low) * chance >> 16);

    if (fold_answer(fold, middle, is)) {
        fold->high = middle;
        is = 1;
    } else {
        fold->low = middle + 1;
        is = 0;
    }
    while ((fold->low ^ fold->high) < 1u << 24) {
        fold_byte(fold);
        fold->low <<= 8;
        fold->high = fold->high << 8 | 255;
    }
    return is;
}

/* Nearly all the way to the first answer, less to each after, never little: what came last counts most. */
static inline void fold_learn(uint16_t *slot, unsigned is)
{
    static const int16_t pace[] = {853, 465, 320, 243, 196, 165, 142, 124}; /* 1024 / (n + 1.2) */
    int chance = *slot ^ FOLD_HALF, seen = *slot & 7;

    chance += ((is ? UINT16_MAX : 0) - chance) * pace[seen] >> 10;
    *slot = (uint16_t)(((chance & ~7) ^ FOLD_HALF) | (seen + (seen < 7)));
}

static inline unsigned fold_length(const struct fold *fold)
{
    return fold->length < FOLD_LENGTHS ? fold->length : FOLD_LENGTHS - 1;
}

/* The answer to a question, by all contexts */
static inline unsigned fold_ask(struct fold *fold, unsigned question, unsigned is)
{
    int32_t *weights = fold->by_length[question < FOLD_GUESSED ? 0 : fold_length(fold)],
            *others = fold->by_question[question], says[FOLD_CONTEXTS], wrong;
    uint16_t *slots[FOLD_CONTEXTS];
    int64_t sum = 0;
    int32_t chance;

    for (int i = 0; i < FOLD_CONTEXTS; i++) { /* 16 questions' slots stand together, for the cache */
        uint32_t group = (fold->contexts[i] ^ ((question >> 4) * 0x9e3779b1u)) >> (36 - FOLD_SLOT_BITS);
        slots[i] = &fold->slots[group << 4 | (question & 15)];
        says[i] = fold->stretched[(*slots[i] ^ FOLD_HALF) >> 4];
        sum += (int64_t)(FOLD_WEIGHT + weights[i] + others[i]) * says[i];
    }
    sum >>= 16;
    sum = sum < 1 - FOLD_EDGE ? 1 - FOLD_EDGE : sum > FOLD_EDGE - 1 ? FOLD_EDGE - 1 : sum;
    chance = fold->squashed[FOLD_EDGE + sum];
    is = fold_code(fold, (uint32_t)chance, is);
    wrong = (is ? 1 << 16 : 0) - chance;
    for (int i = 0; i < FOLD_CONTEXTS; i++) {
        int32_t by = says[i] * wrong >> 17;
        weights[i] += by;
        others[i] += by;
        fold_learn(slots[i], is);
    }
    return is;
}

/* Four bits of a sign, each asked after those before it */
static inline unsigned fold_half(struct fold *fold, unsigned questions, unsigned half)
{
    unsigned node = 1;

    for (int bit = 3; bit >= 0; bit--)
        node = 2 * node + fold_ask(fold, questions + node, half >> bit & 1);
    return node - 16;
}

static inline uint32_t fold_hash(uint64_t of)
{
    return (uint32_t)(of * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}
#define FOLD_HASH(kind, of) fold_hash((uint64_t)(kind) << 48 | (of))

/* The sign, which only the folder knows before */
static inline unsigned fold_sign(struct fold *fold, unsigned guess, unsigned sign)
{
    unsigned first;

    if (fold->length > 0 && fold_ask(fold, FOLD_GUESSED + guess, sign == guess))
        return guess;
    fold->contexts[4] = FOLD_HASH(4, guess);
    first = fold_half(fold, 0, sign >> 4);
    return first << 4 | fold_half(fold, FOLD_SECOND + 16 * first, sign & 15);
}

/* Where the last signs stood before, unless the guess is by as many; and that they stand here */
static inline void fold_find(struct fold *fold, const unsigned char *signs, size_t at, unsigned count, uint64_t last)
{
    enum { ENOUGH = 20 };
    uint32_t *place = &fold->places[count > 2][fold_hash(last) >> (32 - FOLD_PLACE_BITS)];
    unsigned length = 0;

    while (fold->length < count && length < ENOUGH && length < *place &&
           signs[*place - 1 - length] == signs[at - 1 - length])
        length++;
    if (length >= count && length > fold->length) {
        fold->from = *place;
        fold->length = length;
    }
    *place = (uint32_t)at;
}

static inline void fold_signs(struct fold *fold, unsigned char *signs, size_t count)
{
    uint64_t last = 0;
    unsigned line = 0; /* its first sign */

    for (size_t at = 0; at < count; at++) {
        unsigned guess = fold->length > 0 ? signs[fold->from] : 0;
        fold->contexts[1] = FOLD_HASH(1, last & 0xff);
        fold->contexts[2] = FOLD_HASH(2, last & 0xffff);
        fold->contexts[3] = FOLD_HASH(3, line << 8 | (last & 0xff));
        fold->contexts[4] = FOLD_HASH(4, fold_length(fold) << 8 | guess);
        signs[at] = (unsigned char)fold_sign(fold, guess, signs[at]);
        fold->length = fold->length > 0 && signs[at] == guess ? fold->length + 1 : 0;
        fold->from++;
        line = signs[at] == '\n' ? 0 : line == 0 ? signs[at] : line;
        last = last << 8 | signs[at];
        fold_find(fold, signs, at + 1, 5, last & 0xffffffffff);
        fold_find(fold, signs, at + 1, 2, last & 0xffff);
    }
}

#endif
