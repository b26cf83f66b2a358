#include "solve/pieces.h"

enum { SERIAL_VEC = 16, WIDE_VEC = 8, SHARED_VEC = 4 };

const struct parameter piece_parameters[] = {
    PARAMETER_ROW("vec", struct piece_tiles, vec, 4, 16),
    PARAMETER_ROW("group", struct piece_tiles, group, 1, 32, 64, 128, 256),
    PARAMETER_ROW("chunk", struct piece_tiles, chunk, 1, 4, 16, 32, 64, 128, 256),
    PARAMETERS_END,
};

static const struct piece_body *body_of(const struct solver *solver)
{
    return solver->variant;
}

int piece_applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)facts;
    return problem->rule->op == OP_PIECE && problem->rule->piece == body_of(solver)->piece &&
           problem_is_backward(problem) == solver->backward;
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

/* Divides the columns of a row among work-items. */
static struct piece_tiles share_columns(const struct device_facts *facts, const struct problem *problem)
{
    enum { GROUP = 128, SERIAL_COLUMNS = 256 };
    const int serial = is_serial(facts), values = problem_values(problem);
    const int narrow = problem->desc.dtype != CLATTN_F32 && problem->desc.taps <= 4;
    const int room = facts->device->sub_group == 0; /* work-items of Intel GPUs have too few registers for vectors of
                                                     * 8 */
    struct piece_tiles t = {.group = serial ? 1 : lower(GROUP, facts->most_group), .vec = SHARED_VEC, .share = 1};

    t.sub_group = serial ? 0 : facts->device->sub_group;
    if (serial && values >= SERIAL_VEC)
        t.vec = SERIAL_VEC;
    if (!serial && narrow && room && values >= WIDE_VEC)
        t.vec = WIDE_VEC;
    t.block_v = lower(round_up(values, t.vec), serial ? SERIAL_COLUMNS : t.group * t.vec);
    return t;
}

clattn_status piece_choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                 const struct problem *problem, void *tiles)
{
    const struct piece_body *body = body_of(solver);
    struct piece_tiles *t = tiles;
    const struct piece_tiles given = *t;

    *t = share_columns(facts, problem);
    body->choose(facts, problem, t);
    t->group = given.group != TILE_OPEN ? given.group : t->group;
    t->vec = given.vec != TILE_OPEN ? given.vec : t->vec;
    t->chunk = given.chunk != TILE_OPEN ? given.chunk : t->chunk;
    t->block_v = round_up(t->block_v, t->vec);
    t->tokens = lower(t->tokens, t->chunk);
    return t->chunk % t->tokens == 0 && group_fits(facts, t->group) &&
                   (body->is_sound == NULL || body->is_sound(problem, t))
               ? CLATTN_SUCCESS
               : CLATTN_UNSUPPORTED;
}

/* ---- Shape and recipe ---------------------------------------------------------------------------------------------
 */

clattn_status piece_derive_shape(const struct solver *solver, const struct device_facts *facts,
                                 const struct problem *problem, const void *tiles, void *shape)
{
    const struct piece_body *body = body_of(solver);
    const struct piece_tiles *t = tiles;
    struct piece_shape *s = shape;

    s->tiles = *t;
    s->step = kernel_step(body->file, problem);
    step_tile(&s->step, t->group, t->vec, t->chunk, t->sub_group);
    step_constant(&s->step, "BV", t->block_v);
    body->add(&s->step, problem, t);
    s->groups = (struct piece_groups){problem_work_heads(problem), divide_up(problem_values(problem), t->block_v)};
    if (body->groups != NULL)
        s->groups = body->groups(problem, t);
    return step_fits(&s->step, facts->device);
}

struct reach piece_reach(const struct problem *problem, const void *shape)
{
    const struct piece_shape *s = shape;

    (void)problem;
    return (struct reach){.chunk = s->tiles.chunk, .parts = 1};
}

/* The number of chunk slots. For a call without tokens, the number of sequences, whose states are still written. */
static ir_expression slots_or_sequences(const struct builder *b, ir_expression slots)
{
    const ir_expression tokens = build_length(b, IR_TOKENS), none = build_constant(b, 0);
    const ir_expression left =
        build_binary(b, IR_MULTIPLY, build_binary(b, IR_EQUAL, tokens, none), build_length(b, IR_SEQUENCES));

    return build_binary(b, IR_ADD, left, build_binary(b, IR_MULTIPLY, build_binary(b, IR_LESS, none, tokens), slots));
}

/* Whether sequences without tokens have states to be written: the final ones, or gradients by the initial ones. */
static int leaves_states(const struct problem *problem)
{
    return (problem->desc.flags & (problem_is_backward(problem) ? CLATTN_INITIAL_STATE : CLATTN_FINAL_STATE)) != 0;
}

ir_expression piece_slots(const struct builder *b, int chunk)
{
    const ir_expression slots = build_slots(b, chunk);

    return leaves_states(b->problem) ? slots_or_sequences(b, slots) : slots;
}

int64_t piece_most_slots(const struct problem *problem, int chunk)
{
    const int64_t slots = most_slots(problem, chunk), sequences = problem_most(problem).sequences;

    return leaves_states(problem) && sequences > slots ? sequences : slots;
}

clattn_status piece_recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct piece_shape *s = shape;

    (void)problem;
    build_kernel(b, &s->step, (struct grid3){piece_slots(b, s->tiles.chunk), s->groups.heads, s->groups.values});
    return CLATTN_SUCCESS;
}

void piece_describe(struct text *text, const void *shape, int step)
{
    const struct piece_shape *s = shape;
    const struct piece_tiles *t = &s->tiles;

    (void)step;
    text_format(text, "group %d, vec %d, chunk %d, %d tokens of %d columns, local %zu bytes\n", t->group, t->vec,
                t->chunk, t->tokens, t->block_v, s->step.local_bytes);
}
