/* rms_norm: o = x / sqrt(mean(x^2) + eps) w f(z), x = v, v + d u, or either times silu(z): of each head's row.
 *
 * A group works `chunk` rows of one head: `share` work-items share a row, and each has `tokens` of the rows. Its columns
 * of them stay in registers between the sum of squares and the output, unless they are too many: then a row is read
 * twice. */
#include "solve/pieces.h"

enum { MOST_HELD = 4 }; /* vectors that a work-item keeps */

/* Vectors of a row that a work-item keeps between its sum and its output; 0 where they are too many, or near anyway. */
static int held_of(const struct piece_tiles *t, int values)
{
    const int vectors = (int)divide_up(values, (int64_t)t->share * t->vec);

    return t->group > 1 && vectors <= MOST_HELD ? vectors : 0;
}

/* Work-items of a row: as many as read a line of memory together, and more where these could not keep it. Rows of a
 * work-item: as many as it keeps. */
static void choose(const struct device_facts *facts, const struct problem *problem, struct piece_tiles *t)
{
    enum { SERIAL_ROWS = 64, LINE = 8 };
    const int values = problem_values(problem);
    int held;

    for (t->share = 1; 2 * t->share <= t->group; t->share *= 2) {
        const int wide = t->share * t->vec;
        if ((t->share >= LINE || 2 * wide > values) && values <= MOST_HELD * wide)
            break;
    }
    held = held_of(t, values);
    for (t->tokens = 1; held > 0 && 2 * t->tokens * held <= MOST_HELD;)
        t->tokens *= 2;
    t->chunk = is_serial(facts) ? SERIAL_ROWS : t->tokens * t->group / t->share;
}

/* Rows are shared by whole parts of a group, which has whole turns of them. */
static int is_sound(const struct problem *problem, const struct piece_tiles *t)
{
    (void)problem;
    return t->share <= t->group && t->group % t->share == 0 && t->chunk * t->share % t->group == 0;
}

static void add_gating(struct kernel_step *step, const clattn_plan_desc *desc)
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
    step_constant(step, "HELD", held_of(t, problem_values(problem)));
    step_constant(step, "HAS_WEIGHTS", problem->desc.weighting != CLATTN_WEIGHTING_NONE);
    step_constant(step, "CENTERED", (problem->desc.flags & CLATTN_CENTERED) != 0);
    step_constant(step, "EPS_OUTSIDE", (problem->desc.flags & CLATTN_EPS_OUTSIDE) != 0);
    step_constant(step, "HAS_D", (problem->desc.flags & CLATTN_WITH_D) != 0);
    add_gating(step, &problem->desc);
    step_local(step, "LOCAL_SUMS", (int64_t)t->group * t->tokens, sizeof(float));
}

/* A row is a group's whole. */
static struct piece_groups groups(const struct problem *problem, const struct piece_tiles *t)
{
    (void)t;
    return (struct piece_groups){problem_work_heads(problem), 1};
}

static const struct piece_body body = {PIECE_RMS_NORM, FILE_rms_norm, choose, is_sound, add, groups};
const struct solver solver_rms_norm = {PIECE_SOLVER("rms_norm", &body)};
