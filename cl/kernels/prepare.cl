/* Per chunk of a head, what does not depend on the state:
 *     A_ij = Σ_n q_in k_jn e^(G_in - G_jn), j <= i        T = (I + M)⁻¹ and its kin (erase_*.clh)
 * and the factors of each row. One group: one chunk of one head. */
KERNEL
prepare(global const data_t *q, long4 q_at, global const data_t *k, long4 k_at, global const gate_t *g, long4 g_at,
        global const float *a_log, long4 a_log_at, global const float *bias, long4 bias_at, global const gate_t *beta,
        long4 beta_at, global const erase_t *p, long4 p_at, global const data_t *e, long4 e_at, global const gate_t *u,
        long4 u_at, global const int *cu, long4 cu_at, global float *records, long4 records_at, int seq_len,
        int sequences, float scale)
{
    local float Q[LOCAL_ROWS_Q], K[LOCAL_ROWS_K], A[LOCAL_SCORES], factors[FACTORS];
    DECAY_LOCALS
    ERASE_LOCALS
    chunk_t chunk = chunk_of_slot(get_group_id(0), get_group_id(1), sequences, seq_len, cu, cu_at);
    global float *record =
        records + records_at.x + ((long)get_group_id(0) * get_num_groups(1) + get_group_id(1)) * RECORD;

    query_norms(norm_of_q(factors), q, q_at, chunk);
    key_norms(norm_of_k(factors), k, k_at, chunk);
    for_each(i, CHUNK)
        strength_of(factors)[i] = write_strength(chunk, i);
    decay_chunk(decay, g, g_at, chunk);
    tile_zero(A, MATRIX);
    erase_start(chunk);
    SYNC();
    for (int n0 = 0; n0 < KP; n0 += BK) {
        query_rows(Q, norm_of_q(factors), q, q_at, n0, chunk, scale);
        key_rows(K, norm_of_k(factors), k, k_at, n0, chunk);
        decay_slice(decay, g, g_at, n0, chunk);
        SYNC();
        scores(A, Q, K, decay, READ_BEFORE);
        SYNC();
        read_bonus(A, Q, K, u, u_at, n0, chunk);
        erase_slice(Q, K, n0, chunk);
        SYNC();
    }
    decay_between(A, decay, READ_BEFORE);
    for_each(i, CHUNK) {
        query_factor(factors)[i] = decay_read(decay.log, i, READ_BEFORE);
        erase_factor(factors)[i] = decay_read(decay.log, i, ERASE_BEFORE) * strength_of(factors)[i];
        write_factor(factors)[i] = decay_write(decay.log, i);
    }
    for_each(i, VEC)
        across_factor(factors)[i] = decay_across(decay.log);
    SYNC();
    erase_finish(record + MATRIX);
    copy_out(record, A, MATRIX);
    copy_out(record + (1 + ERASE_MATRICES) * MATRIX, factors, FACTORS);
}
