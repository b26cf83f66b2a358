/* flash_matrix.cl by teams of sub-groups: keys and values are multiplied where they lie in local memory, and a block
 * is one unit. flash_moved_apart.clh and flash_moved.clh say who moves them; ahead of its products a team waits, and
 * says when it has done with each, so that teams go their own ways. */

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global out_t, o) \
    X(global const gate_t, g) X(global const int, cu) X(global const float, after)
#define OPTIONALS(X) \
    X(global const float, sink) X(global float, lse) X(global const int, cu_kv) X(global const int, lens)
/* clang-format on */
KERNEL
flash_team(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int sequences, int kv_len, int window, float scale,
           int given)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(tiles, LOCAL_TILES)
    local float *norms = (local float *)(tiles + NORMS_AT);
    BIAS_LOCALS
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    long group = (long)get_group_id(1) * get_num_groups(0) + get_group_id(0), heads = get_num_groups(1);
    int head = (int)(group % heads) * SHARE, c0 = get_group_id(2) * BV, own_row = LANE / ENGINE_LANES * SPAN * ACC_ROWS;
    list_t list = list_of(chunk_of_slot(list_slot(get_num_groups(0) - 1 - group / heads, sequences, seq_len), head,
                                        sequences, seq_len, cu, cu_at),
                          cache_of(cu_kv, cu_kv_at, lens, lens_at, kv_len, window, given & CACHED));
    own_t own = own_rows(list, own_row), team = rows_from(list, own_row / TEAM_ROWS * TEAM_ROWS, TEAM_ROWS);
    address_t block = address_of(tiles);
    blocks_t blocks = {tiles, norms + QUERIES, k, v, k_at, v_at, c0};
    int last = list_last(list);
    acc_t O[SPAN * VT];
    chain_t Q[SPAN * KT];
    weights_t weights[SPAN];
    bias_t bias;

    if (list.rows.count <= 0)
        return;
    bias = bias_of_team(g, g_at, after, after_at, list, kv_len, last, LOG2E * (TURNED ? scale : 1));
    if (!is_computing()) {
        team_shrink();
        blocks_move(&blocks, list, last, 0);
        return;
    }
    queries_get(m, Q, norms, q, q_at, list, own_row, scale);
    team_grow();
    engine_unrolled
    for (int s = 0; s < SPAN; s++)
        weights[s] = weights_begin(m, norms + own_row + s * ACC_ROWS, scale,
                                   sinks_get(m, sink, sink_at, head, own_row + s * ACC_ROWS, given & GIVEN_SINK));
    engine_unrolled
    for (int i = 0; i < SPAN * VT; i++)
        O[i] = 0;
    for (int n = 0, from = last; from + KEYS > list.least; n++, from -= KEYS) {
        int diagonal = from + KEYS - 1 > own.least, all = own_sees_all(list, own, from);
        int sees = !ENGINE_ALONE || own_sees(list, team, from);
        acc_t S[SPAN * STEP];
        chain_t P[SPAN * STEP];

        bias_bring(m, &bias, n);
        keys_wait(m, &blocks, list, n, from);
        if (sees) {
            scores(m, S, Q, address_plus(block, keys_place(n)));
            engine_unrolled
            for (int i = 0; i < SPAN * STEP && L2NORM; i++)
                S[i] *= acc_factors(m, norms_of(&blocks, n) + i % STEP * 16);
        }
        keys_done(n);
        if (sees) {
            if (all && !diagonal) {
                engine_unrolled
                for (int i = 0; i < SPAN * STEP; i++)
                    S[i] = bias_scores(m, &bias, S[i], weights[i / STEP].factor, n, i % STEP * 16, 0, 0);
            } else {
                engine_unrolled
                for (int i = 0; i < SPAN * STEP; i++) {
                    int row = own_row + i / STEP * ACC_ROWS, key = i % STEP * 16;
                    S[i] = bias_scores(m, &bias, S[i], weights[i / STEP].factor, n, key, list.position + row - from,
                                       diagonal);
                    S[i] = list_masked(engine_again(m), S[i], list, row, from + key);
                }
            }
            weights_raise(m, weights, S, O);
            engine_unrolled
            for (int s = 0; s < SPAN; s++) {
                weights_of(m, &weights[s], S + s * STEP, P + s * STEP);
                weights[s].ahead = bias_ahead(m, &bias, weights[s].ahead, n, 0,
                                              list.position + own_row + s * ACC_ROWS - from, diagonal);
            }
        }
        values_wait(n);
        if (sees)
            weights_read(m, O, P, address_plus(block, values_place(n)));
        values_done(n);
    }
    outputs_wait(); /* outputs take the place of blocks */
    engine_unrolled
    for (int s = 0; s < SPAN; s++) {
        int row = own_row + s * ACC_ROWS;
        acc_rows_t total = weights_total(m, &weights[s], sinks_get(m, sink, sink_at, head, row, given & GIVEN_SINK));

        outputs_put(m, tiles + row * OUTPUT_PITCH, O + s * VT, total);
        if (given & GIVEN_LSE && c0 == 0)
            logs_store(m, lse, lse_at, list, row, weights[s].most, total);
    }
    engine_sync_own();
    outputs_store(m, tiles + own_row * OUTPUT_PITCH, o, o_at, list, own_row, SPAN * ACC_ROWS, c0);
}
