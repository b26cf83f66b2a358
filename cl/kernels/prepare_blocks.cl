/* Per chunk of a head, what does not depend on the state:
 *     A_ij = Σ_n q_in k_jn e^(G_in - G_jn), j <= i        T = (I + M)⁻¹        W = T (P o e^G)        X' = T X
 * of which the last three where something is erased (of low rank: T A_ak X in T X's place, and A_qb), the factors of
 * each row, and with a decay a channel the rows as they read and write the state. One group: one chunk of one head. */
KERNEL
prepare_blocks(global const data_t *q, long4 q_at, global const data_t *k, long4 k_at, global const data_t *v,
               long4 v_at, global const gate_t *g, long4 g_at, global const gate_t *beta, long4 beta_at,
               global const erase_t *p, long4 p_at, global const data_t *e, long4 e_at, global const gate_t *w,
               long4 w_at, global const gate_t *u, long4 u_at, global const int *cu, long4 cu_at, global float *records,
               long4 records_at, global float *rows, long4 rows_at, int seq_len, int sequences, float scale,
               int first_row)
{
    LOCAL_FLOATS(slices, LOCAL_SLICES)
    local float factors[FACTORS], bonus[CHUNK];
    ERASE_NORM_LOCALS
    ENGINE_LOCALS
    BLOCK_DECAY_LOCALS
    engine_t m = engine_begin();
    chunk_t chunk = stretch_chunk(get_group_id(0), get_group_id(1), sequences, seq_len, cu, cu_at, first_row);
    long block = (long)get_group_id(0) * get_num_groups(1) + get_group_id(1);
    global float *record = records + records_at.x + block * RECORD, *made = rows + rows_at.x + block * MADE_ROWS;
    local float *matrix = slices, *second_matrix = slices + CHUNK * CP, *columns = slices + (1 + SECOND) * CHUNK * CP;
    float sums[SCORE_MATRICES * SCORE_ROWS * VEC];
    data_raw_t held_q[SLICE_HELD], held_k[SLICE_HELD], held_e[SLICE_HELD];
    erase_raw_t held_p[SLICE_HELD];
    int n0 = 0, pair = LANE / LANES_PAIR, I = 0, J, i0, j0, lane_has_block = pair < PAIRS;

    while ((I + 1) * (I + 2) / 2 <= pair)
        I++;
    J = pair - I * (I + 1) / 2;
    i0 = I * SPOT + LANE % LANES_PAIR / (SPOT / VEC) * SCORE_ROWS;
    j0 = J * SPOT + LANE % (SPOT / VEC) * VEC;
    vec_unrolled
    for (int i = 0; i < SCORE_MATRICES * SCORE_ROWS * VEC; i++)
        sums[i] = 0;
    blocks_norms(norm_of_q(factors), query_raw, slices);
    blocks_norms(norm_of_k(factors), key_raw, slices);
    for_each(i, CHUNK) {
        strength_of(factors)[i] = write_strength(chunk, i);
        bonus[i] = 0;
    }
    erase_norms_put(blocks_norms, slices);
    SYNC();
    blocks_decay_chunk(chunk);
    blocks_decay_factors(factors);
    SYNC();
    erase_norms_apply();
    SYNC();
    slices_fetch();
    while (n0 < KP) {
        slices_put();
        SYNC();
        n0 += BK;
        if (n0 < KP)
            slices_fetch();
        if (BONUS)
            blocks_bonus(bonus, slices, n0 - BK);
        blocks_decay_slice(n0 - BK);
        if (lane_has_block && blocks_decay_products(I, J))
            scores_add(sums, slices, i0, j0);
        SYNC();
    }
    blocks_decay_collect(sums);
    if (SECOND)
        tile_zero(second_matrix, CHUNK * CP);
    SYNC();
    if (lane_has_block) {
        scores_leave(0, record + BLOCK_SCORES, CHUNK, READ_BEFORE, READ_BEFORE, 1);
        if (ERASES)
            scores_put(1, matrix, CP, ERASE_BEFORE, 1, erase_row_factor(i));
        if (SECOND) {
            scores_put(2, second_matrix, CP, ERASE_BEFORE, ERASE_BEFORE, 1);
            scores_leave(3, record + BLOCK_SECOND, CHUNK, 0, 0, 1);
        }
    }
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
