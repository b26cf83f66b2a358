/* The storage types on the host. */
#ifndef CLATTN_SRC_REFERENCE_NUMBER_H
#define CLATTN_SRC_REFERENCE_NUMBER_H

#include "op/rule.h"

/* Element index of an array of that type. Stores round to nearest even. */
double number_load(clattn_dtype dtype, const void *array, int64_t index);
void number_store(clattn_dtype dtype, void *array, int64_t index, double value);

double number_round(clattn_dtype dtype, double value);

/* The desc that has the same inputs in f32, and outputs to hold a device's to. With CLATTN_WITH_ROPE q, k and p stay as
 * they are stored: turned they are rounded to that. */
void number_widen(clattn_plan_desc *desc);
/* Whether the operand is stored as such a desc's operand_types say. */
int number_is_listed(const clattn_plan_desc *desc, clattn_operand_id id);

/* log(1 + e^x) */
double number_softplus(double x);

/* The largest relative error of forward outputs that is right, by storage type: the one table of bounds. */
double number_bound(clattn_dtype dtype);
/* The same of a problem: with muon, whose small singular values are of rounding's size, 2e-2 in 16 bits. */
double number_bound_of(const clattn_plan_desc *desc);

#endif
