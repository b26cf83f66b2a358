/* The words of kernels that keep a state of matrices: what a rule's columns stand for in cl/plain, which other solvers'
 * kernels use, too. */
#ifndef CLATTN_SRC_SOLVE_STATE_WORDS_H
#define CLATTN_SRC_SOLVE_STATE_WORDS_H

#include "solve/kernel_step.h"

/* What an erase adds: rows beside q and k, of which some have norms of their own, and matrices that a chunk solves, of
 * which some are kept for the scan. */
struct erase_words {
    enum embedded_file header;
    int streams, norms, solved, recorded;
};
struct erase_words erase_words(const struct problem *problem);

/* Whether the token adds to its own read. */
int reads_bonus(const struct problem *problem);

/* What a kernel does with outputs. */
enum outputs {
    OUTPUTS_WRITTEN, /* writes the pass's, or none where all tokens read the state after the last */
    OUTPUTS_NONE,    /* none: it is after the state alone */
    OUTPUTS_AT_END   /* writes them where all tokens read the state after the last */
};

/* The headers of erase, strength, read, values and outputs, in this order. */
void add_state_words(struct kernel_step *step, const struct problem *problem, enum outputs outputs);
/* The decay's header ahead of these, and the value gate's after them. */
void add_recurrence_words(struct kernel_step *step, const struct problem *problem, enum outputs outputs);
/* The header of outputs alone. */
enum embedded_file output_words(const struct problem *problem, enum outputs outputs);

#endif
