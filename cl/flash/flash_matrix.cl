/* flash.cl on a matrix engine, the queries' sums in registers:
 *     S = Q Kᵀ + b        scores of a unit of keys; -inf where the query does not see the key
 *     m' = max(m, max S)      P = e^(S - m')      l = e^(m - m') l + Σ P      O = e^(m - m') O + P V
 * P goes from the accumulators of one product to the left operand of the other. A sub-group: SPAN tiles of rows, all
 * channels, the value columns BV. Blocks of keys and values are staged for the whole group, from the last query's own
 * downward; the next is on its way while one is worked. Groups of queries that see the most keys are first. */

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global out_t, o) \
    X(global const gate_t, g) X(global const int, cu)
#define OPTIONALS(X) \
    X(global const float, sink) X(global float, lse) X(global const int, cu_kv) X(global const int, lens)
/* clang-format on */
KERNEL
flash_matrix(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int sequences, int kv_len, int window, float scale,
             int given)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(tiles, LOCAL_TILES)
    local float norms[LOCAL_NORMS];
    BIAS_LOCALS
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    long group = (long)get_group_id(1) * get_num_groups(0) + get_group_id(0), heads = get_num_groups(1);
    int head = (int)(group % heads) * SHARE, c0 = get_group_id(2) * BV, own_row = LANE / ENGINE_LANES * SPAN * ACC_ROWS;
    list_t list = list_of(chunk_of_slot(list_slot(get_num_groups(0) - 1 - group / heads, sequences, seq_len), head,
                                        sequences, seq_len, cu, cu_at),
                          cache_of(cu_kv, cu_kv_at, lens, lens_at, kv_len, window, given & CACHED));
    own_t own = own_rows(list, own_row);
    address_t stages = address_of(tiles), queries = address_plus(stages, QUERIES_AT + own_row * QUERY_PITCH);
    int last = list_last(list);
    acc_t O[SPAN * VT];
    chain_t Q[QUERY_TILES];
    weights_t weights[SPAN];
    bias_t bias;

    if (list.rows.count <= 0)
        return;
    queries_put(tiles + QUERIES_AT, q, q_at, list, scale);
    bias = bias_begin(g, g_at, list, last, LOG2E * (TURNED ? scale : 1));
    SYNC();
    if (L2NORM) {
        query_norms(norms, tiles + QUERIES_AT);
        SYNC();
    }
    queries = address_plus(queries, chain_lane(m, QUERY_PITCH));
    queries_hold(m, Q, queries);
    engine_unrolled
    for (int s = 0; s < SPAN; s++)
        weights[s] = weights_begin(m, norms + own_row + s * ACC_ROWS, scale,
                                   sinks_get(m, sink, sink_at, head, own_row + s * ACC_ROWS, given & GIVEN_SINK));
    engine_unrolled
    for (int i = 0; i < SPAN * VT; i++)
        O[i] = 0;
    SYNC();
    stage_copy(tiles, k, k_at, v, v_at, list, last, c0);
    for (int n = 0, from = last; from + KEYS > list.least; n++, from -= KEYS) {
        int stage = n % STAGES * STAGE;

        copies_end();
        engine_sync_all(); /* the block is in its stage, and the stage before may be filled again */
        if (L2NORM) {
            key_norms(norms + QUERIES, tiles + stage);
            engine_sync_all();
        }
        rolled for (int place = KEYS - UNIT; place >= 0; place -= UNIT)
        {
            int first = from + place, diagonal = first + UNIT - 1 > own.least, all = own_sees_all(list, own, first);
            acc_t S[SPAN * STEP];
            chain_t P[SPAN * STEP];

            if (place == NEXT_PLACE) { /* the engine still multiplies the unit before */
                if (STAGES > 1 && from > list.least)
                    stage_copy(tiles + (n + 1) % STAGES * STAGE, k, k_at, v, v_at, list, from - KEYS, c0);
                bias_next(m, &bias, list, n, from);
            }
            if (ENGINE_ALONE && !own_sees(list, own, first))
                continue;
            scores(m, S, Q, queries, keys_at(m, address_plus(stages, stage), place));
            engine_unrolled
            for (int i = 0; i < SPAN * STEP; i++) {
                int row = own_row + i / STEP * ACC_ROWS, key = place + i % STEP * 16;
                if (L2NORM)
                    S[i] *= acc_factors(m, norms + QUERIES + key);
                S[i] =
                    bias_scores(m, &bias, S[i], weights[i / STEP].factor, n, key, list.position + row - from, diagonal);
                if (!all)
                    S[i] = list_masked(engine_again(m), S[i], list, row, from + key);
            }
            weights_raise(m, weights, S, O);
            engine_unrolled
            for (int s = 0; s < SPAN; s++) {
                weights_of(m, &weights[s], S + s * STEP, P + s * STEP);
                weights[s].ahead = bias_ahead(m, &bias, weights[s].ahead, n, place,
                                              list.position + own_row + s * ACC_ROWS - from, diagonal);
            }
            weights_read(m, O, P, values_at(m, address_plus(stages, stage), place));
        }
        if (STAGES == 1) {
            engine_sync_all();
            stage_copy(tiles, k, k_at, v, v_at, list, from - KEYS, c0);
        }
    }
    copies_end();
    engine_sync_all(); /* outputs take the place of stages */
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
