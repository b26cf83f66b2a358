/* The one table of options, read for every subcommand. */
#ifndef CLATTN_SRC_CLI_OPTIONS_H
#define CLATTN_SRC_CLI_OPTIONS_H

#include "cli/cli.h"

#include <stdio.h>

/* Fills settings (zeroed, command set) from the words after the subcommand. EXIT_OK or EXIT_BAD. */
int options_read(struct settings *settings, int count, char **words);
void options_free(struct settings *settings);
/* What the command takes, one line an option. */
void options_print(FILE *file, const struct command *command);

#endif
