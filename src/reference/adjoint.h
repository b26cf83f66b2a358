/* adjoint: the backward pass of a rule of a state. adjoint.c has what a row does, adjoint_heads.c the heads and what they share. */
#ifndef CLATTN_SRC_REFERENCE_ADJOINT_H
#define CLATTN_SRC_REFERENCE_ADJOINT_H

#include "reference/head.h"

/* What tokens or sequences share: a number for each sequence and head, which are added in order at the end. */
enum shared { SHARED_GATE, SHARED_BONUS, SHARED_RATE, SHARED_BIAS, SHARED_COUNT };

struct adjoint_task {
    struct task *task;
    double *sums[SHARED_COUNT]; /* [sequence][head][width]; NULL: nothing is shared */
    int64_t width[SHARED_COUNT];
};

/* One head of a sequence at work. */
struct adjoint {
    const struct adjoint_task *of;
    struct head head;
    int64_t K, V, columns, rows, stretch;   /* columns: V, and one of a denominator */
    double *kept;                           /* [stretches][K][columns]: states before the first row of each stretch */
    double *before;                         /* [stretch][K][columns]: before each row of one stretch */
    double *stabilizers;                    /* [rows]: m before each row */
    double *decayed, *after, *dS;           /* [K][columns]: S', S and dS */
    double *u, *du, *dx, *do_, *value_flow; /* [columns] */
    double *dkappa, *de, *dp, *flow, *dkey; /* [K] */
    double *dq, *dk, *dp_rows; /* of the heads that share q, k and p: [reads][tokens][K], [rows][K], [tokens][K] */
    double strength;
};

/* Stores an element of the gradient by an operand, of a row of a head, or adds it to what is there. */
void adjoint_put(const struct head *head, clattn_operand_id id, int64_t row, int64_t first, int64_t h, int64_t index,
                 double value);
/* Rows of a token. */
int64_t adjoint_steps(const struct adjoint *a);

/* From the state before the sequence, in after: the states before each stretch of rows, and the last in after. */
void adjoint_forward(struct adjoint *a);
/* The states before each row of a stretch. */
void adjoint_again(struct adjoint *a, int64_t stretch);

/* A token's reads of a state, which dS gains. */
void adjoint_reads_back(struct adjoint *a, const double *S, int64_t token);
/* A row of a token, with the token's reads at its first or last row. dS becomes the gradient by the state before it. */
void adjoint_row_back(struct adjoint *a, int64_t row, const double *before);

#endif
