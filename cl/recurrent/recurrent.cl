/* Token by token, with the state in registers:
 * S = D S;  S = S - e (pᵀ S);  S = S + k xᵀ;  o = Sᵀ q
 * One group: BV value columns of one head of one sequence, or of a segment of it (course.clh). A lane has VEC columns
 * of KL channels; LANES_K lanes share a column. CHUNK rows are loaded at once and their outputs stored at once, so that
 * the loop over rows only waits for local memory. */
#include "token.clh"

#define KL (KP / LANES_K)
#include "course.clh"

#define COLUMNS (BV / VEC) /* vectors of columns */

/* Whether o has that row of the chunk: the last of its token */
WORD int row_is_read(chunk_t chunk, int i)
{
    return i < chunk.count && (chunk.row + i) % STEPS == STEPS - 1;
}

/* Σ over the lanes that share a column; their partial sums begin at `part` */
WORD vec lanes_joined(local const float *part)
{
    vec sum = 0;

    for (int l = 0; l < LANES_K; l++)
        sum += vec_load(part + l * COLUMNS * VEC);
    return sum;
}
/* The same sum for every lane, for token i. Tokens alternate between two places, so that one barrier each is enough. */
WORD vec lanes_sum(local float *parts, int i, vec x)
{
    local float *part = parts + i % 2 * GROUP * VEC;

    if (LANES_K == 1)
        return x;
    vec_store(x, part + LANE * VEC);
    SYNC();
    return lanes_joined(part + LANE % COLUMNS * VEC);
}

/* Norms of the tokens' q and k: every lane computes some of the squares, then one lane a token adds them. */
WORD void token_norms(local float *norms, local float *squares, global const data_t *q, long4 q_at,
                      global const data_t *k, long4 k_at, chunk_t chunk)
{
    if (!L2NORM) {
        for_each(i, 2 * CHUNK)
            norms[i] = 1;
        return;
    }
    q += at_row(q_at, chunk.at.batch, chunk.at.first, chunk.at.qk_head);
    token_squares(squares, q, q_at.z, chunk.row, STEPS, chunk.count, QUARTER_Q);
    token_squares(squares + CHUNK * TOKEN_PARTS, write_row(k, chunk, chunk.at.qk_head), k_at.z, 0, 1, chunk.count,
                  QUARTER_K);
    SYNC();
    for_each(i, 2 * CHUNK)
        norms[i] = rsqrt(token_sum(squares + i * TOKEN_PARTS) + 1e-6f);
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global out_t, o) \
    X(global const gate_t, g) X(global const float, a_log) X(global const float, bias) \
    X(global const gate_t, gv) X(global const strength_t, beta) X(global const erase_t, p) X(global const data_t, e) \
    X(global const gate_t, w) X(global const gate_t, u) X(global const float, den) X(global const int, cu) \
    X(global const int, slots) X(global const int, accepted) X(global state_t, snapshots) X(global float, segments) \
    X(global float, kept) X(global const float, norm) X(global const data_t, z)
#define OPTIONALS(X) \
    X(global const state_t, initial) X(global state_t, final)
