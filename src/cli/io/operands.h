/* Binds the tensors of a safetensors file to the operands of a rule. */
#ifndef CLATTN_SRC_CLI_IO_OPERANDS_H
#define CLATTN_SRC_CLI_IO_OPERANDS_H

#include "check/check.h"
#include "cli/cli.h"
#include "cli/io/safetensors.h"

/* A problem whose inputs lie in a file's memory, or in memory of their own if they had to be widened or aligned. */
struct operands {
    struct check_tensors tensors;
    void *owned[OPERAND_COUNT];
};

/* Derives the desc from the file's shapes and the settings, checks every tensor, and allocates the outputs. EXIT_OK, or
 * one line with the path, the tensor and what was expected. operands_free in both cases, before safetensors_free. */
int operands_bind(struct operands *operands, const struct settings *settings, const char *path,
                  const struct safetensors *file);
void operands_free(struct operands *operands);

/* Warns of each input that has elements which are not finite, or log-decays above 0, and counts them. Collective with
 * ranks (may be NULL), each of which has a part: elements are those of all. A tensor whose data is NULL has none here. */
void operands_warn(const struct operands *operands, const char *path, const struct ranks *ranks);
/* The same for one tensor of any alignment and its elements that are not finite. */
void tensor_warn(const char *path, const struct safetensor *tensor, clattn_dtype dtype);

/* Checks that the sizes of a completed desc's operands do not overflow. EXIT_OK, or one line and EXIT_BAD. */
int operands_size_check(const clattn_plan_desc *desc);

/* Lists the outputs (or the inputs) of tensors for safetensors_write. Returns their number. */
size_t operands_list(const struct check_tensors *tensors, int outputs, struct safetensor list[OPERAND_COUNT]);

#endif
