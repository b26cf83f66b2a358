/* Copies a learner's weights back to the caller's memory. */
#include "lact.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const float, fast) X(global float, final_w0) X(global float, final_w1) X(global float, final_w2)
/* clang-format on */
KERNEL
lact_close(TENSORS(PARAMETER) int sequences)
{
    TENSORS(ABSENT)
    long n = get_group_id(0), head = get_group_id(1);

    for (int t = 0; t < TURNS; t++) {
        turn_t turn = turn_of(t);
        int row = turn.row;
        global float *to = row < HIDDEN_DIM ? final_w0 + at_row(final_w0_at, n, 0, head) + (long)row * KEY_DIM
                           : row < FIRST_ROWS
                               ? final_w2 + at_row(final_w2_at, n, 0, head) + (long)(row - HIDDEN_DIM) * KEY_DIM
                               : final_w1 + at_row(final_w1_at, n, 0, head) + (long)(row - FIRST_ROWS) * HIDDEN_DIM;
        for_row(c, turn)
            float_put(f32_row(fast + weights_row(fast_at, turn), c, turn.width), to, c, turn.width);
    }
}
