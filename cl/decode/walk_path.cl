/* The tail of decode.cl's keys, for path_attn. Queries walk back over its tokens, each of which transforms them:
 * P = k q        q -= beta w (w.q)
 * The tail's result for their rows becomes that of the last part of the keys. The queries themselves, times scale, are
 * stored for decode.cl, which reads the earlier keys unchanged, because these have been carried to the beginning of the
 * tail. One group: one tile of CHUNK tokens and HEADS heads of one key head, all value columns. */
/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global const gate_t, g) \
    X(global const gate_t, p) X(global const gate_t, e) X(global const int, cu) X(global float, rows) \
    X(global float, parts)
/* clang-format on */
KERNEL
walk_path(TENSORS(PARAMETER) int seq_len, int sequences, int kv_len, int window, float scale, int tail)
{
    TENSORS(ABSENT)
    local float Q[LOCAL_QUERIES], X[LOCAL_PRODUCTS], P[LOCAL_SCORES], O[LOCAL_OUTPUT], G[LOCAL_DECAYS];
    local float most[LOCAL_MOST], before[LOCAL_MOST], sums[LOCAL_MOST], decays[LOCAL_MOST], kept[LOCAL_KEPT];
    long slot = get_group_id(0), number = slot * get_num_groups(1) + get_group_id(1);
    int tiles = (KV_GROUP + HEADS - 1) / HEADS, tile = get_group_id(1) % tiles;
    int head = (int)get_group_id(1) / tiles * KV_GROUP + tile * HEADS;
    chunk_t chunk = chunk_of_slot(slot, head, sequences, seq_len, cu, cu_at);
    part_t part;

    if (chunk.count <= 0)
        return;
    part = part_of_tail(chunk, cache_of(0, (long4)(0), 0, (long4)(0), kv_len, window, 0), tile, tail);
    part_queries(Q, q, q_at, part, number, scale * LOG2E);
    tile_zero(O, SHARES * ROWS * VP);
    for_each(task, ROWS * RV) {
        before[task] = -INFINITY;
        sums[task] = decays[task] = 0;
    }
    for (int from = part.end - KEYS; from + KEYS > part.first; from -= KEYS) {
        SYNC();
        part_walk(P, Q, X, k, k_at, p, p_at, e, e_at, part, tail, from);
        part_decays(G, g, g_at, part, from, scale);
        SYNC();
        part_weigh(P, most, decays, G, part, from);
        SYNC();
        part_weights(P, most, before, sums, kept);
        SYNC();
        part_values(O, kept, P, 0, v, v_at, part, from, 1);
    }
    SYNC();
    part_store(part_at(parts, parts_at, number * PARTS + SPLITS), O, before, sums, decays);
    rows += rows_at.x + number * ROWS * KP;
    for_each(task, ROWS * (KP / VEC))
        vec_store(vec_load(Q + task * VEC), rows + task * VEC);
}
