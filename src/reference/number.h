/* The storage types on the host. */
#ifndef CLATTN_SRC_REFERENCE_NUMBER_H
#define CLATTN_SRC_REFERENCE_NUMBER_H

#include "clattn.h"

/* Element index of an array of that type. Stores round to nearest even. */
double number_load(clattn_dtype dtype, const void *array, int64_t index);
void number_store(clattn_dtype dtype, void *array, int64_t index, double value);

/* log(1 + e^x) */
double number_softplus(double x);

/* The largest relative error of forward outputs that is right, by storage type: the one table of bounds. */
double number_bound(clattn_dtype dtype);

#endif
