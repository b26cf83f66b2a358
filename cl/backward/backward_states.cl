/* The states of the forward pass, token by token. With KEEP, those before the first row of every span of rows, and with
 * NONCAUSAL the one after the last row. Without, those before each row of one span, the one after it, and what its rows
 * erase; the first is one that was kept. One group: BV value columns of one head of one sequence. */
#include "backward.clh"

WORD void tile_store(const vec *S, global float *to)
{
    for_channels(l) for_columns(j) vec_store(S[l * NV + j], to + channel_of(l) * BV + j * VEC);
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, k) X(global const data_t, v) X(global const gate_t, g) X(global const float, a_log) \
    X(global const float, bias) X(global const gate_t, gv) X(global const gate_t, beta) X(global const erase_t, p) \
    X(global const data_t, e) X(global const gate_t, w) X(global const int, cu) X(global const int, slots) \
    X(global const float, initial_z) \
    X(global float, kept) X(global float, between) X(global float, erased) X(global float, whole)
#define OPTIONALS(X) \
    X(global const state_t, initial)
/* clang-format on */
KERNEL
backward_states(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int states, int span, int first_row)
{
    TENSORS(ABSENT)
    ROW_LOCALS
    place at =
        place_with_states(place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at), states, slots, slots_at);
    int tile = get_group_id(2), c0 = tile * BV;
    int begin = KEEP ? 0 : first_row;
    int end = !KEEP ? min(first_row + span, at.rows) : NONCAUSAL ? at.rows : max(at.rows - 1, 0) / span * span;
    vec S[KL * NV];

    if (begin > end || (begin > 0 && begin == end))
        return;
    for_channels(l) for_columns(j)
    {
        int n = channel_of(l), c = c0 + j * VEC;
        S[l * NV + j] =
            KEEP ? state_row(state_of(initial, at), n, c)
                 : vec_load(kept + kept_at.x + kept_at_row(at, tile, first_row, span, seq_len) + n * BV + j * VEC);
        if (KEEP && NORMALIZED && HAS_initial_z && (at.states & HAS_initial) && n < KEY_DIM)
            S[l * NV + j] = select(S[l * NV + j], (vec)(initial_z[at_row(initial_z_at, at.state, 0, at.head) + n]),
                                   vec_iota + c == VALUE_DIM);
    }
    for (int row = begin;; row++) {
        chunk_t chunk = chunk_at(at, min(row, max(at.rows - 1, 0)));
        vec u[NV], fade[NV];
        float factor, strength;

        if (!KEEP)
            tile_store(S, between + between_at.x + between_at_row(at, tile, row - begin, span));
        else if (row % span == 0 && row < max(at.rows, 1))
            tile_store(S, kept + kept_at.x + kept_at_row(at, tile, row, span, seq_len));
        if (row >= end)
            break;
        row_load(chunk, c0);
        factor = decay_token_factor(decay.log, 0);
        strength = strength_of(factors)[0];
        for_columns(j)
        {
            u[j] = 0;
            fade[j] = row % STEPS == 0 ? mix_token(mix_factor, 0, j * VEC) : (vec)(1);
        }
        for_channels(l)
        {
            int n = channel_of(l);
            float d = decay_of(decay, factor, n);
            for_columns(j)
            {
                u[j] = erase_predict_before(u[j], erase_P, n, S[l * NV + j]);
                S[l * NV + j] *= d * fade[j];
                u[j] = erase_predict_after(u[j], erase_P, n, S[l * NV + j]);
            }
        }
        if (ERASES)
            columns_total(u, sums);
        for_channels(l)
        {
            int n = channel_of(l);
            float x = strength * rows_k[n];
            for_columns(j)
            {
                S[l * NV + j] += x * erase_token_delta(vec_load(rows_x + j * VEC), u[j], 1);
                S[l * NV + j] = erase_token_update(S[l * NV + j], erase_B, n, u[j]);
            }
        }
        for_columns(j) if (!KEEP && ERASES && LANE == j % GROUP)
            vec_store(u[j], erased + erased_at.x + erased_at_row(at, tile, row - begin, span) + j * VEC);
    }
    if (KEEP && NONCAUSAL)
        tile_store(S, whole + whole_at.x + tile_number(at, tile) * TILE);
}
