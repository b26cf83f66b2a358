/* Gradients that tokens share: weights, biases, rates. A kernel leaves parts of them, a row for each group or work-item; two
 * more kernels add these in their order. */
#ifndef CLATTN_SRC_SOLVE_SHARES_H
#define CLATTN_SRC_SOLVE_SHARES_H

#include "solve/solve.h"

enum { MOST_SHARES = 2 };

struct share {
    clattn_operand_id id; /* whose gradient it is */
    const char *at;       /* the kernel's constant for where in a head's row its numbers begin */
    int64_t numbers;      /* of a head's row */
    int summed;           /* all of these make one number of the gradient */
};

struct shares {
    struct share of[MOST_SHARES];
    int count;
    const char *absent[MOST_SHARES]; /* constants of those that the problem does not have */
    int absent_count;
    int64_t width; /* numbers of a head's row */
    struct kernel_step add, leave[MOST_SHARES];
};

/* Adds one, if the problem has it. */
void shares_add(struct shares *shares, const struct problem *problem, const struct share *share);
/* Adds WIDTH and where each begins to the constants of the kernel that leaves parts. */
void shares_constants(const struct shares *shares, struct kernel_step *step);
/* Makes the kernels that add parts. */
void shares_derive(struct shares *shares, const struct device_facts *facts, const struct problem *problem);
/* Scratch memory for `most` rows of parts of all heads, bound as "parts". */
void shares_bind(struct builder *b, const struct shares *shares, int64_t most);
/* Adds so many rows of parts, and leaves the gradients. */
void shares_build(struct builder *b, const struct shares *shares, ir_expression rows);

#endif
