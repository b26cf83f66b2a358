/* The options of a desc that only some rules take. */
#ifndef CLATTN_SRC_OP_OPTIONS_H
#define CLATTN_SRC_OP_OPTIONS_H

#include "base/log.h"

struct rule;

/* INVALID_DESC and a line where desc, its zeros already made the usual numbers, has an option that the rule does not
 * take. */
clattn_status options_check(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log);

#endif
