/* Final states of the buckets of whole blocks: the node that is a bucket, and what the later nodes and the tokens after
 * the last whole block keep of it (tree.clh). One group: SUBS tiles of value columns of one head of one sequence; a
 * sub-group: one of them, transposed, in registers. */
#include "tree.clh"

/* S <- M S, turned by way of the sub-group's tile of local memory */
WORD void node_walk(engine_t m, acc_t *S, local data_t *strip, chain_t unit, global const uint *node)
{
    chain_t R[KT];

    engine_unrolled
    for (int kt = 0; kt < KT; kt++)
        R[kt] = chain_of(m, S[kt]);
    engine_unrolled
    for (int row = 0; row < KT; row++) {
        S[row] = 0;
        engine_unrolled
        for (int c = 0; c < KT; c++) {
            acc_t M = acc_of_frag_t(m, unit, frag_get(m, node + ((VT + c) * KT + row) * FRAG));
            engine_sync_own(); /* every lane has loaded the tile before */
            acc_put(m, strip, STRIP_PITCH, M);
            engine_sync_own(); /* the tile is whole */
            S[row] =
                mma_frag(m, S[row], R[c], frag_load(m, address_of(strip + frag_lane(m, STRIP_PITCH)), STRIP_PITCH));
        }
    }
}
/* S = N, of the sub-group's columns */
WORD void node_load(engine_t m, acc_t *S, local data_t *strip, chain_t unit, global const uint *node, int column)
{
    engine_unrolled
    for (int kt = 0; kt < KT; kt++) {
        acc_t N = acc_of_frag_t(m, unit, frag_get(m, node + (column * KT + kt) * FRAG));
        float x[ACC];
        engine_sync_own(); /* every lane has loaded the tile before */
        acc_put_t(m, (local out_t *)strip, STRIP_PITCH, N);
        engine_sync_own(); /* the tile is whole */
        engine_unrolled
        for (int e = 0; e < ACC; e++)
            x[e] = data_get(strip, acc_row(m, e) * STRIP_PITCH + acc_column(m, e));
        S[kt] = CAT(vload, ACC)(0, x);
    }
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, k) X(global const int, cu) X(global const uint, records) X(global const uint, nodes) \
    X(global const float, fades)
#define OPTIONALS(X) X(global state_t, final)
/* clang-format on */
KERNEL
levels_final(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int slot_count)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(keys, LOCAL_KEYS)
    LOCAL_NUMBERS(strips, LOCAL_STRIPS)
    local float factors[STAGE_PIECES * FACTORS] __attribute__((aligned(16)));
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    const place at = place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at);
    const int sub = LANE / ENGINE_LANES, column = get_group_id(2) * SUBS + sub, blocks = at.rows / CHUNK;
    const long slot = slot_of(at, seq_len);
    const chain_t unit = chain_of(m, unit_acc(m, 0, 0));
    const chunk_t tail = chunk_at(at, blocks * CHUNK);
    local data_t *strip = strips + sub * STRIP;
    const piece_t piece = {address_of(keys + frag_lane(m, KEY_PITCH)), address_of(keys + frag_lane_t(m, KEY_PITCH)),
                           factors, 0};

    if (final == 0)
        return;
    k = write_row(k, tail, at.qk_head);
    final += at_row(final_at, at.sequence, 0, at.head);
    for (int left = blocks; left > 0; left &= left - 1) {
        const int n = 31 - clz(left & -left), level = level_between(0, CHUNK << n);
        acc_t S[KT];

        node_load(m, S, strip, unit, nodes + nodes_at.x + node_of(slot + left - 1, at.head), min(column, VT - 1));
        for (int bit = n - 1; bit >= 0; bit--) {
            const long end = slot + (blocks >> bit << bit) - 1;
            if (!(blocks >> bit & 1))
                continue;
            if (ERASES) {
                node_walk(m, S, strip, unit, nodes + nodes_at.x + node_of(end, at.head));
                continue;
            }
            engine_unrolled
            for (int kt = 0; kt < KT; kt++)
                S[kt] *= fades[fades_at.x + fade_of(end, at.head, bit, slot_count)];
        }
        for (int row = 0; row < tail.count; row += PIECE) {
            piece_t here = piece;
            acc_t D[PT];
            here.record = records_of(records, records_at, tail, tail.row + row, seq_len);
            SYNC(); /* the rows before have been read */
            rows_stage(keys, KEY_PITCH, k + row * k_at.z, k_at.z, KEY_DIM, tail.count - row);
            for_each(i, FACTORS)
                factors[i] = record_factors(here.record)[i];
            copies_end();
            SYNC();
            engine_unrolled
            for (int i = 0; i < PT; i++)
                D[i] = 0;
            piece_walk(m, S, D, here, 0);
        }
        engine_unrolled
        for (int kt = 0; kt < KT; kt++) {
            float x[ACC];
            CAT(vstore, ACC)(S[kt], 0, x);
            engine_unrolled
            for (int e = 0; e < ACC; e++)
                if (column < VT && level < LEVELS)
                    state_put(x[e], final + level * (KEY_DIM * VALUE_DIM),
                              state_index(kt * 16 + acc_column(m, e), column * 16 + acc_row(m, e)));
        }
    }
}
