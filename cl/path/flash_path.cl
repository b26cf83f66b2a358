/* flash.cl, with queries that are turned as they go back over the keys, W, K of a block and T, X of prepare_path:
 *     own block       L = Q Kᵀ - (Q Wᵀ) X        then Q -= (Q Wᵀ) T W
 *     own span        L = Q (K - Xᵀ W)ᵀ          then the same
 *     span before     L = Q K̂ᵀ, keys carried to its end; then Q = Q H, all of it at once
 * and the bias is within the scale. One group: one block of queries of one head, BV value columns. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global out_t, o) \
    X(global const gate_t, g) X(global const gate_t, p) X(global const int, cu) X(global float, records) \
    X(global float, rows) X(global float, segments)
#define OPTIONALS(X) \
    X(global const float, sink) X(global float, lse) X(global const int, cu_kv) X(global const int, lens)
/* clang-format on */
KERNEL
flash_path(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int sequences, int kv_len, int window, float scale,
           int given, int tail)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(Q, LOCAL_QUERIES)
    LOCAL_FLOATS(Y, LOCAL_CROSSED)
    LOCAL_FLOATS(R, LOCAL_ROWS)
    LOCAL_FLOATS(L, LOCAL_SCORES)
    LOCAL_FLOATS(S, LOCAL_SCORES)
    LOCAL_FLOATS(O, LOCAL_OUTPUT)
    local float norms[LOCAL_NORMS], weights[LOCAL_WEIGHTS], bias[LOCAL_BIAS];
    int head = group_head(), c0 = get_group_id(2) * BV;
    chunk_t chunk = chunk_of_slot(group_slot(sequences, seq_len), head, sequences, seq_len, cu, cu_at);
    cache_t cache = cache_of_tail(cache_of(cu_kv, cu_kv_at, lens, lens_at, kv_len, window, given), tail);
    list_t list = list_of(chunk, cache);
    turn_t turn = turn_of(chunk.at.sequence, head, seq_len, cu, cu_at, cache);
    int first = (list.position + turn.shift) / CHUNK;
    float sum = 0;

    if (chunk.count <= 0)
        return;
    rows_norm(norms, token_row(q, chunk, head), q_at.z, 0, 1, chunk.count);
    weights_begin(weights, given & GIVEN_SINK ? sink[at_row(sink_at, 0, 0, head)] : 0, given & GIVEN_SINK);
    tile_zero(O, CHUNK * BV);
    SYNC();
    query_columns(Q, norms, q, q_at, list, scale * weight_unit());
    for (int from = list.position; from + CHUNK > list.least; from -= CHUNK) {
        int own = from == list.position, block = (from + turn.shift) / CHUNK, within = block / SPAN == first / SPAN;

        SYNC();
        tile_zero(L, CHUNK * CP);
        if (own)
            list_norms(norms, k, k_at, list, from);
        sum = bias_block(bias, sum, g, g_at, list, from, own);
        for (int n0 = 0; n0 < KP; n0 += BK) {
            if (own)
                list_rows(R, RP, BK, k, k_at, list, from, n0, KEY_DIM);
            else
                turn_slice(R, turn_rows(rows, rows_at, turn, block, within ? TURN_KEYS : TURN_CARRIED), n0);
            SYNC();
            mma(L, 0, 0, R, RP, 1, Q + n0 * CP, CHUNK, CP, BK, 0);
            SYNC();
        }
        if (own)
            tile_scale_rows(L, norms, CHUNK, CP);
        if (within)
            turn_products(S, Q, R, 0, p, p_at, turn, block);
        if (own) {
            copy_in(R, turn_matrix(records, records_at, turn, block), CHUNK * CP);
            SYNC();
            turn_add_own(L, R, 1, CP, S, CHUNK);
            SYNC();
        }
        list_values(R, v, v_at, list, from, c0);
        for_each(task, CHUNK * (CP / VEC)) {
            int j = task / (CP / VEC), i = task % (CP / VEC) * VEC;
            vec x = vec_load(L + task * VEC) + scale * bias_between(bias, j, i, own);
            vec_store(select((vec)(-INFINITY), x, list_sees(list, from, j, i)), L + task * VEC);
        }
        SYNC();
        weights_raise(weights, L);
        SYNC();
        weights_of(L, weights);
        SYNC();
        weights_add(weights, L);
        mma(O, weight_kept(weights), 1, L, 1, CP, R, CHUNK, BV, CHUNK, own);
        SYNC();
        if (own)
            for (int n0 = 0; n0 < KP; n0 += BK) {
                turn_slice(R, turn_rows(rows, rows_at, turn, block, TURN_FACTORS), n0);
                SYNC();
                turn_add_own(Q + n0 * CP, R, 1, RP, S, BK);
                SYNC();
            }
        else if (within)
            turn_add(Q, S, R, turn_rows(rows, rows_at, turn, block, TURN_FACTORS), 0, p_at, turn, block);
        else if (block % SPAN == 0)
            turn_cross(Q, Y, R, turn_H(segments, segments_at, turn, block));
    }
    SYNC();
    weights_end(weights);
    for_each(i, chunk.count)
        if (given & GIVEN_LSE && c0 == 0)
            lse[at_row(lse_at, chunk.at.batch, chunk.at.first + chunk.row + i, head)] = weights_log(weights, i);
    SYNC();
    tile_scale_rows(O, weight_kept(weights), CHUNK, BV);
    output_store(O, c0, chunk);
}
