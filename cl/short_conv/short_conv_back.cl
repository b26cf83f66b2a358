/* The backward pass of short_conv. With x the initial state's rows followed by the tokens, y_t = sum_r w_r x_(t+1+r) + bias:
 *     dy = do act'(y);  dx_(t+1+r) += w_r dy_t;  dw_r = sum_t dy_t x_(t+1+r);  dbias = sum_t dy_t;  dx += d_final at its end
 * One group: CHUNK tokens and BV columns of one head. A task has VEC columns of RUN tokens. It goes on over the TAPS - 1
 * tokens that follow, which its own tokens are inputs of, and leaves its sums of dw and dbias in `parts`. */
#include "conv.clh"
#include "gradient.clh"

/* Sums of a task, and its window of inputs with their gradients */
typedef struct {
    vec x[TAPS], dx[TAPS], dw[TAPS], db;
} window_t;

/* dy of the token whose inputs are in the window */
WORD vec slope_of(const vec *taps, const vec *x, vec bias, vec d_o)
{
    vec y = bias, s;
    vec_unrolled
    for (int r = 0; r < TAPS; r++)
        y += taps[r] * x[r];
    s = 1 / (1 + exp2(-LOG2E * y));
    return HAS_SILU ? d_o * s * (1 + y / (1 + exp2(LOG2E * y))) : d_o;
}

/* The window goes on by one token, which is one of the task's own or only an output of these. */
WORD void window_step(window_t *window, const vec *taps, vec bias, vec x, vec d_o, int exists, int own)
{
    vec dy;
    vec_unrolled
    for (int r = 0; r < TAPS - 1; r++) {
        window->x[r] = window->x[r + 1];
        window->dx[r] = window->dx[r + 1];
    }
    window->x[TAPS - 1] = x;
    window->dx[TAPS - 1] = 0;
    if (!exists)
        return;
    dy = slope_of(taps, window->x, bias, d_o);
    vec_unrolled
    for (int r = 0; r < TAPS; r++) {
        window->dx[r] += taps[r] * dy;
        if (own)
            window->dw[r] += dy * window->x[r];
    }
    if (own)
        window->db += dy;
    if (HAS_RESIDUAL)
        window->dx[TAPS - 1] += d_o;
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, v) X(global const data_t, d_o) X(global const gate_t, weights) X(global const gate_t, shift) \
    X(global const int, cu) X(global const int, slots) X(global const float, d_final) X(global float, d_initial) \
    X(global out_t, d_v) X(global float, parts)
#define OPTIONALS(X) \
    X(global const state_t, initial)
/* clang-format on */
KERNEL
short_conv_back(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int sequences, int states)
{
    TENSORS(ABSENT)
    enum { HAS_SLOT = 4 };
    long slot = get_group_id(0);
    chunk_t chunk = seq_len == 0 ? chunk_at(place_of(slot, get_group_id(1), 0, cu, cu_at), 0)
                                 : chunk_of_slot(slot, get_group_id(1), sequences, seq_len, cu, cu_at);
    place at = place_with_states(chunk.at, states | HAS_SLOT, slots, slots_at);
    /* several slots may have no token of an empty sequence */
    int begins = chunk.row == 0 && (at.tokens > 0 || seq_len == 0 || slot == slot_of(at, seq_len));
    const inputs_t in = {stream_of((global const char *)v, v_at, at, sizeof(data_t)), state_of(initial, at),
                         initial_at.z};
    stream_t cotangents = stream_of((global const char *)d_o, d_o_at, at, sizeof(data_t));
    global const float *last_state = d_final + at_row(d_final_at, at.sequence, 0, at.head);
    global float *first_state = d_initial + at_row(d_initial_at, at.sequence, 0, at.head);

    for_each(task, CHUNK / RUN * (BV / VEC)) {
        int c = get_group_id(2) * BV + task % (BV / VEC) * VEC, run = task / (BV / VEC), first = chunk.row + run * RUN;
        int last = min(first + RUN, chunk.row + chunk.count) - 1, is_first = first == 0 && begins;
        global float *part = parts + parts_at.x + ((slot * (CHUNK / RUN) + run) * HEADS + at.head) * WIDTH;
        vec taps[TAPS], bias = 0;
        window_t window;

        if (c >= VALUE_DIM)
            continue;
        taps_load(taps, weights + at_row(weights_at, 0, 0, at.head), c);
        if (HAS_BIAS)
            bias = gate_row(shift + at_row(shift_at, 0, 0, at.head), c, VALUE_DIM);
        window.db = 0;
        vec_unrolled
        for (int r = 0; r < TAPS; r++) {
            window.x[r] = window.dx[r] = window.dw[r] = 0;
            if (r > 0 && (first <= last || is_first))
                window.x[r] = input_at(&in, first - TAPS + r, c);
        }
        for (int row = first; row < last + TAPS && (first <= last || is_first); row += AHEAD) {
            vec x[AHEAD], d[AHEAD];
            vec_unrolled
            for (int i = 0; i < AHEAD; i++) {
                x[i] = d[i] = 0;
                if (row + i < at.tokens) {
                    x[i] = stream_vec(in.v, row + i, c);
                    d[i] = stream_vec(cotangents, row + i, c);
                }
            }
            vec_unrolled
            for (int i = 0; i < AHEAD; i++) {
                int token = row + i - TAPS + 1, final_row = token - at.tokens + TAPS; /* what is complete now */
                vec dx;
                window_step(&window, taps, bias, x[i], d[i], row + i < at.tokens, row + i <= last);
                dx = window.dx[0];
                if (HAS_d_final && final_row >= 0 && token <= last && (at.states & HAS_SLOT))
                    dx += f32_row(last_state + final_row * d_final_at.z, c, VALUE_DIM);
                if (token >= first && token <= last && is_given(d_v))
                    out_put_row(dx, d_v + at_row(d_v_at, at.batch, at.first + token, at.head), c, VALUE_DIM, ADD_V);
                if (token < 0 && is_first && is_given(d_initial))
                    f32_put_row(at.states & HAS_SLOT ? dx : (vec)(0), first_state + (token + TAPS) * d_initial_at.z, c,
                                VALUE_DIM, ADD_STATE);
            }
        }
        if (is_first && is_given(d_initial)) { /* the oldest row, which is read by no token */
            vec dx = 0;
            if (HAS_d_final && at.tokens == 0 && (at.states & HAS_SLOT))
                dx = f32_row(last_state, c, VALUE_DIM);
            f32_put_row(dx, first_state, c, VALUE_DIM, ADD_STATE);
        }
        for (int i = 0; i < VEC && c + i < VALUE_DIM; i++) {
            vec_unrolled
            for (int r = 0; r < TAPS; r++)
                part[AT_WEIGHTS + (c + i) * TAPS + r] = vec_number(window.dw[r], i);
            if (HAS_BIAS)
                part[AT_BIAS + c + i] = vec_number(window.db, i);
        }
    }
}
