/* The state carried over the chunks of a sequence:
 *     δ = T (X - (P o e^G) S)         (erase_*.clh; X without erase)
 *     O = (Q o e^G) S + A δ
 *     S = e^(G_C) S + (K o e^(G_C - G))ᵀ δ
 * One group: BV value columns of one head of one sequence. `erased` gets what the rows erase: of low rank W, else
 * what is missing in E, which is δ without the strengths (prepare.cl, LEAVES_ERASED). */
#include "row_put.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global out_t, o) \
    X(global const gate_t, g) X(global const float, a_log) X(global const float, bias) \
    X(global const gate_t, gv) X(global const erase_t, p) X(global const data_t, e) X(global const gate_t, w) \
    X(global const float, den) X(global const int, cu) X(global const int, slots) X(global state_t, snapshots) \
    X(global const float, records) X(global float, erased)
#define OPTIONALS(X) \
    X(global const state_t, initial) X(global state_t, final)
/* clang-format on */
KERNEL
scan(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, float scale, int states, int every)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(S, LOCAL_STATE)
    LOCAL_FLOATS(R, LOCAL_ROWS)
    LOCAL_FLOATS(D, LOCAL_WRITTEN)
    LOCAL_FLOATS(O, LOCAL_OUTPUT)
    local float factors[FACTORS];
    DECAY_LOCALS
    ERASE_SCAN_LOCALS
    MIX_LOCALS
    place at =
        place_with_states(place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at), states, slots, slots_at);
    int c0 = get_group_id(2) * BV, heads = get_num_groups(1);
    long slot = slot_of(at, seq_len);

    state_load(S, state_of(initial, at), c0);
    for (int row = 0; row < at.rows; row += CHUNK, slot++) {
        global const float *record = records + records_at.x + (slot * heads + at.head) * RECORD;
        chunk_t chunk = chunk_at(at, row);

        SYNC();
        copy_in(factors, record + (1 + ERASE_MATRICES) * MATRIX, FACTORS);
        tile_zero(O, CHUNK * BV);
        erase_begin(erase_U, erase_W);
        SYNC();
        value_rows(D, strength_of(factors), v, v_at, w, w_at, c0, chunk);
        for (int n0 = 0; n0 < KP && (STATE_IS_READ || ERASE_MATRICES > 0); n0 += BK) {
            decay_reads(decay, g, g_at, n0, chunk);
            if (STATE_IS_READ) {
                query_rows(R, norm_of_q(factors), q, q_at, n0, chunk, scale);
                decay_read_rows(R, decay, READ_BEFORE);
                SYNC();
                mma_ab(O, R, S + n0 * BV, BV);
            }
            erase_reads(R, S + n0 * BV, n0, chunk);
            SYNC();
        }
        if (STATE_IS_READ)
            tile_scale_rows(O, query_factor(factors), CHUNK, BV);
        erase_correct(D, R, record + MATRIX);
        SYNC();
#if HAS_erased
        erase_leave(D, erase_W, c0, chunk);
#endif
        copy_in(R, record, MATRIX);
        SYNC();
        mix_values(O, R, D, S, mix_factor, gv, gv_at, c0, chunk);
        if (STATE_IS_READ)
            erase_scores(O, R, record + MATRIX);
        SYNC();
        output_store(O, c0, chunk);
        tile_scale_rows(D, write_factor(factors), CHUNK, BV);
        erase_written(erase_W, write_factor(factors));
        for (int n0 = 0; n0 < KP; n0 += BK) {
            decay_writes(decay, g, g_at, n0, chunk);
            key_rows(R, norm_of_k(factors), k, k_at, n0, chunk);
            decay_write_rows(R, decay);
            SYNC();
            mma_atb(S + n0 * BV, decay_state(decay, across_factor(factors)), DECAY_STRIDE, R, D, BV);
            erase_writes(S + n0 * BV, R, n0, chunk);
            SYNC();
        }
        if (SNAPSHOTS)
            state_store(snapshot_of(snapshots, snapshots_at, at, every, row + CHUNK), S, c0);
    }
    SYNC();
    state_store(state_of(final, at), S, c0);
}
