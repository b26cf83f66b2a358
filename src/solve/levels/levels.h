/* Rules with a state for each level: what their two solvers share. */
#ifndef CLATTN_SRC_SOLVE_LEVELS_H
#define CLATTN_SRC_SOLVE_LEVELS_H

#include "solve/state_tile.h"

/* Whether the solvers have words for the rule. */
int levels_apply(const struct problem *problem);
/* A step with the tile's constants, the words of the recurrence and the number of levels. */
struct kernel_step levels_step(enum embedded_file file, const struct problem *problem, const struct state_tile *tile);
/* Binds the states of buckets, of which a head has one fewer than levels. */
void levels_bind_buckets(struct builder *b, const struct problem *problem, const struct state_tile *tile);

/* The kernel that writes the position after each sequence; added if the problem has it. */
struct kernel_step levels_position_step(const struct problem *problem);
void levels_add_position(struct builder *b, const struct kernel_step *step);

/* The kernel that goes token by token, and its tiles; those that are TILE_OPEN are chosen. With a tail it only writes final
 * states, from the last multiple of so many tokens on; 0: it is the whole. */
clattn_status levels_tokens_tile(const struct device_facts *facts, const struct problem *problem,
                                 struct state_tile *tile);
struct kernel_step levels_tokens_step(const struct problem *problem, const struct state_tile *tile, int tail);

/* Adds what final states have of the buckets below a tail's, zeros where there is none, and their positions. */
void levels_add_tail(struct builder *b, const struct kernel_step *tail, const struct kernel_step *position,
                     const struct state_tile *tile, int groups);

/* Up to this many tokens are computed token by token. */
int64_t levels_most_tokens(const struct device_facts *facts);

#endif
