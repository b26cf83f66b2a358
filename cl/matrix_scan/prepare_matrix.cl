/* Per chunk of a head, what scan_matrix needs and the state has no part in: the scores A, the erase's T = (I + M)⁻¹
 * and its kin, factors of the rows; and the rows themselves where they do not serve as they lie in memory. One
 * group: one chunk of one head. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global const gate_t, g) \
    X(global const float, a_log) X(global const float, bias) X(global const gate_t, beta) \
    X(global const erase_t, p) X(global const data_t, e) X(global const gate_t, w) X(global const gate_t, u) \
    X(global const int, cu) X(global uint, records) X(global uint, rows)
/* clang-format on */
KERNEL
prepare_matrix(TENSORS(PARAMETER) int seq_len, int sequences, float scale)
{
    TENSORS(ABSENT)
    PREPARE_LOCALS
    local float norms[LOCAL_NORMS];
    local float strength[LOCAL_STRENGTH] __attribute__((aligned(16)));
    DECAY_PREPARE_LOCALS
    ENGINE_LOCALS
    typedef char each_score_has_a_sub_group[SCORES_IN_SUB_GROUPS ? 1 : -1];
    const chunk_t chunk = chunk_of_slot(get_group_id(0), get_group_id(1), sequences, seq_len, cu, cu_at);
    const long slot = get_group_id(0), heads = get_num_groups(1);
    global uint *record = records + records_at.x + (slot * heads + chunk.at.head) * MATRIX_RECORD;
    const work_t work = {.m = engine_begin(engine_scratch),
                         .chunk = chunk,
                         .tiles = tiles,
                         .halves = halves,
                         .inverse = inverse,
                         .erase_floats = erase_floats,
                         .norms = norms,
                         .strength = strength,
                         .scales = {norms, strength, scale},
                         .own = read_own(u, u_at, chunk.at.head),
                         .record = record,
                         .factors = record + MATRICES * MATRIX_FRAGS,
                         .made = made_rows(rows, rows_at, slot, heads, chunk.at.head)};
    rows_t held[TILES];

    if (STEPS == 1)
        operand_fetch(&held[STREAM_Q], q, q_at, chunk.at.qk_head, chunk);
    operand_fetch(&held[STREAM_K], k, k_at, chunk.at.qk_head, chunk);
    erase_rows_fetch(held, p, p_at, e, e_at, chunk);
    decay_load(&decays, (gates_t)GATES_HERE, g, g_at, chunk);
    for_each_after(i, CHUNK, GROUP / 2)
        strength[i] = write_strength(chunk, i);
    if (STEPS == 1)
        rows_put(&held[STREAM_Q], stream_tile(tiles, STREAM_Q), chunk.count);
    else
        queries_put(stream_tile(tiles, STREAM_Q), q + at_row(q_at, chunk.at.batch, chunk.at.first, chunk.at.qk_head),
                    q_at.z, chunk);
    rows_put(&held[STREAM_K], stream_tile(tiles, STREAM_K), chunk.count);
    erase_rows_put(tiles, held, k, k_at, p, p_at, chunk);
    values_make(work.made, v, v_at, w, w_at, chunk);
    for_each(i, NORMS * CHUNK)
        norms[i] = 1;
    SYNC();
    rows_norms(&work);
    SYNC();
    rows_map(stream_tile(tiles, STREAM_Q), norms);
    rows_map(stream_tile(tiles, STREAM_K), norms + CHUNK);
    decay_sum(&decays);
    matrix_scores(&work, &decays);
    record_factors(&work, &decays);
    SYNC();
    erase_solve(&work);
    SYNC();
    record_frags(work.m, record, halves);
    rows_finish(&work, &decays);
}
