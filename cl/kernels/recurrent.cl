/* Token by token, the state in registers:
 *     S = D S;  S = S - e (pᵀ S);  S = S + k xᵀ;  o = Sᵀ q
 * One group: BV value columns of one head of one sequence. A lane holds VEC columns of KL channels; LANES_K lanes
 * share a column. CHUNK is 1: a row of a tile is the token's. */
#include "token.clh"

#define KL (KP / LANES_K)

/* Σ over the lanes that share a column */
WORD vec lanes_sum(local float *part, vec x)
{
    int columns = BV / VEC;
    vec sum = 0;

    if (LANES_K == 1)
        return x;
    SYNC();
    vec_store(x, part + LANE * VEC);
    SYNC();
    for (int l = 0; l < LANES_K; l++)
        sum += vec_load(part + (l * columns + LANE % columns) * VEC);
    return sum;
}

/* Norms of the token's q and k: every lane some of the squares, then a lane each the sum. */
WORD void token_squares(local float *parts, global const data_t *x, int quarter)
{
    for_each_from(quarter, i, TOKEN_PARTS) {
        vec y = data_row(x, i * VEC, KEY_DIM);
        parts[i] = vec_sum(y * y);
    }
}
WORD void token_norms(local float *norms, local float *squares, global const data_t *q, long4 q_at,
                      global const data_t *k, long4 k_at, chunk_t chunk)
{
    if (!L2NORM) {
        for_each(i, 1)
            norms[0] = norms[1] = 1;
        return;
    }
    token_squares(squares, token_row(q, chunk, chunk.at.qk_head), QUARTER_Q);
    token_squares(squares + TOKEN_PARTS, write_row(k, chunk, chunk.at.qk_head), QUARTER_K);
    SYNC();
    for_each(i, 2)
        norms[i] = rsqrt(token_sum(squares + i * TOKEN_PARTS) + 1e-6f);
}

KERNEL
recurrent(global const data_t *q, long4 q_at, global const data_t *k, long4 k_at, global const data_t *v, long4 v_at,
          global out_t *o, long4 o_at, global const gate_t *g, long4 g_at, global const float *a_log, long4 a_log_at,
          global const float *bias, long4 bias_at, global const gate_t *gv, long4 gv_at, global const gate_t *beta,
          long4 beta_at, global const erase_t *p, long4 p_at, global const data_t *e, long4 e_at,
          global const gate_t *w, long4 w_at, global const gate_t *u, long4 u_at, global const float *den, long4 den_at,
          global const state_t *initial, long4 initial_at, global state_t *final, long4 final_at, global const int *cu,
          long4 cu_at, global const int *slots, long4 slots_at, global state_t *snapshots, long4 snapshots_at,
          int seq_len, float scale, int states, int every)
{
    LOCAL_FLOATS(row_q, LOCAL_ROW_Q)
    LOCAL_FLOATS(row_k, LOCAL_ROW_K)
    LOCAL_FLOATS(row_x, LOCAL_ROW_X)
    LOCAL_FLOATS(lanes_part, LOCAL_LANES_PART)
    local float factors[FACTORS];
    local float squares[LOCAL_SQUARES];
    DECAY_LOCALS
    ERASE_TOKEN_LOCALS
    READ_TOKEN_LOCALS
    place at = place_in_pool(place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at), slots, slots_at);
    int c0 = get_group_id(2) * BV, c = LANE % (BV / VEC) * VEC, first = LANE / (BV / VEC) * KL;
    vec S[KL];

    states = states_given(states, at);
    unrolled
    for (int i = 0; i < KL; i++)
        S[i] = state_row(state_of(initial, at), states & HAS_INITIAL, first + i, c0 + c);
    for (int row = 0; row < at.rows; row++) {
        chunk_t chunk = chunk_at(at, row);
        float factor;
        vec x, delta, predicted = 0, out = 0, fade = mix_token(gv, gv_at, c0 + c, chunk);

        SYNC();
        for_each_from(QUARTER_E, i, 1)
            strength_of(factors)[0] = write_strength(chunk, 0);
        token_norms(norm_of_q(factors), squares, q, q_at, k, k_at, chunk);
        SYNC();
        query_rows(row_q, norm_of_q(factors), q, q_at, 0, chunk, scale);
        key_rows(row_k, norm_of_k(factors), k, k_at, 0, chunk);
        erase_token_rows(chunk);
        decay_token(decay, g, g_at, chunk);
        value_rows(row_x, strength_of(factors), v, v_at, w, w_at, c0, chunk);
        SYNC();
        read_token_rows(bonus_parts, row_q, row_k, u, u_at, chunk);
        factor = decay_token_factor(decay.log);
        x = vec_load(row_x + c);
        unrolled
        for (int i = 0; i < KL; i++) {
            predicted = erase_predict_before(predicted, erase_P, first + i, S[i]);
            out = read_token_before(out, row_q, first + i, S[i]);
            S[i] *= fade * decay_of(decay, factor, first + i);
            predicted = erase_predict_after(predicted, erase_P, first + i, S[i]);
        }
        predicted = erase_predicted(predicted);
        delta = erase_token_delta(x, predicted, strength_of(factors)[0]);
        unrolled
        for (int i = 0; i < KL; i++) {
            S[i] += row_k[first + i] * delta;
            S[i] = erase_token_update(S[i], erase_B, first + i, predicted);
            out = read_token_after(out, row_q, first + i, S[i]);
        }
        out = lanes_sum(lanes_part, out);
        SYNC();
        out = read_token_bonus(out, bonus_parts, x);
        if (first == 0 && c0 + c < OUTPUT_COLUMNS && row % STEPS == STEPS - 1)
            output_put(out, at, row / STEPS, c0 + c);
        if (SNAPSHOTS) {
            int snapshot = snapshot_of(at, every, row + 1);
            unrolled
            for (int i = 0; i < KL; i++)
                state_row_store(S[i], snapshots + at_row(snapshots_at, at.sequence, snapshot, at.head), snapshot >= 0,
                                first + i, c0 + c);
        }
    }
    unrolled
    for (int i = 0; i < KL; i++)
        state_row_store(S[i], state_of(final, at), states & HAS_FINAL, first + i, c0 + c);
}
