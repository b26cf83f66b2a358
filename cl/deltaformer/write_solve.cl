/* What is written of a span, block by block: X what is left of V without the keys before the block, P those of its own,
 *     X = V - beta P_before U      U = (I + beta tril(P, -1))⁻¹ X
 * One group: one span of one key head, from first_row on, BV value columns. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, k) X(global const data_t, v) X(global const data_t, p) X(global const gate_t, e) \
    X(global data_t, written) X(global const int, cu) X(global float, parts)
#define OPTIONALS(X) \
    X(global const int, cu_kv) X(global const int, lens)
/* clang-format on */
KERNEL
write_solve(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int kv_len, int window, float scale, int given,
            int first_row)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(Q, LOCAL_QUERIES)
    LOCAL_FLOATS(R, LOCAL_ROWS)
    LOCAL_FLOATS(L, LOCAL_SCORES)
    LOCAL_FLOATS(M, LOCAL_SCORES)
    LOCAL_FLOATS(T, LOCAL_SCORES)
    LOCAL_FLOATS(O, LOCAL_OUTPUT)
    local float norms[LOCAL_NORMS], weights[LOCAL_WEIGHTS], beta[LOCAL_NORMS];
    cache_t cache = cache_of(cu_kv, cu_kv_at, lens, lens_at, kv_len, window, given);
    int c0 = get_group_id(2) * BV;

    for (int block = 0; block < SPAN; block++) {
        int row = first_row + block * CHUNK;
        list_t list = write_list(get_group_id(0), get_group_id(1), row, seq_len, cu, cu_at, cache);
        global const float *part = write_part(parts, parts_at, list, block);

        if (list.rows.count <= 0)
            return;
        write_fence();
        rows_norm(norms, token_row(p, list.rows, list.kv_head), p_at.z, 0, 1, list.rows.count);
        weights_begin(weights, 0, 0);
        SYNC();
        for_each(i, CP) {
            float most = part[CHUNK * VP + i];
            weight_most(weights)[i] = most;
            weight_level(weights)[i] = most == -INFINITY ? 0 : most;
            weight_total(weights)[i] = part[CHUNK * VP + CP + i];
        }
        for_each(i, CHUNK) {
            long at = list_row(e_at, list) + (row + i) * e_at.z;
            beta[i] = i >= list.rows.count ? 0 : given & GIVEN_BETA ? gate_get(e, at) : 1;
        }
        for_each(task, CHUNK * BV)
            O[task] = c0 + task % BV < VP ? part[task / BV * VP + c0 + task % BV] : 0;
        query_columns(Q, norms, p, p_at, list, scale * weight_unit());
        write_before_rows(O, L, weights, norms, R, Q, k, k_at, written, written_at, list, first_row, row - CHUNK, c0);
        write_scores(L, weights, norms, R, Q, k, k_at, list, row);
        SYNC();
        tile_scale_rows(O, weight_kept(weights), CHUNK, BV);
        SYNC();
        weights_end(weights);
        list_rows(R, BV, BV, v, v_at, list, row, c0, VALUE_DIM);
        SYNC();
        for_each(task, CHUNK * CP) {
            int i = task / CP, j = task % CP;
            M[task] = j < i ? beta[i] * weight_kept(weights)[i] * L[j * CP + i] : 0;
        }
        for_each(task, CHUNK * BV)
            R[task] -= beta[task / BV] * weight_kept(weights)[task / BV] * O[task];
        SYNC();
        unit_lower_inverse(T, M);
        tile_zero(O, CHUNK * BV);
        SYNC();
        mma_lower(O, T, R, BV);
        SYNC();
        for_each(task, list.rows.count * (BV / VEC)) {
            int i = task / (BV / VEC), c = task % (BV / VEC) * VEC;
            global out_t *to = written + list_row(written_at, list) + (row + i) * written_at.z;
            if (c0 + c < VALUE_DIM)
                write_values(to, vec_load(O + i * BV + c), c0 + c);
        }
    }
}
