/* The call's own keys and values, which go into the cache ahead of every solver whose state is a list. */
#ifndef CLATTN_SRC_SOLVE_APPEND_H
#define CLATTN_SRC_SOLVE_APPEND_H

#include "solve/solve.h"

/* Not of the list: it computes no problem by itself. */
extern const struct solver solver_append;

#endif
