/* alibi_attn and forgetting_attn in a ring: the log-decays between a block of keys and a query after it. A plan with
 * CLATTN_KEYS_BEFORE leaves them out, which are the same for all the block's keys; they are added to the lse of its part. */
#ifndef CLATTN_SRC_MPI_DECAYS_H
#define CLATTN_SRC_MPI_DECAYS_H

#include "mpi/halves.h"

struct decays {
    const struct halves *halves;
    int64_t heads;
    float *totals;        /* [half of all][batch][head]: Σ g of its tokens, owned */
    float *own;           /* the same of the rank's own two halves, owned */
    float *up_to[HALVES]; /* [batch][token][head] of a half that it computes: Σ g from its first token on, owned */
};

/* Nothing is allocated for a rule without such decays. decays_free in all cases; of zeros, too. */
clattn_status decays_prepare(struct decays *decays, const struct halves *halves);
void decays_free(struct decays *decays);
/* Collective, after halves_send: the sums of all ranks' tokens. */
clattn_status decays_share(struct decays *decays);
/* What lies between the last key of a rank's block and each query of half h: [batch][token][head]. */
void decays_between(const struct decays *decays, int h, int owner, float *between);

#endif
