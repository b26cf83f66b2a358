/* The matrix products that `clattn gemm` and `clattn tune --gemm` were asked for. */
#ifndef CLATTN_SRC_CLI_GEMM_H
#define CLATTN_SRC_CLI_GEMM_H

#include "cli/cli.h"

/* Every shape with every type; without --shape one of 1024 in each dimension, without --dtype f32. */
size_t gemm_desc_count(const struct settings *settings);
/* EXIT_OK, or one line and EXIT_BAD. */
int gemm_desc_get(const struct settings *settings, size_t index, clattn_gemm_desc *desc);

#endif
