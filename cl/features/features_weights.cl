/* domega = sum over tokens of slopes v^T. One group: CHUNK tokens of one head, whose sum is a row of `parts`. */
#include "columns.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, v) X(global const float, slopes) X(global const int, cu) X(global float, parts)
/* clang-format on */
KERNEL
features_weights(TENSORS(PARAMETER) int seq_len, int sequences)
{
    TENSORS(ABSENT)
    chunk_t chunk = chunk_of_slot(get_group_id(0), get_group_id(1), sequences, seq_len, cu, cu_at);
    stream_t x = stream_of((global const char *)v, v_at, chunk.at, sizeof(data_t));
    global float *part = parts + parts_at.x + ((long)get_group_id(0) * HEADS + chunk.at.head) * WIDTH + AT_OMEGA;

    for_each(task, M * COLUMN_VECTORS) {
        int j = task / COLUMN_VECTORS, c = task % COLUMN_VECTORS * VEC;
        vec sum = 0;
        for (int i = 0; i < chunk.count; i++)
            sum += slopes[at_row(slopes_at, chunk.at.batch, chunk.at.first + chunk.row + i, chunk.at.head) + j] *
                   stream_vec(x, chunk.row + i, c);
        for (int n = 0; n < VEC && c + n < VALUE_DIM; n++)
            part[j * VALUE_DIM + c + n] = vec_number(sum, n);
    }
}
