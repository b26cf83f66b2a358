/* Per chunk of a head, what does not depend on the state:
 *     A_ij = Σ_n q_in k_jn e^(G_in - G_jn), j <= i        T = (I + M)⁻¹        W = T (P o e^G)        X' = T X
 * of which the last three where something is erased (of low rank: T A_ak X in T X's place, and A_qb), the factors of
 * each row, and with a decay a channel the rows as they read and write the state. One group: one chunk of one head. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global const gate_t, g) \
    X(global const float, a_log) X(global const float, bias) X(global const gate_t, beta) \
    X(global const erase_t, p) X(global const data_t, e) X(global const gate_t, w) X(global const gate_t, u) \
    X(global const int, cu) X(global float, records) X(global float, rows)
/* clang-format on */
KERNEL
prepare_blocks(TENSORS(PARAMETER) int seq_len, int sequences, float scale, int first_row)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(slices, LOCAL_SLICES)
    local float factors[FACTORS];
    ERASE_NORM_LOCALS
    ENGINE_LOCALS
    BLOCK_DECAY_LOCALS
    engine_t m = engine_begin(engine_scratch);
    chunk_t chunk = stretch_chunk(get_group_id(0), get_group_id(1), sequences, seq_len, cu, cu_at, first_row);
    long block = (long)get_group_id(0) * get_num_groups(1) + get_group_id(1);
    global float *record = records + records_at.x + block * RECORD, *made = rows + rows_at.x + block * MADE_ROWS;
    local float *matrix = slices, *second_matrix = slices + CHUNK * CP, *columns = slices + (1 + SECOND) * CHUNK * CP;
    int n0 = 0;

    blocks_norms(norm_of_q(factors), query_raw, slices);
    blocks_norms(norm_of_k(factors), key_raw, slices);
    for_each(i, CHUNK)
        strength_of(factors)[i] = write_strength(chunk, i);
    erase_norms_put(blocks_norms, slices);
    SYNC();
    blocks_decay_chunk(chunk);
    blocks_decay_factors(factors);
    SYNC();
    erase_norms_apply();
    SYNC();
    scores_make();
    blocks_decay_leave(record + BLOCK_LOGS);
    for_each(i, FACTORS)
        record[BLOCK_FACTORS + i] = factors[i];
    if (!ERASES)
        return;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    unit_lower_solve(matrix);
    product_leave(erasing, KP, made + MADE_ERASING, matrix);
    if (SECOND)
        product_turn(matrix, second_matrix);
    product_leave(value, VP, made + MADE_WRITTEN, SECOND ? second_matrix : matrix);
}
