/* The options of a problem by name: what --option NAME=VALUE takes, and what a file's metadata says. */
#ifndef CLATTN_SRC_CLI_DESC_OPTIONS_H
#define CLATTN_SRC_CLI_DESC_OPTIONS_H

#include "clattn.h"

#include <stddef.h>

/* The number of an option, or DESC_OPTION_COUNT. */
size_t desc_option_find(const char *name);
const char *desc_option_name(size_t option);
enum { DESC_OPTION_COUNT = 64 };
_Static_assert(DESC_OPTION_COUNT <= 64, "settings.given has a bit for each");

/* Into desc. `what` names the option in the one line of an error. EXIT_OK or EXIT_BAD. */
int desc_option_read(size_t option, const char *what, const char *text, clattn_plan_desc *desc);
/* As desc_option_read takes it. */
const char *desc_option_text(size_t option, const clattn_plan_desc *desc, char *text, size_t size);

/* One option's value, from a desc to another. */
void desc_option_copy(size_t option, const clattn_plan_desc *from, clattn_plan_desc *to);

/* Whether a file's tensors show it; and whether it says how they lie. */
int desc_option_is_shown(size_t option);
/* The bit of a desc's flags that it sets; 0: none */
uint32_t desc_option_flag(size_t option);
int desc_option_is_layout(size_t option);

#endif
