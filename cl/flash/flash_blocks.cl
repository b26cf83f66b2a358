/* flash.cl in register blocks: CHUNK queries of a head at once, keys in blocks of as many from the queries' own
 * downward, S and O in registers, the weights P between their two products in local memory:
 *     S = K (s Q)ᵀ + b      m' = max(m, max S)      P = e^(S - m')      l = e^(m - m') l + Σ P
 *     O = e^(m - m') O + Pᵀ V      and at the end o = O / l, lse = m + log l
 * One group: one block of queries of one head, BV value columns; those that see the most keys are first. */
#include "blocks_list.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global out_t, o) \
    X(global const gate_t, g) X(global const int, cu)
#define OPTIONALS(X) \
    X(global const float, sink) X(global float, lse) X(global const int, cu_kv) X(global const int, lens)
/* clang-format on */
KERNEL
flash_blocks(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int sequences, int kv_len, int window, float scale,
             int given)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(tiles, LOCAL_TILES)
    LOCAL_FLOATS(P, LOCAL_SCORES)
    LOCAL_FLOATS(kept, LOCAL_KEPT)
    ENGINE_LOCALS
    local float norms[LOCAL_NORMS], bias[LOCAL_BIAS];
    engine_t m = engine_begin(engine_scratch);
    long group = (long)get_group_id(1) * get_num_groups(0) + get_group_id(0), heads = get_num_groups(1);
    long slot = list_slot(get_num_groups(0) - 1 - group / heads, sequences, seq_len);
    int head = (int)(group % heads), c0 = get_group_id(2) * BV;
    chunk_t chunk = chunk_of_slot(slot, head, sequences, seq_len, cu, cu_at);
    list_t list = list_of(chunk, cache_of(cu_kv, cu_kv_at, lens, lens_at, kv_len, window, given));
    rows_t queries = rows_of(token_row(q, chunk, head), q_at.z, 0, chunk.count, KEY_DIM);
    rows_t keys = rows_of(k + list_row(k_at, list), k_at.z, list.position, list.keys, KEY_DIM);
    rows_t values = rows_of(v + list_row(v_at, list) + c0, v_at.z, 0, list.keys, VALUE_DIM - c0);
    local float *turned = tiles + CHUNK * RP, *level = kept + CHUNK;
    data_raw_t held_queries[held_count(CHUNK, BK)], held_keys[held_count(CHUNK, BK)], held_values[held_count(BT, BV)];
    vec S[KEY_ROWS * SCORE_WIDE], O[QUERY_ROWS * WIDE], most[SCORE_WIDE], total[SCORE_WIDE];
    float sum = 0;

    if (chunk.count <= 0)
        return;
    rows_norm(norms, queries.x, queries.stride, 0, 1, chunk.count);
    weights_begin(most, total, given & GIVEN_SINK ? sink[at_row(sink_at, 0, 0, head)] : 0, given & GIVEN_SINK);
    block_zero(O, QUERY_ROWS * WIDE);
    rows_fetch(held_queries, queries, CHUNK, BK, 0, 1);
    rows_fetch(held_keys, keys, CHUNK, BK, 0, 0);
    for (int from = list.position; from + CHUNK > list.least; from -= CHUNK) {
        int own = from == list.position;

        SYNC();
        list_norms(norms + CHUNK, k, k_at, list, from);
        sum = bias_block(bias, sum, g, g_at, list, from, own);
        if (own)
            bias_own(P, bias);
        block_zero(S, KEY_ROWS * SCORE_WIDE);
        rolled for (int n = BK; n <= KP; n += BK)
        {
            SYNC();
            rows_put(tiles, RP, held_keys, CHUNK, BK);
            rows_put_across(turned, SCORE_PITCH, held_queries, CHUNK, BK);
            SYNC();
            rows_fetch(held_queries, queries, CHUNK, BK, n < KP ? n : 0, 1);
            keys.first = n < KP ? from : from - CHUNK;
            rows_fetch(held_keys, keys, CHUNK, BK, n < KP ? n : 0, 0);
            block_ab(m, S, tiles, RP, turned, SCORE_PITCH, KEY_ROWS, SCORE_WIDE, BK);
        }
        values.first = from;
        rows_fetch(held_values, values, BT, BV, 0, 0);
        scores_seen(S, list, from, norms, bias, P, scale * LOG2E);
        SYNC();
        weights_top(S, tiles);
        SYNC();
        weights_of(P, kept, most, total, S, tiles);
        rolled for (int j = 0; j < CHUNK; j += BT)
        {
            SYNC();
            rows_put(tiles, COLUMN_PITCH, held_values, BT, BV);
            SYNC();
            values.first += BT;
            if (j + BT < CHUNK)
                rows_fetch(held_values, values, BT, BV, 0, 0);
            if (j == 0)
                outputs_scale(O, kept);
            if (own)
                block_atb_upper(m, O, P + j * SCORE_PITCH, SCORE_PITCH, tiles, COLUMN_PITCH, QUERY_ROWS / VEC, WIDE, j,
                                BT);
            else
                block_atb(m, O, P + j * SCORE_PITCH, SCORE_PITCH, tiles, COLUMN_PITCH, QUERY_ROWS / VEC, WIDE, BT);
        }
    }
    SYNC();
    weights_leave(tiles, level, most, total);
    SYNC();
    for_each(i, CHUNK) {
        float all = weights_sum(tiles, i);
        kept[i] = all == 0 ? 0 : 1 / all;
        if (given & GIVEN_LSE && c0 == 0 && i < chunk.count)
            lse[at_row(lse_at, chunk.at.batch, chunk.at.first + chunk.row + i, head)] =
                (level[i] + log2(all)) * (1 / LOG2E);
    }
    SYNC();
    outputs_scale(O, kept);
    vec_unrolled
    for (int r = 0; r < QUERY_ROWS; r++)
        vec_unrolled
    for (int w = 0; w < WIDE; w++) {
        int i = turned_row(r / VEC, r % VEC), c = c0 + block_column(w);
        if (i < chunk.count && c < VALUE_DIM)
            output_put(O[r * WIDE + w], chunk.at, chunk.row + i, c);
    }
}
