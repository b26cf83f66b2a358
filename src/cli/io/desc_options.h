/* The options of a problem by name: what --option NAME=VALUE takes, and what a file's metadata says. */
#ifndef CLATTN_SRC_CLI_IO_DESC_OPTIONS_H
#define CLATTN_SRC_CLI_IO_DESC_OPTIONS_H

#include "op/options.h"

#include <stddef.h>

/* Whether --option says it, and not another word of the command. */
int desc_option_is_named(enum option_id option);
/* The option of that name, or OPTION_COUNT. */
enum option_id desc_option_find(const char *name);

/* Into desc. `what` names the option in the one line of an error. EXIT_OK or EXIT_BAD. */
int desc_option_read(enum option_id option, const char *what, const char *text, clattn_plan_desc *desc);
/* As desc_option_read takes it. */
const char *desc_option_text(enum option_id option, const clattn_plan_desc *desc, char *text, size_t size);

/* What may stand behind "name=": "N", "X", "kv|vk"; of a switch its second word alone. Of a rule those words that it takes,
 * of NONE all. */
const char *desc_option_argument(enum option_id option, clattn_rule rule, char *text, size_t size);

#endif
