/* DeltaFormer on a matrix engine, the first of two kernels of a span of keys. With P_tj = e^(s p_t k_j - m_t), of the
 * span's rows t, of which p is given, and of one part of the keys j before the span:
 *     m = max_j s p_t k_j      l_t = Σ_j P_tj      O_t = Σ_j P_tj u_j
 * Of the span's own keys u is not known yet: of these it leaves P itself, on and below the diagonal, with m and l.
 * write_solve_matrix.cl joins the parts.
 *
 * A work-group has QUERIES rows of one key head, BV value columns, and one of SPLITS parts of the keys before the span,
 * or the span's own; the parts come first, for they take longest. Rows, accumulators and stages are as in
 * flash_matrix.cl. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, k) X(global const data_t, p) X(global const data_t, written) X(global const int, cu) \
    X(global float, partials)
/* clang-format on */
KERNEL
write_before_matrix(TENSORS(PARAMETER) int seq_len, int kv_len, float scale, int first_row)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(tiles, LOCAL_TILES)
    local float norms[LOCAL_NORMS];
    ENGINE_LOCALS
    engine_t engine = engine_begin(engine_scratch);
    int blocks = SPAN_ROWS / QUERIES, columns = get_num_groups(2) / (SPLITS + 1) / blocks;
    int split = get_group_id(2) / (blocks * columns), first_column = get_group_id(2) / blocks % columns * BV;
    int block_row = (blocks - 1 - get_group_id(2) % blocks) * QUERIES; /* of the span */
    list_t list =
        write_list(get_group_id(0), get_group_id(1), first_row + block_row, QUERIES, seq_len, cu, cu_at, kv_len);
    cursor_t cursor = cursor_of(split, first_row, first_row + block_row);
    address_t stages = address_of(tiles), queries = address_plus(stages, QUERIES_AT + sub_row() * QUERY_PITCH);
    acc_t accumulator[SPAN * VT];
    chain_t query[QUERY_TILES];
    weights_t softmax[SPAN];
    bias_t bias = {0};

    if (list.rows.count <= 0 || (cursor.in_span && first_column > 0))
        return;
    queries_put(tiles + QUERIES_AT, p, p_at, list, scale);
    SYNC(); /* all rows of p are in local memory */
    if (L2NORM) {
        query_norms(norms, tiles + QUERIES_AT);
        SYNC(); /* their norms are there */
    }
    queries = address_plus(queries, chain_lane(engine, QUERY_PITCH));
    queries_hold(engine, query, queries);
    engine_unrolled
    for (int s = 0; s < SPAN; s++)
        softmax[s] = weights_begin(engine, norms + sub_row() + s * ACC_ROWS, scale, (acc_rows_t)(-INFINITY));
    accumulator_zero(accumulator);
    SYNC(); /* rows are in registers, where these have room for them: blocks may take their place */
    before_copy(tiles, k, k_at, written, written_at, list, cursor, first_column);
    for (int n = 0; cursor.rounds >= 0; n++, cursor = cursor_next(cursor)) {
        int stage = n % STAGES * STAGE;

        copies_end();
        engine_sync_all(); /* block n is in its stage; nobody reads the stage before, which may be filled again */
        if (L2NORM) {
            key_norms(norms + QUERIES, tiles + stage);
            engine_sync_all(); /* the norms of its keys are there */
        }
        rolled for (int place = KEYS - UNIT; place >= 0; place -= UNIT)
        {
            int first_key = cursor.from + place;
            acc_t score[SPAN * STEP];
            chain_t weight[SPAN * STEP];

            if (place == NEXT_PLACE && STAGES > 1)
                before_copy(tiles + (n + 1) % STAGES * STAGE, k, k_at, written, written_at, list, cursor_next(cursor),
                            first_column);
            if (ENGINE_ALONE && cursor.in_span && !own_sees(list, own_rows(list, sub_row()), first_key))
                continue;
            scores(engine, score, query, queries, keys_at(engine, address_plus(stages, stage), place));
            engine_unrolled
            for (int i = 0; i < SPAN * STEP; i++) {
                int key = place + i % STEP * 16;
                if (L2NORM)
                    score[i] *= acc_factors(engine, norms + QUERIES + key);
                score[i] = bias_scores(engine, &bias, score[i], softmax[i / STEP].factor, n, key, 0, 0);
                if (cursor.in_span)
                    score[i] = list_masked(engine_again(engine), score[i], list, sub_row() + i / STEP * ACC_ROWS,
                                           cursor.from + key);
            }
            if (!cursor.in_span || cursor.rounds > 0)
                weights_raise(engine, softmax, score, accumulator);
            if (cursor.rounds > 0) /* the span's own keys for the first time: for m alone */
                continue;
            engine_unrolled
            for (int s = 0; s < SPAN; s++)
                weights_of(engine, &softmax[s], score + s * STEP, weight + s * STEP);
            if (cursor.in_span)
                span_weights_put(engine_again(engine), partials_of(partials, partials_at), weight,
                                 block_row + sub_row(), first_key - first_row);
            else
                weights_read(engine, accumulator, weight, values_at(engine, address_plus(stages, stage), place));
        }
        if (STAGES == 1) {
            engine_sync_all(); /* nobody reads the only stage any more */
            before_copy(tiles, k, k_at, written, written_at, list, cursor_next(cursor), first_column);
        }
    }
    engine_unrolled
    for (int s = 0; s < SPAN; s++) {
        int row = block_row + sub_row() + s * ACC_ROWS;
        global float *partial = partials_of(partials, partials_at);

        if (first_column == 0)
            sums_leave(engine, partial_most(partial, split), &softmax[s], row);
        engine_unrolled
        for (int c = 0; c < VT; c++)
            if (!cursor.in_span && first_column / 16 + c < VALUE_TILES_ALL)
                partial_sums(partial, split, row / ACC_ROWS, first_column / 16 + c)[engine.lane] =
                    accumulator[s * VT + c];
    }
}
