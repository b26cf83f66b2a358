/* Several processes that divide a problem, those of the program clattn_mpi. Each of them runs the same command; the one
 * of rank 0 prints and writes. In the program clattn there are none: NULL, and every function is that of one process. */
#ifndef CLATTN_SRC_CLI_DEVICE_RANKS_H
#define CLATTN_SRC_CLI_DEVICE_RANKS_H

#include "check/check.h"
#include "cli/cli.h"

struct target;
struct measurement;

/* All functions are collective. */
struct ranks {
    int rank;
    /* EXIT_OK, or the code of the lowest rank whose status is another. That rank's line is printed. */
    int (*agree)(const struct ranks *ranks, int status);
    /* Each of the numbers becomes that of all ranks together. */
    void (*sum)(const struct ranks *ranks, int64_t *numbers, int count);
    /* As target_open_found, target_run and measure. Rank 0 gets the outputs of all. */
    int (*open)(const struct ranks *ranks, struct target *target);
    void (*close)(const struct ranks *ranks, struct target *target);
    clattn_status (*run)(const struct ranks *ranks, struct target *target, struct check_tensors *tensors,
                         char *plan_text, size_t text_size);
    clattn_status (*measure)(const struct ranks *ranks, struct target *target, const clattn_plan_desc *desc,
                             uint64_t seed, size_t runs, struct measurement *result);
};

static inline int ranks_agree(const struct ranks *ranks, int status)
{
    return ranks != NULL ? ranks->agree(ranks, status) : status;
}

/* Whether this process prints and writes. */
static inline int ranks_print(const struct ranks *ranks)
{
    return ranks == NULL || ranks->rank == 0;
}

#endif
