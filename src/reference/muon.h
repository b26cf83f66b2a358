/* Muon in double precision: the matrix near D whose singular values are about 1. */
#ifndef CLATTN_SRC_REFERENCE_MUON_H
#define CLATTN_SRC_REFERENCE_MUON_H

#include "clattn.h"

enum { MUON_SCRATCH = 4 };

/* Writes it to `to`, which may be D; [rows][columns] both. Each scratch array has room for the square of the larger of
 * rows and columns. */
void muon_orthogonalize(clattn_muon muon, int64_t rows, int64_t columns, const double *D,
                        double *const scratch[MUON_SCRATCH], double *to);

/* Σ x y; y += factor x */
double row_dot(int64_t n, const double *x, const double *y);
void row_add(int64_t n, double factor, const double *x, double *y);
void row_clear(int64_t n, double *x);

#endif
