/* Attention of a few queries to a long list of keys; each group has a part of the keys:
 * P = K Q b       as in flash.cl, for this part alone
 * m, l and O go to the workspace, and join_parts.cl computes o and lse from them. One group: one tile of CHUNK tokens
 * and HEADS heads of one key head, all value columns, one of SPLITS parts of the keys that they see. */
/* clang-format off */
#define TENSORS(X) \
    X(global const query_t, q) X(global const data_t, k) X(global const data_t, v) X(global const gate_t, g) \
    X(global const int, cu) X(global float, parts)
#define OPTIONALS(X) \
    X(global const int, cu_kv) X(global const int, lens)
/* clang-format on */
KERNEL
decode(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int sequences, int kv_len, int window, float scale,
       int given, int tail)
{
    TENSORS(ABSENT)
    local float Q[LOCAL_QUERIES], X[LOCAL_PRODUCTS], P[LOCAL_SCORES], O[LOCAL_OUTPUT], G[LOCAL_DECAYS];
    local float most[LOCAL_MOST], before[LOCAL_MOST], sums[LOCAL_MOST], decays[LOCAL_MOST], kept[LOCAL_KEPT];
    long slot = get_group_id(0), number = slot * get_num_groups(1) + get_group_id(1);
    int tiles = (KV_GROUP + HEADS - 1) / HEADS, tile = get_group_id(1) % tiles, split = get_group_id(2);
    int head = (int)get_group_id(1) / tiles * KV_GROUP + tile * HEADS;
    chunk_t chunk = chunk_of_slot(slot, head, sequences, seq_len, cu, cu_at);
    part_t part;
    ulong keys_raw[KEYS_RAW], values_raw[VALUES_RAW];
    cache_t cache = cache_of(cu_kv, cu_kv_at, lens, lens_at, kv_len, window, given);

    if (chunk.count <= 0)
        return;
    part = part_of(chunk, cache_of_tail(cache, tail), tile, split);
    part_queries(Q, q, q_at, part, number, scale * LOG2E);
    tile_zero(O, SHARES * ROWS * VP);
    for_each(task, ROWS * RV) {
        before[task] = -INFINITY;
        sums[task] = decays[task] = 0;
    }
    SYNC();
    part_normalize(Q, kept, scale * LOG2E);
    if (part.end > part.first)
        keys_ahead(keys_raw, k, k_at, part, part.end - KEYS);
    for (int from = part.end - KEYS; from + KEYS > part.first; from -= KEYS) {
        SYNC();
        values_ahead(values_raw, v, v_at, part, from);
        part_products(X, Q, keys_raw, k, k_at, part, from);
        part_decays(G, g, g_at, part, from, WALKED ? scale : 1);
        SYNC();
        for_each(task, ROWS * RV)
            vec_store(part_scores(X, task / RV, task % RV * VEC), P + task * VEC);
        part_weigh(P, most, decays, G, part, from);
        SYNC();
        part_weights(P, most, before, sums, kept);
        SYNC();
        keys_ahead(keys_raw, k, k_at, part, from - KEYS);
        if (from + KEYS > part_seen_by_all(part.list))
            part_values(O, kept, P, values_raw, v, v_at, part, from, 1);
        else
            part_values(O, kept, P, values_raw, v, v_at, part, from, 0);
    }
    SYNC();
    part_store(part_at(parts, parts_at, number * PARTS + split), O, before, sums, decays);
}
