/* h = silu(a) o c: from rows [a c dh] to rows [da dc h]. One group: CHUNK rows of a batch of one head. */
#include "lact.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const hidden_t, hidden) X(global out_t, mixed)
/* clang-format on */
KERNEL
lact_mix(TENSORS(PARAMETER) int sequences, int stretch_rows)
{
    TENSORS(ABSENT)
    int2 at = rows_of(sequences);

    for_each(task, CHUNK * VECTORS) {
        int row = at.y + task / VECTORS, f = task % VECTORS * VEC;
        global const hidden_t *x = hidden + at_row(hidden_at, at.x, row, get_group_id(1));
        global out_t *y = mixed + at_row(mixed_at, at.x, row, get_group_id(1));
        if (row < stretch_rows) {
            vec a = hidden_row(x, f, HIDDEN_DIM), c = hidden_row(x + HIDDEN_DIM, f, HIDDEN_DIM);
            data_put(a * sigmoid(a) * c, y + 2 * HIDDEN_DIM, f, HIDDEN_DIM);
        }
    }
}
