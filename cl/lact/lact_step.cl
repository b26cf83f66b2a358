/* w <- w + D, where D is the update with momentum, or Muon's result for it. Each row becomes x / (|x| + 1e-5) times its
 * initial norm. */
#include "lact.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const float, update) X(global const data_t, made) X(global float, moment) \
    X(global const gate_t, momentum) X(global float, fast) X(global out_t, factors) X(global float, sums) \
    X(global const float, norms)
/* clang-format on */
KERNEL
lact_step(TENSORS(PARAMETER) int first_row, int stretch_rows)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(parts, LOCAL_SUMS)
    float kept = FROM_MUON ? 0 : momentum_of(parts, momentum, momentum_at, first_row, stretch_rows);

    for (int t = 0; t < TURNS; t++) {
        turn_t turn = turn_of(t);
        global float *weights = fast + weights_row(fast_at, turn), *before = moment + weights_row(moment_at, turn);
        global float *sum = PRE_NORM ? sums + weights_row(sums_at, turn) : weights;
        vec squares = 0;
        float factor;
        for_row(c, turn) {
            vec x = FROM_MUON ? data_row(made + weights_row(made_at, turn), c, turn.width)
                              : f32_row(update + weights_row(update_at, turn), c, turn.width);
            if (HAS_MOMENTUM && !FROM_MUON) {
                x += kept * f32_row(before, c, turn.width);
                float_put(x, before, c, turn.width);
            }
            x += f32_row(sum, c, turn.width);
            float_put(x, sum, c, turn.width);
            squares += x * x;
        }
        factor = 1 / (sqrt(row_sum(parts, vec_sum(squares))) + 1e-5f);
        if (turn.width > 0)
            factor *= norms[number_row(norms_at, turn.row)];
        for_row(c, turn) {
            vec x = factor * f32_row(sum, c, turn.width);
            float_put(x, weights, c, turn.width);
            if (HAS_FACTORS)
                data_put(x, factors + weights_row(factors_at, turn), c, turn.width);
        }
    }
}
