/* Which of the wanted modes a rule has. */
#ifndef CLATTN_SRC_CLI_IO_MODES_H
#define CLATTN_SRC_CLI_IO_MODES_H

#include "cli/cli.h"

struct modes {
    clattn_mode at[MODE_COUNT];
    size_t count;
};

/* The modes of --mode. Without it the first `without` modes. */
struct modes modes_wanted(const struct settings *settings, size_t without);
/* Keeps the modes for which the rule has a solver. Prints a line about those of --mode that it drops. If nothing is
 * left for a rule that the user named: one line and EXIT_BAD. */
int modes_choose(const struct settings *settings, const struct modes *wanted, clattn_rule rule, struct modes *modes);
/* "auto,chunk", as --mode reads them. */
const char *modes_name(const struct modes *modes, char *text, size_t size);

#endif
