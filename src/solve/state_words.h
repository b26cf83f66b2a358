/* The words of kernels with a matrix state. They say which files of cl/plain a rule's columns stand for; other solvers'
 * kernels use them, too. */
#ifndef CLATTN_SRC_SOLVE_STATE_WORDS_H
#define CLATTN_SRC_SOLVE_STATE_WORDS_H

#include "solve/kernel_step.h"

/* What a kind of erase needs: further rows besides q and k, some of which have norms of their own; and matrices that
 * are solved for each chunk, some of which are recorded for the scan. */
struct erase_words {
    enum embedded_file header;
    int streams, norms, solved, recorded;
};
struct erase_words erase_words(const struct problem *problem);

/* Whether a token's own write adds to its read. */
int reads_bonus(const struct problem *problem);

/* What a kernel does with the outputs. */
enum outputs {
    OUTPUTS_WRITTEN, /* writes those of the pass; none if all tokens read the state after the last token */
    OUTPUTS_NONE,    /* writes none: the kernel computes only the state */
    OUTPUTS_AT_END   /* writes them even if all tokens read the state after the last token */
};

/* Adds the headers of erase, strength, read, values and outputs, in this order. */
void add_state_words(struct kernel_step *step, const struct problem *problem, enum outputs outputs);
/* The same with the decay's header before them and the value gate's after them. */
void add_recurrence_words(struct kernel_step *step, const struct problem *problem, enum outputs outputs);
/* The header of the outputs. */
enum embedded_file output_words(const struct problem *problem, enum outputs outputs);

#endif
