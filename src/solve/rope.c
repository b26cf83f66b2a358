/* rope: rotary positions. Pairs of a row's channels are rotated by angles that grow with the position; other channels
 * are copied.
 *
 * A group rotates `chunk` tokens of `share` heads, a work-item `tokens` of the tokens; heads share the angles. Angles
 * are fixed-point numbers, in units of 2^-64 of a turn, and so exact at any position. */
#include "solve/around.h"
#include "solve/pieces.h"

#include <math.h>

/* Heads share angles; tokens share the angles that later tokens' angles are multiples of. */
static void choose(const struct device_facts *facts, const struct problem *problem, struct piece_tiles *t)
{
    enum { FEW = 8, RUN = 4, HEADS = 8, SERIAL_RUN = 32 };
    const clattn_plan_desc *desc = &problem->desc;
    const int64_t tasks = divide_up(desc->rope_dim / 2, t->vec) + divide_up(desc->value_dim - desc->rope_dim, t->vec);

    t->tokens = desc->seq_len <= FEW ? 1 : is_serial(facts) ? SERIAL_RUN : RUN;
    t->share = lower(desc->heads, HEADS);
    t->chunk = t->tokens * (is_serial(facts) ? 1 : (int)divide_up(t->group, tasks));
}

/* The angle of pairs 1, 2, 4, … relative to pair 0, in units of 2^-63; the angle of pair 0, in 2^-64 of a turn; and how
 * pairs lie. */
void add_rope_angles(struct kernel_step *step, const clattn_plan_desc *desc)
{
    static const char *const names[] = {"ROPE_POWER_0", "ROPE_POWER_1", "ROPE_POWER_2", "ROPE_POWER_3", "ROPE_POWER_4",
                                        "ROPE_POWER_5", "ROPE_POWER_6", "ROPE_POWER_7", "ROPE_POWER_8"};

    for (int bit = 0; bit < (int)(sizeof names / sizeof *names); bit++) {
        const double power = pow(desc->rope_base, -2 * ldexp(1, bit) / desc->rope_dim);
        step_constant(step, names[bit], (int64_t)fmin(ldexp(power, 63), 0x1p63 - 1024));
    }
    step_constant(step, "ROPE_FIRST", 2935890503282001226); /* 2^64 / 2 pi */
    step_constant(step, "ROPE_DIM", desc->rope_dim);
    step_constant(step, "INTERLEAVED", (desc->flags & CLATTN_INTERLEAVED) != 0);
    step_constant(step, "ROPE_INVERSE", (desc->flags & CLATTN_TURNED_BACK) != 0);
}

static void add(struct kernel_step *step, const struct problem *problem, const struct piece_tiles *t)
{
    const clattn_plan_desc *desc = &problem->desc;

    add_rope_angles(step, desc);
    step_constant(step, "ADDS", problem_adds(problem, CLATTN_V));
    step_constant(step, "HALF", desc->rope_dim / 2);
    step_constant(step, "HAS_POSITION", (desc->flags & CLATTN_WITH_POSITION) != 0);
    step_constant(step, "HEADS", desc->heads);
    step_constant(step, "SHARE", t->share);
    step_constant(step, "RUN", t->tokens);
    step_constant(step, "TURNS", divide_up(desc->rope_dim / 2, t->vec));
    step_constant(step, "RESTS", divide_up(desc->value_dim - desc->rope_dim, t->vec));
}

static struct piece_groups groups(const struct problem *problem, const struct piece_tiles *t)
{
    return (struct piece_groups){divide_up(problem->desc.heads, t->share), 1};
}

static const struct piece_body body = {PIECE_ROPE, FILE_rope, choose, NULL, add, groups};
const struct solver solver_rope = {PIECE_SOLVER("rope", &body)};

/* ---- The backward pass turns the gradient by o back
 * --------------------------------------------------------------- */

static clattn_status derive_back(const struct solver *solver, const struct device_facts *facts,
                                 const struct problem *problem, const void *tiles, void *shape)
{
    struct piece_shape *s = shape;

    TRY(piece_derive_shape(solver, facts, problem, tiles, shape));
    s->step.out = problem->desc.dtype;
    step_replace(&s->step, "ROPE_INVERSE", !(problem->desc.flags & CLATTN_TURNED_BACK));
    return CLATTN_SUCCESS;
}

static clattn_status recipe_back(struct builder *b, const struct problem *problem, const void *shape)
{
    build_bind(b, "v", build_operand(b, gradient_of(CLATTN_O)));
    build_bind(b, "o", build_operand(b, gradient_of(CLATTN_V)));
    return piece_recipe(b, problem, shape);
}

const struct solver solver_rope_back = {
    .space = {"rope_back", piece_parameters, 1024, 0, 0, 1},
    .mode = CLATTN_MODE_RECURRENT,
    .backward = 1,
    .variant = &body,
    .tiles_size = sizeof(struct piece_tiles),
    .shape_size = sizeof(struct piece_shape),
    .applies = piece_applies,
    .choose_tiles = piece_choose_tiles,
    .derive_shape = derive_back,
    .reach = piece_reach,
    .recipe = recipe_back,
    .describe = piece_describe,
};
