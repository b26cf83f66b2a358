/* alibi_attn's decay of a head. */
#ifndef CLATTN_SRC_OP_ALIBI_H
#define CLATTN_SRC_OP_ALIBI_H

#include "clattn.h"

/* 2^(-8(h+1)/H) for H a power of two; else those of the power n below, then every second one of 2n's. Negative, as a
 * log-decay. */
double alibi_decay(const clattn_plan_desc *desc, int64_t head);

#endif
