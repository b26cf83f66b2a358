/* The recipe of a plan: the steps of its solver and those around it. */
#include "solve/around.h"
#include "solve/solve.h"

/* The log-decays that the rule fixes by head. */
static void bind_head_decay(struct builder *b)
{
    const ir_expression none = build_constant(b, 0);
    const struct ir_tensor decays = {.name = "decay of heads",
                                     .home = IR_CONSTANT_BUFFER,
                                     .element = sizeof(float),
                                     .buffer = b->head_decay,
                                     .strides = {none, none, build_constant(b, 1)}};

    if (b->problem->rule->head_decay != NULL)
        build_bind(b, "g", ir_tensor(b->ir, &decays));
}

/* The loop over the reads of a state has this number until it is known how many loops there are. */
enum { READS_LOOP = IR_MAX_LOOPS };

clattn_status build_begin(struct builder *b)
{
    b->outer = b->problem;
    b->solvers = solver_list;
    b->name_count = b->failed = 0;
    b->converted_output = b->normed_output = IR_NONE;
    b->reads_loop = problem_reads(b->problem) > 1 && !problem_is_backward(b->problem) ? READS_LOOP : IR_NONE;
    for (int id = 0; id < OPERAND_COUNT; id++)
        b->operands[id] = IR_NONE;
    b->lengths = NULL;
    b->denominators = b->whole = b->whole_sums = IR_NONE;
    bind_head_decay(b);
    TRY(around_convert(b));
    TRY(around_rope(b));
    return around_append(b);
}

/* Gives the nodes of that loop its final number. */
static void number_reads_loop(struct ir_recipe *ir)
{
    for (int i = 0; i < ir->node_count; i++) {
        struct ir_node *node = &ir->nodes[i];
        if (ir_is_of_loop(node->operation) && node->value == READS_LOOP)
            node->value = ir->loop_count;
    }
}

clattn_status build_end(struct builder *b)
{
    const struct ir_loop reads = {
        .first = 0, .last = b->ir->step_count - 1, .rows = IR_NONE, .turns = problem_reads(b->problem)};

    if (b->reads_loop != IR_NONE) {
        number_reads_loop(b->ir);
        ir_loop(b->ir, &reads);
    }
    if (b->failed)
        return CLATTN_UNSUPPORTED;
    TRY(build_products(b));
    return ir_finish(b->ir);
}

clattn_status build_own(struct builder *b, const struct solver *solver, const void *tiles)
{
    int own;

    TRY(build_begin(b));
    TRY(around_gates(b));
    if (!problem_is_backward(b->problem)) {
        around_memory(b);
        around_norm_memory(b);
    }
    own = b->built->child_count;
    TRY(build_solver(b, solver, tiles));
    b->built->own = own;
    if (problem_is_backward(b->problem))
        return CLATTN_SUCCESS;
    if (problem_is_summary(b->problem))
        return around_summary(b);
    TRY(around_reads(b));
    TRY(around_norm(b));
    return around_output(b);
}

clattn_status build_recipe(struct builder *b, const struct solver *solver, const void *tiles)
{
    TRY(build_own(b, solver, tiles));
    return build_end(b);
}

/* ---- Within a limit -----------------------------------------------------------------------------------------------
 */

/* Halves the span. 0: it is as short as spans are. */
static int shorten_span(struct problem *problem)
{
    enum { SHORTEST = 64 /* rows */ };
    const int64_t span = problem->span != 0 ? problem->span : problem_rows(problem);

    if (!problem_is_backward(problem) || span <= SHORTEST)
        return 0;
    problem->span = higher(SHORTEST, divide_up(span, 2));
    return 1;
}

static int is_within(const struct builder *b, int64_t *least)
{
    const int64_t bytes = b->ir->bytes[IR_SCRATCH], limit = b->problem->desc.workspace_limit;

    *least = *least == 0 || bytes < *least ? bytes : *least;
    return limit == 0 || bytes <= limit;
}

clattn_status build_within_limit(struct builder *b, struct problem *problem, const struct solver *solver,
                                 const void *tiles, int64_t *least)
{
    const int64_t span = problem->span;

    b->problem = problem;
    TRY(build_recipe(b, solver, tiles));
    while (!is_within(b, least)) {
        ir_close(b->ir);
        built_free(b->built);
        if (!shorten_span(problem)) {
            problem->span = span;
            return CLATTN_UNSUPPORTED;
        }
        TRY(build_recipe(b, solver, tiles));
    }
    return CLATTN_SUCCESS;
}
