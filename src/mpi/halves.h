/* Lists: which queries a rank computes. The tokens are cut into two halves a rank, and a query reads the more keys the
 * later it is: of R ranks, rank r computes the r-th half and the (2R - 1 - r)-th, so that all have the same to do, though
 * it has the 2r-th and the next one. Queries go to the rank that computes them, and outputs come back. */
#ifndef CLATTN_SRC_MPI_HALVES_H
#define CLATTN_SRC_MPI_HALVES_H

#include "mpi/mpi.h"

enum { TRADED_Q, TRADED_G, TRADED_O, TRADED_LSE, TRADED, HALVES = 2 };

/* q, o or lse; in a ring g, too */
struct traded {
    clattn_operand_info info;
    size_t row;       /* bytes of a token; 0: the problem has none */
    char *own;        /* of the rank's tokens, on the host */
    void *copy;       /* the same if it is not the caller's memory, owned */
    char *of[HALVES]; /* of the halves that it computes, owned */
};

struct half {
    int number; /* among all */
    int64_t first, count;
    struct part part;
};

struct halves {
    clattn_mpi_plan *plan;
    struct part *part;
    int64_t batch;
    struct half half[HALVES];
    struct traded traded[TRADED];
};

/* The tokens of a half, by its number among all; after the last one: where they end, and none. */
void halves_place(const struct halves *halves, int number, int64_t *first, int64_t *count);

clattn_status halves_prepare(struct halves *halves, clattn_mpi_plan *plan, struct part *part);
/* Collective: queries go to the ranks that compute them. */
clattn_status halves_send(struct halves *halves);
/* Runs the plan on both, with the keys that the part has now. */
clattn_status halves_run(struct halves *halves);
/* Collective: outputs come to the ranks that have their tokens. */
clattn_status halves_return(struct halves *halves);
/* In all cases; of zeros, too. */
void halves_free(struct halves *halves);

#endif
