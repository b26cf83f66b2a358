/* short_conv: o = act(sum over the taps of w v + bias) + v, a causal convolution of each channel.
 *
 * A group works `chunk` tokens of a head and `block_v` of its columns, a work-item `tokens` of the tokens, so that tokens
 * share the loads of weights and of the tokens before. */
#include "solve/pieces.h"

/* Tokens of a work-item: as many as share the loads of weights and of the tokens before. */
static void choose(const struct device_facts *facts, const struct problem *problem, struct piece_tiles *t)
{
    enum { FEW = 8, RUN = 16, SERIAL_RUN = 128 };
    const int few = problem->desc.seq_len <= FEW, serial = is_serial(facts);

    t->tokens = few ? FEW : serial ? SERIAL_RUN : RUN;
    t->chunk = few ? FEW : t->tokens * (serial ? 1 : (int)divide_up(t->group, t->block_v / t->vec));
}

/* A task has at least as many tokens as taps. */
static int is_sound(const struct problem *problem, const struct piece_tiles *t)
{
    return t->tokens >= problem->desc.taps;
}

static void add(struct kernel_step *step, const struct problem *problem, const struct piece_tiles *t)
{
    step_constant(step, "TAPS", problem->desc.taps);
    step_constant(step, "RUN", t->tokens);
    step_constant(step, "AHEAD", problem->desc.taps > 4 ? 2 : 4); /* more would not stay in registers */
    step_constant(step, "HAS_BIAS", (problem->desc.flags & CLATTN_WITH_BIAS) != 0);
    step_constant(step, "HAS_SILU", problem->desc.activation == CLATTN_ACTIVATION_SILU);
    step_constant(step, "HAS_RESIDUAL", (problem->desc.flags & CLATTN_RESIDUAL) != 0);
}

static const struct piece_body body = {PIECE_SHORT_CONV, FILE_short_conv, choose, is_sound, add, NULL};
const struct solver solver_short_conv = {PIECE_SOLVER("short_conv", &body)};
