/* Per chunk of a head, what scan_matrix needs and the state has no part in, where a decay is one of whole rows:
 *     A = tril(Q K^T o e^(G_i - G_j))           the scores; with norms, scale and strengths
 *     T = (I + M)^-1 diag(strength)             M = tril(strength P K^T o e^(G_i - G_j), -1), where something is erased
 * (the low-rank rule's: matrix_erase_low_rank.clh), factors of the rows, and the rows themselves where they do not
 * serve as they lie in memory. One group: one chunk of one head; a sub-group, a tile of the scores. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const gate_t, g) X(global const float, a_log) \
    X(global const float, bias) X(global const strength_t, beta) X(global const erase_t, p) X(global const data_t, e) \
    X(global const int, cu) X(global uint, records) X(global uint, rows)
/* clang-format on */
KERNEL
prepare_matrix(TENSORS(PARAMETER) int seq_len, int sequences, float scale)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(tiles, LOCAL_TILES)
    /* What is solved lies where the rows were, unless these are left for the scan. */
    local float *inverse = (local float *)(tiles + ROWS_MADE * ROWS_NUMBERS);
    local float *erase_floats = inverse + MATRIX_FLOATS;
    local data_t *halves = (local data_t *)(inverse + SOLVED_FLOATS * MATRIX_FLOATS);
    local float norms[LOCAL_NORMS];
    local float strength[LOCAL_STRENGTH] __attribute__((aligned(16)));
    LOCAL_WORDS_IF(ROWS_DECAY, float, decay_logs, LOCAL_DECAY_LOGS)
    LOCAL_WORDS_IF(ROWS_DECAY, float, decay_sums, LOCAL_DECAY_SUMS)
    ENGINE_LOCALS
    typedef char each_score_has_a_sub_group[SCORE_TASKS <= SUBS ? 1 : -1];
    typedef char only_channels_have_a_bonus_or_gated_values[READ_BONUS || VALUES_MADE ? -1 : 1];
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
                         .record = record,
                         .factors = record + MATRICES * MATRIX_FRAGS,
                         .made = made_rows(rows, rows_at, slot, heads, chunk.at.head)};
    decays_t decays = decays_in(decay_logs, decay_sums);
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
    for_each(i, NORMS * CHUNK)
        norms[i] = 1;
    SYNC(); /* rows, strengths and decays are there, of all lanes */
    rows_norms(&work);
    SYNC(); /* norms are there */
    if (ROWS_MAPPED) {
        rows_map(stream_tile(tiles, STREAM_Q), norms);
        rows_map(stream_tile(tiles, STREAM_K), norms + CHUNK);
        SYNC(); /* the norms have been read, and are in the rows */
        for_each(i, 2 * CHUNK)
            norms[i] = 1;
        SYNC(); /* rows and norms are there */
    }
    decay_sum(&decays);

    if (SCORES > 0) {
        const score_task_t task = score_task();
        acc_t products[2];
        scores_multiply(&work, task, products);
        SYNC(); /* all products are made: what they become takes the place of the rows */
        upper_zero(halves);
        if (task.works)
            scores_finish(&work, &decays, products, task.first, task.second, task.ti, task.tj);
    } else
        SYNC(); /* the sums of the decays are there */
    record_factors(&work, &decays);
    SYNC(); /* the scores are there */

    /* T = (I + M)^-1, M the score that is in floats: by tiles of 8 on the diagonal, of 16, of the chunk */
    if (ERASES) {
        local data_t *rounded = halves + CHUNK * HP;
        local const float *factor = LOW_RANK ? 0 : strength;
        inverse_halves(inverse, erase_floats);
        SYNC(); /* the tiles of 8 are solved */
        inverse_tiles_begin(inverse, rounded, erase_floats, factor);
        SYNC(); /* M12 of the tiles of 16 is there */
        inverse_tiles_end(inverse, rounded, erase_floats);
        SYNC(); /* the tiles of 16 are solved */
        inverse_round(inverse, rounded, erase_floats, factor, (NT - 1 + LOW_RANK) * 32);
        if (LOW_RANK) /* T A_ak; CHUNK is 16 */
            lower_matrix_product(halves + 2 * CHUNK * HP, inverse, erase_floats + MATRIX_FLOATS);
        else if (NT > 1) {
            inverse_merge_begin(inverse, erase_floats);
            SYNC(); /* T12 is there */
            inverse_merge_end(inverse, rounded, erase_floats, factor);
        }
        SYNC(); /* the matrices are rounded */
    }
    record_frags(work.m, record, halves);
    for (int s = 0; s < STREAMS; s++)
        rows_keep(work.made, s, stream_tile(tiles, s));
}
