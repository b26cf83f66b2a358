/* carry_path_matrix.cl by a team of sub-groups: blocks of KEYS keys, walked a block at a time. One group: one such
 * block of one key head; or KEYS rows of the unit matrix, with the span's first block. */
KERNEL
carry_path_team(global const int *cu, long4 cu_at, global float *rows, long4 rows_at, global float *segments,
                long4 segments_at, int seq_len, int sequences, int kv_len)
{
    LOCAL_NUMBERS(tiles, LOCAL_TILES)
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    long slot = get_group_id(0);
    list_t list = turn_list_of_group(sequences, seq_len, cu, cu_at, kv_len);
    turn_t turn = turn_of(list, kv_len);
    int part = get_group_id(2), unit = part - CHUNK / KEYS, block = (int)(slot - turn.base);
    int span = block / (SPAN_ROWS / CHUNK), end = (span + 1) * SPAN_ROWS - turn.shift;
    int from = block * CHUNK - turn.shift + (unit < 0 ? part * KEYS : 0), own_row = LANE / ENGINE_LANES * ACC_ROWS;
    global data_t *left = turn_block(rows, rows_at, turn, list, from), *to;
    local data_t *square = tiles + KEYS * QUERY_PITCH, *factors = tiles, *keys = tiles + SLOT;
    acc_t Y[KT], S[KEYS / 16];
    chain_t X[KT], A[KEYS / 16];

    if (block < 0 || block >= turn.blocks || end >= list.keys ||
        (unit < 0 ? from + KEYS <= 0 : block % (SPAN_ROWS / CHUNK) != 0))
        return;
    if (unit < 0) {
        rows_put(tiles, QUERY_PITCH, left + TURN_KEYS, KEY_WIDTH);
        rows_put(square, SQUARE_PITCH, left + TURN_X, KEYS);
    } else
        units_put(tiles, unit * KEYS);
    SYNC();
    engine_unrolled
    for (int kt = 0; kt < KT; kt++) {
        X[kt] = chain_load(m, address_of(tiles + own_row * QUERY_PITCH + kt * 16 + chain_lane(m, QUERY_PITCH)),
                           QUERY_PITCH);
        Y[kt] = acc_of_half(m, X[kt]);
    }
    engine_unrolled
    for (int i = 0; i < KEYS / 16 && unit < 0; i++)
        A[i] = chain_load_t(m, address_of(square + i * 16 * SQUARE_PITCH + own_row + chain_lane_t(m, SQUARE_PITCH)),
                            SQUARE_PITCH);
    for (int key = from + KEYS <= 0 ? from + KEYS : from; key < end; key += KEYS) {
        global const data_t *at = turn_block(rows, rows_at, turn, list, key);
        int own = unit < 0 && key == from;

        SYNC();
        panels_copy(keys, at + TURN_W);
        if (!own)
            panels_copy(factors, at + TURN_F);
        copies_end();
        team_written();
        SYNC();
        if (!own) {
            engine_unrolled
            for (int i = 0; i < KEYS / 16; i++)
                S[i] = 0;
            team_begin();
            engine_unrolled
            for (int kt = 0; kt < KT; kt++)
                team_multiply_half(m, S, KEYS / 16, X[kt], address_of(factors), KEY_PITCH, 0, kt * 16, 0);
            team_end();
            engine_unrolled
            for (int i = 0; i < KEYS / 16; i++)
                A[i] = chain_of_half(m, S[i]);
        }
        team_begin();
        engine_unrolled
        for (int i = 0; i < KEYS / 16; i++)
            team_multiply_half(m, Y, KT, A[i], address_of(keys), KEY_PITCH, i * 16, 0, 1);
        team_end();
        engine_unrolled
        for (int kt = 0; kt < KT; kt++)
            X[kt] = chain_of_half(m, Y[kt]);
    }
    to = (unit < 0 ? left + TURN_CARRIED : turn_whole(segments, segments_at, turn, list, span) + unit * TURN_PART) +
         own_row * KEY_WIDTH;
    engine_unrolled
    for (int kt = 0; kt < KT; kt++)
        acc_leave(m, to + kt * 16, KEY_WIDTH, Y[kt]);
}
