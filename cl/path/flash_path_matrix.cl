/* Attention to keys that turn on their way to a query, on a matrix engine. A query walks back over the keys of its own
 * span, a block at a time, and is turned; of the spans before it reads keys that were carried to their ends, K̂, and
 * crosses each at once (path_walk.clh has W, F and X):
 *     own span       A = Q Wᵀ, of tokens up to the query's      S = Q Kᵀ + A X      then Q = Q + A F
 *     span before    S = Q K̂ᵀ, and behind its blocks            Q = Q H
 *     both           m' = max(m, max S)    P = e^(S - m')    l = e^(m - m') l + Σ P    O = e^(m - m') O + P V
 * One group: CHUNK queries of a head, from the block of the last query's own key downward, BV value columns; TEAM_ROWS of
 * them go the same way, ACC_ROWS a sub-group. tile_wait returns once a tile of a block is in local memory;
 * tile_done says that this lane has read it, so that its place may be filled again. path_queue_….clh: who brings tiles. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, v) X(global out_t, o) X(global const gate_t, g) \
    X(global const int, cu) X(global float, rows) X(global float, segments) X(global const float, after)
#define OPTIONALS(X) \
    X(global const float, sink) X(global float, lse)
/* clang-format on */
KERNEL
flash_path_matrix(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int sequences, int kv_len, int window,
                  float scale, int given)
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
    int seen = rows_seen(list, MOVED_APART ? team : rows_from(list, 0, CHUNK)); /* by all that must wait together */
    turn_t turn = turn_of(list, kv_len);
    tile_queue_t queue = {
        .tiles = tiles, .places = address_of(tiles), .v = v, .v_at = v_at, .list = list, .c0 = c0, .sent = INT_MAX};
    int last = list_last(list), n = 0, from = last; /* n: blocks that are read */
    int scaled, next_scaled; /* whether keys have units: of the span at hand, and of the one before it */
    acc_t O[VT], Y[FLOAT_SUMS ? KT : 1];
    chain_t Q[KT], crossed[KT];
    weights_t weights[1];
    bias_t bias;

    if (list.rows.count <= 0)
        return;
    queue.records = record_of(rows, rows_at, turn, list, -turn.shift);
    queue.H = H_of(segments, segments_at, turn, list, 0);
    queue.shift = turn.shift;
    queue.span = (list.position + turn.shift) / SPAN_ROWS;
    bias = bias_of_team(g, g_at, after, after_at, list, kv_len, last, LOG2E * scale);
    if (!is_computing()) {
        team_shrink();
        queue_fill(&queue, last);
        return;
    }
    next_scaled = span_scaled(&queue, queue.span - 1);
    queries_get(m, Q, 0, q, q_at, list, own_row, scale);
    team_grow();
    weights[0] = weights_begin(m, 0, scale, sinks_get(m, sink, sink_at, head, own_row, given & GIVEN_SINK));
    if (!FLOAT_SUMS)
        weights[0].factor *= queries_take(m, Q);
    engine_unrolled
    for (int kt = 0; kt < KT && FLOAT_SUMS; kt++)
        Y[kt] = walk_acc(m, Q[kt]);
    engine_unrolled
    for (int c = 0; c < VT; c++)
        O[c] = 0;

    /* Blocks after all of a team's rows are not for it. */
    for (; MOVED_APART && from > team.most && from + KEYS > own_span_least(&queue); n++, from -= KEYS)
        block_pass(&queue);
    /* The own span */
    for (; from + KEYS > own_span_least(&queue); n++, from -= KEYS) {
        int diagonal = from + KEYS - 1 > own.least, sees = MOVED_APART || from <= team.most;
        int units = block_scaled(&queue, from); /* asked for early: memory is far */
        acc_t S[STEP];
        chain_t P[STEP], A[PARTS * STEP];
        address_t tile;

        tile = tile_wait(&queue, TILE_OF_KEYS, from);
        if (!ENGINE_ALONE || sees)
            block_products(m, S, Q, tile);
        tile_done(&queue);
        tile = tile_wait(&queue, TILE_OF_W, from);
        if (!ENGINE_ALONE || sees) {
            acc_t products[STEP];
            block_products_in_parts(m, products, Y, Q, tile, KEY_TILE);
            if (diagonal)
                walked_mask(engine_again(m), products, list, own_row, from);
            walk_round(m, A, STEP, products);
        }
        tile_done(&queue);
        tile = tile_wait(&queue, TILE_OF_X, from);
        if (!ENGINE_ALONE || sees)
            block_add(m, S, STEP, A, tile, X_PITCH, 0);
        tile_done(&queue);
        bias_bring(m, &bias, n);
        if (!ENGINE_ALONE || sees) {
            if (units)
                block_scale(m, S, &queue, from);
            block_weigh(m, weights, &bias, S, O, P, list, own_row, from, n, diagonal, own_sees_all(list, own, from));
        }
        tile = tile_wait(&queue, TILE_OF_OWN_VALUES, from);
        if (!ENGINE_ALONE || sees)
            block_read(m, O, P, tile);
        tile_done(&queue);
        tile = tile_wait(&queue, TILE_OF_F, from);
        if (!ENGINE_ALONE || sees)
            queries_turn(m, Y, Q, A, tile);
        tile_done(&queue);
    }
    /* The spans before it. The loop is compiled twice: first for blocks that every row sees whole, of keys without units,
     * of which no score is masked or scaled; from the first other block on for all. */
    scaled = next_scaled;
    next_scaled = span_scaled(&queue, queue.span - 2);
    engine_unrolled
    for (int unmasked = 1; unmasked >= 0; unmasked--)
        for (; from + KEYS > list.least && (!unmasked || (!scaled && from >= seen)); n++, from -= KEYS) {
            int sees = unmasked || own_sees(list, team, from), crossing = crossed_tile(&queue, from);
            acc_t S[STEP];
            chain_t P[STEP];
            address_t tile;

            bias_bring(m, &bias, n);
            tile = tile_wait(&queue, TILE_OF_CARRIED, from);
            if (!ENGINE_ALONE || sees)
                block_products(m, S, Q, tile);
            tile_done(&queue);
            if (!ENGINE_ALONE || sees) {
                if (!unmasked && scaled)
                    block_scale(m, S, &queue, from);
                block_weigh(m, weights, &bias, S, O, P, list, own_row, from, n, 0,
                            unmasked || own_sees_all(list, own, from));
            }
            tile = tile_wait(&queue, TILE_OF_VALUES, from);
            if (!ENGINE_ALONE || sees)
                block_read(m, O, P, tile);
            tile_done(&queue);
            if (crossing < 0)
                continue;
            rolled for (int i = 0; i < CROSSED_TILES; i++)
            {
                tile = wait_H(&queue, crossing + i, from);
                block_products(m, S, Q, tile);
                tile_done(&queue);
                queries_cross(m, Q, crossed, S, crossing + i);
            }
            if (crossing + CROSSED_TILES == H_TILES) {
                scaled = next_scaled;
                next_scaled = span_scaled(&queue, (from + turn.shift) / SPAN_ROWS - 2);
            }
        }
    queue_end(); /* all have read what is left: outputs take its place */
    outputs_put(m, tiles + own_row * OUTPUT_PITCH, O,
                weights_total(m, weights, sinks_get(m, sink, sink_at, head, own_row, given & GIVEN_SINK)));
    if (given & GIVEN_LSE && c0 == 0)
        logs_store(m, lse, lse_at, list, own_row, weights[0].most,
                   weights_total(m, weights, sinks_get(m, sink, sink_at, head, own_row, given & GIVEN_SINK)));
    engine_sync_own();
    outputs_store(m, tiles + own_row * OUTPUT_PITCH, o, o_at, list, own_row, ACC_ROWS, c0);
}
