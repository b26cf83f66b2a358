/* A row of the table of options. */
#ifndef CLATTN_SRC_CLI_IO_OPTION_TABLE_H
#define CLATTN_SRC_CLI_IO_OPTION_TABLE_H

#include "cli/cli.h"

/* Beside the subcommands' bits: what verify tells each of its worker processes itself. They are given the rest as
 * typed. */
enum { PER_WORKER = 1 << 16 };

struct option {
    const char *name;
    char letter;          /* '\0': none */
    const char *argument; /* NULL: takes none */
    unsigned commands;
    size_t offset; /* without take: of the text, or of the int that becomes 1 */
    int (*take)(struct settings *settings, const char *text);
    const char *help; /* NULL: of worker processes alone, and not shown */
};

/* In the place of an offset: --option has it by the same name; without an argument it is "on". */
#define OF_DESC SIZE_MAX

/* Into the settings, as given. `what` names it in an error. */
int take_desc_option(struct settings *settings, enum option_id option, const char *what, const char *text);

extern const struct option options[];
extern const size_t option_count;

#endif
