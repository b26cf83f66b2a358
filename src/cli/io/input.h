/* Files of tensors that the command line names. */
#ifndef CLATTN_SRC_CLI_IO_INPUT_H
#define CLATTN_SRC_CLI_IO_INPUT_H

#include "cli/cli.h"
#include "cli/io/safetensors.h"

/* EXIT_OK, or one line and a code; safetensors_free in both cases. */
int input_read(const char *path, struct safetensors *file);
/* The same for a file of which little may be needed: safetensors_map. */
int input_map(const char *path, struct safetensors *file);
/* The path for messages: "standard input" for "-". */
const char *input_name(const char *path);

#endif
