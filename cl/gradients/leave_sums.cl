/* A gradient that tokens share: the sums of all SEGMENTS runs, of INNER numbers side by side, and of all heads where OF_ALL.
 * A run's sums are HEADS rows of WIDTH numbers, the gradient's from AT on. One group: GROUP numbers of the gradient. */
#include "gradient.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const float, middle) X(global out_t, gradient)
/* clang-format on */
KERNEL
leave_sums(TENSORS(PARAMETER) int seq_len)
{
    TENSORS(ABSENT)
    int head = get_group_id(1);

    for (int i = 0; i < BLOCK / GROUP && is_given(gradient); i++) {
        int n = get_group_id(0) * BLOCK + i * GROUP + LANE;
        global out_t *to = gradient + at_row(gradient_at, 0, 0, head) + n;
        float sum = 0;
        if (n >= NUMBERS)
            return;
        for (int segment = 0; segment < SEGMENTS; segment++)
            for (int h = OF_ALL ? 0 : head; h < (OF_ALL ? HEADS : head + 1); h++)
                for (int j = 0; j < INNER; j++)
                    sum += middle[middle_at.x + ((long)segment * HEADS + h) * WIDTH + AT + n * INNER + j];
        out_put(sum + (ADDS ? out_get(to, 0) : 0.0f), to, 0);
    }
}
