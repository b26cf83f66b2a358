/* write_before.cl on a matrix engine, by the words of flash_matrix.cl: of a part of the keys before a span the sums
 * Σ P u of its rows, which write_solve_matrix.cl joins; and of the span's own keys, whose u is not known yet, P. One
 * group: one block of rows of one key head, one of SPLITS parts of the keys or the span's own, BV value columns. The
 * parts are first, for they take longest. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, k) X(global const data_t, p) X(global const data_t, written) X(global const int, cu) \
    X(global float, parts)
/* clang-format on */
KERNEL
write_before_matrix(TENSORS(PARAMETER) int seq_len, int kv_len, float scale, int first_row)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(tiles, LOCAL_TILES)
    local float norms[LOCAL_NORMS];
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    int blocks = SPAN_ROWS / QUERIES, columns = get_num_groups(2) / (SPLITS + 1) / blocks;
    int split = get_group_id(2) / (blocks * columns), c0 = get_group_id(2) / blocks % columns * BV;
    int first = (blocks - 1 - get_group_id(2) % blocks) * QUERIES;
    int own_row = sub_row();
    list_t list = write_list(get_group_id(0), get_group_id(1), first_row + first, QUERIES, seq_len, cu, cu_at, kv_len);
    keys_t keys = keys_of(split, first_row, first_row + first);
    address_t stages = address_of(tiles), queries = address_plus(stages, QUERIES_AT + own_row * QUERY_PITCH);
    acc_t O[SPAN * VT];
    chain_t Q[QUERY_TILES];
    weights_t weights[SPAN];
    bias_t bias = {0};

    if (list.rows.count <= 0 || (keys.own && c0 > 0))
        return;
    queries_put(tiles + QUERIES_AT, p, p_at, list, scale);
    SYNC();
    if (L2NORM) {
        query_norms(norms, tiles + QUERIES_AT);
        SYNC();
    }
    queries = address_plus(queries, chain_lane(m, QUERY_PITCH));
    queries_hold(m, Q, queries);
    engine_unrolled
    for (int s = 0; s < SPAN; s++)
        weights[s] = weights_begin(m, norms + own_row + s * ACC_ROWS, scale, (acc_rows_t)(-INFINITY));
    engine_unrolled
    for (int i = 0; i < SPAN * VT; i++)
        O[i] = 0;
    SYNC();
    before_copy(tiles, k, k_at, written, written_at, list, keys, c0);
    for (int n = 0; keys.turn >= 0; n++, keys = keys_next(keys)) {
        int stage = n % STAGES * STAGE, from = keys.from;

        copies_end();
        engine_sync_all(); /* the block is in its stage, and the stage before may be filled again */
        if (L2NORM) {
            key_norms(norms + QUERIES, tiles + stage);
            engine_sync_all();
        }
        rolled for (int place = KEYS - UNIT; place >= 0; place -= UNIT)
        {
            acc_t S[SPAN * STEP];
            chain_t P[SPAN * STEP];

            if (place == NEXT_PLACE && STAGES > 1)
                before_copy(tiles + (n + 1) % STAGES * STAGE, k, k_at, written, written_at, list, keys_next(keys), c0);
            if (ENGINE_ALONE && keys.own && !own_sees(list, own_rows(list, sub_row()), from + place))
                continue;
            scores(m, S, Q, queries, keys_at(m, address_plus(stages, stage), place));
            engine_unrolled
            for (int i = 0; i < SPAN * STEP; i++) {
                int key = place + i % STEP * 16;
                if (L2NORM)
                    S[i] *= acc_factors(m, norms + QUERIES + key);
                S[i] = bias_scores(m, &bias, S[i], weights[i / STEP].factor, n, key, 0, 0);
                if (keys.own)
                    S[i] = list_masked(engine_again(m), S[i], list, sub_row() + i / STEP * ACC_ROWS, from + key);
            }
            if (!keys.own || keys.turn > 0)
                weights_raise(m, weights, S, O);
            if (keys.turn > 0)
                continue;
            engine_unrolled
            for (int s = 0; s < SPAN; s++)
                weights_of(m, &weights[s], S + s * STEP, P + s * STEP);
            if (!keys.own)
                weights_read(m, O, P, values_at(m, address_plus(stages, stage), place));
            else
                own_leave(engine_again(m), write_part(parts, parts_at), P, first + sub_row(), from - first_row + place);
        }
        if (STAGES == 1) {
            engine_sync_all();
            before_copy(tiles, k, k_at, written, written_at, list, keys_next(keys), c0);
        }
    }
    engine_unrolled
    for (int s = 0; s < SPAN; s++) {
        int row = first + sub_row() + s * ACC_ROWS;
        global float *part = write_part(parts, parts_at);

        if (c0 == 0)
            sums_leave(m, part_most(part, split), &weights[s], row);
        engine_unrolled
        for (int c = 0; c < VT; c++)
            if (!keys.own && c0 / 16 + c < VALUE_TILES_ALL)
                part_sums(part, split, row / ACC_ROWS, c0 / 16 + c)[m.lane] = O[s * VT + c];
    }
}
