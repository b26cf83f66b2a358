/* Gradients that all tokens share: the sums of `shares`, span by span and in each by sequences, in `totals`. partial: the
 * sum of AFTER_SPANS where totals has the sums of other spans, and BEFORE_SPANS where more are to come; without these the
 * sums are stored. One group: one head. */
#include "backward.clh"

enum { AFTER_SPANS = 1, BEFORE_SPANS = 2 };

/* clang-format off */
#define TENSORS(X) \
    X(global const int, cu) X(global const float, shares) X(global float, totals) X(global out_t, d_shared) \
    X(global out_t, d_u) X(global float, d_a_log) X(global float, d_bias)
/* clang-format on */
KERNEL
backward_sums(TENSORS(PARAMETER) int seq_len, int sequences, int span, int first_row, int partial)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(lanes, LOCAL_SUMS)
    int head = get_group_id(0);
    global float *total = totals + totals_at.x + head * SHARES;

    for (int n = 0; n < SHARES; n++) {
        float sum = 0;

        for (int sequence = 0; sequence < sequences; sequence++) {
            place at = place_of(sequence, head, seq_len, cu, cu_at);
#if PADDED
            long begin = padded_first(at, seq_len) * PADDED + 1;
#else
            long begin = 0;
#endif
            for_each(i, min(at.rows - first_row, span))
                sum += shares[shares_at.x + number_of_row(at, begin + i, span) * SHARES + n];
        }
        SYNC();
        sum = lanes_total(lanes, sum);
        if (LANE > 0)
            continue;
        sum += partial & AFTER_SPANS ? total[n] : 0.0f;
        total[n] = sum;
        if (partial & BEFORE_SPANS)
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
