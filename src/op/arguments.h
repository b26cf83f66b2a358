/* The operands of one call, by id. */
#ifndef CLATTN_SRC_ARGUMENTS_H
#define CLATTN_SRC_ARGUMENTS_H

#include "op/problem.h"

struct arguments {
    clattn_operand of[OPERAND_COUNT]; /* those that the call does not have are without memory */
    clattn_operand workspace;         /* buffer, offset and size */
    int64_t seq_len, batch, sequences, kv_len, tail;
};

/* Reads a caller's call, whose structs have the given sizes. INVALID_OPERAND, with the id's name: the problem does not
 * use the id, or it occurs twice. */
clattn_status arguments_read(struct arguments *arguments, const struct problem *problem, const clattn_call *call,
                             size_t call_size, size_t operand_size, const struct log *log);

/* The inverse: lists the operands that have memory, in an array of OPERAND_COUNT to which the call points. */
clattn_call arguments_call(const struct arguments *arguments, clattn_operand *list);

#endif
