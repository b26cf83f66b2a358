/* The tensors of a safetensors file as the operands of a rule. */
#ifndef CLATTN_SRC_CLI_IO_OPERANDS_H
#define CLATTN_SRC_CLI_IO_OPERANDS_H

#include "check/check.h"
#include "cli/cli.h"
#include "cli/io/safetensors.h"

/* A problem whose inputs lie in a file's memory, or in their own where they had to be widened or aligned. */
struct operands {
    struct check_tensors tensors;
    void *owned[OPERAND_COUNT];
};

/* Derives the desc from the file's shapes and the settings, checks every tensor, allocates the outputs. EXIT_OK, or one
 * line naming path, tensor and what was expected. operands_free in both cases; before safetensors_free. */
int operands_bind(struct operands *operands, const struct settings *settings, const char *path,
                  const struct safetensors *file);
void operands_free(struct operands *operands);

/* A warning for each input that is not finite, or a log-decay above 0, with the number of such elements. */
void operands_warn(const struct operands *operands, const char *path);
/* The same of one tensor, in memory of any alignment, that is not finite. */
void tensor_warn(const char *path, const struct safetensor *tensor, clattn_dtype dtype);

/* Whether the operands of a completed desc can be counted at all; one line and EXIT_BAD if not. */
int operands_size_check(const clattn_plan_desc *desc);

/* The tensors of tensors that are outputs (or inputs), named and ready to be written; returns their number. */
size_t operands_list(const struct check_tensors *tensors, int outputs, struct safetensor list[OPERAND_COUNT]);

#endif
