/* A file that appears at its path complete or not at all. */
#ifndef CLATTN_SRC_CLI_OUTPUT_H
#define CLATTN_SRC_CLI_OUTPUT_H

#include "cli/cli.h"
#include "cli/safetensors.h"

#include <stdio.h>

struct output {
    FILE *file;
    const char *path;
    char *temporary; /* beside path; removed by output_close, SIGINT and SIGTERM */
};

/* Creates the temporary file. EXIT_OK, or one line and EXIT_BAD. output_close in both cases. */
int output_open(struct output *output, const char *path);
/* Writes the tensors and puts the file in its place. EXIT_OK, EXIT_FAILED. */
int output_commit(struct output *output, const struct safetensor *tensors, size_t count, const struct cJSON *metadata);
void output_close(struct output *output);

#endif
