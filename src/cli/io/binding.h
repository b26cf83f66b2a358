/* Binds the inputs of a file to operands, one by one. */
#ifndef CLATTN_SRC_CLI_IO_BINDING_H
#define CLATTN_SRC_CLI_IO_BINDING_H

#include "cli/io/operands.h"
#include "op/problem.h"

enum { NO_DTYPE = -1 };

/* What these functions work on. */
struct binding {
    struct operands *to;
    const char *path;
    const struct safetensors *file;
    const struct rule *rule;
};

/* The file's tensor with the operand's name, or NULL. */
const struct safetensor *binding_find(const struct binding *binding, clattn_operand_id id);
/* Its dtype, or NO_DTYPE if no operand has such a type. */
int tensor_dtype(const struct safetensor *tensor);

/* Print one line and return EXIT_BAD. */
int binding_bad_dtype(const struct binding *binding, const struct safetensor *tensor, const char *expected);
int binding_bad_shape(const struct binding *binding, const struct safetensor *tensor, const char *expected);

/* Allocates memory, all 0, for an operand whose info is known. */
int binding_allocate(const struct binding *binding, clattn_operand_id id, size_t element);
/* Binds the file's tensor to the operand: where it lies, or a copy. is_64: cu_seqlens has 64 bits. */
int binding_input(const struct binding *binding, const struct operand_row *row, int is_64);
/* Checks operands of whole numbers: boundaries of sequences, lengths, indices of states. */
int binding_check(const struct binding *binding, const struct problem *problem, const struct extent *extent);

#endif
