/* The options of a problem by name, as --option NAME=VALUE and the metadata of files have them. */
#ifndef CLATTN_SRC_CLI_IO_DESC_OPTIONS_H
#define CLATTN_SRC_CLI_IO_DESC_OPTIONS_H

#include "op/options.h"

#include <stddef.h>

/* Whether --option sets it, rather than another option of the command. */
int desc_option_is_named(enum option_id option);
/* The option of that name, or OPTION_COUNT. */
enum option_id desc_option_find(const char *name);
/* The name of the option that was probably meant; NULL: none is close. */
const char *desc_option_nearest(const char *typed);

/* Parses text and stores the value in desc. `what` names the option in an error message. EXIT_OK or EXIT_BAD. */
int desc_option_read(enum option_id option, const char *what, const char *text, clattn_plan_desc *desc);
/* The value as text that desc_option_read understands. */
const char *desc_option_text(enum option_id option, const clattn_plan_desc *desc, char *text, size_t size);

/* What may follow "name=": "N", "X" or "kv|vk"; for a switch only its second word. The words are those that the rule
 * takes, or all of them for CLATTN_RULE_NONE. */
const char *desc_option_argument(enum option_id option, clattn_rule rule, char *text, size_t size);

#endif
