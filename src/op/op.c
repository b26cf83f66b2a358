#include "op/op.h"

const struct op *op_of(const struct rule *rule)
{
    static const struct op *const ops[OP_COUNT] = {
        [OP_MIXER] = &op_mixer, [OP_PIECE] = &op_piece, [OP_LEARNER] = &op_learner};
    return ops[rule->op];
}

int rule_operands(const clattn_plan_desc *desc, struct operand_row rows[OPERAND_COUNT])
{
    const struct rule *rule = rule_get(desc->rule);

    return op_of(rule)->operands(desc, rule, rows);
}
