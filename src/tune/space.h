/* The parameters that a solver leaves to tuning. Each solver declares its own beside its code. */
#ifndef CLATTN_SRC_SPACE_H
#define CLATTN_SRC_SPACE_H

#include <stddef.h>

enum { MAX_PARAMETERS = 16, MAX_VALUES = 8, BY_THUMB = -1 };

/* One number: a field of struct tiles in one or more kernels. */
struct parameter {
    const char *name;           /* "scan.block_v" */
    unsigned kernels;           /* bits 1 << KERNEL_…: those whose tiles have it */
    size_t field;               /* offsetof(struct tiles, …) */
    int values[MAX_VALUES + 1]; /* worth trying, rising; closed by BY_THUMB */
};

struct solver;

/* A point of a solver's space. */
struct tuned {
    const struct solver *solver;
    int values[MAX_PARAMETERS]; /* of solver->parameters; BY_THUMB: the rule of thumb's */
};

/* All by rule of thumb. */
struct tuned tuned_default(const struct solver *solver);
/* The kernels that a solver has parameters for: bits 1 << KERNEL_…. */
unsigned solver_kernels(const struct solver *solver);
/* Whether value is one of the parameter's. */
int parameter_has(const struct parameter *parameter, int value);

#endif
