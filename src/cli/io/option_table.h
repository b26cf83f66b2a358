/* The rows of the table of options. */
#ifndef CLATTN_SRC_CLI_IO_OPTION_TABLE_H
#define CLATTN_SRC_CLI_IO_OPTION_TABLE_H

#include "cli/cli.h"

/* A bit beside those of the subcommands: verify sets the option itself for each worker process. All other options are
 * passed on as typed. */
enum { PER_WORKER = 1 << 16 };

struct option {
    const char *name;
    char letter;          /* '\0': none */
    const char *argument; /* NULL: the option takes no value */
    unsigned commands;
    size_t offset; /* if set is NULL: of the text, or of the int that becomes 1 */
    int (*set)(struct settings *settings, const char *text);
    const char *help; /* NULL: only for worker processes; not shown */
};

/* In place of an offset: the same as --option NAME=VALUE; without a value it is "on". */
#define DESC_OPTION SIZE_MAX

/* Stores an option of the desc and marks it as given. `what` names it in an error message. */
int set_desc_option(struct settings *settings, enum option_id option, const char *what, const char *text);

extern const struct option options[];
extern const size_t option_count;

#endif
