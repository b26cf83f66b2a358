/* The keys as the kernels after this one read them: normalised, and a row for each head. `halves` are the same in
 * f16, which has more bits than bf16 for what is at most 1.
 * One group: CHUNK rows of one head. */
#include "mesa.clh"

WORD void half_store(vec x, global f16_t *to, int n)
{
    vec_unrolled
    for (int i = 0; i < VEC; i++)
        if (n + i < KEY_DIM)
            f16_put(vec_number(x, i), to, n + i);
}

/* As key_norms, by ROW_LANES work-items a row, which read it together; parts: [work-item of a row][row] */
WORD void norms_find(local float *norms, local float *parts, global const data_t *from, long stride, int count)
{
    for_each(task, CHUNK * ROW_LANES) {
        const int i = task / ROW_LANES, lane = task % ROW_LANES;
        vec sum = 0;
        for (int n = lane * VEC; n < KEY_DIM && i < count * L2NORM; n += ROW_LANES * VEC) {
            vec x = data_row(from + i * stride, n, KEY_DIM);
            sum += x * x;
        }
        parts[lane * CHUNK + i] = vec_sum(sum);
    }
    SYNC();
    for_each(i, CHUNK) {
        float sum = 0;
        for (int lane = 0; lane < ROW_LANES; lane++)
            sum += parts[lane * CHUNK + i];
        norms[i] = L2NORM ? rsqrt(sum + 1e-6f) : 1;
    }
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, k) X(global const int, cu) X(global data_t, keys) X(global f16_t, halves)
/* clang-format on */
KERNEL
mesa_keys(TENSORS(PARAMETER) int seq_len, int sequences)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(norms, CHUNK)
    LOCAL_FLOATS(parts, LOCAL_PARTS)
    chunk_t chunk = chunk_of_slot(get_group_id(0), get_group_id(1), sequences, seq_len, cu, cu_at);
    global const data_t *from = write_row(k, chunk, chunk.at.qk_head);
    global data_t *to = keys + at_row(keys_at, chunk.at.batch, chunk.at.first + chunk.row, chunk.at.head);

    if (chunk.count <= 0)
        return;
    norms_find(norms, parts, from, k_at.z, chunk.count);
    SYNC();
    for_each(task, CHUNK * COLUMNS) {
        int i = task / COLUMNS, n = task % COLUMNS * VEC;
        vec key;
        if (i >= chunk.count)
            continue;
        key = key_map(data_row(from + i * k_at.z, n, KEY_DIM), norms[i], n);
        key_store(key, to + i * keys_at.z, n);
        if (HAS_halves)
            half_store(key, halves + at_row(halves_at, chunk.at.batch, chunk.at.first + chunk.row + i, chunk.at.head),
                       n);
    }
}
