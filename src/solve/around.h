/* The steps around a solver: what a problem asks for besides its rule. */
#ifndef CLATTN_SRC_SOLVE_AROUND_H
#define CLATTN_SRC_SOLVE_AROUND_H

#include "solve/solve.h"

/* Converts the operands that kernels do not read in their own types. Later steps find them under the operands' names. */
clattn_status around_convert(struct builder *b);
/* Converts the output, where kernels do not write it in its own type. */
clattn_status around_output(struct builder *b);
/* Reserves memory for outputs that are normalised after the solver, and takes z and norm from kernels that do not
 * normalise; adds the step that does, unless the solver has normalised. */
void around_norm_memory(struct builder *b);
clattn_status around_norm(struct builder *b);
/* Adds rotary positions, if the problem has them. Later steps find the rotated q, k and erase keys under the operands'
 * names. */
clattn_status around_rope(struct builder *b);
/* Appends the call's own keys and values to the cache, if the problem has them, before any step reads the cache. */
clattn_status around_append(struct builder *b);
/* Adds mLSTM's gates, if the rule has them. Kernels find them as g, decay, beta, strength and m. */
clattn_status around_gates(struct builder *b);
/* Reserves memory for denominators, if outputs are divided; and for the states after whole sequences, if all tokens
 * read these and the caller does not ask for them. */
void around_memory(struct builder *b);
/* Adds the reads of the state after the last token, where all tokens read that one. Adds the attention matrix beside
 * the outputs, except for a list with ERASE_POSITION, whose own solver computes it. */
clattn_status around_reads(struct builder *b);
/* Adds what a summary keeps of a state, unless that is all of it or the gates' own step has written it. */
clattn_status around_summary(struct builder *b);
/* The constants of cl/rope/turns.clh, for kernels that rotate rows by a rule's rotary positions. */
void add_rope_angles(struct kernel_step *step, const clattn_plan_desc *desc);
/* Where z gates, for kernels that normalise rows. */
void add_gating(struct kernel_step *step, const clattn_plan_desc *desc);
/* Solvers that only other solvers use. They are not in solver_list. */
extern const struct solver solver_stabilize, solver_read_state, solver_append, solver_convert;
/* Of the list, what others ask for by name. */
extern const struct solver solver_matrix_scan;

#endif
