/* How kernels over cl/plain cut the rows, channels and value columns of a matrix state into tiles. */
#ifndef CLATTN_SRC_SOLVE_STATE_TILE_H
#define CLATTN_SRC_SOLVE_STATE_TILE_H

#include "solve/solve.h"
#include "solve/state_words.h"

/* Only ints, because solvers keep it among their tiles. */
struct state_tile {
    int group;     /* work-items */
    int vec;       /* floats of a vector */
    int chunk;     /* rows */
    int block_k;   /* channels that are in local memory at once */
    int block_v;   /* value columns of a group */
    int pad;       /* padding after each row of a slice of channels, in floats */
    int lanes_k;   /* work-items that share a column in the recurrence */
    int sub_group; /* work-items of a sub-group; 0: the compiler's choice */
};

/* Sizes that follow from the tiles, in floats. */
struct state_sizes {
    int channels;     /* channels, padded to whole slices */
    int pitch, slice; /* a row of a slice, and the rows of a chunk */
    int matrix;       /* chunk x chunk, with rows of whole vectors */
    int values;       /* chunk x block_v */
    int factors;      /* the decay factors of a chunk's rows, and the one across the chunk */
    int token_parts;  /* vectors in a token's channels */
    int64_t record;   /* what is prepared for a chunk: matrices and factors */
};
struct state_sizes state_sizes(const struct problem *problem, const struct state_tile *tile);

/* The number of work-groups over all heads, with value tiles of that width. */
int64_t value_groups_of_all(const struct problem *problem, int block_v);
/* The number of groups along the value columns. */
int value_groups(const struct problem *problem, int block_v);

/* Whether each head's state is one matrix that queries read, and that can be computed in chunks of tokens. */
static inline int has_state_of_matrices(const struct problem *problem)
{
    return problem->rule->op == OP_MIXER && !rule_has_list(problem->rule) && rule_has_chunks(problem->rule) &&
           !rule_has_levels(problem->rule) && !rule_is_solved(problem->rule);
}

/* Where the heuristic for groups that share a tile differs between solvers. */
struct shared_wish {
    int most_columns, least_columns; /* value columns of a group */
    int64_t groups;                  /* the number of groups wanted, over all heads */
    int slice;                       /* channels that are in local memory at once, at most */
};
/* The heuristic's tiles, for one work-item or for a group. The chunk has 16 rows unless the problem asks for
 * another. */
struct state_tile state_tile(const struct device_facts *facts, const struct problem *problem,
                             const struct shared_wish *wish);
/* Reduces tiles that are wider than the problem, and rounds them to whole vectors. */
void state_tile_follow(struct state_tile *tile, const struct problem *problem);
/* Whether the caller asks for states only at the ends of chunks. */
int states_are_at_chunks(const struct problem *problem, int chunk);
/* Whether the tile's sizes are consistent and the device accepts the group. */
int state_tile_is_sound(const struct state_tile *tile, const struct device_facts *facts);

/* A step with the tile's constants and the words of the recurrence. */
struct kernel_step state_step(enum embedded_file file, const struct problem *problem, const struct state_tile *tile,
                              const struct state_sizes *sizes, enum outputs outputs);
/* Adds the decay's local arrays. */
void add_decay_locals(struct kernel_step *step, const struct problem *problem, const struct state_tile *tile,
                      const struct state_sizes *sizes);
/* Adds the first `count` of the names, as arrays of that many floats each. */
void add_some_locals(struct kernel_step *step, const char *const *names, int count, int64_t floats);
/* Turns of loops of a work-item: of all products of a chunk of rows with a state. */
int64_t state_chunk_turns(const struct problem *problem, const struct state_tile *tile);
/* "group 64, vec 4, chunk 16, key slice 32, value tile 16, key lanes 1, " */
void state_tile_describe(struct text *text, const struct state_tile *tile, const char *chunk_name);

#endif
