/* What the forward and the backward pass of a piece share in the reference. */
#ifndef CLATTN_SRC_REFERENCE_PIECE_H
#define CLATTN_SRC_REFERENCE_PIECE_H

#include "reference/task.h"

/* The tokens and the state of a job: of one sequence and one head. */
struct rows {
    const struct task *task;
    const clattn_plan_desc *desc;
    int64_t sequence, batch, head, first, tokens;
    int64_t state, start; /* its slot in the pool, -1: none; which of its states it begins with, -1: zeros */
};

struct rows rows_of_job(const struct task *task, int64_t job);
/* An element of the head's row of an operand. */
double rows_load(const struct rows *rows, clattn_operand_id id, int64_t batch, int64_t row, int64_t index);
int rows_has(const struct rows *rows, clattn_operand_id id);

/* short_conv: input c at a token relative to the first, before which the initial state stands; and the sum of the taps
 * with the bias, before the activation. */
double conv_input(const struct rows *rows, int64_t token, int64_t c);
double conv_sum(const struct rows *rows, int64_t token, int64_t c);

/* rms_norm: the factor that z gives in that place, 1 where it gates elsewhere; the number that is normalised, without
 * such a factor; the divisor of a row with that mean square. */
double norm_gate(const struct rows *rows, int64_t token, int64_t c, clattn_gating where);
double norm_input(const struct rows *rows, int64_t token, int64_t c);
double norm_divisor(const clattn_plan_desc *desc, double mean);

/* features: the rows of omega, and the factor of v. y[j] = omega_j x, and returns the sum of x's squares, where
 * x = scale v. Element j of the softmax of sign * y. */
int64_t features_count(const clattn_plan_desc *desc);
double features_scale(const clattn_plan_desc *desc);
double features_project(const struct rows *rows, int64_t token, double scale, int64_t m, double *y);
double features_soft(const double *y, int64_t m, int64_t j, double sign);

#endif
