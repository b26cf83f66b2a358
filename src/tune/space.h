/* The parameters that solvers leave to tuning: a space a solver. */
#ifndef CLATTN_SRC_SPACE_H
#define CLATTN_SRC_SPACE_H

#include <stddef.h>
#include <stdint.h>

enum { MAX_PARAMETERS = 16, MAX_VALUES = 10, MAX_SPACES = 28, BY_THUMB = -1 };

/* One number: a field of struct tiles in one or more kernels. */
struct parameter {
    const char *name;               /* "scan.block_v" */
    uint64_t kernels;               /* bits 1 << KERNEL_…: those whose tiles have it */
    uint16_t field;                 /* offsetof(struct tiles, …) */
    int16_t values[MAX_VALUES + 1]; /* worth trying, rising; closed by BY_THUMB */
};

struct space {
    const char *name;                   /* the solver's */
    const struct parameter *parameters; /* closed by a row without name */
    int64_t tuned_rows;                 /* tokens of the sequences that it is tuned with */
    int64_t tuned_keys; /* and tokens of their keys; 0: as many. Not 0: lengths say nothing of when it is chosen */
    int engine;         /* whether it computes on a matrix engine */
    int format;         /* raised when a parameter changes its meaning: what was measured before is not used then */
};

/* Every space, by number, in no order that means anything; NULL past the last. */
const struct space *space_at(int index);
/* By the solver's name; NULL. */
const struct space *space_find(const char *name);

/* A point of a solver's space. */
struct tuned {
    const struct space *space;
    int values[MAX_PARAMETERS]; /* of space->parameters; BY_THUMB: the rule of thumb's */
};

/* All by rule of thumb. */
struct tuned tuned_default(const struct space *space);
/* Sets a parameter by name; 0 when the space has none of that name, or the value is none of its. */
int tuned_set(struct tuned *tuned, const char *name, int value);
int tuned_is_default(const struct tuned *tuned);
/* The kernels that a solver has parameters for: bits 1 << KERNEL_…. */
uint64_t space_kernels(const struct space *space);
/* How many points the space has, those that fit nothing too. */
double space_points(const struct space *space);
/* Whether value is one of the parameter's. */
int parameter_has(const struct parameter *parameter, int value);

#endif
