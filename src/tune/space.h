/* Every solver, those of src/solve and those of src/kernel. */
#ifndef CLATTN_SRC_SPACE_H
#define CLATTN_SRC_SPACE_H

#include "solve/solve.h"

enum { MAX_SPACES = 28 };

/* Every solver, by number, in no order that means anything; NULL past the last. */
const struct solver *solver_at(int index);
/* By name; NULL. */
const struct solver *solver_find(const char *name);
/* Their parameters; NULL. */
const struct space *space_at(int index);
const struct space *space_find(const char *name);

/* The kernels that a solver of src/kernel has parameters for: bits 1 << KERNEL_…. */
uint64_t space_kernels(const struct space *space);

#endif
