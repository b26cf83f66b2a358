/* Inputs of a file, one by one. */
#ifndef CLATTN_SRC_CLI_IO_BINDING_H
#define CLATTN_SRC_CLI_IO_BINDING_H

#include "cli/io/operands.h"
#include "op/problem.h"

enum { NO_DTYPE = -1 };

/* What binding has at hand. */
struct binding {
    struct operands *to;
    const char *path;
    const struct safetensors *file;
    const struct rule *rule;
};

/* The file's tensor of that name, or NULL. */
const struct safetensor *binding_find(const struct binding *binding, clattn_operand_id id);
/* Its dtype, or NO_DTYPE where operands have none such. */
int tensor_dtype(const struct safetensor *tensor);

/* One line, and EXIT_BAD. */
int binding_bad_dtype(const struct binding *binding, const struct safetensor *tensor, const char *expected);
int binding_bad_shape(const struct binding *binding, const struct safetensor *tensor, const char *expected);

/* Memory of its own, all 0, for an operand whose info is known. */
int binding_allocate(const struct binding *binding, clattn_operand_id id, size_t element);
/* The file's tensor as the operand, where it lies or in memory of its own; with cuts of 64 bits, is_64. */
int binding_input(const struct binding *binding, const struct operand_row *row, int is_64);
/* Its whole numbers: cuts, lengths and places of states. */
int binding_check(const struct binding *binding, const struct problem *problem, const struct extent *extent);

#endif
