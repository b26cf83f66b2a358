/* o = x rsqrt(mean of x^2 + eps) w f(z) for each head's row, where x is v or v + d u, possibly times silu(z). With
 * EPS_OUTSIDE the divisor is sqrt(mean of x^2) + eps. One group: CHUNK rows of one head, with LANES work-items a row
 * and ROWS rows each. A work-item keeps its columns of these in HELD vectors until o is written; o may be in v's
 * memory. HELD is 0 if there are too many columns: the row is then read twice. */
#include "norm.clh"

enum { SPAN = LANES * VEC, TALL = GROUP / LANES, KEPT = ROWS * (HELD > 0 ? HELD : 1) };

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, v) X(global out_t, o) X(global const data_t, u) X(global const float, d) \
    X(global const data_t, z) X(global const gate_t, weights) X(global const int, cu)
/* clang-format on */
KERNEL
rms_norm(TENSORS(PARAMETER) int seq_len, int sequences)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(sums, LOCAL_SUMS)
    chunk_t chunk = chunk_of_slot(get_group_id(0), get_group_id(1), sequences, seq_len, cu, cu_at);
    stream_t x = stream_of((global const char *)v, v_at, chunk.at, sizeof(data_t));
    stream_t added = stream_of((global const char *)u, u_at, chunk.at, sizeof(data_t));
    stream_t gates = stream_of((global const char *)z, z_at, chunk.at, sizeof(data_t));
    stream_t outs = stream_of((global const char *)o, o_at, chunk.at, sizeof(out_t));
    int begin = LANE % LANES * VEC, last = chunk.row + chunk.count - 1;

    weights += at_row(weights_at, 0, 0, chunk.at.head);
    d += at_row(d_at, 0, 0, chunk.at.head);
    for (int turn = 0; turn < chunk.count; turn += TALL * ROWS) {
        int first = chunk.row + turn + LANE / LANES;
        vec held[KEPT], factors[KEPT];
        vec_unrolled
        for (int r = 0; r < ROWS; r++) {
            int row = min(first + r * TALL, last);
            vec squares = 0;
            vec_unrolled
            for (int k = 0; k < HELD; k++) {
                int c = begin + k * SPAN, at = r * HELD + k;
                held[at] = factors[at] = 0;
                if (VALUE_DIM % SPAN == 0 || c < VALUE_DIM) {
                    held[at] = input_of(x, added, d, gates, row, c);
                    factors[at] = factor_of(gates, row, c);
                }
                squares += held[at] * held[at];
            }
            for (int c = begin; HELD == 0 && c < VALUE_DIM; c += SPAN) {
                vec y = input_of(x, added, d, gates, row, c);
                squares += y * y;
            }
            sums[r * GROUP + LANE] = vec_sum(squares);
        }
        SYNC();
        vec_unrolled
        for (int r = 0; r < ROWS; r++) {
            int row = first + r * TALL;
            float sum = 0;
            for (int l = 0; l < LANES; l++)
                sum += sums[r * GROUP + LANE / LANES * LANES + l];
            sum = 1 / (EPS_OUTSIDE ? sqrt(sum / VALUE_DIM) + EPS : sqrt(sum / VALUE_DIM + EPS));
            vec_unrolled
            for (int k = 0; k < HELD; k++) {
                int c = begin + k * SPAN, at = r * HELD + k;
                if (row <= last && (VALUE_DIM % SPAN == 0 || c < VALUE_DIM))
                    stream_put(held[at] * sum * weight_of(weights, c) * factors[at], outs, row, c);
            }
            for (int c = begin; HELD == 0 && row <= last && c < VALUE_DIM; c += SPAN) {
                vec y = input_of(x, added, d, gates, row, c) * sum * weight_of(weights, c);
                stream_put(y * factor_of(gates, row, c), outs, row, c);
            }
        }
        SYNC();
    }
}
