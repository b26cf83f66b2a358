/* Prints the manual page and the shells' completions, from the tables of commands and options. */
#ifndef CLATTN_SRC_CLI_OUT_GENERATE_H
#define CLATTN_SRC_CLI_OUT_GENERATE_H

#include "cli/cli.h"

/* what: "man", "bash", "zsh" or "fish". EXIT_OK, or one line and EXIT_BAD. */
int generate(const char *what, const struct command *commands, size_t count);

#endif
