/* prepare_path_matrix.cl where teams read what it leaves: blocks of KEYS keys. F and X of a tile are those of
 * prepare_path_matrix.cl; its rows then walk back over the tiles of the block before it, as a query does, which makes
 * them the block's. One group: a block of one key head, a tile of 16 keys a sub-group. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, k) X(global const gate_t, p) X(global const gate_t, e) X(global const int, cu) \
    X(global float, rows)
/* clang-format on */
KERNEL
prepare_path_team(TENSORS(PARAMETER) int seq_len, int sequences, int kv_len, int tail)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(tiles, LOCAL_TILES)
    local float beta[LOCAL_BETA], units[LOCAL_UNITS]; /* of w, of keys */
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    long slot = get_group_id(0);
    list_t list = turn_list_of_group(sequences, seq_len, cu, cu_at, kv_len);
    turn_t turn = turn_of(list, kv_len);
    int from = (int)(slot - turn.base) * CHUNK - turn.shift + (int)get_group_id(2) * KEYS;
    int raw = max(list.keys - tail, 0), tile = LANE / ENGINE_LANES, first = tile * TILE_KEYS;
    local data_t *W = tiles + (TILES_W + tile) * TILE_NUMBERS, *K = tiles + (TILES_K + tile) * TILE_NUMBERS;
    local float *M = (local float *)(tiles + TILES_MORE * TILE_NUMBERS) + tile * 2 * TILE_KEYS * TILE_KEYS;
    local float *Y = M + TILE_KEYS * TILE_KEYS;
    global data_t *block = turn_block(rows, rows_at, turn, list, from), *to = block + first * KEY_WIDTH;
    float columns[LANE_COLUMNS][TILE_KEYS];
    local float *most = M - tile * 2 * TILE_KEYS * TILE_KEYS; /* of pieces, ahead of the squares */
    uint4 w[LANE_PIECES][GATE_PARTS], x[LANE_PIECES];
    chain_t own[KT];
    acc_t walked[KT], S = 0, R = 0;

    if (slot - turn.base >= turn.blocks || from >= list.keys || from + KEYS <= 0)
        return;
    k += at_row(k_at, list.rows.at.batch, list.first, list.kv_head);
    p += at_row(p_at, list.rows.at.batch, list.first, list.kv_head);
    if (rows_whole(k, k_at.z, p, p_at.z))
        pieces_get(x, w, k, k_at.z, p, p_at.z, from, raw, list.keys, 1);
    else
        pieces_get(x, w, k, k_at.z, p, p_at.z, from, raw, list.keys, 0);
    engine_unrolled
    for (int i = 0; i < LANE_PIECES; i++) {
        piece_t at = lane_piece(i);

        if (at.there) {
            most[at.row * ROW_PIECES + at.n / 8] = piece_most(gates_of(w[i]));
            most[(KEYS + at.row) * ROW_PIECES + at.n / 8] = piece_most(numbers_of(x[i]));
        }
    }
    SYNC();
    for_each(row, 2 * KEYS) {
        float row_most = 0;

        for (int i = 0; i < ROW_PIECES; i++)
            row_most = fmax(row_most, most[row * ROW_PIECES + i]);
        units[row] = row < KEYS ? unit_of(row_most) : key_unit_of(row_most);
    }
    SYNC();
    for_each(row, KEYS) {
        int key = from + row, apart = 0;
        long at = at_row(e_at, list.rows.at.batch, list.first, list.kv_head) + (key - raw) * e_at.z;

        beta[row] = key >= raw && key < list.keys ? gate_get(e, at) * units[row] * units[row] : 0;
        ((global float *)(block + TURN_UNITS))[row] = units[KEYS + row];
        for (int i = 0; row == 0 && i < KEYS; i++)
            apart |= units[KEYS + i] != 1;
        if (row == 0)
            *(global int *)(block + TURN_APART) = apart;
    }
    engine_unrolled
    for (int i = 0; i < LANE_PIECES; i++) {
        piece_t at = lane_piece(i);

        if (!at.there)
            continue;
        piece_leave(tiles, block + TURN_W, at, gates_of(w[i]) * unit_inverse(units[at.row]));
        piece_leave(tiles + TILES_K * TILE_NUMBERS, block + TURN_KEYS, at,
                    numbers_of(x[i]) * unit_inverse(units[KEYS + at.row]));
    }
    SYNC();
    engine_unrolled
    for (int kt = 0; kt < KT; kt++) {
        frag_t w = frag_load(m, address_of(W + kt * 16 + frag_lane(m, QUERY_PITCH)), QUERY_PITCH);
        frag_t x = frag_load(m, address_of(K + kt * 16 + frag_lane(m, QUERY_PITCH)), QUERY_PITCH);
        own[kt] = chain_load(m, address_of(W + kt * 16 + chain_lane(m, QUERY_PITCH)), QUERY_PITCH);
        S = mma_frag_half(m, S, own[kt], w);
        R = mma_frag_half(m, R, own[kt], x);
    }
    square_put(m, M, S);
    square_put(m, Y, R);
    SYNC();
    columns_solve(m, columns, W, M, Y, beta + first);
    SYNC();
    engine_unrolled
    for (int c = 0; c < LANE_COLUMNS; c++)
        if (lane_column(m, c) < TILE_COLUMNS)
            columns_leave(columns[c], lane_column(m, c), tile, tiles, block);
    SYNC();
    engine_unrolled
    for (int kt = 0; kt < KT; kt++) {
        own[kt] =
            chain_load(m, address_of(tiles + factors_place(tile) + kt * 16 + chain_lane(m, QUERY_PITCH)), QUERY_PITCH);
        walked[kt] = acc_of_half(m, own[kt]);
    }
    for (int before = LAST_TILE - 1; before >= 0; before--) {
        address_t w = address_of(tiles + (TILES_W + before) * TILE_NUMBERS + frag_lane(m, QUERY_PITCH));
        address_t x = address_of(tiles + (TILES_K + before) * TILE_NUMBERS + frag_lane(m, QUERY_PITCH));
        address_t f = address_of(tiles + factors_place(before) + frag_lane_t(m, QUERY_PITCH));
        address_t s = address_of(tiles + square_place(before) + frag_lane_t(m, SQUARE_PITCH));
        chain_t A;

        if (ENGINE_ALONE && before >= tile)
            continue;
        S = R = 0;
        engine_unrolled
        for (int kt = 0; kt < KT; kt++) {
            S = mma_frag_half(m, S, own[kt], frag_load(m, address_plus(w, kt * 16), QUERY_PITCH));
            R = mma_frag_half(m, R, own[kt], frag_load(m, address_plus(x, kt * 16), QUERY_PITCH));
        }
        A = before < tile ? chain_of_half(m, S) : (chain_t)(0);
        R = mma_frag_half(m, R, A, frag_load_t(m, s, SQUARE_PITCH));
        if (before < tile)
            acc_leave(m, block + TURN_X + first * KEYS + before * TILE_KEYS, KEYS, R);
        engine_unrolled
        for (int kt = 0; kt < KT; kt++) {
            walked[kt] = mma_frag_half(m, walked[kt], A, frag_load_t(m, address_plus(f, kt * 16), QUERY_PITCH));
            own[kt] = chain_of_half(m, walked[kt]);
        }
    }
    for (int after = tile + 1; after <= LAST_TILE; after++)
        acc_leave(m, block + TURN_X + first * KEYS + after * TILE_KEYS, KEYS, 0);
    engine_unrolled
    for (int kt = 0; kt < KT; kt++)
        acc_leave(m, to + TURN_F + kt * 16, KEY_WIDTH, walked[kt]);
}
