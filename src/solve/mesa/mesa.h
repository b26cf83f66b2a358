/* mesa_net: o = S^T x with (R + diag(ridge)) x = q. A solver here finds x for every token; then o is what another rule
 * reads with x in the place of q, and its own solvers do that. */
#ifndef CLATTN_SRC_SOLVE_MESA_H
#define CLATTN_SRC_SOLVE_MESA_H

#include "solve/state_tile.h"

/* The problem as the kernels here see it: rows of q and k, gates, strengths, and gram matrices in f32 for states. */
struct problem mesa_rows(const struct problem *problem);
/* The steps of conjugate gradients that a token takes at most. */
int mesa_steps(const struct problem *problem);
/* Adds how many steps of conjugate gradients there are, and the types of gram matrices. */
void mesa_add_steps(struct kernel_step *step, const struct problem *problem);
/* A kernel over these rows. */
struct kernel_step mesa_step_of(enum embedded_file file, const struct problem *problem, const struct state_tile *tile);
/* Whether the tokens' keys are written for the rule that reads, because it does not read them as they are. */
int mesa_has_keys(const struct problem *problem);

/* Memory for a row of K numbers of 16 or 32 bits, as the problem's are, for each token and head. */
int mesa_rows_of_tokens(struct builder *b, const struct problem *problem, const char *name);
/* Binds the memory for x and keys, and the gram matrices in the place of states. */
void mesa_bind(struct builder *b, const struct problem *problem);
/* After the kernels: adds the rule that reads, in the mode, with x in the place of q. The names that were bound since
 * there were `names` of them are dropped, but for those of x and keys. */
clattn_status mesa_read(struct builder *b, const struct problem *problem, clattn_mode mode, int names);

#endif
