/* prepare_path.cl on a matrix engine: w in 16 bits, F and X of every tile of 16 keys (cl/matrix/path_turn.clh), columns
 * solved in floats. One group: one block of one key head, a tile a sub-group or two. */
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
    LOCAL_FLOATS(squares, LOCAL_SQUARES)
    local float beta[LOCAL_BETA];
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    long slot = get_group_id(0);
    list_t list = turn_list_of_group(sequences, seq_len, cu, cu_at, kv_len);
    turn_t turn = turn_of(list, kv_len);
    int from = (int)(slot - turn.base) * CHUNK - turn.shift, raw = max(list.keys - tail, 0);
    int own_row = LANE / ENGINE_LANES * ACC_ROWS;
    int corner = own_row / 16 * 16;
    local data_t *W = tiles, *K = tiles + CHUNK * KEY_PITCH; /* in the place of the second part of w */
    address_t row = address_of(W + own_row * KEY_PITCH + chain_lane(m, KEY_PITCH));
    address_t w = address_of(W + corner * KEY_PITCH + frag_lane(m, KEY_PITCH));
    local float *M = squares, *Y = squares + CHUNK * 16;
    chain_t own[KT], second[KT];
    acc_t S;
    int rest = CHUNK * KEY_PITCH;

    if (slot - turn.base >= turn.blocks)
        return;
    p += at_row(p_at, list.rows.at.batch, list.first, list.kv_head);
    gates_put(W, p, p_at.z, from - raw, list.keys - raw); /* w and beta begin with the tail */
    for_each(i, CHUNK) {
        int key = from - raw + i;
        long at = at_row(e_at, list.rows.at.batch, list.first, list.kv_head) + key * e_at.z;
        beta[i] = key >= 0 && key < list.keys - raw ? gate_get(e, at) : 0;
    }
    SYNC();
    engine_unrolled
    for (int kt = 0; kt < KT; kt++) {
        own[kt] = chain_load(m, address_plus(row, kt * 16), KEY_PITCH);
        if (PARTS > 1)
            second[kt] = chain_load(m, address_plus(row, rest + kt * 16), KEY_PITCH);
    }
    S = turn_product(m, 0, own, w);
    if (PARTS > 1)
        S = turn_product(m, turn_product(m, S, own, address_plus(w, rest)), second, w);
    square_put(m, M + corner * 16, S, own_row % 16);
    SYNC();
    keys_put(K, k + at_row(k_at, list.rows.at.batch, list.first, list.kv_head), k_at.z, from, list.keys);
    SYNC();
    S = turn_product(m, 0, own, address_plus(w, rest));
    if (PARTS > 1)
        S = turn_product(m, S, second, address_plus(w, rest));
    square_put(m, Y + corner * 16, S, own_row % 16);
    SYNC();
    columns_turn(turn_rows(rows, rows_at, turn, list, TURN_W) + from * TURN_STRIDE, p, p_at.z, from - raw,
                 list.keys - raw, M, Y, beta);
}
