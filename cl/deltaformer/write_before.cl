/* DeltaFormer on any device, the first of two kernels of a span of keys, whose first one is first_row. Of the span's rows
 * t, of which p is given, over the keys j before the span:
 *     m_t = max_j s p_t k_j      P_tj = e^(s p_t k_j - m_t)      l_t = Σ_j P_tj      O_t = Σ_j P_tj u_j
 * write_solve.cl goes on from there.
 *
 * A work-group has a block of CHUNK rows of one key head and BV value columns; tiles and work-items are as in
 * flash.cl. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, k) X(global const data_t, p) X(global const data_t, written) X(global const int, cu) \
    X(global float, partials)
#define OPTIONALS(X) \
    X(global const int, cu_kv) X(global const int, lens)
/* clang-format on */
KERNEL
write_before(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int kv_len, int window, float scale, int given,
             int first_row)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(query_tile, LOCAL_QUERIES) /* rows of p */
    LOCAL_FLOATS(row_tile, LOCAL_ROWS)
    LOCAL_FLOATS(score_tile, LOCAL_SCORES)
    LOCAL_FLOATS(output_tile, LOCAL_OUTPUT)
    local float norms[LOCAL_NORMS], softmax[LOCAL_WEIGHTS];
    int columns = (VALUE_DIM + BV - 1) / BV, block = get_group_id(2) / columns;
    int first_column = get_group_id(2) % columns * BV;
    cache_t cache = cache_of(cu_kv, cu_kv_at, lens, lens_at, kv_len, window, given);
    list_t list = write_list(get_group_id(0), get_group_id(1), first_row + block * CHUNK, seq_len, cu, cu_at, cache);
    global float *partial = partials_of(partials, partials_at, list, block);

    if (list.rows.count <= 0)
        return;
    rows_norm(norms, token_row(p, list.rows, list.kv_head), p_at.z, 0, 1, list.rows.count);
    weights_begin(softmax, 0, 0);
    tile_zero(output_tile, CHUNK * BV);
    SYNC(); /* the rows' norms are there */
    query_columns(query_tile, norms, p, p_at, list, scale * weight_unit());
    for (int from = first_row - CHUNK; from >= 0; from -= CHUNK) {
        SYNC(); /* rows are there; nobody reads the scores, norms and values of the block before */
        write_scores_begin(score_tile, norms, k, k_at, list, from);
        for (int n = 0; n < KP; n += BK) {
            list_rows(row_tile, RP, BK, k, k_at, list, from, n, KEY_DIM);
            SYNC(); /* a slice of the keys is there */
            mma(score_tile, 0, 0, row_tile, RP, 1, query_tile + n * CP, CHUNK, CP, BK, 0);
            SYNC(); /* and is read */
        }
        write_scores_mask(score_tile, norms, list, from);
        SYNC(); /* scores are whole */
        weights_raise(softmax, score_tile);
        SYNC(); /* every row's m is there */
        weights_of(score_tile, softmax);
        SYNC(); /* weights are in the scores' place */
        weights_add(softmax, score_tile);
        list_rows(row_tile, BV, BV, written, written_at, list, from, first_column, VALUE_DIM);
        SYNC(); /* u of the block is there */
        mma(output_tile, weight_kept(softmax), 1, score_tile, 1, CP, row_tile, CHUNK, BV, CHUNK, 0);
    }
    SYNC(); /* the sums are whole */
    for_each(task, CHUNK * BV)
        if (first_column + task % BV < VP)
            partial[task / BV * VP + first_column + task % BV] = output_tile[task];
    for_each(i, first_column == 0 ? CP : 0) {
        partial[CHUNK * VP + i] = weight_most(softmax)[i];
        partial[CHUNK * VP + CP + i] = weight_total(softmax)[i];
    }
}
