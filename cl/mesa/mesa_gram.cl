/* The gram matrix before each chunk of a window:
 *     R = e^(G_C) R + (K o e^(G_C - G) beta)ᵀ K
 * One group: BV columns of R of one head of one sequence. */
#include "mesa.clh"

/* The chunk's keys, columns c0 … c0+BV, times the factors of their writes */
WORD void key_columns(local float *D, local const float *factors, local const float *norms, global const data_t *k,
                      long4 k_at, int c0, chunk_t chunk)
{
    k = write_row(k, chunk, chunk.at.qk_head);
    for_each(task, CHUNK * (BV / VEC)) {
        int i = task / (BV / VEC), c = c0 + task % (BV / VEC) * VEC;
        vec x = 0;
        if (i < chunk.count && c < KEY_DIM)
            x = factors[i] * key_map(data_row(k + i * k_at.z, c, KEY_DIM), norms[i], c);
        vec_at(D + task * VEC) = x;
    }
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, k) X(global const gate_t, g) X(global const float, a_log) X(global const float, bias) \
    X(global const strength_t, beta) X(global const int, cu) X(global const int, slots) X(global float, gram) \
    X(global float, grams)
#define OPTIONALS(X) \
    X(global const state_t, initial) X(global state_t, final)
/* clang-format on */
KERNEL
mesa_gram(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int states, int first_row, int stretch_rows)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(S, LOCAL_STATE)
    LOCAL_FLOATS(R, LOCAL_ROWS)
    LOCAL_FLOATS(D, LOCAL_WRITTEN)
    local float factors[FACTORS];
    DECAY_LOCALS
    place at =
        place_with_states(place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at), states, slots, slots_at);
    int c0 = get_group_id(2) * BV, end = min(first_row + stretch_rows, at.rows), chunks = stretch_rows / CHUNK;
    global float *carried = gram + gram_at.x + ((long)at.sequence * HEADS + at.head) * (KEY_DIM * KEY_DIM);

    if (first_row > 0 && first_row >= at.rows)
        return;
    state_load(S, first_row > 0 ? carried : state_of(initial, at), c0);
    for (int row = first_row; row < end; row += CHUNK) {
        chunk_t chunk = chunk_at(at, row);
        long slot = (long)at.sequence * chunks + (row - first_row) / CHUNK;
        global float *before = grams + grams_at.x + (slot * HEADS + at.head) * (KEY_DIM * PITCH);

        SYNC();
        key_norms(norm_of_k(factors), k, k_at, chunk);
        for_each(i, CHUNK)
            strength_of(factors)[i] = write_strength(chunk, i);
        decay_chunk(decay, g, g_at, chunk);
        for_each(task, KEY_DIM * (BV / VEC)) {
            int n = task / (BV / VEC), c = task % (BV / VEC) * VEC;
            if (c0 + c < PITCH)
                vec_store(vec_at(S + n * BV + c), before + n * PITCH + c0 + c);
        }
        SYNC();
        for_each(i, CHUNK)
            write_factor(factors)[i] = decay_write(decay.log, i) * strength_of(factors)[i];
        for_each(i, VEC)
            across_factor(factors)[i] = decay_across(decay.log);
        SYNC();
        key_columns(D, write_factor(factors), norm_of_k(factors), k, k_at, c0, chunk);
        for (int n0 = 0; n0 < KP; n0 += BK) {
            SYNC();
            key_rows(R, norm_of_k(factors), k, k_at, n0, chunk);
            SYNC();
            mma_atb(S + n0 * BV, decay_state(decay, across_factor(factors)), DECAY_STRIDE, R, D, BV);
        }
    }
    SYNC();
    state_store(end < at.rows ? carried : state_of(final, at), S, c0);
}
