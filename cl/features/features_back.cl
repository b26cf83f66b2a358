/* The backward pass of features. With y = omega x and d = d_o, the gradient dy by y is
 *     favor     E o d, of queries less its sum at the largest y;  dx = omega^T dy - x sum(E o d)
 *     rfa       m^(-1/2) (cos y o d_sin - sin y o d_cos), x = v over its norm;  dx = omega^T dy, back through the norm
 *     hedgehog  P o (d - P . d) - N o (d' - N . d'), P and N the two softmaxes
 * and domega = sum over tokens of dy x^T, for which dy times x / v is left in `slopes`. One group: CHUNK rows of one head. */
#include "projections.clh"
#include "gradient.clh"

/* dy of a row in the place of its projections; returns what is summed of it, of favor the factor of -x in dx. */
WORD float row_slopes(local float *y, local const float *stats, global const data_t *d)
{
    float first = 0, second = 0, unit = 1 / sqrt((float)M);
    int top = 0;

    for (int n = 1; n < M; n++)
        top = y[n] > y[top] ? n : top;
    for (int n = 0; n < M; n++) {
        if (IS_HEDGEHOG) {
            first += exp(y[n] - stats[0]) * data_get(d, n);
            second += exp(stats[2] - y[n]) * data_get(d, M + n);
        } else if (!IS_RFA)
            first += unit * exp(y[n] - stats[1]) * data_get(d, n);
    }
    for (int n = 0; n < M; n++) {
        if (IS_RFA) {
            float t = stats[0] * y[n];
            y[n] = unit * (cos(t) * data_get(d, n) - sin(t) * data_get(d, M + n));
        } else if (IS_HEDGEHOG)
            y[n] =
                exp(y[n] - stats[0]) * (data_get(d, n) - first) - exp(stats[2] - y[n]) * (data_get(d, M + n) - second);
        else
            y[n] = unit * exp(y[n] - stats[1]) * data_get(d, n);
    }
    if (IS_FAVOR && OF_QUERIES)
        y[top] -= first;
    return IS_FAVOR ? first : 0;
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, v) X(global const data_t, d_o) X(global const gate_t, omega) X(global const int, cu) \
    X(global out_t, d_v) X(global float, slopes)
/* clang-format on */
KERNEL
features_back(TENSORS(PARAMETER) int seq_len, int sequences)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(Y, LOCAL_PROJECTIONS)
    LOCAL_FLOATS(stats, LOCAL_STATS)
    LOCAL_FLOATS(sums, LOCAL_SUMS)
    chunk_t chunk = chunk_of_slot(get_group_id(0), get_group_id(1), sequences, seq_len, cu, cu_at);
    stream_t x = stream_of((global const char *)v, v_at, chunk.at, sizeof(data_t));
    int last = chunk.row + chunk.count - 1;

    if (chunk.count <= 0)
        return;
    omega += at_row(omega_at, 0, 0, chunk.at.head);
    rows_project(Y, stats, omega, x, chunk.row, last);
    SYNC();
    for_each(i, CHUNK) {
        int row = min(chunk.row + i, last);
        global const data_t *d = d_o + at_row(d_o_at, chunk.at.batch, chunk.at.first + row, chunk.at.head);
        sums[i] = row_slopes(Y + i * M, stats + i * STATS, d);
        if (IS_RFA) { /* what goes through the norm */
            float dot = 0;
            for (int c = 0; c < VALUE_DIM; c += VEC) {
                vec dx = 0;
                for (int j = 0; j < M; j++)
                    dx += gate_row(omega + j * VALUE_DIM, c, VALUE_DIM) * Y[i * M + j];
                dot += vec_sum(dx * row_vec(x, row, c));
            }
            sums[i] = stats[i * STATS] * stats[i * STATS] * dot;
        }
    }
    SYNC();
    for_each(task, CHUNK * M) {
        int i = task / M, j = task % M;
        float factor = IS_RFA ? stats[i * STATS] : scale();
        if (i < chunk.count)
            slopes[at_row(slopes_at, chunk.at.batch, chunk.at.first + chunk.row + i, chunk.at.head) + j] =
                factor * Y[task];
    }
    for_each(task, CHUNK * COLUMN_VECTORS) {
        int i = task / COLUMN_VECTORS, c = task % COLUMN_VECTORS * VEC;
        if (i < chunk.count && is_given(d_v)) {
            float factor = IS_RFA ? stats[i * STATS] : scale(), own = IS_RFA ? 1 : scale();
            vec dx = -sums[i] * own * row_vec(x, chunk.row + i, c);
            for (int j = 0; j < M; j++)
                dx += gate_row(omega + j * VALUE_DIM, c, VALUE_DIM) * Y[i * M + j];
            out_put_row(factor * dx,
                        d_v + at_row(d_v_at, chunk.at.batch, chunk.at.first + chunk.row + i, chunk.at.head), c,
                        VALUE_DIM, ADD_V);
        }
    }
}
