/* What a problem asks for around its solver. */
#ifndef CLATTN_SRC_SOLVE_AROUND_H
#define CLATTN_SRC_SOLVE_AROUND_H

#include "solve/builder.h"

/* Rotary positions, where the problem has them: from here on q, k and the erase keys are those that have turned. */
clattn_status around_rope(struct builder *b);
/* The call's own keys and values, where they go into the cache ahead of all that reads it. */
clattn_status around_append(struct builder *b);

#endif
