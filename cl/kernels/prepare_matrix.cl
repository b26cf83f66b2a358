/* Per chunk of a head, what scan_matrix needs and the state has no part in: the scores A, the erase's T = (I + M)⁻¹
 * and its kin, factors of the rows; and the rows themselves where they do not serve as they lie in memory. One
 * group: one chunk of one head. */
KERNEL
prepare_matrix(global const data_t *q, long4 q_at, global const data_t *k, long4 k_at, global const data_t *v,
               long4 v_at, global const gate_t *g, long4 g_at, global const gate_t *beta, long4 beta_at,
               global const erase_t *p, long4 p_at, global const data_t *e, long4 e_at, global const gate_t *w,
               long4 w_at, global const gate_t *u, long4 u_at, global const int *cu, long4 cu_at, global uint *records,
               long4 records_at, global uint *rows, long4 rows_at, int seq_len, int sequences, float scale)
{
    PREPARE_LOCALS
    local float norms[LOCAL_NORMS];
    local float strength[LOCAL_STRENGTH] __attribute__((aligned(16)));
    DECAY_PREPARE_LOCALS
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    chunk_t chunk = chunk_of_slot(get_group_id(0), get_group_id(1), sequences, seq_len, cu, cu_at);
    int heads = get_num_groups(1);
    long slot = get_group_id(0);
    global uint *record = records + records_at.x + (slot * heads + chunk.at.head) * MATRIX_RECORD;
    global uint *factors = record + MATRICES * MATRIX_FRAGS;
    const scales_t scales = {norms, strength, scale};
    rows_t held[TILES];

    if (STEPS == 1)
        fetch_operand(STREAM_Q, q, chunk.at.qk_head);
    fetch_operand(STREAM_K, k, chunk.at.qk_head);
    erase_rows_fetch(chunk);
    decay_load(chunk);
    for_each_after(i, CHUNK, GROUP / 2)
        strength[i] = write_strength(chunk, i);
    if (STEPS == 1)
        put_operand(STREAM_Q);
    else
        queries_put(stream_tile(STREAM_Q), q + at_row(q_at, chunk.at.batch, chunk.at.first, chunk.at.qk_head), q_at.z,
                    chunk);
    put_operand(STREAM_K);
    erase_rows_put(chunk);
    values_make(chunk);
    for_each(i, NORMS * CHUNK)
        norms[i] = 1;
    SYNC();
    rows_norms();
    SYNC();
    rows_map(stream_tile(STREAM_Q), norm_q);
    rows_map(stream_tile(STREAM_K), norm_k);
    decay_sum();
    matrix_scores();
    record_factors(factors);
    SYNC();
    erase_solve();
    SYNC();
    record_frags(m, record, halves);
    rows_finish();
}
