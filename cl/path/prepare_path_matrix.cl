/* What does not depend on the queries, of a block of keys, on a matrix engine; W, K its rows, beta the strengths,
 *     T = (I + tril(beta W Wᵀ, -1))⁻¹ diag(beta)      F = -T W      X = -T tril(W Kᵀ, -1)
 * with W and K as they are walked (path_walk.clh). A sub-group, or two where they have few rows, has a tile of 16 keys. It
 * solves F and X of the tile, a column a lane; then F's rows walk back over the tiles of the block before it, as a query
 * does, which makes them the block's: A = F Wᵀ, X = F Kᵀ + A X, F += A F. One group: a block of one key head. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, k) X(global const gate_t, p) X(global const gate_t, e) X(global const int, cu) \
    X(global float, rows)
/* clang-format on */
KERNEL
prepare_path_matrix(TENSORS(PARAMETER) int seq_len, int sequences, int kv_len, int tail)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(tiles, LOCAL_TILES)
    local float beta[LOCAL_BETA], units[LOCAL_UNITS]; /* units: of w, then of keys */
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    long slot = get_group_id(0);
    list_t list = turn_list_of_group(sequences, seq_len, cu, cu_at, kv_len);
    turn_t turn = turn_of(list, kv_len);
    int from = (int)(slot - turn.base) * CHUNK - turn.shift + (int)get_group_id(2) * KEYS;
    int raw = max(list.keys - tail, 0); /* the first key that a token turns, whose w and beta are row 0 */
    int own_row = LANE / ENGINE_LANES * ACC_ROWS, tile = own_row / TILE_KEYS, first = tile * TILE_KEYS;
    local data_t *W = tiles + (TILES_W + tile * PARTS) * TILE_NUMBERS, *K = tiles + (TILES_K + tile) * TILE_NUMBERS;
    local float *squares = (local float *)(tiles + TILES_F * TILE_NUMBERS); /* where F of tiles will stand */
    local float *M = squares + tile * 2 * TILE_KEYS * TILE_KEYS, *Y = M + TILE_KEYS * TILE_KEYS, *most = squares;
    global data_t *record = record_of(rows, rows_at, turn, list, from);
    float columns[LANE_COLUMNS][TILE_KEYS];
    uint4 w[LANE_PIECES][GATE_PARTS], x[LANE_PIECES];
    chain_t own[KT];
    acc_t walked[KT], S = 0, R = 0;

    if (slot - turn.base >= turn.slots || from >= list.keys || from + KEYS <= 0)
        return;

    /* w and k, over their units, in local memory and in the record */
    k += at_row(k_at, list.rows.at.batch, list.first, list.kv_head);
    p += at_row(p_at, list.rows.at.batch, list.first, list.kv_head);
    if (rows_whole(k, k_at.z, p, p_at.z))
        pieces_get(x, w, k, k_at.z, p, p_at.z, from, raw, list.keys, 1);
    else
        pieces_get(x, w, k, k_at.z, p, p_at.z, from, raw, list.keys, 0);
    if (!FLOAT_SUMS) {
        engine_unrolled
        for (int i = 0; i < LANE_PIECES; i++) {
            piece_t at = lane_piece(i);

            if (at.there) {
                most[at.row * ROW_PIECES + at.n / 8] = piece_most(gates_of(w[i]));
                most[(KEYS + at.row) * ROW_PIECES + at.n / 8] = piece_most(numbers_of(x[i]));
            }
        }
        SYNC(); /* the largest number of each piece is there, for who has its row */
        for_each(row, 2 * KEYS) {
            float row_most = 0;

            for (int i = 0; i < ROW_PIECES; i++)
                row_most = fmax(row_most, most[row * ROW_PIECES + i]);
            units[row] = row < KEYS ? unit_of(row_most) : key_unit_of(row_most);
        }
        SYNC(); /* the units are there, for all that have pieces of their rows */
    }
    for_each(row, KEYS) {
        int key = from + row;
        long at = at_row(e_at, list.rows.at.batch, list.first, list.kv_head) + (key - raw) * e_at.z;
        float squared = FLOAT_SUMS ? 1 : units[row] * units[row];

        beta[row] = key >= raw && key < list.keys ? gate_get(e, at) * squared : 0;
    }
    for_each(row, FLOAT_SUMS ? 0 : KEYS) {
        int scaled = 0;

        ((global float *)(record + RECORD_UNITS))[row] = units[KEYS + row];
        for (int i = 0; row == 0 && i < KEYS; i++)
            scaled |= units[KEYS + i] != 1;
        if (row == 0)
            *(global int *)(record + RECORD_SCALED) = scaled;
    }
    engine_unrolled
    for (int i = 0; i < LANE_PIECES; i++) {
        piece_t at = lane_piece(i);

        if (!at.there)
            continue;
        piece_leave(tiles, record + RECORD_W, at, gates_of(w[i]) * (FLOAT_SUMS ? 1 : unit_inverse(units[at.row])),
                    PARTS);
        piece_leave(tiles + TILES_K * TILE_NUMBERS, record + RECORD_KEYS, at,
                    numbers_of(x[i]) * (FLOAT_SUMS ? 1 : unit_inverse(units[KEYS + at.row])), 1);
    }
    SYNC(); /* w and k of all tiles are there, and so is beta */

    /* M = W Wᵀ and Y = W Kᵀ of the tile */
    engine_unrolled
    for (int kt = 0; kt < KT; kt++) {
        int row = own_row % TILE_KEYS * QUERY_PITCH + kt * 16;
        frag_t w = frag_load(m, address_of(W + kt * 16 + frag_lane(m, QUERY_PITCH)), QUERY_PITCH);
        frag_t x = frag_load(m, address_of(K + kt * 16 + frag_lane(m, QUERY_PITCH)), QUERY_PITCH);
        own[kt] = chain_load(m, address_of(W + row + chain_lane(m, QUERY_PITCH)), QUERY_PITCH);
        if (PARTS > 1) {
            local data_t *rest = W + TILE_NUMBERS;
            chain_t second = chain_load(m, address_of(rest + row + chain_lane(m, QUERY_PITCH)), QUERY_PITCH);
            S = walk_frag(m, S, second, w);
            S = walk_frag(m, S, own[kt],
                          frag_load(m, address_of(rest + kt * 16 + frag_lane(m, QUERY_PITCH)), QUERY_PITCH));
            R = walk_frag(m, R, second, x);
        }
        S = walk_frag(m, S, own[kt], w);
        R = walk_frag(m, R, own[kt], x);
    }
    square_put(m, M, S, own_row % TILE_KEYS);
    square_put(m, Y, R, own_row % TILE_KEYS);
    SYNC(); /* the tile's squares are there, for the lanes that solve its columns */
    columns_solve(columns, W, M, Y, beta + first);
    SYNC(); /* all have read squares, w and k: F and X take their places */
    engine_unrolled
    for (int c = 0; c < LANE_COLUMNS; c++)
        if (lane_column(c) < TILE_COLUMNS)
            columns_leave(columns[c], lane_column(c), tile, tiles, record);
    SYNC(); /* F and X of all tiles are there, for those that walk over them */

    /* F's rows walk back over the tiles before */
    engine_unrolled
    for (int kt = 0; kt < KT; kt++) {
        local data_t *at = tiles + factors_place(tile) + own_row % TILE_KEYS * QUERY_PITCH + kt * 16;
        own[kt] = chain_load(m, address_of(at + chain_lane(m, QUERY_PITCH)), QUERY_PITCH);
        walked[kt] = walk_acc(m, own[kt]);
        if (PARTS > 1)
            walked[kt] +=
                walk_acc(m, chain_load(m, address_of(at + TILE_NUMBERS + chain_lane(m, QUERY_PITCH)), QUERY_PITCH));
    }
    for (int before = LAST_TILE - 1; before >= 0; before--) {
        address_t w = address_of(tiles + (TILES_W + before * PARTS) * TILE_NUMBERS + frag_lane(m, QUERY_PITCH));
        address_t x = address_of(tiles + (TILES_K + before) * TILE_NUMBERS + frag_lane(m, QUERY_PITCH));
        address_t f = address_of(tiles + factors_place(before) + frag_lane_t(m, QUERY_PITCH));
        address_t s = address_of(tiles + square_place(before) + frag_lane_t(m, SQUARE_PITCH));
        chain_t A, second;

        if (ENGINE_ALONE && before >= tile)
            continue;
        S = R = 0;
        engine_unrolled
        for (int kt = 0; kt < KT; kt++) {
            frag_t columns = frag_load(m, address_plus(w, kt * 16), QUERY_PITCH);
            S = walk_frag(m, S, own[kt], columns);
            R = walk_frag(m, R, own[kt], frag_load(m, address_plus(x, kt * 16), QUERY_PITCH));
            if (PARTS > 1) {
                S = walk_frag(m, S, walk_chain(m, walked[kt] - walk_acc(m, own[kt])), columns);
                S = walk_frag(m, S, own[kt], frag_load(m, address_plus(w, TILE_NUMBERS + kt * 16), QUERY_PITCH));
            }
        }
        if (before >= tile)
            S = 0;
        A = walk_chain(m, S);
        second = walk_chain(m, S - walk_acc(m, A));
        R = walk_frag(m, R, A, frag_load_t(m, s, SQUARE_PITCH));
        if (before < tile)
            tile_leave(m, record + RECORD_X + own_row * KEYS + before * TILE_KEYS, KEYS, R, 1);
        engine_unrolled
        for (int kt = 0; kt < KT; kt++) {
            frag_t columns = frag_load_t(m, address_plus(f, kt * 16), QUERY_PITCH);
            walked[kt] = walk_frag(m, walked[kt], A, columns);
            if (PARTS > 1) {
                walked[kt] = walk_frag(m, walked[kt], second, columns);
                walked[kt] =
                    walk_frag(m, walked[kt], A, frag_load_t(m, address_plus(f, TILE_NUMBERS + kt * 16), QUERY_PITCH));
            }
            own[kt] = walk_chain(m, walked[kt]);
        }
    }
    for (int after = tile + 1; after <= LAST_TILE; after++)
        tile_leave(m, record + RECORD_X + own_row * KEYS + after * TILE_KEYS, KEYS, 0, 1);
    engine_unrolled
    for (int kt = 0; kt < KT; kt++)
        tile_leave(m, record + RECORD_F + own_row * KEY_WIDTH + kt * 16, KEY_WIDTH, walked[kt], PARTS);
}
