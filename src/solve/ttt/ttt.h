/* What the solvers of learners share that batches of a few tokens train. */
#ifndef CLATTN_SRC_SOLVE_TTT_H
#define CLATTN_SRC_SOLVE_TTT_H

#include "solve/solve.h"

/* Adds which loss is learned from, what is read, and whether there is a bias. */
void ttt_add_kinds(struct kernel_step *step, const struct problem *problem);
/* Binds the first layer's weights, where they are the state, to the kernels' names for them. */
void ttt_bind_state(struct builder *b);

#endif
