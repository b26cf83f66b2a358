/* The formula of flash_matrix.cl by teams of sub-groups, which multiply keys and values where they lie in local memory:
 *     S = Q Kᵀ + b      m' = max(m, max S)      P = e^(S - m')      l = e^(m - m') l + Σ P      O = e^(m - m') O + P V
 *
 * A block of keys is one unit. Producers, sub-groups of their own, copy keys and values to their slots
 * (flash_moved_apart.clh); a sub-group that computes has SPAN tiles of ACC_ROWS rows in its registers. Its team waits for
 * a slot to be filled and signals when it has read it, so that teams need not keep step with each other. Without
 * producers the work-items that compute copy each block first (flash_moved.clh). b comes from flash_sums.cl where tokens
 * decay. */
#include "flash_read.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global out_t, o) \
    X(global const gate_t, g) X(global const int, cu) X(global const float, after)
#define OPTIONALS(X) \
    X(global const float, sink) X(global float, lse) X(global const int, cu_kv) X(global const int, lens)
/* clang-format on */
KERNEL
flash_team(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int sequences, int kv_len, int window, float scale,
           int given)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(tiles, LOCAL_TILES)
    local float *norms = (local float *)(tiles + NORMS_AT);
    BIAS_LOCALS
    ENGINE_LOCALS
    engine_t engine = engine_begin(engine_scratch);
    list_t list = list_of_group(sequences, seq_len, cu, cu_at,
                                cache_of(cu_kv, cu_kv_at, lens, lens_at, kv_len, window, given & CACHED));
    int head = list.rows.at.head, first_column = get_group_id(2) * BV;
    int first_row = LANE / ENGINE_LANES * SPAN * ACC_ROWS, last = list_last(list);
    own_t rows = own_rows(list, first_row), team_rows = rows_from(list, first_row / TEAM_ROWS * TEAM_ROWS, TEAM_ROWS);
    address_t slots = address_of(tiles);
    blocks_t blocks = {tiles, norms + QUERIES, k, v, k_at, v_at, first_column};
    acc_t accumulator[SPAN * VT];
    chain_t query[SPAN * KT];
    weights_t softmax[SPAN];
    bias_t bias;

    if (list.rows.count <= 0)
        return;
    bias = bias_of_team(g, g_at, after, after_at, list, kv_len, last, LOG2E * (TURNED ? scale : 1));
    if (is_producer()) {
        team_shrink();
        blocks_produce(&blocks, list, last, 0);
        return;
    }
    queries_get(engine, query, norms, q, q_at, list, first_row, scale);
    team_grow();
    softmax_begin(engine, softmax, norms + first_row, scale, sink, sink_at, head, first_row, given);
    accumulator_zero(accumulator);
    for (int n = 0, from = last; from + KEYS > list.least; n++, from -= KEYS) {
        int position = list.position + first_row - from;
        int diagonal = is_diagonal(rows, from), sees_all = own_sees_all(list, rows, from);
        int sees = !ENGINE_ALONE || own_sees(list, team_rows, from);
        acc_t score[SPAN * STEP];
        chain_t weight[SPAN * STEP];

        bias_bring(engine, &bias, n);
        keys_wait(engine, &blocks, list, n, from); /* the keys of block n are in their slot */
        if (sees) {
            scores(engine, score, query, address_plus(slots, keys_slot(n)));
            engine_unrolled
            for (int i = 0; i < SPAN * STEP && L2NORM; i++)
                score[i] *= acc_factors(engine, norms_of(&blocks, n) + i % STEP * 16);
        }
        keys_done(n); /* their slot may be filled again */
        if (sees) {
            if (sees_all && !diagonal) { /* most blocks: without what only few need */
                engine_unrolled
                for (int i = 0; i < SPAN * STEP; i++)
                    score[i] = bias_scores(engine, &bias, score[i], softmax[i / STEP].factor, n, i % STEP * 16, 0, 0);
            } else {
                engine_unrolled
                for (int i = 0; i < SPAN * STEP; i++) {
                    int row = first_row + i / STEP * ACC_ROWS, key = i % STEP * 16;
                    score[i] = bias_scores(engine, &bias, score[i], softmax[i / STEP].factor, n, key,
                                           position + i / STEP * ACC_ROWS, diagonal);
                    score[i] = list_masked(engine_again(engine), score[i], list, row, from + key);
                }
            }
            weights_raise(engine, softmax, score, accumulator);
            softmax_weights(engine, softmax, &bias, score, weight, n, 0, position, diagonal);
        }
        values_wait(n); /* the values of block n are in their slot */
        if (sees)
            weights_read(engine, accumulator, weight, address_plus(slots, values_slot(n)));
        values_done(n); /* their slot may be filled again */
    }
    outputs_wait(); /* nobody reads a slot any more: outputs take their place */
    softmax_end(engine, tiles + first_row * OUTPUT_PITCH, accumulator, softmax, sink, sink_at, lse, lse_at, list,
                first_row, given & GIVEN_LSE && first_column == 0, given);
    engine_sync_own(); /* the sub-group's outputs are in its tile */
    outputs_store(engine, tiles + first_row * OUTPUT_PITCH, o, o_at, list, first_row, SPAN * ACC_ROWS, first_column);
}
