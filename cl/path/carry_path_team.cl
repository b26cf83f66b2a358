/* carry_path_matrix.cl by teams of sub-groups: blocks of KEYS keys, a team each, walked a block at a time. One group: a
 * chunk's blocks of one key head; or CHUNK rows of the unit matrix, with the span's first chunk. F of a block and its w
 * are parts that come one after the other, two of them on their way; of the keys' own first block its w alone. */
/* clang-format off */
#define TENSORS(X) \
    X(global const int, cu) X(global float, rows) X(global float, segments)
/* clang-format on */
KERNEL
carry_path_team(TENSORS(PARAMETER) int seq_len, int sequences, int kv_len)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(tiles, LOCAL_TILES)
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    long slot = get_group_id(0);
    list_t list = turn_list_of_group(sequences, seq_len, cu, cu_at, kv_len);
    turn_t turn = turn_of(list, kv_len);
    int unit = (int)get_group_id(2) - 1, block = (int)(slot - turn.base), n = 0;
    int span = block / (SPAN_ROWS / CHUNK), end = (span + 1) * SPAN_ROWS - turn.shift,
        from = block * CHUNK - turn.shift;
    int own_row = LANE / ENGINE_LANES * ACC_ROWS, team = own_row / KEYS, row = own_row % KEYS;
    global data_t *left = turn_block(rows, rows_at, turn, list, from), *to = left + team * NEXT_BLOCK;
    local data_t *square = tiles + team * KEYS * SQUARE_PITCH;
    int none = unit >= 0 && from + KEYS <= 0; /* the sequence's first block lies before its keys */
    walk_t walk = {tiles, left + none * NEXT_BLOCK, from + none * KEYS, end, unit < 0};
    acc_t Y[KT];
    chain_t X[KT], A[KEYS / 16];

    if (block < 0 || block >= turn.blocks || end >= list.keys || (unit >= 0 && block % (SPAN_ROWS / CHUNK) != 0))
        return;
    if (unit == 0 && LANE == 0)
        span_apart_leave(left, from, end);
    walk_copy(&walk, 0);
    if (unit < 0) {
        walked_get(m, X, to + TURN_KEYS + row * KEY_WIDTH);
        square_get(square, to + TURN_X);
    } else
        units_get(m, X, unit * CHUNK + own_row);
    SYNC();
    engine_unrolled
    for (int kt = 0; kt < KT; kt++)
        Y[kt] = acc_of_half(m, X[kt]);
    engine_unrolled
    for (int i = 0; i < KEYS / 16 && unit < 0; i++)
        A[i] = chain_load_t(m, address_of(square + i * 16 * SQUARE_PITCH + row + chain_lane_t(m, SQUARE_PITCH)),
                            SQUARE_PITCH);
    SYNC();
    walk_copy(&walk, 1);
    if (unit < 0) {
        walk_part(&walk, n);
        if (team == 0)
            walk_add(m, Y, X, A, walk_place(tiles, n));
        for (n++; n < 2 * (CHUNK / KEYS) - 1; n += 2) {
            walk_part(&walk, n);
            if (team == 0)
                walk_products(m, A, X, walk_place(tiles, n));
            walk_part(&walk, n + 1);
            walk_add(m, Y, X, A, walk_place(tiles, n + 1));
        }
    }
    for (int key = unit < 0 ? from + CHUNK : walk.from; key < end; key += KEYS, n += 2) {
        walk_part(&walk, n);
        walk_products(m, A, X, walk_place(tiles, n));
        walk_part(&walk, n + 1);
        walk_add(m, Y, X, A, walk_place(tiles, n + 1));
    }
    if (unit >= 0)
        to = turn_whole(segments, segments_at, turn, list, span) + (unit * CHUNK + team * KEYS) * KEY_WIDTH;
    else
        to += TURN_CARRIED;
    if (unit < 0 || unit * CHUNK + own_row < WHOLE_ROWS)
        walked_leave(m, to + row * KEY_WIDTH, X);
}
