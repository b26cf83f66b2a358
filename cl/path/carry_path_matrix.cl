/* Keys carried on to the end of their span, on a matrix engine, and what the whole span does to a row, the unit matrix
 * carried as keys are; F and W of each later block of the span (path_walk.clh):
 *     A = K Fᵀ      K += A W          of the keys' own block A is X, of later tokens alone
 * The last span has no queries after it. One group: CHUNK keys of one key head, ACC_ROWS a sub-group; or CHUNK rows of the
 * unit matrix, with the span's first slot. All sub-groups walk together: a tile of a block is read by all. */
/* clang-format off */
#define TENSORS(X) \
    X(global const int, cu) X(global float, rows) X(global float, segments)
/* clang-format on */
KERNEL
carry_path_matrix(TENSORS(PARAMETER) int seq_len, int sequences, int kv_len)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(tiles, LOCAL_TILES)
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    long slot = get_group_id(0);
    list_t list = turn_list_of_group(sequences, seq_len, cu, cu_at, kv_len);
    turn_t turn = turn_of(list, kv_len);
    int number = (int)(slot - turn.base), span = number / (SPAN_ROWS / CHUNK);
    int from = number * CHUNK - turn.shift, end = (span + 1) * SPAN_ROWS - turn.shift;
    int own_row = LANE / ENGINE_LANES * ACC_ROWS, block = own_row / KEYS, row = own_row % KEYS;
    int units = get_group_id(2) > 0, unit_row = ((int)get_group_id(2) - 1) * CHUNK + own_row;
    global data_t *first = record_of(rows, rows_at, turn, list, from), *own = first + block * NEXT_RECORD, *to;
    local data_t *square = tiles + block * KEYS * SQUARE_PITCH;
    int absent = max(-from / KEYS, 0); /* blocks of a sequence's first slot that lie before its keys */
    int own_key = units ? from - KEYS : from + block * KEYS;
    course_t course = {tiles, first + absent * NEXT_RECORD, from + absent * KEYS, end, !units};
    int n = 0; /* the tile that is next */
    acc_t Y[KT];
    chain_t X[KT], A[PARTS * STEP];

    if (number < 0 || number >= turn.slots || end >= list.keys || (units && number % (SPAN_ROWS / CHUNK) != 0))
        return;
    if (!FLOAT_SUMS && units && get_group_id(2) == 1 && LANE == 0)
        span_scaled_leave(first, from, end);
    course_send(&course, 0);
    if (!units)
        square_copy(square, own + RECORD_X, GROUP / (CHUNK / KEYS));
    engine_unrolled
    for (int kt = 0; kt < KT; kt++) {
        Y[kt] =
            units ? unit_tile(m, unit_row, kt) : tile_get(m, own + RECORD_KEYS + row * KEY_WIDTH + kt * 16, KEY_WIDTH);
        X[kt] = walk_chain(m, Y[kt]);
    }
    engine_unrolled
    for (int i = 0; i < PARTS * STEP; i++)
        A[i] = 0;
    SYNC(); /* X of each block is there, for the sub-groups that have its keys */
    engine_unrolled
    for (int i = 0; i < STEP && !units; i++)
        A[i] = chain_load_t(m, address_of(square + i * 16 * SQUARE_PITCH + row + chain_lane_t(m, SQUARE_PITCH)),
                            SQUARE_PITCH);
    SYNC(); /* all have read X: tiles take its place */
    for (int i = 1; i < STAGES - 1; i++)
        course_send(&course, i);
    for (int key = course.first; key < end; key += KEYS) {
        chain_t walking[PARTS * STEP];

        if (units || key > course.first) { /* A = K Fᵀ */
            copies_wait();
            team_written();
            SYNC(); /* all lanes' pieces of F are there, and all have read the tile before: the next takes its slot */
            course_send(&course, n + STAGES - 1);
            if (!ENGINE_ALONE || key > own_key) {
                acc_t S[STEP];
                block_products_in_parts(m, S, Y, X, course_place(&course, n), KEY_TILE);
                walk_round(m, walking, STEP, S);
                engine_unrolled
                for (int i = 0; i < PARTS * STEP; i++)
                    A[i] = key > own_key ? walking[i] : A[i];
            }
            n++;
        }
        copies_wait(); /* K += A W */
        team_written();
        SYNC(); /* the same of w */
        course_send(&course, n + STAGES - 1);
        if (!ENGINE_ALONE || key >= own_key) {
            engine_unrolled
            for (int i = 0; i < PARTS * STEP; i++)
                walking[i] = key >= own_key ? A[i] : (chain_t)(0);
            block_add_in_parts(m, Y, KT, walking, course_place(&course, n), KEY_TILE, 0);
            engine_unrolled
            for (int kt = 0; kt < KT; kt++)
                X[kt] = walk_chain(m, Y[kt]);
        }
        n++;
    }
    if (units && unit_row >= H_ROWS)
        return;
    to = units ? H_of(segments, segments_at, turn, list, span) + unit_row * KEY_WIDTH
               : own + RECORD_CARRIED + row * KEY_WIDTH;
    engine_unrolled
    for (int kt = 0; kt < KT; kt++)
        tile_leave(m, to + kt * 16, KEY_WIDTH, Y[kt], 1);
}
