/* o_t = act(sum_r w[c][r] v_(t-TAPS+1+r) + bias) + v_t: a causal convolution of each channel.
 * One group: CHUNK tokens and BV columns of one head. A task computes VEC columns of RUN tokens, which are at least
 * TAPS. The initial state has the inputs before a sequence's first token. Only the task of the first tokens reads it,
 * and then writes the final state, which may be the same memory; and the states on the way, if those are the last
 * ones. */
#include "conv.clh"

#if !SNAPSHOTS
#undef HAS_snapshots
#define HAS_snapshots 2 /* nothing mentions them */
#endif

WORD vec convolved(const vec *taps, const vec *x, vec bias)
{
    vec y = bias;
    vec_unrolled
    for (int r = 0; r < TAPS; r++)
        y += taps[r] * x[r];
    if (HAS_SILU)
        y = silu(y);
    return HAS_RESIDUAL ? y + x[TAPS - 1] : y;
}

/* Computes columns c … of the tokens from first to last, all of which exist. */
WORD void run_tokens(const inputs_t *in, stream_t outs, const vec *taps, vec bias, int first, int last, int c)
{
    vec x[TAPS];
    vec_unrolled
    for (int r = 1; r < TAPS; r++)
        x[r] = input_at(in, first - TAPS + r, c);
    for (int row = first; row <= last; row += AHEAD) {
        vec next[AHEAD];
        vec_unrolled
        for (int i = 0; i < AHEAD; i++)
            next[i] = stream_vec(in->v, min(row + i, last), c);
        vec_unrolled
        for (int i = 0; i < AHEAD; i++) {
            vec_unrolled
            for (int r = 0; r < TAPS - 1; r++)
                x[r] = x[r + 1];
            x[TAPS - 1] = next[i];
            if (row + i <= last)
                stream_put(convolved(taps, x, bias), outs, row + i, c);
        }
    }
}

WORD void leave_state(const inputs_t *in, global state_t *final, long step, int tokens, int c)
{
    for (int r = 0; r < TAPS; r++) {
        float element[VEC];
        CAT(vstore, VEC)(input_at(in, tokens - TAPS + r, c), 0, element);
        vec_unrolled
        for (int i = 0; i < VEC; i++)
            if (c + i < VALUE_DIM)
                state_put(element[i], final + r * step, c + i);
    }
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, v) X(global out_t, o) X(global const gate_t, weights) X(global const gate_t, shift) \
    X(global const int, cu) X(global const int, slots) X(global const int, accepted) X(global state_t, snapshots)
#define OPTIONALS(X) \
    X(global const state_t, initial) X(global state_t, final)
/* clang-format on */
KERNEL
short_conv(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int sequences, int states)
{
    TENSORS(ABSENT)
    chunk_t chunk = seq_len == 0 ? chunk_at(place_of(get_group_id(0), get_group_id(1), 0, cu, cu_at), 0)
                                 : chunk_of_slot(get_group_id(0), get_group_id(1), sequences, seq_len, cu, cu_at);
    place at = place_with_states(chunk.at, states, slots, slots_at);
    global state_t *left = state_of(final, at);
    const inputs_t in = {stream_of((global const char *)v, v_at, at, sizeof(data_t)), state_of(initial, at),
                         initial_at.z};
    stream_t outs = stream_of((global const char *)o, o_at, at, sizeof(out_t));

    for_each(task, CHUNK / RUN * (BV / VEC)) {
        int c = get_group_id(2) * BV + task % (BV / VEC) * VEC, first = chunk.row + task / (BV / VEC) * RUN;
        int last = min(first + RUN, chunk.row + chunk.count) - 1;
        if (c < VALUE_DIM && first <= last) {
            vec taps[TAPS], bias = 0;
            taps_load(taps, weights + at_row(weights_at, 0, 0, at.head), c);
            if (HAS_BIAS)
                bias = gate_row(shift + at_row(shift_at, 0, 0, at.head), c, VALUE_DIM);
            run_tokens(&in, outs, taps, bias, first, last, c);
        }
        if (c < VALUE_DIM && first == 0 && left != 0)
            leave_state(&in, left, final_at.z, at.tokens, c);
#if SNAPSHOTS
        /* Every so many tokens: each task stores its own. The last ones: the first task stores all, because it has read
         * the initial state, which they may overwrite; the one that does so is the last, because others copy from it. */
        int interval = snapshot_interval(states), some = interval > 0 && first <= last;
        int begin = some ? first + 1 : max(at.tokens + interval + 1, 1);
        int end = some ? last + 1 : first == 0 && interval < 0 ? at.tokens : 0;
        for (int in_place = 0; in_place < 2 && c < VALUE_DIM; in_place++)
            for (int tokens = begin; tokens <= end; tokens++) {
                global state_t *snapshot = snapshot_of(snapshots, snapshots_at, at, interval, tokens);
                if (snapshot != 0 && (snapshot == in.before) == in_place)
                    leave_state(&in, snapshot, snapshots_at.z, tokens, c);
            }
#endif
    }
}
