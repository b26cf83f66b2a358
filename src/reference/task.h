/* What the reference computes, bound to the caller's memory; a job is one sequence and one head. */
#ifndef CLATTN_SRC_REFERENCE_TASK_H
#define CLATTN_SRC_REFERENCE_TASK_H

#include "op/problem.h"

#include <stdatomic.h>

struct tensor {
    void *data; /* NULL: the problem does not use it */
    struct view view;
    clattn_dtype dtype;
};

struct task {
    const struct problem *problem;
    struct extent extent;
    struct tensor tensors[OPERAND_COUNT];
    int transition; /* what a summary keeps is computed: a unit state is the initial one, and nothing is written */
    int units;      /* unit vectors are in the place of v, and attn in that of o */
    atomic_int out_of_memory;
};

/* The operands of a task whose extent is set. INVALID_OPERAND. */
clattn_status task_bind(struct task *task, const struct arguments *arguments, const struct log *log);

/* cu_seqlens[index] */
int64_t task_cut(const struct problem *problem, const struct tensor *tensor, int64_t index);

/* Where the state of a sequence lies among all; -1: it has none, begins from zero and is not written. */
int64_t task_state(const struct task *task, int64_t sequence);

/* Which of its states of the previous call a sequence begins with; -1: it begins from zero. 0 without accepted. */
int64_t task_start(const struct task *task, int64_t sequence);
/* Which of the states on the way is the one after so many of a sequence's tokens; -1: it is not returned. */
int64_t task_snapshot(const struct task *task, int64_t tokens, int64_t done);

/* log(1 + e^x) within the desc's limits of steps, and whether it is at one of them. */
double task_step(const clattn_plan_desc *desc, double x);
int task_step_is_limited(const clattn_plan_desc *desc, double step);

/* After all jobs: writes the positions after the sequences, of levels. The memory may be that of the positions before. */
void task_move_positions(const struct task *task);

/* The log-decay of a gate's number x with its bias, for that e^a_log. */
double task_gate(const clattn_plan_desc *desc, double x, double rate);
/* Its derivatives by x and by a_log. */
struct gate_slopes {
    double by_number, by_rate;
};
struct gate_slopes task_gate_slopes(const clattn_plan_desc *desc, double x, double rate);

/* The first rope_dim numbers of a row of a sequence's token, turned. */
void task_turn(const struct task *task, int64_t sequence, int64_t token, double *row);
/* The same of q, k or p of a rule, rounded as they are stored; where nothing turns the row is left. */
void task_turn_key(const struct task *task, clattn_operand_id id, int64_t sequence, int64_t token, double *row);

/* The gradient by such a row before it was turned, of that by the row after; nothing where no row turns. */
void task_turn_back(const struct task *task, int64_t sequence, int64_t token, double *row);

/* Stores an element of the gradient by the operand, or adds it to what is there. */
void task_leave(const struct task *task, clattn_operand_id id, int64_t at, double value);
/* The backward pass of a piece, over the tensors of the task. OUT_OF_MEMORY. */
clattn_status piece_back_run(struct task *task, const struct log *log);
/* The same of a rule of a state, over the tensors of the task. OUT_OF_MEMORY. */
clattn_status adjoint_run(struct task *task, const struct log *log);
/* A job of a rule whose state is a list; user is a struct task. */
void list_head(void *user, int64_t job);
/* A job of a piece. */
void piece_head(void *user, int64_t job);
/* A job of lact, and of the other learners. */
void learner_head(void *user, int64_t job);
void ttt_head(void *user, int64_t job);
/* The same of a sequence and key head, ahead of these: what CLATTN_APPEND writes. */
void list_append(void *user, int64_t job);
/* And after them: what CLATTN_CARRY makes of keys. */
void list_carry(void *user, int64_t job);

#endif
