/* One token after the other:
 *     R = e^g R + beta k kᵀ;  x = (R + diag(ridge))⁻¹ q by conjugate gradients
 * One group: one head of one sequence, `stretch_rows` tokens from first_row on. R is the caller's final_gram where
 * there is one, so that a single token reads and writes it once. */
#include "mesa.clh"

#define LANES (GROUP / COLUMNS > 1 ? GROUP / COLUMNS : 1) /* those that share a column of R */
#define BLOCK (GROUP == 1 ? 4 : 1)                        /* vectors of columns that a lane has at once */

WORD float row_dot(local float *sums, local const float *x, local const float *y)
{
    float sum = 0;

    SYNC();
    for_each(c, COLUMNS)
        sums[c] = vec_sum(vec_at(x + c * VEC) * vec_at(y + c * VEC));
    SYNC();
    for (int c = 0; c < COLUMNS; c++)
        sum += sums[c];
    return sum;
}

/* y = (R + diag(ridge)) p. R is symmetric: its rows are its columns. */
WORD void multiply(local float *y, local float *parts, global const float *R, global const float *ridge,
                   local const float *p)
{
    SYNC();
    for_each(task, (COLUMNS + BLOCK - 1) / BLOCK * LANES) {
        int columns = (COLUMNS + BLOCK - 1) / BLOCK, c = task % columns * BLOCK * VEC, first = task / columns;
        vec sum[BLOCK];
        vec_unrolled
        for (int b = 0; b < BLOCK; b++)
            sum[b] = 0;
        for (int n = first; n < KEY_DIM; n += LANES)
            vec_unrolled
        for (int b = 0; b < BLOCK; b++)
            sum[b] += p[n] * f32_row(R + n * KEY_DIM, c + b * VEC, KEY_DIM);
        vec_unrolled
        for (int b = 0; b < BLOCK; b++)
            if (c + b * VEC < KP)
                vec_at(parts + (first * COLUMNS + c / VEC + b) * VEC) = sum[b];
    }
    SYNC();
    for_each(c, COLUMNS) {
        vec sum = f32_row(ridge, c * VEC, KEY_DIM) * vec_at(p + c * VEC);
        for (int l = 0; l < LANES; l++)
            sum += vec_at(parts + (l * COLUMNS + c) * VEC);
        vec_at(y + c * VEC) = sum;
    }
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const gate_t, g) X(global const float, a_log) \
    X(global const float, bias) X(global const strength_t, beta) X(global const float, ridge) \
    X(global const int, cu) X(global const int, slots) X(global const int, accepted) X(global state_t, snapshots) \
    X(global float, gram) X(global data_t, solved) X(global data_t, keys)
#define OPTIONALS(X) \
    X(global const state_t, initial) X(global state_t, final)
/* clang-format on */
KERNEL
mesa_tokens(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, float scale, int states, int every, int first_row,
            int stretch_rows)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(key, LOCAL_ROW)
    LOCAL_FLOATS(r, LOCAL_ROW)
    LOCAL_FLOATS(p, LOCAL_ROW)
    LOCAL_FLOATS(x, LOCAL_ROW)
    LOCAL_FLOATS(y, LOCAL_ROW)
    LOCAL_FLOATS(z, LOCAL_ROW) /* W r (cg_weight) */
    LOCAL_FLOATS(W, LOCAL_ROW)
    LOCAL_FLOATS(parts, LOCAL_PARTS)
    local float factors[FACTORS], sums[LOCAL_SUMS];
    DECAY_LOCALS
    place at =
        place_with_states(place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at), states, slots, slots_at);
    global const float *before = state_of(initial, at);
    global float *last = state_of(final, at);
    int end = min(first_row + stretch_rows, at.rows);
    global float *R = last ? last : gram + gram_at.x + ((long)at.sequence * HEADS + at.head) * (KEY_DIM * KEY_DIM);

    ridge += ridge_at.x + ridge_at.w * at.head;
    for_each(i, at.rows == 0 && first_row == 0 && last ? KEY_DIM * KEY_DIM : 0)
        last[i] = before ? before[i] : 0;
    if (first_row > 0)
        before = R;
    for (int row = first_row; row < end; row++) {
        chunk_t chunk = chunk_at(at, row);
        global state_t *snapshot = SNAPSHOTS ? snapshot_of(snapshots, snapshots_at, at, every, row + 1) : 0;
        float decay_factor, strength, first, left;

        SYNC_ALL();
        query_norms(norm_of_q(factors), q, q_at, chunk);
        key_norms(norm_of_k(factors), k, k_at, chunk);
        decay_token(decay, g, g_at, chunk);
        SYNC();
        query_rows(r, norm_of_q(factors), q, q_at, 0, chunk, scale);
        key_rows(key, norm_of_k(factors), k, k_at, 0, chunk);
        SYNC();
        decay_factor = decay_token_factor(decay.log, 0);
        strength = write_strength(chunk, 0);
        for_each(task, KEY_DIM * COLUMNS) {
            int n = task / COLUMNS, c = task % COLUMNS * VEC;
            vec y = decay_factor * state_row(before, n, c) + strength * (key[n] * vec_at(key + c));
            state_row_store(y, R, n, c);
            if (SNAPSHOTS)
                state_row_store(y, snapshot, n, c);
        }
        before = R;
        for_each(c, COLUMNS) {
            vec_at(x + c * VEC) = 0;
            if (HAS_keys)
                key_store(vec_at(key + c * VEC), keys + at_row(keys_at, at.batch, at.first + row, at.head), c * VEC);
        }
        SYNC_ALL();
        for_each(n, KP) {
            W[n] = n < KEY_DIM ? cg_weight(R[n * KEY_DIM + n] + ridge[n]) : 1.0f;
            z[n] = p[n] = W[n] * r[n];
        }
        first = left = row_dot(sums, r, z);
        for (int step = 0; step < CG_STEPS && !cg_is_done(left, first); step++) {
            float length, turn, old = left;

            multiply(y, parts, R, ridge, p);
            length = cg_length(left, row_dot(sums, p, y));
            for_each(c, COLUMNS) {
                vec_at(x + c * VEC) += length * vec_at(p + c * VEC);
                vec_at(r + c * VEC) -= length * vec_at(y + c * VEC);
                vec_at(z + c * VEC) = vec_at(W + c * VEC) * vec_at(r + c * VEC);
            }
            left = row_dot(sums, r, z);
            turn = cg_turn(left, old);
            for_each(c, COLUMNS)
                vec_at(p + c * VEC) = vec_at(z + c * VEC) + turn * vec_at(p + c * VEC);
        }
        for_each(c, COLUMNS)
            key_store(vec_at(x + c * VEC), solved + at_row(solved_at, at.batch, at.first + row, at.head), c * VEC);
    }
}