/* clang-format on */
KERNEL
recurrent(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, float scale, int states, int every)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(rows_q, LOCAL_ROWS_Q)
    LOCAL_FLOATS(rows_k, LOCAL_ROWS_K)
    LOCAL_FLOATS(rows_x, LOCAL_ROWS_X)
    LOCAL_FLOATS(predicted_parts, LOCAL_PREDICTED_PARTS)
    LOCAL_FLOATS(out_parts, LOCAL_OUT_PARTS)
    local float factors[FACTORS];
    local float squares[LOCAL_SQUARES];
    DECAY_LOCALS
    ERASE_TOKEN_LOCALS
    READ_TOKEN_LOCALS
    NORM_LOCALS
    MIX_LOCALS
    place at =
        place_with_states(place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at), states, slots, slots_at);
    course_t course = course_of(at);
    int c0 = get_group_id(2) % VALUE_GROUPS * BV, c = LANE % COLUMNS * VEC, first = LANE / COLUMNS * KL;
    vec S[KL], kept_columns = 1;
    float kept_channels[KL];

    unrolled
    for (int n = 0; n < KL; n++)
        S[n] = state_row(course_reads(course) ? state_of(initial, at) : 0, first + n, c0 + c);
    unrolled
    for (int n = 0; n < KL && GATHER; n++)
        kept_channels[n] = 1;
    course_begin(S, course, segments + segments_at.x, kept + kept_at.x, first, c0 + c);
    for (int row = course.begin; row < course.end; row += CHUNK) {
        chunk_t chunk = course_chunk(course, at, row);

        for_each_from(QUARTER_E, i, CHUNK)
            strength_of(factors)[i] = write_strength(chunk, i);
        token_norms(norm_of_q(factors), squares, q, q_at, k, k_at, chunk);
        SYNC();
        if (!GATHER)
            query_rows(rows_q, norm_of_q(factors), q, q_at, 0, chunk, scale);
        key_rows(rows_k, norm_of_k(factors), k, k_at, 0, chunk);
        erase_token_rows(chunk);
        decay_token(decay, g, g_at, chunk);
        mix_rows(mix_factor, gv, gv_at, c0, chunk);
        value_rows(rows_x, strength_of(factors), v, v_at, w, w_at, c0, chunk);
        SYNC();
        read_token_rows(bonus_parts, rows_q, rows_k, u, u_at, chunk);
        for (int i = 0; i < chunk.count; i++) {
            int own = i * RP + first;
            float factor = decay_token_factor(decay.log, i);
            vec delta, predicted = 0, out = 0, fade = mix_token(mix_factor, i, c);

            kept_columns *= fade;
            unrolled
            for (int n = 0; n < KL; n++) {
                if (GATHER)
                    kept_channels[n] *= decay_of(decay, factor, own + n);
                predicted = erase_predict_before(predicted, erase_P, own + n, S[n]);
                out = read_token_before(out, rows_q, own + n, S[n]);
                S[n] *= fade * decay_of(decay, factor, own + n);
                predicted = erase_predict_after(predicted, erase_P, own + n, S[n]);
            }
            predicted = erase_predicted(predicted, i);
            delta = erase_token_delta(vec_load(rows_x + i * BV + c), predicted, strength_of(factors)[i]);
            unrolled
            for (int n = 0; n < KL; n++) {
                S[n] += rows_k[own + n] * delta;
                S[n] = erase_token_update(S[n], erase_B, own + n, predicted);
                out = read_token_after(out, rows_q, own + n, S[n]);
            }
            if (!GATHER)
                vec_store(out, out_parts + (i * GROUP + LANE) * VEC);
            if (SNAPSHOTS) {
                global state_t *snapshot = snapshot_of(snapshots, snapshots_at, at, every, row + i + 1);
                unrolled
                for (int n = 0; n < KL; n++)
                    state_row_store(S[n], snapshot, first + n, c0 + c);
            }
        }
        SYNC();
        for_each(task, GATHER ? 0 : CHUNK * COLUMNS) {
            int i = task / COLUMNS, column = task % COLUMNS * VEC;
            if (row_is_read(chunk, i) && c0 + column < OUTPUT_COLUMNS) {
                vec out = lanes_joined(out_parts + i * GROUP * VEC + column);
                out = read_token_bonus(out, bonus_parts + i * TOKEN_PARTS, vec_load(rows_x + i * BV + column));
                norm_keep(out, i, column, at, (row + i) / STEPS);
            }
        }
        if (NORMED)
            SYNC();
        for_each(task, NORMED ? CHUNK * COLUMNS : 0) {
            int i = task / COLUMNS, column = task % COLUMNS * VEC;
            if (row_is_read(chunk, i) && column < OUTPUT_COLUMNS)
                norm_put(i, column, at, (row + i) / STEPS);
        }
    }
    unrolled
    for (int n = 0; n < KL; n++)
        state_row_store(S[n], course_ends(course) ? state_of(final, at) : 0, first + n, c0 + c);
    course_store(S, kept_channels, kept_columns, course, segments + segments_at.x, kept + kept_at.x, first, c0 + c);
}
