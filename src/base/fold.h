/* How texts are folded: as codes, each a letter or a phrase. src/tools/fold.c makes them when the library is built,
 * embedded.c unfolds them. */
#ifndef CLATTN_SRC_FOLD_H
#define CLATTN_SRC_FOLD_H

enum {
    FOLD_LETTERS = 128, /* codes below are letters; the n-th from here on is the n-th phrase */
    FOLD_LONG = 250,    /* codes below are a byte; those from here on two: this and what is past it by 256, the rest */
    FOLD_CODES = FOLD_LONG + (256 - FOLD_LONG) * 256,
    FOLD_LONGEST = 64 /* letters of a phrase */
};

#endif
