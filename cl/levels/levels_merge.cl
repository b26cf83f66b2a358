/* Joins the nodes of 2^level blocks to those of twice as many, in the place of the right one:
 *     M = M_R M_L        N = M_R N_L + N_R        (tree.clh)
 * One group: a block of one head, at which such a pair ends; a sub-group has 16 channels of the right one. */
#include "tree.clh"

/* N = N_R + e^G N_L of 16-bit numbers in pairs */
WORD uint pair_merge(uint left, uint right, float fade)
{
    return pack2(low_of(right) + fade * low_of(left), high_of(right) + fade * high_of(left));
}

/* clang-format off */
#define TENSORS(X) X(global const int, cu) X(global uint, nodes) X(global float, fades)
/* clang-format on */
KERNEL
levels_merge(TENSORS(PARAMETER) int seq_len, int sequences, int slot_count, int level)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(strips, LOCAL_STRIPS)
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    const long slot = get_group_id(0), size = 1L << level;
    chunk_t chunk = chunk_of_slot(slot, get_group_id(1), sequences, seq_len, cu, cu_at);
    const int sub = LANE / ENGINE_LANES, blocks = chunk.row / CHUNK + 1;
    global uint *right = nodes + nodes_at.x + node_of(slot, chunk.at.head);
    global const uint *left = nodes + nodes_at.x + node_of(slot - size, chunk.at.head);
    local data_t *strip = strips + sub * STRIP;
    const chain_t unit = chain_of(m, unit_acc(m, 0, 0));
    chain_t M[KT];

    if (chunk.count < CHUNK || blocks % (2 * size) != 0)
        return;
    if (!ERASES) {
        const float fade = fades[fades_at.x + fade_of(slot, chunk.at.head, level, slot_count)];
        for_each(i, NODE / 4) {
            uint4 x = ((global const uint4 *)left)[i], y = ((global const uint4 *)right)[i];
            ((global uint4 *)right)[i] = (uint4)(pair_merge(x.x, y.x, fade), pair_merge(x.y, y.y, fade),
                                                 pair_merge(x.z, y.z, fade), pair_merge(x.w, y.w, fade));
        }
        if (LANE == 0)
            fades[fades_at.x + fade_of(slot, chunk.at.head, level + 1, slot_count)] =
                fade * fades[fades_at.x + fade_of(slot - size, chunk.at.head, level, slot_count)];
        return;
    }
    engine_unrolled
    for (int c = 0; c < KT; c++)
        M[c] = chain_of(m, acc_of_frag_t(m, unit, frag_get(m, right + ((VT + c) * KT + sub) * FRAG)));
    for (int column = 0; column < COLUMN_TILES; column++) {
        global uint *to = right + (column * KT + sub) * FRAG;
        acc_t sum = column < VT ? acc_of_frag_t(m, unit, frag_get(m, to)) : (acc_t)(0);
        frag_t x;

        engine_unrolled
        for (int c = 0; c < KT; c++)
            sum = mma_frag(m, sum, M[c], frag_get(m, left + (column * KT + c) * FRAG));
        engine_sync_own(); /* every lane has loaded the tile before */
        acc_put_t(m, (local out_t *)strip, STRIP_PITCH, sum);
        engine_sync_own(); /* the tile is whole */
        x = frag_load(m, address_of(strip + frag_lane(m, STRIP_PITCH)), STRIP_PITCH);
        frag_put(m, to, x);
    }
}
