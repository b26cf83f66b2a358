/* By which key it is remembered what was measured of matrix products. */
#ifndef CLATTN_SRC_GEMM_KEY_H
#define CLATTN_SRC_GEMM_KEY_H

#include "solve/gemm/gemm.h"
#include "tune/tuning_table.h"

/* The entry's key: device, engine, type, how A and B lie, sizes rounded up to powers of two. */
void gemm_key(struct tuning_entry *entry, const clattn_context *context, const struct gemm *gemm,
              const struct space *space);

#endif
