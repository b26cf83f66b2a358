/* Attention to a list of keys, CHUNK queries of a head at once, keys in blocks from the queries' own downward:
 *     L = K (s Q)ᵀ + b        scores, [key][query]; -inf where the query does not see the key
 *     m' = max(m, max L)      P = e^(L - m')      l = e^(m - m') l + Σ P      O = e^(m - m') O + Pᵀ V
 * and at the end o = O / l, lse = m + log l. One group: one block of queries of one head, BV value columns; in
 * the order of group_slot. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global out_t, o) \
    X(global const gate_t, g) X(global const int, cu)
#define OPTIONALS(X) \
    X(global const float, sink) X(global float, lse) X(global const int, cu_kv) X(global const int, lens)
/* clang-format on */
KERNEL
flash(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int sequences, int kv_len, int window, float scale, int given)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(Q, LOCAL_QUERIES)
    LOCAL_FLOATS(R, LOCAL_ROWS)
    LOCAL_FLOATS(L, LOCAL_SCORES)
    LOCAL_FLOATS(O, LOCAL_OUTPUT)
    local float norms[LOCAL_NORMS], weights[LOCAL_WEIGHTS], bias[LOCAL_BIAS];
    int head = group_head(), c0 = get_group_id(2) * BV;
    chunk_t chunk = chunk_of_slot(group_slot(sequences, seq_len), head, sequences, seq_len, cu, cu_at);
    list_t list = list_of(chunk, cache_of(cu_kv, cu_kv_at, lens, lens_at, kv_len, window, given));
    float sum = 0;

    if (chunk.count <= 0)
        return;
    rows_norm(norms, token_row(q, chunk, head), q_at.z, 0, 1, chunk.count);
    weights_begin(weights, given & GIVEN_SINK ? sink[at_row(sink_at, 0, 0, head)] : 0, given & GIVEN_SINK);
    tile_zero(O, CHUNK * BV);
    SYNC();
    query_columns(Q, norms, q, q_at, list, scale * weight_unit());
    for (int from = list.position; from + CHUNK > list.least; from -= CHUNK) {
        int own = from == list.position;

        SYNC();
        tile_zero(L, CHUNK * CP);
        list_norms(norms, k, k_at, list, from);
        sum = bias_block(bias, sum, g, g_at, list, from, own);
        for (int n0 = 0; n0 < KP; n0 += BK) {
            list_rows(R, RP, BK, k, k_at, list, from, n0, KEY_DIM);
            SYNC();
            mma(L, 0, 0, R, RP, 1, Q + n0 * CP, CHUNK, CP, BK, 0);
            SYNC();
        }
        list_values(R, v, v_at, list, from, c0);
        for_each(task, CHUNK * (CP / VEC)) {
            int j = task / (CP / VEC), i = task % (CP / VEC) * VEC;
            vec x = vec_load(L + task * VEC) * norms[j] + (TURNED ? scale : 1) * bias_between(bias, j, i, own);
            vec_store(select((vec)(-INFINITY), x, list_sees(list, from, j, i)), L + task * VEC);
        }
        SYNC();
        weights_raise(weights, L);
        SYNC();
        weights_of(L, weights);
        SYNC();
        weights_add(weights, L);
        mma(O, weight_kept(weights), 1, L, 1, CP, R, CHUNK, BV, CHUNK, own);
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
