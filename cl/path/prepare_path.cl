/* What does not depend on the queries, of a block of keys, W, K its rows:
 *     T = (I + tril(beta W Wᵀ, -1))⁻¹ diag(beta)      X = T tril(W Kᵀ, -1)
 * and it leaves -T W, keys carried to the block's end, K - Xᵀ W, and -X. One group: one block of one key head. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, k) X(global const gate_t, p) X(global const gate_t, e) X(global const int, cu) \
    X(global float, records) X(global float, rows)
#define OPTIONALS(X) \
    X(global const int, cu_kv) X(global const int, lens)
/* clang-format on */
KERNEL
prepare_path(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int sequences, int kv_len, int window, int given,
             int tail)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(W, LOCAL_SLICE)
    LOCAL_FLOATS(K, LOCAL_SLICE)
    LOCAL_FLOATS(D, LOCAL_SLICE)
    LOCAL_FLOATS(M, LOCAL_SCORES)
    LOCAL_FLOATS(Y, LOCAL_SCORES)
    LOCAL_FLOATS(T, LOCAL_SCORES)
    LOCAL_FLOATS(X, LOCAL_SCORES)
    local float norms[LOCAL_NORMS], beta[LOCAL_NORMS];
    cache_t cache = cache_of_tail(cache_of(cu_kv, cu_kv_at, lens, lens_at, kv_len, window, given), tail);
    turn_t turn = turn_of_slot(get_group_id(0), (int)get_group_id(1) * KV_GROUP, sequences, seq_len, cu, cu_at, cache);
    int from = turn_from(turn, turn.block);

    if (turn.block >= turn.blocks)
        return;
    list_norms(norms, k, k_at, turn.list, from);
    turn_strengths(beta, e, e_at, turn, turn.block);
    tile_zero(M, CHUNK * CP);
    tile_zero(Y, CHUNK * CP);
    tile_zero(X, CHUNK * CP);
    SYNC();
    for (int n0 = 0; n0 < KP; n0 += BK) {
        turn_slice_w(W, p, p_at, turn, turn.block, n0);
        list_rows(K, RP, BK, k, k_at, turn.list, from, n0, KEY_DIM);
        SYNC();
        mma_abt_lower(M, W, W, 1);
        mma_abt_lower(Y, W, K, 1);
        SYNC();
    }
    for_each(task, CHUNK * CP) {
        int i = task / CP, j = task % CP;
        M[task] *= beta[i];
        Y[task] *= j < i ? norms[j] : 0;
    }
    SYNC();
    unit_lower_inverse(T, M);
    SYNC();
    for_each(task, CHUNK * CP)
        T[task] *= task % CP < CHUNK ? -beta[task % CP] : 0;
    SYNC();
    mma_lower(X, T, Y, CP);
    SYNC();
    for (int n0 = 0; n0 < KP; n0 += BK) {
        turn_slice_w(W, p, p_at, turn, turn.block, n0);
        list_rows(K, RP, BK, k, k_at, turn.list, from, n0, KEY_DIM);
        tile_zero(D, CHUNK * BK);
        SYNC();
        mma_lower(D, T, W, BK);
        mma(K, norms, 1, X, 1, CP, W, CHUNK, BK, CHUNK, 0);
        SYNC();
        for_each(task, CHUNK * BK) {
            int at = task / BK * KP + n0 + task % BK;
            turn_rows(rows, rows_at, turn, turn.block, TURN_FACTORS)[at] = D[task];
            turn_rows(rows, rows_at, turn, turn.block, TURN_KEYS)[at] = K[task];
        }
        SYNC();
    }
    copy_out(turn_matrix(records, records_at, turn, turn.block), X, CHUNK * CP);
}
