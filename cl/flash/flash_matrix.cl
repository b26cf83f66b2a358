/* Attention to a list of keys on a matrix engine, of a unit of keys at a time, from the last query's own downward:
 *     S = Q Kᵀ + b        -inf where a query does not see a key
 *     m' = max(m, max S)      P = e^(S - m')      l = e^(m - m') l + Σ P      O = e^(m - m') O + P V
 * and at the end o = O / l, lse = m + log l.
 *
 * A work-group has QUERIES rows, a row a query of one of SHARE heads, and BV value columns; groups whose queries see the
 * most keys start first. A sub-group has SPAN tiles of ACC_ROWS rows: their queries, m, l and O stay in its registers,
 * and P goes from the accumulators of one product to the left operand of the other. All work-items copy blocks of KEYS
 * keys and values to local memory, of which STAGES stand there at once; a block is worked in units of UNIT keys. */
#include "flash_read.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global out_t, o) \
    X(global const gate_t, g) X(global const int, cu)
#define OPTIONALS(X) \
    X(global const float, sink) X(global float, lse) X(global const int, cu_kv) X(global const int, lens)
/* clang-format on */
KERNEL
flash_matrix(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int sequences, int kv_len, int window, float scale,
             int given)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(tiles, LOCAL_TILES)
    local float norms[LOCAL_NORMS];
    BIAS_LOCALS
    ENGINE_LOCALS
    engine_t engine = engine_begin(engine_scratch);
    list_t list = list_of_group(sequences, seq_len, cu, cu_at,
                                cache_of(cu_kv, cu_kv_at, lens, lens_at, kv_len, window, given & CACHED));
    int head = list.rows.at.head, first_column = get_group_id(2) * BV;
    int first_row = LANE / ENGINE_LANES * SPAN * ACC_ROWS, last = list_last(list);
    own_t rows = own_rows(list, first_row);
    address_t stages = address_of(tiles), queries = address_plus(stages, QUERIES_AT + first_row * QUERY_PITCH);
    acc_t accumulator[SPAN * VT];
    chain_t query[QUERY_TILES];
    weights_t softmax[SPAN];
    bias_t bias;

    if (list.rows.count <= 0)
        return;
    queries_put(tiles + QUERIES_AT, q, q_at, list, scale);
    bias = bias_begin(g, g_at, list, last, LOG2E * (TURNED ? scale : 1));
    SYNC(); /* all queries are in local memory */
    if (L2NORM) {
        query_norms(norms, tiles + QUERIES_AT);
        SYNC(); /* their norms are there */
    }
    queries = address_plus(queries, chain_lane(engine, QUERY_PITCH));
    queries_hold(engine, query, queries);
    softmax_begin(engine, softmax, norms + first_row, scale, sink, sink_at, head, first_row, given);
    accumulator_zero(accumulator);
    SYNC(); /* queries are in registers, where these have room for them: blocks may take their place */
    stage_copy(tiles, k, k_at, v, v_at, list, last, first_column);
    for (int n = 0, from = last; from + KEYS > list.least; n++, from -= KEYS) {
        int stage = n % STAGES * STAGE;

        copies_end();
        engine_sync_all(); /* block n is in its stage; block n - 1 is read: its stage, biases and norms may be filled again */
        if (L2NORM) {
            key_norms(norms + QUERIES, tiles + stage);
            engine_sync_all(); /* the norms of its keys are there */
        }
        rolled for (int place = KEYS - UNIT; place >= 0; place -= UNIT)
        {
            int first_key = from + place, position = list.position + first_row - from;
            int diagonal = is_diagonal(rows, first_key), sees_all = own_sees_all(list, rows, first_key);
            acc_t score[SPAN * STEP];
            chain_t weight[SPAN * STEP];

            if (place == NEXT_PLACE) { /* the second unit worked: the engine still multiplies the first */
                if (STAGES > 1 && from > list.least)
                    stage_copy(tiles + (n + 1) % STAGES * STAGE, k, k_at, v, v_at, list, from - KEYS, first_column);
                bias_next(engine, &bias, list, n, from);
            }
            /* A sub-group passes over what none of its rows sees; not where words of an engine hold barriers of the group
             * (emulations), and not ahead of the copies, in which all lanes take part */
            if (ENGINE_ALONE && !own_sees(list, rows, first_key))
                continue;
            scores(engine, score, query, queries, keys_at(engine, address_plus(stages, stage), place));
            engine_unrolled
            for (int i = 0; i < SPAN * STEP; i++) {
                int row = first_row + i / STEP * ACC_ROWS, key = place + i % STEP * 16;
                if (L2NORM)
                    score[i] *= acc_factors(engine, norms + QUERIES + key);
                score[i] = bias_scores(engine, &bias, score[i], softmax[i / STEP].factor, n, key,
                                       position + i / STEP * ACC_ROWS, diagonal);
                if (!sees_all)
                    score[i] = list_masked(engine_again(engine), score[i], list, row, from + key);
            }
            weights_raise(engine, softmax, score, accumulator);
            softmax_weights(engine, softmax, &bias, score, weight, n, place, position, diagonal);
            weights_read(engine, accumulator, weight, values_at(engine, address_plus(stages, stage), place));
        }
        if (STAGES == 1) {
            engine_sync_all(); /* nobody reads the only stage any more */
            stage_copy(tiles, k, k_at, v, v_at, list, from - KEYS, first_column);
        }
    }
    copies_end();
    engine_sync_all(); /* nobody reads or fills a stage any more: outputs take their place */
    softmax_end(engine, tiles + first_row * OUTPUT_PITCH, accumulator, softmax, sink, sink_at, lse, lse_at, list,
                first_row, given & GIVEN_LSE && first_column == 0, given);
    engine_sync_own(); /* the sub-group's outputs are in its tile */
    outputs_store(engine, tiles + first_row * OUTPUT_PITCH, o, o_at, list, first_row, SPAN * ACC_ROWS, first_column);
}
