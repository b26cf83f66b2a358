/* X = D / (|D| + 1e-7), |D| the norm of each whole matrix, in the type of products: Muon's first iterate. */
#include "lact.clh"

WORD float size_of(local float *parts, global const float *squares, long4 at, int first, int count)
{
    float sum = 0;
    for_each(i, count)
        sum += squares[number_row(at, first + i)];
    return sqrt(group_sum(parts, sum));
}

/* clang-format off */
#define TENSORS(X) \
    X(global const float, update) X(global const float, squares) X(global out_t, unit)
/* clang-format on */
KERNEL
lact_unit(TENSORS(PARAMETER) int sequences)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(parts, LOCAL_SUMS)
    float size0 = size_of(parts, squares, squares_at, 0, HIDDEN_DIM);
    float size2 = size_of(parts, squares, squares_at, HIDDEN_DIM, HIDDEN_DIM);
    float size1 = size_of(parts, squares, squares_at, FIRST_ROWS, VALUE_DIM);

    for (int t = 0; t < TURNS; t++) {
        turn_t turn = turn_of(t);
        float size = turn.row < HIDDEN_DIM ? size0 : turn.row < FIRST_ROWS ? size2 : size1, factor = 1 / (size + 1e-7f);
        for_row(c, turn)
            data_put(factor * f32_row(update + weights_row(update_at, turn), c, turn.width),
                     unit + weights_row(unit_at, turn), c, turn.width);
    }
}
