/* Per chunk of a head, what does not depend on the state:
 *     A_ij = Σ_n q_in k_jn e^(G_in - G_jn), j <= i        T = (I + M)⁻¹ and its kin (erase_*.clh)
 * and the factors of each row. One group: one chunk of one head. LEAVES_ERASED: the scan wants what the rows write before
 * their strength, E = T' (X - (P o e^G) S) with T' = (I + M')⁻¹, where M' has the strengths of its columns. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const gate_t, g) X(global const float, a_log) \
    X(global const float, bias) X(global const strength_t, beta) X(global const erase_t, p) \
    X(global const data_t, e) X(global const gate_t, u) X(global const int, cu) X(global float, records)
/* clang-format on */
KERNEL
prepare(TENSORS(PARAMETER) int seq_len, int sequences, float scale)
{
    TENSORS(ABSENT)
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
    for (int n0 = 0; n0 < KP && (STATE_IS_READ || ERASE_MATRICES > 0); n0 += BK) {
        if (STATE_IS_READ)
            query_rows(Q, norm_of_q(factors), q, q_at, n0, chunk, scale);
        key_rows(K, norm_of_k(factors), k, k_at, n0, chunk);
        decay_slice(decay, g, g_at, n0, chunk);
        SYNC();
        if (STATE_IS_READ) {
            scores(A, Q, K, decay, READ_BEFORE);
            SYNC();
            read_bonus(A, Q, K, u, u_at, n0, chunk);
        }
        erase_slice(Q, K, n0, chunk);
        SYNC();
    }
    decay_between(A, decay, READ_BEFORE);
    for_each(i, CHUNK) {
        query_factor(factors)[i] = decay_read(decay.log, i, READ_BEFORE);
        erase_factor(factors)[i] =
            decay_read(decay.log, i, ERASE_BEFORE) * (LEAVES_ERASED ? 1.0f : strength_of(factors)[i]);
        write_factor(factors)[i] = decay_write(decay.log, i) * (LEAVES_ERASED ? strength_of(factors)[i] : 1.0f);
    }
    for_each(i, VEC)
        across_factor(factors)[i] = decay_across(decay.log);
    SYNC();
    erase_finish(record + MATRIX);
    SYNC();
    for_each(i, CHUNK * LEAVES_ERASED)
        strength_of(factors)[i] = 1;
    SYNC();
    copy_out(record, A, MATRIX);
    copy_out(record + (1 + ERASE_MATRICES) * MATRIX, factors, FACTORS);
}
