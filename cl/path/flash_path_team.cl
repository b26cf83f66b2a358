/* flash_path_matrix.cl by teams of sub-groups, the parts of blocks by the words of path_parts.clh. Of the blocks of its
 * own span a team walks those up to its queries; keys before are carried to the ends of their spans, and each of these
 * is crossed at once, Q = Q H. One group: CHUNK queries of a head, TEAM_ROWS a team, BV value columns. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, v) X(global out_t, o) X(global const gate_t, g) \
    X(global const int, cu) X(global float, rows) X(global float, segments) X(global const float, after)
#define OPTIONALS(X) \
    X(global const float, sink) X(global float, lse)
/* clang-format on */
KERNEL
flash_path_team(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int sequences, int kv_len, int window, float scale,
                int given)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(tiles, LOCAL_TILES)
    BIAS_LOCALS
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    long group = (long)get_group_id(1) * get_num_groups(0) + get_group_id(0), heads = get_num_groups(1);
    int head = (int)(group % heads), c0 = get_group_id(2) * BV, own_row = LANE / ENGINE_LANES * ACC_ROWS;
    list_t list = list_whole(chunk_of_slot(list_slot(get_num_groups(0) - 1 - group / heads, sequences, seq_len), head,
                                           sequences, seq_len, cu, cu_at),
                             kv_len, window);
    own_t own = own_rows(list, own_row), team = rows_from(list, own_row / TEAM_ROWS * TEAM_ROWS, TEAM_ROWS);
    int seen = rows_seen(list, ENGINE_ALONE ? team : rows_from(list, 0, CHUNK)); /* by all that go the same way */
    turn_t turn = turn_of(list, kv_len);
    parts_t parts = {.tiles = tiles, .v = v, .v_at = v_at, .list = list, .c0 = c0};
    int last = list_last(list), n = 0, number = 0, from = last;
    int apart, coming; /* whether keys have units: the block's, or the span's; the next span's */
    address_t slots = address_of(tiles);
    acc_t O[VT];
    chain_t Q[KT], crossed[KT];
    weights_t weights[1];
    bias_t bias;

    if (list.rows.count <= 0)
        return;
    parts.left = turn_block(rows, rows_at, turn, list, -turn.shift);
    parts.whole = turn_whole(segments, segments_at, turn, list, 0);
    parts.shift = turn.shift;
    parts.span = (list.position + turn.shift) / SPAN_ROWS;
    bias = bias_of_team(g, g_at, after, after_at, list, kv_len, last, LOG2E * scale);
    if (!is_computing()) {
        parts_move(&parts, last);
        return;
    }
    coming = span_apart(&parts, parts.span - 1);
    queries_get(m, Q, 0, q, q_at, list, own_row, scale);
    team_grow();
    weights[0] = weights_begin(m, 0, scale, sinks_get(m, sink, sink_at, head, own_row, given & GIVEN_SINK));
    weights[0].factor *= queries_take(m, Q);
    engine_unrolled
    for (int c = 0; c < VT; c++)
        O[c] = 0;
    for (; ENGINE_ALONE && from > team.most && from + KEYS > parts_own_least(&parts); n++, from -= KEYS)
        for (int part = PART_KEYS; part <= PART_F; part++) { /* after all of the team's rows */
            part_wait(&parts, number, part, from);
            part_done(number++);
        }
    for (; from + KEYS > parts_own_least(&parts); n++, from -= KEYS) {
        int diagonal = from + KEYS - 1 > own.least;
        acc_t S[STEP], A[STEP];
        chain_t P[STEP], turns[STEP];
        apart = block_apart(&parts, from);

        part_wait(&parts, number, PART_KEYS, from);
        block_products(m, S, Q, part_place(slots, number));
        part_done(number++);
        part_wait(&parts, number, PART_W, from);
        block_products(m, A, Q, part_place(slots, number));
        part_done(number++);
        if (diagonal)
            walked_mask(engine_again(m), A, list, own_row, from);
        engine_unrolled
        for (int i = 0; i < STEP; i++)
            turns[i] = chain_of_half(m, A[i]);
        part_wait(&parts, number, PART_X, from);
        block_add(m, S, STEP, turns, part_place(slots, number), KEYS * PANEL, 0);
        part_done(number++);
        bias_bring(m, &bias, n);
        if (apart)
            block_scale(m, S, part_units(&parts, from));
        block_weigh(m, weights, &bias, S, O, P, list, own_row, from, n, diagonal, own_sees_all(list, own, from));
        part_wait(&parts, number, PART_OWN, from);
        block_read(m, O, P, part_place(slots, number));
        part_done(number++);
        part_wait(&parts, number, PART_F, from);
        block_turn(m, Q, turns, part_place(slots, number));
        part_done(number++);
    }
    apart = coming;
    coming = span_apart(&parts, parts.span - 2);
    engine_unrolled
    for (int whole = 1; whole >= 0; whole--)
        for (; from + KEYS > list.least && (!whole || (!apart && from >= seen)); n++, from -= KEYS) {
            int sees = whole || !ENGINE_ALONE || own_sees(list, team, from), part = part_crossed(&parts, from);
            acc_t S[STEP];
            chain_t P[STEP];

            bias_bring(m, &bias, n);
            part_wait(&parts, number, PART_CARRIED, from);
            if (sees)
                block_products(m, S, Q, part_place(slots, number));
            part_done(number++);
            if (sees) {
                if (!whole && apart)
                    block_scale(m, S, part_units(&parts, from));
                block_weigh(m, weights, &bias, S, O, P, list, own_row, from, n, 0,
                            whole || own_sees_all(list, own, from));
            }
            part_wait(&parts, number, PART_VALUES, from);
            if (sees)
                block_read(m, O, P, part_place(slots, number));
            part_done(number++);
            if (part < 0)
                continue;
            part_wait(&parts, number, PART_WHOLE, from);
            block_products(m, S, Q, part_place(slots, number));
            part_done(number++);
            engine_unrolled
            for (int kt = 0; kt < KT; kt++)
                if (kt / STEP == part)
                    crossed[kt] = chain_of_half(m, S[kt % STEP]);
            engine_unrolled
            for (int kt = 0; kt < KT && part == WHOLE_PARTS - 1; kt++)
                Q[kt] = crossed[kt];
            if (part == WHOLE_PARTS - 1) {
                apart = coming;
                coming = span_apart(&parts, (from + turn.shift) / SPAN_ROWS - 2);
            }
        }
    parts_end(); /* outputs take the place of parts */
    outputs_put(m, tiles + own_row * OUTPUT_PITCH, O,
                weights_total(m, weights, sinks_get(m, sink, sink_at, head, own_row, given & GIVEN_SINK)));
    if (given & GIVEN_LSE && c0 == 0)
        logs_store(m, lse, lse_at, list, own_row, weights[0].most,
                   weights_total(m, weights, sinks_get(m, sink, sink_at, head, own_row, given & GIVEN_SINK)));
    engine_sync_own();
    outputs_store(m, tiles + own_row * OUTPUT_PITCH, o, o_at, list, own_row, ACC_ROWS, c0);
}
