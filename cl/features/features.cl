/* o = phi(v), KEY_DIM features of a row, computed from y = omega v in one of three ways:
 * favor     m^(-1/2) (e^(y - |x|^2 / 2 - c) + EPS), with x = V^(-1/4) v in place of v, c = max y for queries, else 0
 * rfa       m^(-1/2) [sin y, cos y], for v divided by its norm
 * hedgehog  [softmax y, softmax -y]
 * One group: CHUNK rows of one head; a task computes one y of RUN rows. */
#include "projections.clh"

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
    rows_project(Y, stats, omega, x, chunk.row, last);
    SYNC();
    for_each(task, CHUNK * KEY_DIM) {
        int i = task / KEY_DIM, n = task % KEY_DIM;
        if (i < chunk.count)
            out_put(feature_of(stats + i * STATS, Y + i * M, n), o,
                    at_row(o_at, chunk.at.batch, chunk.at.first + chunk.row + i, chunk.at.head) + n);
    }
}
