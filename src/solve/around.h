/* What a problem asks for around its solver. */
#ifndef CLATTN_SRC_SOLVE_AROUND_H
#define CLATTN_SRC_SOLVE_AROUND_H

#include "solve/builder.h"

/* Rotary positions, where the problem has them: from here on q, k and the erase keys are those that have turned. */
clattn_status around_rope(struct builder *b);

#endif
