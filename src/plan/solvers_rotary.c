/* Rows that turn ahead of all else of a rule: launches of the piece rope over q, k and p, whose turned rows lie in the
 * workspace and are what all other steps have in their place. */
#include "plan/recipe.h"

#include <stdlib.h>

/* The piece's problem. Its rows are writes of tokens where the operand's are. */
static clattn_status piece_of(const struct problem *problem, const struct operand_row *row, struct problem *piece)
{
    const struct extent most = problem_most(problem);
    const clattn_plan_desc *desc = &problem->desc;
    const uint64_t kept =
        CLATTN_CU_SEQLENS | CLATTN_CU_SEQLENS_INT64 | CLATTN_INTERLEAVED | CLATTN_WITH_POSITION | CLATTN_TURNED_BACK;
    const clattn_plan_desc turning = {.rule = CLATTN_ROPE,
                                      .dtype = desc->dtype,
                                      .flags = desc->flags & kept,
                                      .batch = desc->batch,
                                      .seq_len = desc->seq_len,
                                      .sequences = desc->sequences,
                                      .heads = problem_dim(desc, &most, row->dims[2]),
                                      .value_dim = desc->key_dim,
                                      .rope_base = desc->rope_base,
                                      .rope_dim = desc->rope_dim};

    TRY(problem_init(piece, &turning, NULL));
    piece->desc.flags |= desc->flags & CLATTN_REVERSED;
    piece->desc.steps = row->dims[1] == 'S' ? desc->steps : 1;
    return CLATTN_SUCCESS;
}

static clattn_status add_turning(const struct recipe_maker *maker, const struct operand_row *operand,
                                 enum temporary_id turned)
{
    const struct operand_row row = rotary_row(maker->problem, operand);
    const struct extent most = problem_most(maker->problem);
    struct problem *piece = &maker->recipe->rotary[turned - TEMPORARY_ROTARY_Q];
    struct variant variant = {.kernel = KERNEL_ROPE, .problem = piece, .rotary = row.id};
    struct step *step;
    int64_t elements = 1;

    TRY(piece_of(maker->problem, &row, piece));
    TRY(maker_add(maker, &variant, GRID_SLOTS, &step));
    step->sources[ROLE_v] = (struct source){SOURCE_OPERAND, (int)row.id};
    step->sources[ROLE_o] = (struct source){SOURCE_TEMPORARY, (int)turned};
    for (const char *letter = row.dims; *letter != '\0'; letter++)
        elements *= problem_dim(&maker->problem->desc, &most, *letter);
    maker_reserve(maker, turned,
                  divide_up(elements * (int64_t)dtype_size(maker->problem->desc.dtype), (int64_t)sizeof(float)));
    return CLATTN_SUCCESS;
}

clattn_status rotary_begin(const struct recipe_maker *maker)
{
    const struct problem *problem = maker->problem;

    if (!(problem->desc.flags & CLATTN_WITH_ROPE))
        return CLATTN_SUCCESS;
    maker->recipe->rotary = calloc(ROTARY_COUNT, sizeof *maker->recipe->rotary);
    if (maker->recipe->rotary == NULL)
        return CLATTN_OUT_OF_MEMORY;
    for (int n = 0; n < problem->operand_count; n++)
        for (int id = TEMPORARY_ROTARY_Q; id <= TEMPORARY_ROTARY_P; id++)
            if (problem->operands[n].id == rotary_operand((enum temporary_id)id))
                TRY(add_turning(maker, &problem->operands[n], (enum temporary_id)id));
    return CLATTN_SUCCESS;
}
