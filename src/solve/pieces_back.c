#include "solve/pieces_back.h"

static const struct piece_back_body *body_of(const struct solver *solver)
{
    return solver->variant;
}

int piece_back_runs(const struct piece_tiles *tiles)
{
    return tiles->chunk / tiles->tokens;
}

/* Which gradients are added to what is there. */
static void add_additions(struct kernel_step *step, const struct problem *problem)
{
    const struct number additions[] = {
        {"ADD_V", problem_adds(problem, CLATTN_V)},
        {"ADD_U", problem_adds(problem, CLATTN_U)},
        {"ADD_Z", problem_adds(problem, CLATTN_Z)},
        {"ADD_STATE", problem_adds(problem, CLATTN_STATE_IN)},
    };

    step_constants(step, additions, sizeof additions / sizeof *additions);
}

clattn_status piece_back_derive_shape(const struct solver *solver, const struct device_facts *facts,
                                      const struct problem *problem, const void *tiles, void *shape)
{
    const struct piece_back_body *body = body_of(solver);
    struct piece_back_shape *s = shape;

    body->share(&s->shares, problem, tiles);
    shares_derive(&s->shares, facts, problem);
    s->rows = body->rows(tiles);
    TRY(piece_derive_shape(solver, facts, problem, tiles, &s->main));
    s->main.step.out = problem->desc.dtype;
    shares_constants(&s->shares, &s->main.step);
    add_additions(&s->main.step, problem);
    return CLATTN_SUCCESS;
}

static void bind_gradients(struct builder *b)
{
    static const struct {
        const char *name;
        clattn_operand_id id;
    } gradients[] = {
        {"d_o", CLATTN_O},
        {"d_v", CLATTN_V},
        {"d_u", CLATTN_U},
        {"d_z", CLATTN_Z},
        {"d_final", CLATTN_STATE_OUT},
        {"d_initial", CLATTN_STATE_IN},
    };

    for (size_t i = 0; i < sizeof gradients / sizeof *gradients; i++)
        build_bind(b, gradients[i].name, build_operand(b, gradient_of(gradients[i].id)));
}

clattn_status piece_back_recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct piece_back_shape *s = shape;
    const int chunk = s->main.tiles.chunk;
    const ir_expression slots = piece_slots(b, chunk);

    bind_gradients(b);
    shares_bind(b, &s->shares, piece_most_slots(problem, chunk) * s->rows);
    build_kernel(b, &s->main.step, (struct grid3){slots, s->main.groups.heads, s->main.groups.values});
    shares_build(b, &s->shares, build_times(b, slots, s->rows));
    return CLATTN_SUCCESS;
}
