/* rms_norm: o = x / sqrt(mean(x^2) + eps) w f(z) for each head's row, where x is v or v + d u, possibly times silu(z).
 *
 * A group computes `chunk` rows of one head. `share` work-items share a row, and each computes `tokens` of the rows.
 * They keep their columns in registers between the sum of squares and the output. If a row has too many columns for
 * that, it is read twice. */
#include "solve/around.h"
#include "solve/pieces_back.h"

enum { MOST_VECTORS = 4 }; /* vectors that a work-item keeps */

/* Vectors of a row that a work-item keeps from the sum of squares to the output. 0: there are too many, or the row
 * stays in a cache. */
static int register_vectors(const struct piece_tiles *t, int values)
{
    const int vectors = (int)divide_up(values, (int64_t)t->share * t->vec);

    return t->group > 1 && vectors <= MOST_VECTORS ? vectors : 0;
}

/* `share` is at least the work-items that read one cache line together, more if these could not keep a row. `tokens` is
 * what a work-item can keep. */
static void choose(const struct device_facts *facts, const struct problem *problem, struct piece_tiles *t)
{
    enum { SERIAL_ROWS = 64, LINE = 8 };
    const int values = problem_values(problem);
    int held;

    for (t->share = 1; 2 * t->share <= t->group; t->share *= 2) {
        const int wide = t->share * t->vec;
        if ((t->share >= LINE || 2 * wide > values) && values <= MOST_VECTORS * wide)
            break;
    }
    held = register_vectors(t, values);
    for (t->tokens = 1; held > 0 && 2 * t->tokens * held <= MOST_VECTORS;)
        t->tokens *= 2;
    t->chunk = is_serial(facts) ? SERIAL_ROWS : t->tokens * t->group / t->share;
}

/* A group has a whole number of rows at once, and reaches its chunk in whole turns. */
static int is_sound(const struct problem *problem, const struct piece_tiles *t)
{
    (void)problem;
    return t->share <= t->group && t->group % t->share == 0 && t->chunk * t->share % t->group == 0;
}

void add_gating(struct kernel_step *step, const clattn_plan_desc *desc)
{
    const int gated = (desc->flags & CLATTN_WITH_Z) != 0;

    step_constant(step, "GATED_BEFORE", gated && desc->gating == CLATTN_GATING_BEFORE);
    step_constant(step, "GATED_AFTER", gated && desc->gating == CLATTN_GATING_AFTER);
    step_constant(step, "GATED_SIGMOID", gated && desc->gating == CLATTN_GATING_SIGMOID);
}

static void add(struct kernel_step *step, const struct problem *problem, const struct piece_tiles *t)
{
    step_constant(step, "LANES", t->share);
    step_constant(step, "ROWS", t->tokens);
    step_constant(step, "HELD", register_vectors(t, problem_values(problem)));
    step_constant(step, "HAS_WEIGHTS", problem->desc.weighting != CLATTN_WEIGHTING_NONE);
    step_constant(step, "CENTERED", (problem->desc.flags & CLATTN_CENTERED) != 0);
    step_constant(step, "EPS_OUTSIDE", (problem->desc.flags & CLATTN_EPS_OUTSIDE) != 0);
    step_constant(step, "HAS_D", (problem->desc.flags & CLATTN_WITH_D) != 0);
    add_gating(step, &problem->desc);
    step_local(step, "LOCAL_SUMS", (int64_t)t->group * t->tokens, sizeof(float));
}

/* A group handles whole rows. */
static struct piece_groups groups(const struct problem *problem, const struct piece_tiles *t)
{
    (void)t;
    return (struct piece_groups){problem_work_heads(problem), 1};
}

/* The backward pass reads a row twice. Its groups have many rows, because each work-item leaves a row of parts. */
static void choose_back(const struct device_facts *facts, const struct problem *problem, struct piece_tiles *t)
{
    enum { SERIAL_ROWS = 256, ROWS = 16, NARROW = 4 };

    t->vec = is_serial(facts) ? t->vec : NARROW;
    choose(facts, problem, t);
    t->tokens = 1;
    t->chunk = is_serial(facts) ? SERIAL_ROWS : ROWS * t->group / t->share;
}

static int64_t vectors_of(const struct problem *problem, const struct piece_tiles *t)
{
    return divide_up(problem_values(problem), (int64_t)t->share * t->vec);
}

static void add_back(struct kernel_step *step, const struct problem *problem, const struct piece_tiles *t)
{
    add(step, problem, t);
    step_constant(step, "HEADS", problem->desc.heads);
    step_constant(step, "IN_REGISTERS", vectors_of(problem, t) <= MOST_VECTORS);
    step_replace(step, "LOCAL_SUMS", 2 * (int64_t)t->group);
    step->local_bytes += (size_t)t->group * sizeof(float);
}

static void share(struct shares *shares, const struct problem *problem, const struct piece_tiles *t)
{
    const int64_t numbers = vectors_of(problem, t) * t->share * t->vec;

    shares_add(shares, problem, &(struct share){CLATTN_W, "AT_WEIGHTS", numbers, 0});
    shares_add(shares, problem, &(struct share){CLATTN_D, "AT_D", numbers, 0});
}

/* Each row that a group works on at once */
static int rows_back(const struct piece_tiles *t)
{
    return t->group / t->share;
}

static const struct piece_back_body back = {
    {PIECE_RMS_NORM, FILE_rms_norm_back, choose_back, is_sound, add_back, groups}, share, rows_back};
const struct solver solver_rms_norm_back = {PIECE_BACK_SOLVER("rms_norm_back", &back)};

static const struct piece_body body = {PIECE_RMS_NORM, FILE_rms_norm, choose, is_sound, add, groups};
const struct solver solver_rms_norm = {PIECE_SOLVER("rms_norm", &body)};
