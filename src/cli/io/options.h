/* Parses the command line by one table of options for all subcommands. */
#ifndef CLATTN_SRC_CLI_IO_OPTIONS_H
#define CLATTN_SRC_CLI_IO_OPTIONS_H

#include "cli/cli.h"

#include <stdio.h>

/* Fills settings, which is zero except for the command, from the words after the subcommand. EXIT_OK or EXIT_BAD. */
int options_read(struct settings *settings, int count, char **words);
void options_free(struct settings *settings);
/* Option number `index` of the command, from 0 on. Returns 0 past the last. */
struct option_info {
    const char *name, *argument, *help; /* argument is NULL if it takes no value */
    char letter;                        /* '\0': none */
};
int options_get(const struct command *command, size_t index, struct option_info *info);
/* Prints one line for each option of the command. */
void options_print(FILE *file, const struct command *command);

#endif
