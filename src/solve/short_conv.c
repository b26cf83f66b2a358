/* short_conv: o = act(sum over the taps of w v + bias) + v, a causal convolution of each channel.
 *
 * A group computes `chunk` tokens and `block_v` columns of a head, a work-item `tokens` of the tokens. These share the
 * loads of weights and of earlier tokens. */
#include "solve/pieces_back.h"

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

/* The backward pass: registers hold a task's sums of the weights' gradients as well, so it has narrower vectors; its
 * runs are longer, because each leaves a row of parts. */
static void choose_back(const struct device_facts *facts, const struct problem *problem, struct piece_tiles *t)
{
    enum { FEW = 8, RUN = 64, SERIAL_RUN = 256, NARROW = 4 };
    const int few = problem->desc.seq_len <= FEW, serial = is_serial(facts);

    t->vec = serial ? t->vec : NARROW;
    t->block_v = lower(round_up(problem->desc.value_dim, t->vec), t->block_v);
    t->tokens = t->chunk = few ? FEW : serial ? SERIAL_RUN : RUN;
}

static void add_back(struct kernel_step *step, const struct problem *problem, const struct piece_tiles *t)
{
    add(step, problem, t);
    step_constant(step, "HEADS", problem->desc.heads);
}

static void share(struct shares *shares, const struct problem *problem, const struct piece_tiles *t)
{
    const int64_t values = problem->desc.value_dim;

    (void)t;
    shares_add(shares, problem, &(struct share){CLATTN_W, "AT_WEIGHTS", values * problem->desc.taps, 0});
    shares_add(shares, problem, &(struct share){CLATTN_BIAS, "AT_BIAS", values, 0});
}

static const struct piece_back_body back = {
    {PIECE_SHORT_CONV, FILE_short_conv_back, choose_back, NULL, add_back, NULL}, share, piece_back_runs};
const struct solver solver_short_conv_back = {PIECE_BACK_SOLVER("short_conv_back", &back)};

static const struct piece_body body = {PIECE_SHORT_CONV, FILE_short_conv, choose, is_sound, add, NULL};
const struct solver solver_short_conv = {PIECE_SOLVER("short_conv", &body)};
