/* DeltaFormer on any device, the second kernel of a span, block by block. With X what is left of V without the keys before
 * the block, and P the weights of the block's own, over their denominators l:
 *     X = V - beta P_before U      U = (I + beta tril(P, -1))⁻¹ X
 *
 * A work-group has a span of one key head, from first_row on, and BV value columns. For each block of CHUNK rows it begins
 * with the sums that write_before.cl left, adds the blocks of the span before it, then has the block's own weights, with
 * which the denominators are whole. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, k) X(global const data_t, v) X(global const data_t, p) X(global const gate_t, e) \
    X(global data_t, written) X(global const int, cu) X(global float, partials)
#define OPTIONALS(X) \
    X(global const int, cu_kv) X(global const int, lens)
/* clang-format on */
KERNEL
write_solve(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int kv_len, int window, float scale, int given,
            int first_row)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(query_tile, LOCAL_QUERIES) /* rows of p */
    LOCAL_FLOATS(row_tile, LOCAL_ROWS)
    LOCAL_FLOATS(score_tile, LOCAL_SCORES)
    LOCAL_FLOATS(lower_tile, LOCAL_SCORES)
    LOCAL_FLOATS(inverse_tile, LOCAL_SCORES)
    LOCAL_FLOATS(output_tile, LOCAL_OUTPUT)
    local float norms[LOCAL_NORMS], softmax[LOCAL_WEIGHTS], beta[LOCAL_NORMS];
    cache_t cache = cache_of(cu_kv, cu_kv_at, lens, lens_at, kv_len, window, given);
    int first_column = get_group_id(2) * BV;

    for (int block = 0; block < SPAN; block++) {
        int row = first_row + block * CHUNK;
        list_t list = write_list(get_group_id(0), get_group_id(1), row, seq_len, cu, cu_at, cache);
        global const float *partial = partials_of(partials, partials_at, list, block);

        if (list.rows.count <= 0)
            return;
        write_fence(); /* u of the block before is in global memory; nobody reads its tiles any more */
        rows_norm(norms, token_row(p, list.rows, list.kv_head), p_at.z, 0, 1, list.rows.count);
        weights_begin(softmax, 0, 0);
        SYNC(); /* the rows' norms are there; what is known of them may be overwritten */
        for_each(i, CP) {
            float most = partial[CHUNK * VP + i];
            weight_most(softmax)[i] = most;
            weight_level(softmax)[i] = most == -INFINITY ? 0 : most;
            weight_total(softmax)[i] = partial[CHUNK * VP + CP + i];
        }
        for_each(i, CHUNK) {
            long at = list_row(e_at, list) + (row + i) * e_at.z;
            beta[i] = i >= list.rows.count ? 0 : given & GIVEN_BETA ? gate_get(e, at) : 1;
        }
        for_each(task, CHUNK * BV)
            output_tile[task] = first_column + task % BV < VP ? partial[task / BV * VP + first_column + task % BV] : 0;
        query_columns(query_tile, norms, p, p_at, list, scale * weight_unit());

        /* Blocks of keys from the last before this one down to the span's first; at last the block's own. */
        for (int turn = block - 1; turn >= -1; turn--) {
            int from = turn >= 0 ? first_row + turn * CHUNK : row;

            SYNC(); /* rows are there; nobody reads the scores, norms and values of the block of keys before */
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
            if (turn < 0)
                break;
            list_rows(row_tile, BV, BV, written, written_at, list, from, first_column, VALUE_DIM);
            SYNC(); /* u of the block of keys is there */
            mma(output_tile, weight_kept(softmax), 1, score_tile, 1, CP, row_tile, CHUNK, BV, CHUNK, 0);
        }
        SYNC(); /* sums of weights are whole */
        tile_scale_rows(output_tile, weight_kept(softmax), CHUNK, BV);
        SYNC(); /* what sums over earlier keys keep has been read: 1 / l takes its place */
        weights_end(softmax);
        list_rows(row_tile, BV, BV, v, v_at, list, row, first_column, VALUE_DIM);
        SYNC(); /* 1 / l and V are there */
        for_each(task, CHUNK * CP) {
            int i = task / CP, j = task % CP;
            lower_tile[task] = j < i ? beta[i] * weight_kept(softmax)[i] * score_tile[j * CP + i] : 0;
        }
        for_each(task, CHUNK * BV)
            row_tile[task] -= beta[task / BV] * weight_kept(softmax)[task / BV] * output_tile[task];
        SYNC(); /* beta tril(P, -1) and X are there; nobody reads the sums any more */
        unit_lower_inverse(inverse_tile, lower_tile);
        tile_zero(output_tile, CHUNK * BV);
        SYNC(); /* the inverse is there */
        mma_lower(output_tile, inverse_tile, row_tile, BV);
        SYNC(); /* U is whole */
        for_each(task, list.rows.count * (BV / VEC)) {
            int i = task / (BV / VEC), c = task % (BV / VEC) * VEC;
            global out_t *to = written + list_row(written_at, list) + (row + i) * written_at.z;
            if (first_column + c < VALUE_DIM)
                write_values(to, vec_load(output_tile + i * BV + c), first_column + c);
        }
    }
}
