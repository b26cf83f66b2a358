/* What the states of ranks and the gradients by them share. */
#ifndef CLATTN_SRC_MPI_STATES_H
#define CLATTN_SRC_MPI_STATES_H

#include "mpi/mpi.h"

enum { STATE, NORMALIZER, STABILIZER, TRANSITION, FIELDS };

/* The floats of a summary of all sequences and heads, one field after the other. Gradients have those before the
 * transition. */
struct layout {
    size_t count[FIELDS], at[FIELDS], total; /* count 0: the rule has no such field */
    size_t row;                              /* of the state: floats of a sequence */
};

struct states {
    clattn_mpi_plan *plan;
    struct part *part;
    struct layout layout;
    clattn_plan_desc desc;             /* of the fold: with the call's sequences */
    float *own, *all, *state, *unused; /* all in the memory of own */
    void *output;                      /* o of the summary, owned; or NULL */
    /* Of the backward pass: the gradient by the state before this rank's tokens if that after has none; all ranks'; the
     * gradient by the state after this rank's tokens. All in the memory of back. */
    float *back, *back_all, *gradient;
};

/* The field in memory of this layout; NULL: the rule has no such field. */
float *field_of(const struct states *s, float *memory, int field);
size_t field_bytes(const struct states *s, int field);
/* The caller's state, or the gradient by one, as one contiguous field. */
clattn_status pack_field(struct states *s, const clattn_operand *operand, const clattn_operand_info *info, float *to);
/* *part becomes the part with those of its operands that a plan of desc reads. */
void take_operands(const struct states *s, const clattn_plan_desc *desc, struct part *part);
/* The tokens of a sequence on a rank. */
int64_t tokens_on(const struct states *s, int rank, int64_t sequence);
/* Collective: every rank's floats, in their order; and one rank's. */
clattn_status gather_floats(struct states *s, const float *own, float *all, size_t count);
clattn_status broadcast_floats(struct states *s, float *at, size_t count, int root);

/* ---- The backward pass (gradients.c) ------------------------------------------------------------------------------ */

/* Allocates, and reads the caller's gradient by the final state on the rank where sequences end. */
clattn_status gradients_begin(struct states *s);
/* Collective, after the fold of states: comes to the gradient by the state after this rank's tokens. */
clattn_status gradients_fold(struct states *s);
/* Puts it in the part, and takes the gradient by the initial state out of those of ranks where no sequence begins. */
clattn_status gradients_bind(struct states *s, struct part *part);

#endif
