/* Copies the caller's weights next to each other, also in the type of products, and computes the norms of their
 * rows. */
#include "lact.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const float, w0) X(global const float, w1) X(global const float, w2) X(global float, fast) \
    X(global out_t, factors) X(global float, sums) X(global float, norms) X(global float, moment)
/* clang-format on */
KERNEL
lact_open(TENSORS(PARAMETER) int sequences)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(parts, LOCAL_SUMS)
    long n = get_group_id(0), head = get_group_id(1);

    for (int t = 0; t < TURNS; t++) {
        turn_t turn = turn_of(t);
        int row = turn.row;
        global const float *from = row < HIDDEN_DIM ? w0 + at_row(w0_at, n, 0, head) + (long)row * KEY_DIM
                                   : row < FIRST_ROWS
                                       ? w2 + at_row(w2_at, n, 0, head) + (long)(row - HIDDEN_DIM) * KEY_DIM
                                       : w1 + at_row(w1_at, n, 0, head) + (long)(row - FIRST_ROWS) * HIDDEN_DIM;
        vec squares = 0;
        float size;
        for_row(c, turn) {
            vec x = f32_row(from, c, turn.width);
            float_put(x, fast + weights_row(fast_at, turn), c, turn.width);
            if (HAS_FACTORS)
                data_put(x, factors + weights_row(factors_at, turn), c, turn.width);
            if (PRE_NORM)
                float_put(x, sums + weights_row(sums_at, turn), c, turn.width);
            if (HAS_MOMENTUM)
                float_put(0, moment + weights_row(moment_at, turn), c, turn.width);
            squares += x * x;
        }
        size = sqrt(row_sum(parts, vec_sum(squares)));
        if (LANE % LANES == 0 && turn.width > 0)
            norms[number_row(norms_at, turn.row)] = size;
    }
}
