/* A rule with a state: one sequence and one head of it, in double precision. */
#ifndef CLATTN_SRC_REFERENCE_HEAD_H
#define CLATTN_SRC_REFERENCE_HEAD_H

#include "reference/number.h"
#include "reference/task.h"

/* One head's state and the rows of the token at hand. */
struct head {
    const struct task *task;
    int64_t sequence, state, batch, head, key_head, first, tokens; /* state: its place in the pool, -1 for none */
    int64_t K, V;
    int units;              /* v are unit vectors, V the sequence's rows: what is read are rows of attn */
    int64_t levels;         /* states; 1 unless the rule has levels */
    uint32_t position;      /* with levels: the tokens before the one at hand */
    double *states, *S, *z; /* [levels][K][V]; the state at hand; [K]: z of normalize, n of mlstm */
    double *R;              /* [K][K]: the gram matrix of mesa_net's keys; NULL: the rule has none */
    double m;
    double *q, *k, *p, *e, *decay, *value_decay, *x, *pS, *o, *step;
};

static inline const struct tensor *head_tensor(const struct head *head, clattn_operand_id id)
{
    return &head->task->tensors[id];
}

/* Element index of a token's row; rows are counted from the sequence's start. */
static inline double head_element(const struct head *head, clattn_operand_id id, int64_t row, int64_t first, int64_t h,
                                  int64_t index)
{
    const struct tensor *tensor = head_tensor(head, id);
    const struct view *view = &tensor->view;
    int64_t at = view->offset + head->batch * view->batch + (first + row) * view->token + h * view->head + index;

    return number_load(tensor->dtype, tensor->data, at);
}

/* ---- Rows ---------------------------------------------------------------------------------------------------------
 */

/* A row of q, k or p after its rope; what it is multiplied by to be normalised (1 where it is not); and the row
 * normalised and mapped, of one 1 where the rule has no such operand. Rows are counted from `first`, h is its head. */
void head_load_turned(const struct head *head, clattn_operand_id id, int64_t row, int64_t first, int64_t h, double *to);
/* The token of a row of q, k or p, as the sequence lies in memory. */
int64_t head_token(const struct head *head, clattn_operand_id id, int64_t row);
double head_norm(const struct head *head, const double *row);
void head_load_key(const struct head *head, clattn_operand_id id, int64_t row, int64_t first, int64_t h, double *to);
/* v as it is, into head->x; or a unit vector. */
void head_load_value(const struct head *head, int64_t row, int64_t first);
/* What is written beside k into head->x; returns its strength, by which x is not multiplied yet. Of mLSTM the decay and
 * head->m become those of the row. */
double head_load_write(struct head *head, int64_t row, int64_t first);
/* p and e of the erase: S <- S - e (p^T S). head->k is loaded. */
void head_load_erase(struct head *head, int64_t row, int64_t first, double strength);

/* ---- Solved reads (gram.c) ----------------------------------------------------------------------------------------
 */

/* Floats of memory that a head needs for its gram matrix and the solutions of one token; 0: the rule has none. */
int64_t head_gram_memory(const struct problem *problem);
/* R <- e^g R + strength k k^T: head->k and head->decay are loaded. */
void head_gram_update(struct head *head, double strength);
/* Replaces head->q by x with (R + diag(ridge)) x = q: solved, or after the desc's steps of conjugate gradients. */
void head_solve(struct head *head);

/* ---- States -------------------------------------------------------------------------------------------------------
 */

/* The n-th head of queries that reads the state. */
int64_t head_of_read(const struct head *head, int64_t n);

/* Which tokens the job's sequence has, and which state of the pool. */
void head_place(struct head *head);

/* S, z and m as the caller gives them, else of no tokens; and left to the caller. */
void head_begin(struct head *head);
void head_end(const struct head *head);
/* The state after so many of the sequence's tokens, where the caller wants it. */
void head_leave(const struct head *head, int64_t tokens);

/* The log-decay that the rule's gate says of a token, of its n-th channel. */
double head_gate(const struct head *head, int64_t token, int64_t n);
/* The decay of a token, as factors of S's rows and columns; all tokens of a step but the first have none. */
void head_factors(struct head *head, int64_t token);
/* S <- D S and z <- D z, for the token of that row after `first`. */
void head_decay(struct head *head, int64_t row, int64_t first);

#endif
