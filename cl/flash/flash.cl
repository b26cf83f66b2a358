/* Attention to a list of keys, on any device:
 *     S = K (s Q)ᵀ + b        scores, [key][query]; -inf where the query does not see the key
 *     m' = max(m, max S)      P = e^(S - m')      l = e^(m - m') l + Σ P      O = e^(m - m') O + Pᵀ V
 * and at the end o = O / l, lse = m + log l. Where weights are another function of the scores there are no m and l.
 *
 * A work-group has CHUNK queries of one head and BV value columns, and reads keys in blocks of CHUNK from the queries' own
 * downward. Work-items share the tasks of each word (for_each); queries, scores and outputs stay in local memory.
 * group_slot says which queries a group has. */
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
    LOCAL_FLOATS(query_tile, LOCAL_QUERIES)
    LOCAL_FLOATS(row_tile, LOCAL_ROWS)
    LOCAL_FLOATS(score_tile, LOCAL_SCORES)
    LOCAL_FLOATS(output_tile, LOCAL_OUTPUT)
    local float norms[LOCAL_NORMS], softmax[LOCAL_WEIGHTS], bias[LOCAL_BIAS];
    int head = group_head(), first_column = get_group_id(2) * BV;
    chunk_t chunk = chunk_of_slot(group_slot(sequences, seq_len), head, sequences, seq_len, cu, cu_at);
    list_t list = list_of(chunk, cache_of(cu_kv, cu_kv_at, lens, lens_at, kv_len, window, given));
    float sum = 0; /* of the decays between the block of keys and the first query */

    if (chunk.count <= 0)
        return;
    rows_norm(norms, token_row(q, chunk, head), q_at.z, 0, 1, chunk.count);
    weights_begin(softmax, given & GIVEN_SINK ? sink[at_row(sink_at, 0, 0, head)] : 0, given & GIVEN_SINK);
    tile_zero(output_tile, CHUNK * BV);
    SYNC(); /* the queries' norms are there */
    query_columns(query_tile, norms, q, q_at, list, scale * weight_unit());
    for (int from = list_top(list); from + CHUNK > list.least; from -= CHUNK) {
        int diagonal = is_own_block(list, from);

        SYNC(); /* queries are there; nobody reads the scores, norms and values of the block before */
        tile_zero(score_tile, CHUNK * CP);
        list_norms(norms, k, k_at, list, from);
        sum = bias_block(bias, sum, g, g_at, list, from, diagonal);
        for (int n = 0; n < KP; n += BK) {
            list_rows(row_tile, RP, BK, k, k_at, list, from, n, KEY_DIM);
            SYNC(); /* a slice of the keys is there */
            mma(score_tile, 0, 0, row_tile, RP, 1, query_tile + n * CP, CHUNK, CP, BK, 0);
            SYNC(); /* and is read: the next slice, or values, take its place */
        }
        list_values(row_tile, v, v_at, list, from, first_column);
        for_each(task, CHUNK * (CP / VEC)) {
            int j = task / (CP / VEC), i = task % (CP / VEC) * VEC;
            vec score = score_capped(vec_load(score_tile + task * VEC) * norms[j], weight_unit()) +
                        (TURNED ? scale : 1) * bias_between(bias, j, i, diagonal);
            vec_store(select((vec)(-INFINITY), score, list_sees(list, from, j, i)), score_tile + task * VEC);
        }
        SYNC(); /* scores are whole */
        weights_raise(softmax, score_tile);
        SYNC(); /* every query's m is there */
        weights_of(score_tile, softmax);
        SYNC(); /* weights are in the scores' place; values are there */
        weights_add(softmax, score_tile);
        mma(output_tile, weight_kept(softmax), 1, score_tile, 1, CP, row_tile, CHUNK, BV, CHUNK, diagonal);
    }
    SYNC(); /* the sums of weights are whole */
    weights_end(softmax);
    for_each(i, chunk.count)
        if (given & GIVEN_LSE && first_column == 0)
            lse[at_row(lse_at, chunk.at.batch, chunk.at.first + chunk.row + i, head)] = weights_log(softmax, i);
    SYNC(); /* what outputs are divided by is there */
    tile_scale_rows(output_tile, weight_kept(softmax), CHUNK, BV);
    output_store(output_tile, first_column, chunk);
}
