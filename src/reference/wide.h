/* The desc whose reference results a device's results are compared with: the same inputs, in f32. */
#ifndef CLATTN_SRC_REFERENCE_WIDE_H
#define CLATTN_SRC_REFERENCE_WIDE_H

#include "clattn.h"

/* Turns a desc into the one with f32 inputs and outputs. With CLATTN_WITH_ROPE, q, k and p of the forward pass keep
 * their type, because rotated rows are rounded to it. */
void wide_desc(clattn_plan_desc *desc);
/* Whether such a desc keeps the operand's storage type. */
int wide_keeps(const clattn_plan_desc *desc, clattn_operand_id id);

#endif
