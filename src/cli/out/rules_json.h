/* What a binding to another language is generated from, in the JSON of `clattn rules`. */
#ifndef CLATTN_SRC_CLI_OUT_RULES_JSON_H
#define CLATTN_SRC_CLI_OUT_RULES_JSON_H

#include "op/options.h"

#include <cjson/cJSON.h>

/* enums, structs, flags, operands and options, into an object. */
void interface_add(cJSON *object);

/* The options that a rule takes, each with its default. */
cJSON *rule_options_json(clattn_rule rule);

#endif
