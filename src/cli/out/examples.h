/* Examples for --help and the manual page. */
#ifndef CLATTN_SRC_CLI_OUT_EXAMPLES_H
#define CLATTN_SRC_CLI_OUT_EXAMPLES_H

#include "cli/cli.h"

/* Example number `index` of the command, from 0 on. NULL past the last. */
const char *example_get(const struct command *command, size_t index);

#endif
