/* Lines to begin with, of --help and the manual page. */
#ifndef CLATTN_SRC_CLI_OUT_EXAMPLES_H
#define CLATTN_SRC_CLI_OUT_EXAMPLES_H

#include "cli/cli.h"

/* The command's example of that number, from 0 on, as it is typed; NULL when it has no more. */
const char *example_get(const struct command *command, size_t index);

#endif
