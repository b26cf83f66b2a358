/* carry_path.cl on a matrix engine: keys carried on to the end of their span, and what the whole span does to a row,
 * the unit matrix carried as keys are; the last span has no queries after it. One group: one block of keys of one
 * key head; or CHUNK rows of the unit matrix, with the span's first block. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, k) X(global const int, cu) X(global float, rows) X(global float, segments)
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
    int block = (int)(slot - turn.base), unit = (int)get_group_id(2) - 1, span = block / (SPAN_ROWS / CHUNK);
    int from = block * CHUNK - turn.shift, end = (span + 1) * SPAN_ROWS - turn.shift;
    int own_row = LANE / ENGINE_LANES * ACC_ROWS, own_key = from + (unit < 0 ? own_row / 16 * 16 : -16);
    local data_t *own = tiles + own_row * KEY_PITCH;
    global data_t *first = turn_rows(rows, rows_at, turn, list, TURN_W), *to;
    long stride;
    acc_t Y[KT];
    chain_t X[KT];

    if (block >= turn.blocks || end >= list.keys || (unit >= 0 && block % (SPAN_ROWS / CHUNK) != 0))
        return;
    if (unit < 0)
        keys_put(tiles, k + at_row(k_at, list.rows.at.batch, list.first, list.kv_head), k_at.z, from, list.keys);
    else
        units_put(tiles, unit * CHUNK);
    SYNC();
    engine_unrolled
    for (int kt = 0; kt < KT; kt++) {
        X[kt] = chain_load(m, address_of(own + kt * 16 + chain_lane(m, KEY_PITCH)), KEY_PITCH);
        Y[kt] = acc_of(m, X[kt]);
    }
    for (int key = from; key < end; key += WALK_KEYS) {
        SYNC();
        walk_copy(tiles, first, key);
        SYNC();
        for (int tile = 0; tile < WALK_KEYS / 16; tile++) {
            address_t w = address_of(tiles + tile * 16 * KEY_PITCH + frag_lane_t(m, KEY_PITCH));
            local data_t *x = tiles + WALK_X + tile * 16 * X_PITCH + own_row % 16;
            int at = key + tile * 16;
            acc_t S;

            if (ENGINE_ALONE && at < own_key)
                continue;
            S = turn_products(m, Y, X, address_of(tiles + WALK_F + tile * 16 * KEY_PITCH + frag_lane(m, KEY_PITCH)),
                              WALK_REST);
            if (!ENGINE_ALONE || at == own_key) {
                acc_t own_x = acc_of(m, chain_load_t(m, address_of(x + chain_lane_t(m, X_PITCH)), X_PITCH));
                S = at == own_key ? own_x : S;
            }
            if (at < own_key)
                S = 0;
            turn_add(m, Y, S, w, WALK_REST);
            turn_round(m, X, Y);
        }
    }
    SYNC();
    engine_unrolled
    for (int kt = 0; kt < KT; kt++)
        acc_put(m, own + kt * 16, KEY_PITCH, Y[kt]);
    SYNC();
    to = unit < 0 ? first + from * TURN_STRIDE + TURN_CARRIED
                  : turn_whole(segments, segments_at, turn, list, span) + unit * CHUNK * KEY_WIDTH;
    stride = unit < 0 ? TURN_STRIDE : KEY_WIDTH;
    for_each(task, (unit < 0 ? CHUNK : min(CHUNK, KEY_WIDTH - unit * CHUNK)) * KT * 2) {
        int row = task / (KT * 2), n = task % (KT * 2) * 8;
        *(global uint4 *)(to + row * stride + n) = *(local const uint4 *)(tiles + row * KEY_PITCH + n);
    }
}
