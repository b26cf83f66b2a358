/* A file that appears at its path complete or not at all. */
#ifndef CLATTN_SRC_CLI_OUTPUT_H
#define CLATTN_SRC_CLI_OUTPUT_H

#include "cli/cli.h"
#include "cli/safetensors.h"

/* Whether a file can be written at path; asked before long work. EXIT_OK, or one line and EXIT_BAD. Leaves nothing. */
int output_check(const char *path);

/* Writes the tensors to a temporary file beside path and puts it in its place; a failure, SIGINT and SIGTERM remove it.
 * EXIT_OK, or one line and EXIT_BAD or EXIT_FAILED. */
int output_write(const char *path, const struct safetensor *tensors, size_t count, const struct cJSON *metadata);

#endif
