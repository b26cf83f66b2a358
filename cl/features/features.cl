/* o = phi(v), KEY_DIM features of a row, computed from y = omega v in one of three ways:
 * favor     m^(-1/2) (e^(y - |x|^2 / 2 - c) + EPS), with x = V^(-1/4) v in place of v, c = max y for queries, else 0
 * rfa       m^(-1/2) [sin y, cos y], for v divided by its norm
 * hedgehog  [softmax y, softmax -y]
 * One group: CHUNK rows of one head; a task computes one y of RUN rows. */
#include "columns.clh"

enum { STATS = 3 }; /* for each row: a factor, a number to subtract, and the factor of the second half */

WORD float scale(void)
{
    return IS_FAVOR ? 1 / sqrt(sqrt((float)VALUE_DIM)) : 1;
}

WORD vec row_vec(stream_t v, int row, int c)
{
    vec x = stream_vec(v, row, c);
    return VALUE_DIM % VEC == 0 ? x : select((vec)(0), x, vec_iota + c < VALUE_DIM);
}

/* Numbers that all features of a row share, from its M numbers y and its sum of squares. */
WORD void stats_make(local float *stats, local const float *y, float squares)
{
    float top = y[0], low = y[0], sum = 0, sum_low = 0;
    for (int j = 1; j < M; j++) {
        top = max(top, y[j]);
        low = min(low, y[j]);
    }
    if (IS_HEDGEHOG)
        for (int j = 0; j < M; j++) {
            sum += exp(y[j] - top);
            sum_low += exp(low - y[j]);
        }
    stats[0] = IS_RFA ? 1 / sqrt(squares + 1e-6f) : IS_HEDGEHOG ? top + log(sum) : 0;
    stats[1] = squares * scale() * scale() / 2 + (OF_QUERIES ? top : 0);
    stats[2] = low - log(sum_low);
}

WORD float feature_of(local const float *stats, local const float *y, int n)
{
    float x = y[n % M], unit = 1 / sqrt((float)M);
    if (IS_RFA)
        return unit * (n < M ? sin(stats[0] * x) : cos(stats[0] * x));
    if (IS_HEDGEHOG)
        return n < M ? exp(x - stats[0]) : exp(stats[2] - x);
    return unit * (exp(x - stats[1]) + EPS);
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, v) X(global out_t, o) X(global const gate_t, omega) X(global const int, cu)
/* clang-format on */
KERNEL
features(TENSORS(PARAMETER) int seq_len, int sequences)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(Y, LOCAL_PROJECTIONS)
    LOCAL_FLOATS(stats, LOCAL_STATS)
    chunk_t chunk = chunk_of_slot(get_group_id(0), get_group_id(1), sequences, seq_len, cu, cu_at);
    stream_t x = stream_of((global const char *)v, v_at, chunk.at, sizeof(data_t));
    int last = chunk.row + chunk.count - 1;

    if (chunk.count <= 0)
        return;
    omega += at_row(omega_at, 0, 0, chunk.at.head);
    for_each(task, CHUNK / RUN * M) {
        int i = task / M * RUN, j = task % M;
        vec sums[RUN];
        vec_unrolled
        for (int r = 0; r < RUN; r++)
            sums[r] = 0;
        for (int c = 0; c < VALUE_DIM; c += VEC) {
            vec w = gate_row(omega + j * VALUE_DIM, c, VALUE_DIM);
            vec_unrolled
            for (int r = 0; r < RUN; r++)
                sums[r] += w * row_vec(x, min(chunk.row + i + r, last), c);
        }
        vec_unrolled
        for (int r = 0; r < RUN; r++)
            Y[(i + r) * M + j] = scale() * vec_sum(sums[r]);
    }
    SYNC();
    for_each(i, CHUNK) {
        vec squares = 0;
        for (int c = 0; c < VALUE_DIM; c += VEC) {
            vec y = row_vec(x, min(chunk.row + i, last), c);
            squares += y * y;
        }
        stats_make(stats + i * STATS, Y + i * M, vec_sum(squares));
    }
    SYNC();
    for_each(task, CHUNK * KEY_DIM) {
        int i = task / KEY_DIM, n = task % KEY_DIM;
        if (i < chunk.count)
            out_put(feature_of(stats + i * STATS, Y + i * M, n), o,
                    at_row(o_at, chunk.at.batch, chunk.at.first + chunk.row + i, chunk.at.head) + n);
    }
}
