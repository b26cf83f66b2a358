/* What the keys before a span make of its rows: O = Σ P u with m and Σ P on their way, as in flash.cl. One group: one
 * block of rows of one key head of the span from first_row on, BV value columns. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, k) X(global const data_t, p) X(global const data_t, written) X(global const int, cu) \
    X(global float, parts)
#define OPTIONALS(X) \
    X(global const int, cu_kv) X(global const int, lens)
/* clang-format on */
KERNEL
write_before(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int kv_len, int window, float scale, int given,
             int first_row)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(Q, LOCAL_QUERIES)
    LOCAL_FLOATS(R, LOCAL_ROWS)
    LOCAL_FLOATS(L, LOCAL_SCORES)
    LOCAL_FLOATS(O, LOCAL_OUTPUT)
    local float norms[LOCAL_NORMS], weights[LOCAL_WEIGHTS];
    int columns = (VALUE_DIM + BV - 1) / BV, block = get_group_id(2) / columns, c0 = get_group_id(2) % columns * BV;
    cache_t cache = cache_of(cu_kv, cu_kv_at, lens, lens_at, kv_len, window, given);
    list_t list = write_list(get_group_id(0), get_group_id(1), first_row + block * CHUNK, seq_len, cu, cu_at, cache);
    global float *part = write_part(parts, parts_at, list, block);

    if (list.rows.count <= 0)
        return;
    rows_norm(norms, token_row(p, list.rows, list.kv_head), p_at.z, 0, 1, list.rows.count);
    weights_begin(weights, 0, 0);
    tile_zero(O, CHUNK * BV);
    SYNC();
    query_columns(Q, norms, p, p_at, list, scale * weight_unit());
    write_before_rows(O, L, weights, norms, R, Q, k, k_at, written, written_at, list, 0, first_row - CHUNK, c0);
    for_each(task, CHUNK * BV)
        if (c0 + task % BV < VP)
            part[task / BV * VP + c0 + task % BV] = O[task];
    for_each(i, c0 == 0 ? CP : 0) {
        part[CHUNK * VP + i] = weight_most(weights)[i];
        part[CHUNK * VP + CP + i] = weight_total(weights)[i];
    }
}
