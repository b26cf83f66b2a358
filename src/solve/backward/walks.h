/* The walks of the backward pass in chunks: forward passes over padded rows (see chunks.c), as problems of their own and as
 * children of a recipe. */
#ifndef CLATTN_SRC_SOLVE_WALKS_H
#define CLATTN_SRC_SOLVE_WALKS_H

#include "solve/builder.h"

int is_packed(const struct problem *problem);
/* What the rule does besides adding to its state. */
int erases(const struct problem *problem);
int is_low_rank(const struct problem *problem);
int has_strength(const struct problem *problem);
/* Heads of the walks: if several reads share a state, each has a walk of its own, since the gradient of a state is the sum of
 * what its reads leave. */
int64_t walk_heads(const struct problem *problem);
/* Value columns of the walks. Where outputs are divided there are more than the caller's: two of ones, whose states are
 * the normalizer and whose gradients by outputs are the divisor's, as the sum of two numbers of the rows' type. */
int64_t walk_columns(const struct problem *problem);

struct walks {
    struct builder *b;
    const struct problem *problem;
    const struct problem *down, *up;
    int chunk;
    ir_expression slots, rows; /* chunks of all sequences; rows of one, or of all that are packed */
    int64_t most_slots;
};

/* The walk down the rows, which leaves the states before chunks, and that up. What a rule makes of its keys and values
 * is in the rows. */
struct problem walk_down_problem(const struct problem *problem, int chunk, int is_read);
struct problem walk_up_problem(const struct problem *problem, int chunk);
/* The same walks where they leave states and outputs in dtype, which only matrix_scan does. */
void walk_is_narrow(struct problem *walk, const struct problem *problem);
/* The same walks where they leave what rows erase, and are read only if nothing else gives the gradient of values. */
void walk_leaves_erased(struct problem *walk, const struct problem *problem);

struct walks walks_of(struct builder *b, const struct problem *problem, int chunk, const struct problem *down,
                      const struct problem *up);
/* Reserves rows of that many numbers for each head, [row][head][width], with a chunk of zeros after the last, and binds
 * the name to them. wanted 0: the name is bound to nothing. */
void add_rows(const struct walks *w, const char *name, clattn_dtype type, int64_t width, int wanted);
/* The same for states, [slot or sequence][head][V][K], of which so many are for a sequence. */
void add_state_rows(const struct walks *w, const char *name, clattn_dtype type, int64_t count, ir_expression of_one,
                    int wanted);
/* Binds a name to the rows of another that are so many rows later. */
void bind_rows(const struct walks *w, const char *name, const char *of, int later);
/* Adds the steps of a walk. cuts: where packed sequences begin among the rows. to_end: it leaves the states after whole
 * sequences, as `ended`, in place of those before chunks. */
clattn_status walk_down(const struct walks *w, int cuts, int to_end);
/* This one is read by the rows of that name and leaves what they read. */
clattn_status walk_up(const struct walks *w, int cuts, const char *readers, const char *out, int with_states);

#endif
