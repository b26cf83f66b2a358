/* Of an output that was divided by N: 1 / N, and the gradient by the read of the normalizer, -(d_o . o) / N, which of
 * mLSTM has the sign of the read where that is the divisor and is 0 elsewhere. One group: a row of one head. */
#include "backward.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, d_o) X(global const data_t, o) X(global const float, m) \
    X(global const int, cu) X(global const float, between) X(global const float, whole) X(global float, divisors)
/* clang-format on */
KERNEL
backward_divisors(TENSORS(PARAMETER) int seq_len, float scale, int span, int first_row, int count)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(rows_q, LOCAL_ROWS)
    LOCAL_FLOATS(sums, LOCAL_SUMS)
    local float factors[FACTORS], squares[LOCAL_SQUARES];
    place at = place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at);
    int end = min(at.rows, (int)min((long)first_row + count, (long)at.rows)), tile = VALUE_DIM / BV;

    for (int row = first_row + (int)get_group_id(2); row < end; row += span) {
        chunk_t reading = chunk_at(at, row);
        global const float *z = NONCAUSAL
                                    ? whole + whole_at.x + tile_number(at, tile) * TILE
                                    : between + between_at.x + between_at_row(at, tile, row - first_row + 1, span);
        if (row % STEPS != STEPS - 1)
            continue;
        for (int read = 0; read < READS; read++) {
            int head = head_of_read(at, read);
            global const data_t *d = token_row(d_o, reading, head), *out = token_row(o, reading, head);
            float sum = 0, product = 0, sign = 1;

            reading.at.qk_head = READS > 1 ? head : at.qk_head;
            query_load(rows_q, reading);
            for_each(n, KEY_DIM)
                sum += rows_q[n] * z[n * BV + VALUE_DIM % BV];
            for_each(c, VALUE_DIM)
                product += data_get(d, c) * data_get(out, c);
            sum = lanes_total(sums, sum);
            product = lanes_total(sums, product);
            if (STABLE) {
                float least = exp2(-LOG2E * m[at_row(m_at, at.batch, at.first + row / STEPS, at.head)]);
                sign = fabs(sum) > least ? (sum > 0 ? 1.0f : -1.0f) : 0.0f;
                sum = fmax(fabs(sum), least);
            }
            sum += EPS;
            for_each(i, 1) {
                global float *to = divisors + divisors_at.x + divisor_of(at, row / STEPS, head, seq_len);
                to[0] = isinf(sum) ? 0.0f : 1 / sum;
                to[1] = isinf(sum) ? 0.0f : -sign * product / sum;
            }
        }
    }
}
