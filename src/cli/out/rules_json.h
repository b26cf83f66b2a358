/* The JSON of `clattn rules` from which bindings to other languages are generated. */
#ifndef CLATTN_SRC_CLI_OUT_RULES_JSON_H
#define CLATTN_SRC_CLI_OUT_RULES_JSON_H

#include "op/options.h"

#include <cjson/cJSON.h>

/* Adds enums, structs, flags, operands and options to an object. */
void interface_add(cJSON *object);

/* The options that a rule takes, each with its default. */
cJSON *rule_options_json(clattn_rule rule);

/* The name in clattn.h of the first of these flags. */
const char *rule_flag_name(uint64_t flags);

#endif
