/* What write_before_matrix.cl computes by teams of sub-groups, with producers as in flash_team.cl:
 *     m = max_j s p_t k_j      P_tj = e^(s p_t k_j - m_t)      l_t = Σ_j P_tj      O_t = Σ_j P_tj u_j
 *
 * A work-group has QUERIES rows of one key head, all value columns, and one of SPLITS parts of the keys before the span.
 * The group of the first part has the keys of the span itself, too: it works them ahead of its part, for m, and once more
 * behind it, for P, of the m that is then known. Producers bring the blocks in the order in which they are worked. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, k) X(global const data_t, p) X(global const data_t, written) X(global const int, cu) \
    X(global float, partials)
/* clang-format on */
KERNEL
write_before_team(TENSORS(PARAMETER) int seq_len, int kv_len, float scale, int first_row)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(tiles, LOCAL_TILES)
    local float *norms = (local float *)(tiles + NORMS_AT);
    ENGINE_LOCALS
    engine_t engine = engine_begin(engine_scratch);
    int split = get_group_id(2) / BLOCKS, has_span = split == 0;
    int first = first_row + (BLOCKS - 1 - get_group_id(2) % BLOCKS) * QUERIES; /* the group's first row */
    int sub_group_row = LANE / ENGINE_LANES * ACC_ROWS, span_row = first - first_row + sub_group_row;
    int span_last = first + QUERIES - KEYS, n = 0; /* the last block of the span's keys; blocks so far */
    list_t list = write_list(get_group_id(0), get_group_id(1), first, QUERIES, seq_len, cu, cu_at, kv_len);
    own_t team_rows = rows_from(list, sub_group_row / TEAM_ROWS * TEAM_ROWS, TEAM_ROWS);
    cursor_t before = cursor_of(split, first_row, first);
    address_t slots = address_of(tiles);
    blocks_t blocks = {tiles, norms + QUERIES, k, written, k_at, written_at, 0};
    global float *partial = partials_of(partials, partials_at);
    acc_t accumulator[VT];
    chain_t query[KT];
    weights_t softmax[1];

    if (list.rows.count <= 0)
        return;
    if (is_producer()) {
        team_shrink();
        if (has_span)
            n = blocks_produce(&blocks, list_down_to(list, first_row), span_last, n);
        n = blocks_produce(&blocks, list_down_to(list, before.first), before.last, n);
        if (has_span)
            blocks_produce(&blocks, list_down_to(list, first_row), span_last, n);
        return;
    }
    team_grow();
    queries_get(engine, query, norms, p, p_at, list, sub_group_row, scale);
    softmax[0] = weights_begin(engine, norms + sub_group_row, scale, (acc_rows_t)(-INFINITY));
    accumulator_zero(accumulator);

    /* The span's keys: m. */
    for (int from = span_last; has_span && from >= first_row; n++, from -= KEYS) {
        int sees = !ENGINE_ALONE || own_sees(list, team_rows, from);
        acc_t score[STEP];

        keys_wait(engine, &blocks, list, n, from); /* the keys of block n are in their slot */
        if (sees)
            block_scores(engine, score, query, &blocks, n);
        keys_done(n); /* their slot may be filled again */
        if (sees) {
            scores_mask(engine_again(engine), score, list, sub_group_row, from);
            weights_raise(engine, softmax, score, accumulator);
        }
        values_wait(n); /* nobody needs the values of block n: producers bring them all the same */
        values_done(n);
    }

    /* The keys before the span: m, l and O. */
    for (int from = before.last; from >= before.first; n++, from -= KEYS) {
        int sees = !ENGINE_ALONE || own_sees(list, team_rows, from);
        acc_t score[STEP];
        chain_t weight[STEP];

        keys_wait(engine, &blocks, list, n, from);
        if (sees)
            block_scores(engine, score, query, &blocks, n);
        keys_done(n);
        if (sees) {
            weights_raise(engine, softmax, score, accumulator);
            weights_of(engine, softmax, score, weight);
        }
        values_wait(n); /* what was written of block n is in its slot */
        if (sees)
            weights_read(engine, accumulator, weight, address_plus(slots, values_slot(n)));
        values_done(n); /* the slot may be filled again */
    }

    /* The span's keys once more: P, which their u will be multiplied with. */
    for (int from = span_last; has_span && from >= first_row; n++, from -= KEYS) {
        int sees = !ENGINE_ALONE || own_sees(list, team_rows, from);
        acc_t score[STEP];
        chain_t weight[STEP];

        keys_wait(engine, &blocks, list, n, from);
        if (sees)
            block_scores(engine, score, query, &blocks, n);
        keys_done(n);
        if (sees) {
            scores_mask(engine_again(engine), score, list, sub_group_row, from);
            weights_of(engine, softmax, score, weight);
            span_weights_put(engine_again(engine), partial, weight, span_row, from - first_row);
        }
        values_wait(n);
        values_done(n);
    }
    sums_leave(engine, partial_most(partial, split), softmax, span_row);
    if (has_span) { /* the sum over the span's keys is with the first part's */
        softmax[0].total = 0;
        sums_leave(engine, partial_most(partial, SPLITS), softmax, span_row);
    }
    engine_unrolled
    for (int c = 0; c < VT; c++)
        partial_sums(partial, split, span_row / ACC_ROWS, c)[engine.lane] = accumulator[c];
}
