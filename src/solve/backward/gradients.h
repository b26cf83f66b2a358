/* What the solvers of the backward pass share: the steps that take the gradients of rows back to the operands
 * (backward_rows.cl, backward_sums.cl), and their constants. */
#ifndef CLATTN_SRC_SOLVE_GRADIENTS_H
#define CLATTN_SRC_SOLVE_GRADIENTS_H

#include "solve/state_tile.h"

int power_of_two_from(int64_t x);
/* Value columns, and the one of a normalizer. */
int64_t gradient_columns(const struct problem *problem);
/* The gradients of a row that are parts by value tiles and channels: of each read, of its keys, and of its log-decay.
 * padded: as gradient_step has it; each read of a state then has rows of its own. */
int stream_count(const struct problem *problem, int padded);
/* Whether the gradient of a row's log-decay is a number of its own, the tensor `flows`, and none of these parts. */
int flows_apart(const struct problem *problem, int padded);
/* The gradients that tokens share, one after the other in `shares`. Says in the step where each begins, -1 for those that
 * are not, and returns their number. */
int add_shares(const struct problem *problem, struct kernel_step *step);
/* A kernel of the folder cl/backward. Gradients of gates have the type of the caller's gates, which of mLSTM are not those
 * that the recurrence reads. padded: rows of a chunk where sequences are padded to whole chunks (cl/chunk_backward), or
 * 0. */
struct kernel_step gradient_step(enum embedded_file file, const struct problem *problem, const struct state_tile *t,
                                 int padded);
/* Binds the gradients of the problem's operands by the names that kernels have them by. */
void bind_gradients(struct builder *b, const struct problem *problem);

#endif
