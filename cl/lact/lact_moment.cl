/* D <- D + mean(momentum) D of the previous batch, and the squares of its rows, which Muon needs. */
#include "lact.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global float, update) X(global float, moment) X(global float, squares) X(global const gate_t, momentum)
/* clang-format on */
KERNEL
lact_moment(TENSORS(PARAMETER) int first_row, int stretch_rows)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(parts, LOCAL_SUMS)
    float kept = momentum_of(parts, momentum, momentum_at, first_row, stretch_rows);

    for (int t = 0; t < TURNS; t++) {
        turn_t turn = turn_of(t);
        global float *to = update + weights_row(update_at, turn), *before = moment + weights_row(moment_at, turn);
        vec sum = 0;
        float square;
        for_row(c, turn) {
            vec x = f32_row(to, c, turn.width);
            if (HAS_MOMENTUM) {
                x += kept * f32_row(before, c, turn.width);
                float_put(x, to, c, turn.width);
                float_put(x, before, c, turn.width);
            }
            sum += x * x;
        }
        square = row_sum(parts, vec_sum(sum));
        if (LANE % LANES == 0 && turn.width > 0)
            squares[number_row(squares_at, turn.row)] = square;
    }
}
