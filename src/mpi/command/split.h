/* The ranks of the program clattn_mpi. */
#ifndef CLATTN_SRC_MPI_COMMAND_SPLIT_H
#define CLATTN_SRC_MPI_COMMAND_SPLIT_H

#include "mpi/mpi.h"

#include "cli/device/ranks.h"

struct split_ranks {
    struct ranks ranks; /* first, so that it can be cast back */
    clattn_mpi_split split;
    const char *input; /* the name of the file that tensors are from; NULL: none */
    char line[1024];   /* the error that this rank did not print; "": none */
};

void split_init(struct split_ranks *ranks);

#endif
