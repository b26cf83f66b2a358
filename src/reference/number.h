/* The storage types on the host. Arrays need not be aligned. */
#ifndef CLATTN_SRC_REFERENCE_NUMBER_H
#define CLATTN_SRC_REFERENCE_NUMBER_H

#include "clattn.h"

/* Element `index` of an array of that type. Stores round to nearest even. */
double number_load(clattn_dtype dtype, const void *array, int64_t index);
void number_store(clattn_dtype dtype, void *array, int64_t index, double value);
/* The same for integers: int32 or int64. */
int64_t number_index(const void *array, int64_t index, int is_64);

double number_round(clattn_dtype dtype, double value);

/* log(1 + e^x) */
double number_softplus(double x);

/* The largest relative error of correct forward outputs, by storage type. All bounds are defined here. */
double number_bound(clattn_dtype dtype);
/* The same for a problem. With Muon, whose small singular values are as small as rounding errors, it is 2e-2 in 16
 * bits, and where each token has a step of its own, of few directions, 2e-4 in f32: rounding noise in the others grows
 * up to 490 times. Of gradients 1e-4, and 8e-3 in 16 bits. */
double number_bound_of(const clattn_plan_desc *desc);

#endif
