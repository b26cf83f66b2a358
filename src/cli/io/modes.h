/* The modes of a rule, of those that a command was asked for. */
#ifndef CLATTN_SRC_CLI_IO_MODES_H
#define CLATTN_SRC_CLI_IO_MODES_H

#include "cli/cli.h"

struct modes {
    clattn_mode at[MODE_COUNT];
    size_t count;
};

/* --mode, or without it the first modes that there are. */
struct modes modes_wanted(const struct settings *settings, size_t without);
/* Those that the rule has a solver of. What is left out of --mode is said in a line; a rule of the command line with
 * none left is one line and EXIT_BAD. */
int modes_choose(const struct settings *settings, const struct modes *wanted, clattn_rule rule, struct modes *modes);
/* "auto,chunk", as --mode takes them. */
const char *modes_name(const struct modes *modes, char *text, size_t size);

#endif
