/* Token by token, with a state for each bucket of earlier tokens (levels.clh). For every bucket
 *     S = e^g S;  S = S - beta k (k^T S);  o += l_(b+1) S^T q
 * and o += l_0 (q . k) x of the token itself. The buckets up to the lowest bit that is not set in the token's position
 * then become one, with the token's write k x^T.
 * One group: BV value columns of one head of one sequence. A lane has VEC columns of KL channels, LANES_K lanes share a
 * column. The first token reads the initial state, the last one writes the final state, and between them buckets are in
 * the workspace, where each lane loads what it has stored. With TAIL it begins at the last multiple of TAIL tokens, writes
 * no outputs, and of the final state only the buckets that lie behind it, and zeros in place of those that there are
 * not. */
#include "levels.clh"

#define KL (KP / LANES_K)
#define COLUMNS (BV / VEC) /* vectors of columns */

/* The sum over the lanes that share a column, for all of them. Sums alternate between two places, so that one barrier
 * each is enough. */
WORD vec lanes_sum(local float *parts, int number, vec x)
{
    local float *part = parts + number % 2 * GROUP * VEC;
    vec sum = 0;

    if (LANES_K == 1)
        return x;
    vec_store(x, part + LANE * VEC);
    SYNC();
    for (int l = 0; l < LANES_K; l++)
        sum += vec_load(part + (l * COLUMNS + LANE % COLUMNS) * VEC);
    return sum;
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global out_t, o) \
    X(global const gate_t, g) X(global const float, a_log) X(global const float, bias) \
    X(global const strength_t, beta) X(global const float, levels) X(global const int, cu) X(global const int, slots) \
    X(global const int, position) X(global float, buckets)
#define OPTIONALS(X) \
    X(global const state_t, initial) X(global state_t, final)
/* clang-format on */
KERNEL
levels_tokens(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, float scale, int states)
{
    TENSORS(ABSENT)
    OF_OTHER_WORDS
    LOCAL_FLOATS(rows_q, LOCAL_ROWS_Q)
    LOCAL_FLOATS(rows_k, LOCAL_ROWS_K)
    LOCAL_FLOATS(rows_x, LOCAL_ROWS_X)
    LOCAL_FLOATS(predicted_parts, LOCAL_PREDICTED_PARTS)
    local float factors[FACTORS];
    DECAY_LOCALS
    ERASE_TOKEN_LOCALS
    place at =
        place_with_states(place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at), states, slots, slots_at);
    int c0 = get_group_id(2) * BV, c = LANE % COLUMNS * VEC, first = LANE / COLUMNS * KL, sums = 0;
    int begin = TAIL > 0 ? at.rows - at.rows % max(TAIL, 1) : 0;
    uint here = first_position(at) + begin, live = TAIL > 0 ? 0 : first_buckets(at, here);

    for (int row = begin; row < at.rows; row++) {
        chunk_t chunk = chunk_at(at, row);
        global const float *weight = levels + at_row(levels_at, at.batch, at.first + row, at.head);
        int merged = 31 - clz(here ^ (here + 1)), ends = row + 1 == at.rows;
        vec own[KL], out = 0, x;
        float decays, matched = 0;

        for_each(i, 1)
            strength_of(factors)[0] = write_strength(chunk, 0);
        query_norms(norm_of_q(factors), q, q_at, chunk);
        key_norms(norm_of_k(factors), k, k_at, chunk);
        SYNC(); /* the last token's rows are read, and the norms are whole */
        query_rows(rows_q, norm_of_q(factors), q, q_at, 0, chunk, scale);
        key_rows(rows_k, norm_of_k(factors), k, k_at, 0, chunk);
        erase_token_rows(chunk);
        decay_token(decay, g, g_at, chunk);
        value_rows(rows_x, strength_of(factors), v, v_at, w, w_at, c0, chunk);
        SYNC();
        decays = decay_token_factor(decay.log, 0);
        x = vec_load(rows_x + c);
        unrolled
        for (int n = 0; n < KL; n++) {
            matched += rows_q[first + n] * rows_k[first + n];
            own[n] = rows_k[first + n] * x;
        }
        out = weight[0] * matched * x;
        for (int b = 0; b < BUCKETS; b++) {
            global float *bucket = bucket_of(buckets, buckets_at, at, b);
            vec S[KL], predicted = 0, delta, read = 0;
            if (!(live >> b & 1))
                continue;
            unrolled
            for (int n = 0; n < KL; n++) {
                S[n] = row == 0 ? state_row(level_of_state(initial, at, b + 1), first + n, c0 + c)
                                : vec_load(bucket + (first + n) * BV + c);
                S[n] *= decay_of(decay, decays, first + n);
                predicted = erase_predict_after(predicted, erase_P, first + n, S[n]);
            }
            if (ERASES)
                predicted = lanes_sum(predicted_parts, sums++, predicted);
            delta = erase_token_delta((vec)(0), predicted, strength_of(factors)[0]);
            unrolled
            for (int n = 0; n < KL; n++) {
                S[n] += rows_k[first + n] * delta;
                read += rows_q[first + n] * S[n];
                if (b < merged)
                    own[n] += S[n];
                else if (!ends)
                    vec_store(S[n], bucket + (first + n) * BV + c);
                else
                    state_row_store(S[n], level_of_state(final, at, b + 1), first + n, c0 + c);
            }
            out += weight[b + 1] * read;
        }
        unrolled
        for (int n = 0; n < KL && merged < BUCKETS; n++)
            if (!ends)
                vec_store(own[n], bucket_of(buckets, buckets_at, at, merged) + (first + n) * BV + c);
            else
                state_row_store(own[n], level_of_state(final, at, merged + 1), first + n, c0 + c);
        here++;
        live = ((live & ~buckets_up_to(merged)) | (here & buckets_up_to(merged))) & ALL_BUCKETS;
        out = lanes_sum(predicted_parts, sums++, out);
        if (TAIL == 0 && first == 0 && c0 + c < OUTPUT_COLUMNS)
            output_put(out, at, row, c0 + c);
    }
    if (TAIL > 0) /* others write these */
        live |= here & ALL_BUCKETS & ~(uint)(TAIL - 1);
    for (int level = 0; level < LEVELS && (at.states & HAS_final); level++) {
        int has = level > 0 && (live >> (level - 1) & 1);
        if (has && at.rows > 0)
            continue;
        unrolled
        for (int n = 0; n < KL; n++)
            state_row_store(state_row(has ? level_of_state(initial, at, level) : 0, first + n, c0 + c),
                            level_of_state(final, at, level), first + n, c0 + c);
    }
}
