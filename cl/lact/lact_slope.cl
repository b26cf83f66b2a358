/* From rows [a c dh] to rows [lr0 dh o c o silu'(a), lr2 dh o silu(a), lr1 silu(a) o c]. One group: CHUNK rows of a
 * batch of one head. */
#include "lact.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const hidden_t, hidden) X(global out_t, mixed) X(global const gate_t, lr0) \
    X(global const gate_t, lr1) X(global const gate_t, lr2)
/* clang-format on */
KERNEL
lact_slope(TENSORS(PARAMETER) int sequences, int first_row, int stretch_rows)
{
    TENSORS(ABSENT)
    int2 at = rows_of(sequences);
    long head = get_group_id(1);

    for_each(task, CHUNK * VECTORS) {
        int row = at.y + task / VECTORS, f = task % VECTORS * VEC, token = first_row + row;
        global const hidden_t *x = hidden + at_row(hidden_at, at.x, row, head);
        global out_t *y = mixed + at_row(mixed_at, at.x, row, head);
        if (row < stretch_rows) {
            vec a = hidden_row(x, f, HIDDEN_DIM), c = hidden_row(x + HIDDEN_DIM, f, HIDDEN_DIM);
            vec dh = hidden_row(x + 2 * HIDDEN_DIM, f, HIDDEN_DIM), s = sigmoid(a);
            float rate0 = gate_get(lr0, at_row(lr0_at, at.x, token, head));
            float rate1 = gate_get(lr1, at_row(lr1_at, at.x, token, head));
            float rate2 = gate_get(lr2, at_row(lr2_at, at.x, token, head));
            data_put(rate0 * dh * c * s * (1 + a * (1 - s)), y, f, HIDDEN_DIM);
            data_put(rate2 * dh * a * s, y + HIDDEN_DIM, f, HIDDEN_DIM);
            data_put(rate1 * a * s * c, y + 2 * HIDDEN_DIM, f, HIDDEN_DIM);
        }
    }
}
