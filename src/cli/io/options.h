/* The one table of options, read for every subcommand. */
#ifndef CLATTN_SRC_CLI_IO_OPTIONS_H
#define CLATTN_SRC_CLI_IO_OPTIONS_H

#include "cli/cli.h"

#include <stdio.h>

/* Fills settings (zeroed, command set) from the words after the subcommand. EXIT_OK or EXIT_BAD. */
int options_read(struct settings *settings, int count, char **words);
void options_free(struct settings *settings);
/* The command's option of that number, from 0 on; 0 when it has no more. */
struct option_info {
    const char *name, *argument, *help; /* argument is NULL where it takes none */
    char letter;                        /* '\0': none */
};
int options_get(const struct command *command, size_t index, struct option_info *info);
/* What the command takes, one line an option. */
void options_print(FILE *file, const struct command *command);

#endif
