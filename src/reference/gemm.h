/* Matrix products on the host, in double precision: the oracle of those on devices. */
#ifndef CLATTN_SRC_REFERENCE_GEMM_H
#define CLATTN_SRC_REFERENCE_GEMM_H

#include "op/gemm.h"

/* D of every matrix of the batch, into out: [batch][m][n], touching. c is D as it was where the desc gives no C, and is
 * not read where beta is 0. */
void gemm_reference(const struct gemm *gemm, const void *a, const void *b, const void *c, double *out);

#endif
