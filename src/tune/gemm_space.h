/* What tuning may choose of matrix products, and by which key it is remembered. */
#ifndef CLATTN_SRC_GEMM_SPACE_H
#define CLATTN_SRC_GEMM_SPACE_H

#include "device/context.h"
#include "op/gemm.h"
#include "tune/tuning_table.h"

/* A provider's space by its name, "gemm_plain" …; NULL. */
const struct space *gemm_space_find(const char *name);
/* Whether the divisors of a point of CLBlast's space divide, as CLBlast's own tuner demands of its kernel Xgemm, GEMMK
 * 0. CLBlast checks nothing: with others it computes something else, or ends a driver's compiler. */
int gemm_clblast_sound(const struct tuned *tuned, size_t most_group);
/* The entry's key: device, engine, type, how A and B lie, sizes rounded up to powers of two. */
void gemm_key(struct tuning_entry *entry, const clattn_context *context, const struct gemm *gemm,
              const struct space *space);

#endif
