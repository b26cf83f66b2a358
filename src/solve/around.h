/* What a problem asks for around its solver. */
#ifndef CLATTN_SRC_SOLVE_AROUND_H
#define CLATTN_SRC_SOLVE_AROUND_H

#include "solve/solve.h"

/* Rotary positions, where the problem has them: from here on q, k and the erase keys are those that have turned. */
clattn_status around_rope(struct builder *b);
/* The call's own keys and values, where they go into the cache ahead of all that reads it. */
clattn_status around_append(struct builder *b);
/* mLSTM's gates, where the rule has them: kernels find them as g, decay, beta, strength and m. */
clattn_status around_gates(struct builder *b);
/* The memory of denominators, where outputs have them; and of the states after whole sequences, where all tokens read
 * these and the caller does not want them. */
void around_memory(struct builder *b);
/* What all tokens read of the state after the last; and the attention matrix beside the outputs, but of a list whose keys
 * turn on their way: src/kernel has that. */
clattn_status around_reads(struct builder *b);
/* Parts of other solvers, which are not in the list. */
extern const struct solver solver_stabilize, solver_read_state, solver_append;

#endif
