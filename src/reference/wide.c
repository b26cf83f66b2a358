#include "reference/wide.h"

#include "op/rule.h"

void wide_desc(clattn_plan_desc *desc)
{
    struct operand_row rows[OPERAND_COUNT];
    const clattn_dtype dtype = desc->dtype;
    int count = rule_operands(desc, rows);

    desc->dtype = desc->gate_dtype = CLATTN_F32;
    desc->operand_type_count = 0;
    if (!(desc->flags & CLATTN_WITH_ROPE) || dtype == CLATTN_F32 || desc->pass == CLATTN_PASS_BACKWARD)
        return;
    for (int i = 0; i < count; i++)
        if (rows[i].id == CLATTN_Q || rows[i].id == CLATTN_K || rows[i].id == CLATTN_P)
            desc->operand_types[desc->operand_type_count++] = (clattn_operand_type){rows[i].id, dtype};
}

int wide_keeps(const clattn_plan_desc *desc, clattn_operand_id id)
{
    int listed = 0;

    for (int i = 0; i < desc->operand_type_count; i++)
        listed |= desc->operand_types[i].id == id;
    return listed;
}
