/* short_conv: o = act(sum over the taps of w v + bias) + v, a causal convolution of each channel.
 *
 * A group computes `chunk` tokens and `block_v` columns of a head, a work-item `tokens` of the tokens. These share the
 * loads of weights and of earlier tokens. */
#include "solve/pieces.h"

/* The tokens of a work-item share the loads of weights and of earlier tokens. */
static void choose(const struct device_facts *facts, const struct problem *problem, struct piece_tiles *t)
{
    enum { FEW = 8, RUN = 16, SERIAL_RUN = 128 };
    const int few = problem->desc.seq_len <= FEW, serial = is_serial(facts);

    t->tokens = few ? FEW : serial ? SERIAL_RUN : RUN;
    t->chunk = few ? FEW : t->tokens * (serial ? 1 : (int)divide_up(t->group, t->block_v / t->vec));
}

/* A work-item has at least as many tokens as there are taps. */
static int is_sound(const struct problem *problem, const struct piece_tiles *t)
{
    return t->tokens >= problem->desc.taps;
}

static void add(struct kernel_step *step, const struct problem *problem, const struct piece_tiles *t)
{
    step_constant(step, "TAPS", problem->desc.taps);
    step_constant(step, "RUN", t->tokens);
    step_constant(step, "AHEAD", problem->desc.taps > 4 ? 2 : 4); /* more would leave the registers */
    step_constant(step, "HAS_BIAS", (problem->desc.flags & CLATTN_WITH_BIAS) != 0);
    step_constant(step, "HAS_SILU", problem->desc.activation == CLATTN_ACTIVATION_SILU);
    step_constant(step, "HAS_RESIDUAL", (problem->desc.flags & CLATTN_RESIDUAL) != 0);
}

static const struct piece_body body = {PIECE_SHORT_CONV, FILE_short_conv, choose, is_sound, add, NULL};
const struct solver solver_short_conv = {PIECE_SOLVER("short_conv", &body)};
