/* All solvers, those of src/solve and those of src/kernel. */
#ifndef CLATTN_SRC_SPACE_H
#define CLATTN_SRC_SPACE_H

#include "solve/solve.h"

enum { MAX_SPACES = 28 };

/* A solver by number, in arbitrary order. NULL: there are no more. */
const struct solver *solver_at(int index);
/* A solver by name, or NULL. */
const struct solver *solver_find(const char *name);
/* The tuning parameters of solver_at(index), or NULL. */
const struct space *space_at(int index);
const struct space *space_find(const char *name);

/* The kernels for which a solver of src/kernel has parameters, as bits 1 << KERNEL_…. */
uint64_t space_kernels(const struct space *space);

#endif
