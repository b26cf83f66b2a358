/* A file that appears at its path complete or not at all. */
#ifndef CLATTN_SRC_CLI_IO_OUTPUT_H
#define CLATTN_SRC_CLI_IO_OUTPUT_H

#include "cli/cli.h"
#include "cli/io/safetensors.h"

/* Where outputs go: a path, or "-" for standard output. */
struct output {
    const char *path;
    int keep; /* a file that is there is not replaced */
    int ask;  /* where it is, and there is somebody at a terminal, output_check asks */
};
/* As the options have it. */
struct output output_of(const struct settings *settings, const char *path);

/* Whether it can be written; asked before long work. EXIT_OK, or one line and EXIT_BAD. Leaves nothing. */
int output_check(const struct output *output);

/* Writes the tensors to a file without a name, else a temporary one beside path (base/file.h), and puts it in its
 * place; a failure, SIGINT and SIGTERM remove it.
 * EXIT_OK, or one line and EXIT_BAD or EXIT_FAILED; of standard output main says what fails. */
int output_write(const struct output *output, const struct safetensor *tensors, size_t count,
                 const struct cJSON *metadata);

/* The same of what write puts into the file: 0, or -1 with errno. */
int output_write_by(const struct output *output, int (*write)(FILE *file, const void *user), const void *user);

#endif
