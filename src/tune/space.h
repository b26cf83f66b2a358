/* All solvers, by number and by name. */
#ifndef CLATTN_SRC_SPACE_H
#define CLATTN_SRC_SPACE_H

#include "solve/solve.h"

enum { MAX_SPACES = MOST_SOLVERS };

/* A solver by number, in the order of solver_list. NULL: there are no more. */
const struct solver *solver_at(int index);
/* By name; NULL. */
const struct solver *solver_find(const char *name);
/* Their parameters; NULL. */
const struct space *space_at(int index);
const struct space *space_find(const char *name);

#endif
