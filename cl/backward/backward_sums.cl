/* Gradients that all tokens share: the sums of `shares`, span by span and in each by sequences, in `totals`. After the
 * first span they are stored. One group: one head. */
#include "backward.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const int, cu) X(global const float, shares) X(global float, totals) X(global out_t, d_shared) \
    X(global out_t, d_u) X(global float, d_a_log) X(global float, d_bias)
/* clang-format on */
KERNEL
backward_sums(TENSORS(PARAMETER) int seq_len, int sequences, int span, int first_row)
{
    TENSORS(ABSENT)
    int head = get_group_id(0);
    global float *total = totals + totals_at.x + head * SHARES;

    for_each(n, SHARES) {
        float sum = first_row + span >= seq_len * STEPS ? 0.0f : total[n];

        for (int sequence = 0; sequence < sequences; sequence++) {
            place at = place_of(sequence, head, seq_len, cu, cu_at);
            global const float *share = shares + shares_at.x + ((long)sequence * HEADS + head) * span * SHARES;
            float part = 0;
            for (int i = 0; i < min(at.rows - first_row, span); i++)
                part += share[i * SHARES + n];
            sum += part;
        }
        total[n] = sum;
        if (first_row > 0)
            continue;
        if (AT_GATE >= 0 && n >= AT_GATE && n < AT_GATE + GATE_SHARES && is_given(d_shared)) {
            global out_t *to = d_shared + at_row(d_shared_at, 0, 0, head);
            out_put(sum + (ADD_G ? out_get(to, n - AT_GATE) : 0.0f), to, n - AT_GATE);
        }
        if (AT_BONUS >= 0 && n >= AT_BONUS && n < AT_BONUS + KEY_DIM && is_given(d_u)) {
            global out_t *to = d_u + at_row(d_u_at, 0, 0, head);
            out_put(sum + (ADD_U ? out_get(to, n - AT_BONUS) : 0.0f), to, n - AT_BONUS);
        }
        if (n == AT_RATE && is_given(d_a_log)) {
            global float *to = d_a_log + at_row(d_a_log_at, 0, 0, head);
            *to = sum + (ADD_A_LOG ? *to : 0.0f);
        }
        if (AT_BIAS >= 0 && n >= AT_BIAS && n < AT_BIAS + GATE_SHARES && is_given(d_bias)) {
            global float *to = d_bias + at_row(d_bias_at, 0, 0, head) + (n - AT_BIAS);
            *to = sum + (ADD_BIAS ? *to : 0.0f);
        }
    }
}
