/* How kernels of cl/plain cut rows, channels and value columns of a state of matrices into tiles. */
#ifndef CLATTN_SRC_SOLVE_STATE_TILE_H
#define CLATTN_SRC_SOLVE_STATE_TILE_H

#include "solve/solve.h"
#include "solve/state_words.h"

/* Ints only: solvers keep them in their tiles. */
struct state_tile {
    int group;     /* work-items */
    int vec;       /* floats that a work-item works at once */
    int chunk;     /* rows */
    int block_k;   /* channels in local memory at once */
    int block_v;   /* value columns of a group */
    int pad;       /* floats after each row of a slice of channels */
    int lanes_k;   /* work-items that share a column of the recurrence */
    int sub_group; /* work-items of a sub-group; 0: the compiler's choice */
};

/* Floats of the tiles. */
struct state_sizes {
    int channels;     /* padded to whole slices */
    int pitch, slice; /* a row of a slice, and a chunk of them */
    int matrix;       /* chunk x chunk, its rows whole vectors */
    int values;       /* chunk x block_v */
    int factors;      /* of a chunk's rows, and one across it */
    int token_parts;  /* vectors of a token's channels */
    int64_t record;   /* of a chunk that is prepared: matrices and factors */
};
struct state_sizes state_sizes(const struct problem *problem, const struct state_tile *tile);

/* Work-groups that value tiles of that width give, of all heads. */
int64_t value_groups_of_all(const struct problem *problem, int block_v);
/* Groups along the value columns. */
int value_groups(const struct problem *problem, int block_v);

/* Whether the rule's state is a matrix for each head, which chunks of tokens can work. */
static inline int has_state_of_matrices(const struct problem *problem)
{
    return problem->rule->op == OP_MIXER && !rule_has_list(problem->rule) && rule_has_chunks(problem->rule);
}

/* What the heuristic of a group that shares a tile differs in. */
struct shared_wish {
    int most_columns, least_columns; /* value columns of a group */
    int64_t groups;                  /* wanted, of all heads */
    int slice;                       /* channels in local memory at once, at most */
};
/* Tiles of one work-item, or of a group, by heuristic; a chunk of 16 rows where the problem asks for none. */
struct state_tile state_tile(const struct device_facts *facts, const struct problem *problem,
                             const struct shared_wish *wish);
/* No tile wider than the problem, nor of part of a vector. */
void state_tile_follow(struct state_tile *tile, const struct problem *problem);
/* Whether states are asked for at the ends of chunks alone. */
int states_are_at_chunks(const struct problem *problem, int chunk);
/* Whether the tile goes together and the device takes such groups. */
int state_tile_is_sound(const struct state_tile *tile, const struct device_facts *facts);

/* A step with the tile's constants and the words of the recurrence. */
struct kernel_step state_step(enum embedded_file file, const struct problem *problem, const struct state_tile *tile,
                              const struct state_sizes *sizes, enum outputs outputs);
/* Local arrays of the decay. */
void add_decay_locals(struct kernel_step *step, const struct problem *problem, const struct state_tile *tile,
                      const struct state_sizes *sizes);
/* As many of the names as are asked for, of so many floats each. */
void add_some_locals(struct kernel_step *step, const char *const *names, int count, int64_t floats);
/* "group 64, vec 4, chunk 16, key slice 32, value tile 16, key lanes 1, " */
void state_tile_describe(struct text *text, const struct state_tile *tile, const char *chunk_name);

#endif
