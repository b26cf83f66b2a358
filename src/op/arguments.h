/* The operands of one call, by id. */
#ifndef CLATTN_SRC_ARGUMENTS_H
#define CLATTN_SRC_ARGUMENTS_H

#include "op/problem.h"

struct arguments {
    clattn_operand of[OPERAND_COUNT]; /* without memory where the call has none */
    clattn_operand workspace;         /* buffer, offset and size */
    int64_t seq_len, batch, sequences, kv_len, tail;
};

/* A caller's call in structs of the sizes given. INVALID_OPERAND, naming it, for an id that the problem does not use or
 * that comes twice. */
clattn_status arguments_read(struct arguments *arguments, const struct problem *problem, const clattn_call *call,
                             size_t call_size, size_t operand_size, const struct log *log);

/* The other way: the operands that have memory, in a list of OPERAND_COUNT that the call points to. */
clattn_call arguments_call(const struct arguments *arguments, clattn_operand *list);

#endif
