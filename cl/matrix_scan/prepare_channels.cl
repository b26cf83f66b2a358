/* prepare_matrix.cl where each channel has a decay of its own, so that e^(G_i - G_j) lies inside the sum of channels:
 *     A_ij = sum_n q_in k_jn e^(G_in - G_jn)    j <= i; with norms, scale and strengths; likewise what is erased
 * T, and the rows q e^G, p e^G and k e^(G_C - G), which are left decayed, so that they have no factors. One group: one
 * chunk of 16 tokens of one head. Scores are made in one of two ways, for all of the chunk alike: on the engine, of
 * rows in two parts (split_scores.clh), or where the decays are too steep for that, lane by lane, each key decayed from
 * row to row. The kernel has its sibling's name. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global const gate_t, g) \
    X(global const float, a_log) X(global const float, bias) X(global const strength_t, beta) \
    X(global const erase_t, p) X(global const data_t, e) X(global const gate_t, w) X(global const gate_t, u) \
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
    LOCAL_FLOATS(decay_rows, LOCAL_DECAYS)
    local int steep;
    ENGINE_LOCALS
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
    decays_t decays = decays_in(decay_rows, &steep);
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

    if (SPLIT) {
        split_look(&work, &decays);
        SYNC(); /* every lane has said whether its decays are too steep */
        decays.split = !steep;
    }
    if (decays.split) {
        acc_t products[2 * SCORE_PAIRS];
        if (score_bonus(0)) {
            channel_own(decays.parts, stream_tile(tiles, score_rows(0)), stream_tile(tiles, score_columns(0)),
                        work.own);
            SYNC(); /* the tokens' own shares are there, and q and k are read: their parts take the place */
        }
        if (LANE < WIDTH)
            split_rows(&work, &decays);
        SYNC(); /* the rows are there in two parts */
        split_multiply(&work, &decays, products);
        SYNC(); /* the parts are read: sums take their place */
        split_sums_leave(&work, &decays, products);
        SYNC(); /* each sub-group's share of the sums is there */
        engine_unrolled
        for (int s = 0; s < SCORES; s++)
            split_score(&work, &decays, s);
    } else
        for (int pair = 0; pair < SCORE_PAIRS; pair++) {
            const int first = pair_first(pair), second = pair_second(pair);
            local const data_t *rows_first = stream_tile(tiles, score_rows(first));
            local const data_t *columns = stream_tile(tiles, score_columns(first));
            channel_parts(decays.parts, rows_first, score_before(first), stream_tile(tiles, score_rows(second)),
                          score_before(second), columns, decays.rows);
            if (score_bonus(first)) {
                SYNC(); /* the diagonal's parts are put: tokens' own shares take their place */
                channel_own(decays.parts, rows_first, columns, work.own);
            }
            SYNC(); /* all parts are there */
            channel_score(&work, decays.parts, first);
            if (SCORES > 1)
                channel_score(&work, decays.parts + PARTS, second);
            SYNC(); /* the parts are read */
        }
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
    if (!decays.split)
        rows_finish(&work, &decays);
}
