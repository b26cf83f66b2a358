/* flash_path.cl on a matrix engine, by the words of flash_matrix.cl. Back over the keys of its own span, a tile of
 * 16 at a time, a query is turned, in floats; X and F as in cl/matrix/path_turn.clh:
 *     A = Q Wᵀ        L = Q Kᵀ + A X        Q += A F
 * Of the spans before these it reads keys that were carried to their ends, and crosses each at once, Q = Q H. One
 * group: CHUNK queries of a head, ACC_ROWS a sub-group, BV value columns. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global out_t, o) \
    X(global const gate_t, g) X(global const int, cu) X(global float, rows) X(global float, segments)
#define OPTIONALS(X) \
    X(global const float, sink) X(global float, lse)
/* clang-format on */
KERNEL
flash_path_matrix(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int sequences, int kv_len, int window,
                  float scale, int given)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(tiles, LOCAL_TILES)
    local float norms[LOCAL_NORMS];
    BIAS_LOCALS
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    long group = (long)get_group_id(1) * get_num_groups(0) + get_group_id(0), heads = get_num_groups(1);
    int head = (int)(group % heads), c0 = get_group_id(2) * BV, own_row = LANE / ENGINE_LANES * ACC_ROWS;
    list_t list = list_whole(chunk_of_slot(list_slot(get_num_groups(0) - 1 - group / heads, sequences, seq_len), head,
                                           sequences, seq_len, cu, cu_at),
                             kv_len, window);
    own_t own = own_rows(list, own_row);
    turn_t turn = turn_of(list, kv_len);
    global const data_t *turned = turn_rows(rows, rows_at, turn, list, 0);
    global const data_t *carried = turned + TURN_CARRIED;
    address_t stages = address_of(tiles), walks = address_plus(stages, STAGE);
    int n = 0, from = list.position + CHUNK - KEYS, span = (list.position + turn.shift) / SPAN_ROWS;
    int span_first = span * SPAN_ROWS - turn.shift, least = max(list.least, span_first);
    acc_t O[VT], Y[KT];
    chain_t Q[KT];
    weights_t weights[1];
    bias_t bias;

    if (list.rows.count <= 0)
        return;
    queries_put(tiles, q, q_at, list, scale);
    bias = bias_begin(g, g_at, list, from, LOG2E * scale);
    SYNC();
    weights[0] = weights_begin(m, norms, scale, sinks_get(m, sink, sink_at, head, own_row, given & GIVEN_SINK));
    engine_unrolled
    for (int kt = 0; kt < KT; kt++) {
        Q[kt] =
            chain_load(m, address_of(tiles + own_row * QUERY_PITCH + kt * 16 + chain_lane(m, QUERY_PITCH)), KEY_PITCH);
        Y[kt] = acc_of(m, Q[kt]);
    }
    engine_unrolled
    for (int c = 0; c < VT; c++)
        O[c] = 0;
    for (; from + KEYS > least; n++, from -= KEYS) {
        engine_sync_all();
        stage_copy(tiles, k, k_at, v, v_at, list, from, c0);
        copies_end(); /* the barriers about what is walked stand for this block, too */
        bias_next(m, &bias, list, n, from);
        rolled for (int place = KEYS - 16; place >= 0; place -= 16)
        {
            int first = from + place, diagonal = first + 15 > own.least, walked = place % WALK_KEYS;
            acc_t A, S;
            chain_t P;

            if (walked == WALK_KEYS - 16) {
                engine_sync_all();
                walk_copy(tiles + STAGE, turned, first - walked);
                engine_sync_all();
            }
            if (ENGINE_ALONE && !own_sees(list, own, first))
                continue;
            A = turn_products(m, Y, Q, address_plus(walks, walked * KEY_PITCH + frag_lane(m, KEY_PITCH)), WALK_REST);
            if (diagonal)
                A = walked_masked(engine_again(m), A, list, own_row, first);
            S = turn_product(m, 0, Q, address_plus(stages, place * KEY_PITCH + frag_lane(m, KEY_PITCH)));
            S = mma_frag(
                m, S, chain_of(m, A),
                frag_load_t(m, address_plus(walks, WALK_X + walked * X_PITCH + frag_lane_t(m, X_PITCH)), X_PITCH));
            turn_add(m, Y, A, address_plus(walks, WALK_F + walked * KEY_PITCH + frag_lane_t(m, KEY_PITCH)), WALK_REST);
            turn_round(m, Q, Y);
            S = bias_scores(m, &bias, S, weights[0].factor, n, place, list.position + own_row - from, diagonal);
            if (!own_sees_all(list, own, first))
                S = list_masked(engine_again(m), S, list, own_row, first);
            weights_raise(m, weights, &S, O);
            weights_of(m, weights, &S, &P);
            weights[0].ahead =
                bias_ahead(m, &bias, weights[0].ahead, n, place, list.position + own_row - from, diagonal);
            weights_read(m, O, &P, values_at(m, stages, place));
        }
    }
    engine_sync_all();
    if (from + KEYS > list.least)
        carried_copy(tiles + n % STAGES * STAGE, carried, v, v_at, list, from, c0);
    for (; from + KEYS > list.least; n++, from -= KEYS) {
        int stage = n % STAGES * STAGE, next = (n + 1) % STAGES * STAGE, more = from > list.least;
        int crosses = (from + turn.shift) % SPAN_ROWS == 0;

        copies_end();
        engine_sync_all();
        bias_next(m, &bias, list, n, from);
        if (STAGES > 1 && more && !crosses)
            carried_copy(tiles + next, carried, v, v_at, list, from - KEYS, c0);
        rolled for (int place = KEYS - 16; place >= 0; place -= 16)
        {
            acc_t S;
            chain_t P;

            if (ENGINE_ALONE && !own_sees(list, own, from + place))
                continue;
            S = turn_product(m, 0, Q, address_plus(stages, stage + place * KEY_PITCH + frag_lane(m, KEY_PITCH)));
            S = bias_scores(m, &bias, S, weights[0].factor, n, place, list.position + own_row - from, 0);
            if (!own_sees_all(list, own, from + place))
                S = list_masked(engine_again(m), S, list, own_row, from + place);
            weights_raise(m, weights, &S, O);
            weights_of(m, weights, &S, &P);
            weights[0].ahead = bias_ahead(m, &bias, weights[0].ahead, n, place, list.position + own_row - from, 0);
            weights_read(m, O, &P, values_at(m, address_plus(stages, stage), place));
        }
        if (more && crosses) {
            engine_sync_all();
            whole_copy(tiles, turn_whole(segments, segments_at, turn, list, --span));
            engine_sync_all();
            engine_unrolled
            for (int kt = 0; kt < KT; kt++)
                Y[kt] = turn_product(m, 0, Q, address_plus(stages, kt * 16 * KEY_PITCH + frag_lane(m, KEY_PITCH)));
            turn_round(m, Q, Y);
            engine_sync_all();
        }
        if (more && (crosses || STAGES == 1)) {
            if (!crosses)
                engine_sync_all();
            carried_copy(tiles + next, carried, v, v_at, list, from - KEYS, c0);
        }
    }
    copies_end();
    engine_sync_all(); /* outputs take the place of stages */
    outputs_put(m, tiles + own_row * OUTPUT_PITCH, O,
                weights_total(m, weights, sinks_get(m, sink, sink_at, head, own_row, given & GIVEN_SINK)));
    if (given & GIVEN_LSE && c0 == 0)
        logs_store(m, lse, lse_at, list, own_row, weights[0].most,
                   weights_total(m, weights, sinks_get(m, sink, sink_at, head, own_row, given & GIVEN_SINK)));
    engine_sync_own();
    outputs_store(m, tiles + own_row * OUTPUT_PITCH, o, o_at, list, own_row, ACC_ROWS, c0);
}
