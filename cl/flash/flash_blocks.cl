/* Attention to a list of keys in register blocks, for work-items that share a tile:
 *     S = K (s Q)ᵀ + b      m' = max(m, max S)      P = e^(S - m')      l = e^(m - m') l + Σ P
 *     O = e^(m - m') O + Pᵀ V      and at the end o = O / l, lse = m + log l
 *
 * A work-group has CHUNK queries of one head and BV value columns, and reads keys in blocks of CHUNK from the queries' own
 * downward; groups whose queries see the most keys start first. A work-item has KEY_ROWS keys by SCORE_WIDE vectors of
 * queries of the scores and QUERY_ROWS queries by WIDE vectors of columns of O, in registers; P goes through local memory
 * from one product to the other. Slices of queries, keys and values are on their way in registers (…_ahead) while the
 * ones before are multiplied. */
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
    LOCAL_FLOATS(weight_tile, LOCAL_SCORES)
    LOCAL_FLOATS(factors, LOCAL_KEPT) /* of the rows of O */
    ENGINE_LOCALS
    local float norms[LOCAL_NORMS], bias[LOCAL_BIAS];
    engine_t engine = engine_begin(engine_scratch);
    long group = (long)get_group_id(1) * get_num_groups(0) + get_group_id(0), heads = get_num_groups(1);
    long slot = list_slot(get_num_groups(0) - 1 - group / heads, sequences, seq_len);
    int head = (int)(group % heads), first_column = get_group_id(2) * BV;
    chunk_t chunk = chunk_of_slot(slot, head, sequences, seq_len, cu, cu_at);
    list_t list = list_of(chunk, cache_of(cu_kv, cu_kv_at, lens, lens_at, kv_len, window, given));
    rows_t queries = rows_of(token_row(q, chunk, head), q_at.z, 0, chunk.count, KEY_DIM);
    rows_t keys = rows_of(k + list_row(k_at, list), k_at.z, list_top(list), list.keys, KEY_DIM);
    rows_t values = rows_of(v + list_row(v_at, list) + first_column, v_at.z, 0, list.keys, VALUE_DIM - first_column);
    local float *query_tile = tiles + CHUNK * RP, *levels = factors + CHUNK;
    data_raw_t queries_ahead[held_count(CHUNK, BK)], keys_ahead[held_count(CHUNK, BK)];
    data_raw_t values_ahead[held_count(BT, BV)];
    vec scores[KEY_ROWS * SCORE_WIDE], accumulator[QUERY_ROWS * WIDE], most[SCORE_WIDE], total[SCORE_WIDE];
    float sum = 0; /* of the decays between the block of keys and the first query */

    if (chunk.count <= 0)
        return;
    rows_norm(norms, queries.x, queries.stride, 0, 1, chunk.count);
    weights_begin(most, total, given & GIVEN_SINK ? sink[at_row(sink_at, 0, 0, head)] : 0, given & GIVEN_SINK);
    block_zero(accumulator, QUERY_ROWS * WIDE);
    rows_fetch(queries_ahead, queries, CHUNK, BK, 0, 1);
    rows_fetch(keys_ahead, keys, CHUNK, BK, 0, 0);
    for (int from = list_top(list); from + CHUNK > list.least; from -= CHUNK) {
        int diagonal = is_own_block(list, from);

        SYNC(); /* nobody reads the weights and norms of the block before */
        list_norms(norms + CHUNK, k, k_at, list, from);
        sum = bias_block(bias, sum, g, g_at, list, from, diagonal);
        if (diagonal)
            bias_own(weight_tile, bias);
        block_zero(scores, KEY_ROWS * SCORE_WIDE);
        rolled for (int n = BK; n <= KP; n += BK)
        {
            SYNC(); /* nobody reads the slices, or values, that were here; norms and biases are there */
            rows_put(tiles, RP, keys_ahead, CHUNK, BK);
            rows_put_across(query_tile, SCORE_PITCH, queries_ahead, CHUNK, BK);
            SYNC(); /* the slices of keys and queries are there */
            rows_fetch(queries_ahead, queries, CHUNK, BK, n < KP ? n : 0, 1);
            keys.first = n < KP ? from : from - CHUNK;
            rows_fetch(keys_ahead, keys, CHUNK, BK, n < KP ? n : 0, 0);
            block_ab(engine, scores, tiles, RP, query_tile, SCORE_PITCH, KEY_ROWS, SCORE_WIDE, BK);
        }
        values.first = from;
        rows_fetch(values_ahead, values, BT, BV, 0, 0);
        scores_seen(scores, list, from, norms, bias, weight_tile, scale * LOG2E);
        SYNC(); /* nobody reads the last slices: the largest scores take their place */
        weights_top(scores, tiles);
        SYNC(); /* the largest scores of all lanes are there; nobody reads biases in the weights' place */
        weights_of(weight_tile, factors, most, total, scores, tiles);
        rolled for (int j = 0; j < CHUNK; j += BT)
        {
            SYNC(); /* nobody reads the largest scores, or the values before */
            rows_put(tiles, COLUMN_PITCH, values_ahead, BT, BV);
            SYNC(); /* a slice of values is there, and at first the weights */
            values.first += BT;
            if (j + BT < CHUNK)
                rows_fetch(values_ahead, values, BT, BV, 0, 0);
            if (j == 0)
                outputs_scale(accumulator, factors);
            if (diagonal)
                block_atb_upper(engine, accumulator, weight_tile + j * SCORE_PITCH, SCORE_PITCH, tiles, COLUMN_PITCH,
                                QUERY_ROWS / VEC, WIDE, j, BT);
            else
                block_atb(engine, accumulator, weight_tile + j * SCORE_PITCH, SCORE_PITCH, tiles, COLUMN_PITCH,
                          QUERY_ROWS / VEC, WIDE, BT);
        }
    }
    SYNC(); /* nobody reads values: sums of weights take their place */
    weights_leave(tiles, levels, most, total);
    SYNC(); /* the sums of all lanes are there */
    for_each(i, CHUNK) {
        float weights = weights_sum(tiles, i);
        factors[i] = weights == 0 ? 0 : 1 / weights;
        if (given & GIVEN_LSE && first_column == 0 && i < chunk.count)
            lse[at_row(lse_at, chunk.at.batch, chunk.at.first + chunk.row + i, head)] =
                (levels[i] + log2(weights)) * (1 / LOG2E);
    }
    SYNC(); /* what outputs are divided by is there */
    outputs_scale(accumulator, factors);
    vec_unrolled
    for (int r = 0; r < QUERY_ROWS; r++)
        vec_unrolled
    for (int w = 0; w < WIDE; w++) {
        int i = turned_row(r / VEC, r % VEC), c = first_column + block_column(w);
        if (i < chunk.count && c < VALUE_DIM)
            output_put(accumulator[r * WIDE + w], chunk.at, chunk.row + i, c);
    }
}
