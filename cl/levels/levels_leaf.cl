/* The node of each block, from a state of zero and from the unit matrix, piece by piece:
 *     D = T (X - (P o e^G) S)        S <- e^(G_C) S + (K o e^(G_C - G))^T D        (tree.clh)
 * One group: SUBS tiles of columns of a block of one head; a sub-group: one of them, transposed, in registers. */
#include "tree.clh"

#define COLUMNS (SUBS * 16)
#define COLUMN_PITCH (COLUMNS + 8)

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, k) X(global const data_t, v) X(global const int, cu) X(global const uint, records) \
    X(global uint, nodes) X(global float, fades)
/* clang-format on */
KERNEL
levels_leaf(TENSORS(PARAMETER) int seq_len, int sequences, int slot_count)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(keys, LOCAL_KEYS)
    LOCAL_NUMBERS(values, LOCAL_VALUES)
    LOCAL_NUMBERS(strips, LOCAL_STRIPS)
    local float factors[PIECES * FACTORS] __attribute__((aligned(16)));
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    const long slot = get_group_id(0);
    chunk_t chunk = chunk_of_slot(slot, get_group_id(1), sequences, seq_len, cu, cu_at);
    const int sub = LANE / ENGINE_LANES, c0 = get_group_id(2) * COLUMNS, column = c0 / 16 + sub, writes = column < VT;
    local data_t *strip = strips + sub * STRIP;
    global const uint *record;
    address_t key_rows, key_columns, value_columns;
    acc_t S[KT];

    if (chunk.count < CHUNK) /* nobody reads the last one's */
        return;
    record = records_of(records, records_at, chunk, chunk.row, seq_len);
    k = write_row(k, chunk, chunk.at.qk_head);
    v = write_row(v, chunk, chunk.at.head) + c0;
    for_each(i, PIECES * FACTORS)
        factors[i] = record_factors(record + i / FACTORS * NEXT_RECORD)[i % FACTORS];
    SYNC();
    if (!ERASES && get_group_id(2) == 0 && LANE == 0) {
        float fade = 1;
        for (int piece = 0; piece < PIECES; piece++)
            fade *= factors[piece * FACTORS + OF_STATE];
        fades[fades_at.x + fade_of(slot, chunk.at.head, 0, slot_count)] = fade;
    }
    key_rows = address_of(keys + frag_lane(m, KEY_PITCH));
    key_columns = address_of(keys + frag_lane_t(m, KEY_PITCH));
    value_columns = address_of(values + chain_lane_t(m, COLUMN_PITCH) + sub * 16);
    engine_unrolled
    for (int kt = 0; kt < KT; kt++)
        S[kt] = writes ? (acc_t)(0) : unit_acc(m, (column - VT) * 16, kt * 16);
    for (int piece = 0; piece < PIECES; piece++, record += NEXT_RECORD) {
        const int row = piece % STAGE_PIECES * PIECE;
        acc_t D[PT];

        if (row == 0) {
            SYNC(); /* the rows before have been read */
            rows_stage(keys, KEY_PITCH, k + piece * PIECE * k_at.z, k_at.z, KEY_DIM, STAGE_ROWS);
            if (c0 < VALUE_DIM)
                rows_stage(values, COLUMN_PITCH, v + piece * PIECE * v_at.z, v_at.z, min(COLUMNS, VALUE_DIM - c0),
                           STAGE_ROWS);
            copies_end();
            SYNC();
        }
        engine_unrolled
        for (int n = 0; n < PT; n++) {
            acc_t x =
                acc_of(m, chain_load_t(m, address_plus(value_columns, (row + n * 16) * COLUMN_PITCH), COLUMN_PITCH));
            D[n] = writes ? x : (acc_t)(0);
        }
        piece_walk(m, S, D, (piece_t){key_rows, key_columns, factors + piece * FACTORS, record}, row);
    }
    nodes += nodes_at.x + node_of(slot, chunk.at.head);
    engine_unrolled
    for (int kt = 0; kt < KT; kt++) {
        frag_t x;
        engine_sync_own(); /* every lane has loaded the tile before */
        acc_put(m, strip, STRIP_PITCH, S[kt]);
        engine_sync_own(); /* the tile is whole */
        x = frag_load(m, address_of(strip + frag_lane(m, STRIP_PITCH)), STRIP_PITCH);
        if (column < COLUMN_TILES)
            frag_put(m, nodes + (column * KT + kt) * FRAG, x);
    }
}
