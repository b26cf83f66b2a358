/* What is turned, in the place of the operands that it is made of. */
#include "plan/recipe.h"

clattn_operand_id rotary_operand(enum temporary_id id)
{
    static const clattn_operand_id operands[ROTARY_COUNT] = {CLATTN_Q, CLATTN_K, CLATTN_P};
    int turned = id >= TEMPORARY_ROTARY_Q && id <= TEMPORARY_ROTARY_P;

    return turned ? operands[id - TEMPORARY_ROTARY_Q] : CLATTN_OPERAND_NONE;
}

struct operand_row rotary_row(const struct problem *problem, const struct operand_row *row)
{
    struct operand_row like = *row;

    if (row->id == CLATTN_Q && problem_reads(problem) > 1)
        like.dims = "BTGK";
    return like;
}

void rotary_replace(const struct recipe *recipe, struct source *source)
{
    for (int id = TEMPORARY_ROTARY_Q; id <= TEMPORARY_ROTARY_P; id++)
        if (recipe->temporaries[id].floats > 0 && source->kind == SOURCE_OPERAND &&
            source->index == (int)rotary_operand((enum temporary_id)id))
            *source = (struct source){SOURCE_TEMPORARY, id};
}
