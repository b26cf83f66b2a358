/* Keys carried on to the end of their sequence, in their own memory: over each block of tokens that turns, W its rows,
 *     s_m = beta_m (w_m.k - Σ_(l<m) w_m.w_l s_l), of tokens after the key alone        k -= Wᵀ s
 * One group: one block of keys of one key head. */
/* clang-format off */
#define TENSORS(X) \
    X(global out_t, k) X(global const gate_t, p) X(global const gate_t, e) X(global const int, cu)
#define OPTIONALS(X) \
    X(global const int, cu_kv) X(global const int, lens)
/* clang-format on */
KERNEL
fold_path(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int sequences, int kv_len, int window, int given,
          int tail)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(X, LOCAL_QUERIES)
    LOCAL_FLOATS(R, LOCAL_SLICE)
    LOCAL_FLOATS(S, LOCAL_SCORES)
    LOCAL_FLOATS(M, LOCAL_SCORES)
    local float beta[LOCAL_NORMS];
    cache_t cache = cache_of_tail(cache_of(cu_kv, cu_kv_at, lens, lens_at, kv_len, window, given), tail);
    turn_t turn = turn_of_tail(
        turn_of_slot(get_group_id(0), (int)get_group_id(1) * KV_GROUP, sequences, seq_len, cu, cu_at, cache));
    int from = turn_from(turn, turn.block), first = max((turn.raw + turn.shift) / CHUNK, turn.block);

    if (turn.block >= turn.blocks)
        return;
    turn_load(X, k + list_row(k_at, turn.list), k_at.z, from, turn.list.keys);
    for (int block = first; block < turn.blocks; block++) {
        int token = turn_from(turn, block);
        SYNC();
        tile_zero(M, CHUNK * CP);
        turn_strengths(beta, e, e_at, turn, block);
        turn_products(S, X, R, 0, p, p_at, turn, block);
        for (int n0 = 0; n0 < KP; n0 += BK) {
            turn_slice_w(R, p, p_at, turn, block, n0);
            SYNC();
            mma_abt_lower(M, R, R, 1);
            SYNC();
        }
        fold_solve(S, M, beta, token - from);
        SYNC();
        turn_add(X, S, R, 0, p, p_at, turn, block);
    }
    if (GROUP > 1)
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); /* other lanes have read these keys */
    turn_store(X, k, list_row(k_at, turn.list), k_at.z, from, turn.list.keys);
}
