/* Tuning parameters of matrix products, and the keys under which measurements are stored. */
#ifndef CLATTN_SRC_GEMM_SPACE_H
#define CLATTN_SRC_GEMM_SPACE_H

#include "device/context.h"
#include "op/gemm.h"
#include "tune/tuning_table.h"

/* The space of a provider, by its name ("gemm_plain" …), or NULL. */
const struct space *gemm_space_find(const char *name);
/* Whether a point of CLBlast's space meets the divisibility constraints that CLBlast's own tuner demands of its kernel
 * Xgemm, GEMMK 0. CLBlast does not check them: with other points it computes something else, or crashes a driver's
 * compiler. */
int gemm_clblast_sound(const struct tuned *tuned, size_t most_group);
/* Fills the entry's key: device, engine, type, layout of A and B, and sizes rounded up to powers of two. */
void gemm_key(struct tuning_entry *entry, const clattn_context *context, const struct gemm *gemm,
              const struct space *space);

#endif
