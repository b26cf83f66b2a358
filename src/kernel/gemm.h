/* What the kernels of matrix products share on the host. */
#ifndef CLATTN_SRC_KERNEL_GEMM_H
#define CLATTN_SRC_KERNEL_GEMM_H

#include "kernel/kernel.h"

/* What both kernels on matrix engines are of. */
void gemm_lay_out_engine(const struct variant *variant, struct layout *layout);
void gemm_describe(struct text *text, const struct variant *variant, const struct layout *layout);

#endif
