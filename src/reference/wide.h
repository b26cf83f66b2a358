/* What a device's results are held to: the reference of the same inputs in f32. */
#ifndef CLATTN_SRC_REFERENCE_WIDE_H
#define CLATTN_SRC_REFERENCE_WIDE_H

#include "clattn.h"

/* The desc that has the same inputs in f32, and outputs to hold a device's to. With CLATTN_WITH_ROPE q, k and p stay as
 * they are stored: turned they are rounded to that. */
void wide_desc(clattn_plan_desc *desc);
/* Whether such a desc keeps the operand as it is stored. */
int wide_keeps(const clattn_plan_desc *desc, clattn_operand_id id);

#endif
