/* What mesa_net's solvers share: the kernels' view of the problem, and the read of the state by x. */
#include "solve/mesa/mesa.h"

#include <stdlib.h>

enum { MOST_STEPS = 64 };

/* The rule that reads S by x: S = e^g S + beta k v^T, o = S^T x. */
static void read_by(struct problem *problem)
{
    problem->rule = rule_get(CLATTN_SSD);
    problem->desc.rule = CLATTN_SSD;
    problem->desc.flags &= ~CLATTN_WITH_ROPE; /* the rows of q and k are turned before */
    problem->desc.rope_dim = 0;
    problem->desc.cg_steps = 0;
    problem->operand_count = rule_operands(&problem->desc, problem->operands);
}

struct problem mesa_rows(const struct problem *problem)
{
    struct problem rows = *problem;

    rows.desc.flags &= ~CLATTN_STATE_VK;
    rows.desc.value_dim = rows.desc.key_dim;
    rows.pass = PASS_OUTPUTS;
    read_by(&rows);
    return rows;
}

int mesa_steps(const struct problem *problem)
{
    return problem->desc.cg_steps > 0 ? problem->desc.cg_steps : MOST_STEPS;
}

void mesa_add_steps(struct kernel_step *step, const struct problem *problem)
{
    const double tolerance = problem->desc.dtype == CLATTN_F32 ? 1e-6 : 1e-4;

    step->state = CLATTN_F32;
    step->eps = tolerance * tolerance;
    step_constant(step, "CG_STEPS", mesa_steps(problem));
    step_constant(step, "CG_EXACT", problem->desc.cg_steps > 0);
    step_constant(step, "GATED", problem_decay(problem) != DECAY_NONE);
    step_constant(step, "HEADS", problem_work_heads(problem));
}

struct kernel_step mesa_step_of(enum embedded_file file, const struct problem *problem, const struct state_tile *tile)
{
    const struct problem rows = mesa_rows(problem);
    const struct state_sizes sizes = state_sizes(&rows, tile);
    struct kernel_step step = state_step(file, &rows, tile, &sizes, OUTPUTS_NONE);

    mesa_add_steps(&step, problem);
    add_decay_locals(&step, &rows, tile, &sizes);
    return step;
}

int mesa_has_keys(const struct problem *problem)
{
    return (problem->desc.flags & CLATTN_QK_L2NORM) || problem->desc.qk_heads != problem->desc.heads;
}

int mesa_rows_of_tokens(struct builder *b, const struct problem *problem, const char *name)
{
    const int64_t K = problem->desc.key_dim, heads = problem_work_heads(problem);
    const struct extent most = problem_most(problem);
    const ir_expression strides[3] = {build_times(b, build_length(b, IR_TOKENS), heads * K),
                                      build_constant(b, heads * K), build_constant(b, K)};

    return build_scratch_of(b, name, problem->desc.dtype, most.batch * most.seq_len * heads * K, strides);
}

void mesa_bind(struct builder *b, const struct problem *problem)
{
    build_bind(b, "solved", mesa_rows_of_tokens(b, problem, "solved queries"));
    build_bind(b, "keys", mesa_has_keys(problem) ? mesa_rows_of_tokens(b, problem, "keys") : IR_NONE);
    build_bind(b, "initial", build_operand(b, CLATTN_GRAM_IN));
    build_bind(b, "final", build_operand(b, CLATTN_GRAM_OUT));
    build_bind(b, "snapshots", build_operand(b, CLATTN_GRAMS));
}

clattn_status mesa_read(struct builder *b, const struct problem *problem, clattn_mode mode, int names)
{
    enum { KEPT = 2 }; /* the names of x and keys, which the attention matrix is read with, too */
    const int solved = build_bound(b, "solved"), keys = build_bound(b, "keys");
    struct problem *read = malloc(sizeof *read);
    clattn_status status;

    if (read == NULL)
        return CLATTN_OUT_OF_MEMORY;
    *read = *problem;
    read->desc.scale = 1;
    read->desc.mode = mode;
    read->desc.flags &= ~CLATTN_QK_L2NORM;
    if (mesa_has_keys(problem))
        read->desc.qk_heads = read->desc.heads;
    read_by(read);
    if (problem->pass == PASS_OUTPUTS)
        b->name_count = names + KEPT;
    names = b->name_count;
    build_bind(b, "q", solved);
    if (keys != IR_NONE)
        build_bind(b, "k", keys);
    status = build_problem(b, read);
    b->name_count = names;
    free(read);
    return status;
}
