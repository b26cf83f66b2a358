/* A learner of one or two layers. Batches of tokens are learned from in chunks of CHUNK tokens:
 *     D = the gradient of the losses by Z = K W, for all tokens of a batch, at the weights before it
 *     Z = kept o (Q W) + moved o (Q M) - ((Q K^T) o seen) D
 *     W = kept W + moved M - (K o last)^T D,   M = moment M - (K o last_moment)^T D
 * One group: one head of one sequence, `stretch_rows` tokens of it from first_row on. Its memory has the weights, what the chunk computes, and a row for each token of
 * the batch, and of the OMEGA - 1 before it, with the inputs x and the gradients D of each layer. */
#include "ttt_muon.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global out_t, o) \
    X(global const gate_t, theta) X(global const gate_t, eta) X(global const gate_t, alpha) \
    X(global const gate_t, momentum) X(global const gate_t, gamma) X(global const float, ln_weight) \
    X(global const float, ln_bias) X(global const float, w1) X(global const float, b1) X(global const float, w2) \
    X(global const float, b2) X(global const float, initial_momentum) X(global float, final_w1) \
    X(global float, final_b1) X(global float, final_w2) X(global float, final_b2) X(global float, final_momentum) \
    X(global float, memory)
/* clang-format on */
#define OF_HEAD(x) (x + at_row(x##_at, get_group_id(0), 0, get_group_id(1)))

KERNEL
ttt_scan(TENSORS(PARAMETER) int seq_len, int mini_batch, int first_row, int stretch_rows, float scale)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(sums, LOCAL_SUMS)
    const int rates_head = get_group_id(1), tokens = seq_len, end = first_row + min(stretch_rows, tokens - first_row);
    const rates_t rates = {OF_HEAD(theta), OF_HEAD(eta), OF_HEAD(alpha), OF_HEAD(momentum), OF_HEAD(gamma),
                           theta_at.z,     eta_at.z,     alpha_at.z,     momentum_at.z,     gamma_at.z};
    const norm_t norm = {ln_weight + ln_weight_at.x + ln_weight_at.w * rates_head,
                         ln_bias + ln_bias_at.x + ln_bias_at.w * rates_head};
    global float *base = OF_HEAD(memory), *W1 = base + AT_W1, *M1 = base + AT_M1, *W2 = base + AT_W2,
                 *M2 = base + AT_M2, *queries = base + AT_QUERIES, *hidden = base + AT_HIDDEN, *z = base + AT_Z,
                 *scores = base + AT_SCORES, *rows = base + AT_ROWS;
    const factors_t by = {base + AT_SEEN, base + AT_LAST,        base + AT_LAST + WINDOW,
                          base + AT_KEPT, base + AT_KEPT + ROWS, base + AT_MOMENT};
    const muon_t muon = {base + AT_MUON, base + AT_MUON + MUON_FEW * MUON_MANY,
                         base + AT_MUON + 2 * MUON_FEW * MUON_MANY,
                         base + AT_MUON + 2 * MUON_FEW * MUON_MANY + MUON_FEW * MUON_FEW};
    int last;

    if (first_row == 0) {
        state_load(W1, PITCH_X1, PITCH_Y1, KEY_DIM, OUTPUTS_1, OF_HEAD(w1), OF_HEAD(b1), HAS_w1, HAS_b1);
        if (HAS_momentum || MUON)
            state_load(M1, PITCH_X1, PITCH_Y1, KEY_DIM, OUTPUTS_1, OF_HEAD(initial_momentum),
                       OF_HEAD(initial_momentum) + KEY_DIM * OUTPUTS_1, HAS_initial_momentum,
                       HAS_initial_momentum && BIAS);
        if (LAYERS == 2) {
            state_load(W2, PITCH_X2, PITCH_V, HIDDEN_DIM, VALUE_DIM, OF_HEAD(w2), OF_HEAD(b2), HAS_w2, HAS_b2);
            if (HAS_momentum || MUON)
                state_load(M2, PITCH_X2, PITCH_V, HIDDEN_DIM, VALUE_DIM, OF_HEAD(initial_momentum) + MOMENTS_1,
                           OF_HEAD(initial_momentum) + MOMENTS_1 + HIDDEN_DIM * VALUE_DIM, HAS_initial_momentum,
                           HAS_initial_momentum);
        }
    }
    MEET();
    for (int first = first_row / mini_batch * mini_batch; first < end; first = last) {
        const int origin = first - (OMEGA - 1), is_new = first >= first_row; /* else its gradients are there */
        last = first + min(mini_batch, tokens - first);
        for (int row = max(origin, 0); row < last && is_new; row += CHUNK) {
            const int count = min(CHUNK, last - row);
            global float *x = rows + (long)(row - origin) * ROW, *d = x + ROW_D1;
            rows_load(x, ROW, OF_HEAD(k) + row * k_at.z, k_at.z, count, 1);
            MEET();
            for_blocks(r, c, count, PITCH_Y1)
            {
                vec acc[ROW_BLOCK];
                for_rows(i) acc[i] = 0;
                rows_times(acc, x + r * ROW, ROW, W1, PITCH_Y1, c, INPUTS_1);
                for_rows(i) vec_store(acc[i], d + (r + i) * ROW + c);
            }
            MEET();
            if (LAYERS == 2) {
                global float *x2 = x + ROW_X2, *d2 = x + ROW_D2;
                for_each(task, count * (PITCH_X2 / VEC)) {
                    int i = task / (PITCH_X2 / VEC), c = task % (PITCH_X2 / VEC) * VEC;
                    vec y = c < PITCH_Y1 ? gelu(vec_load(d + i * ROW + c)) : (vec)(0);
                    vec_store(with_one(y, c, HIDDEN_DIM), x2 + i * ROW + c);
                }
                MEET();
                for_blocks(r, c, count, PITCH_V)
                {
                    vec acc[ROW_BLOCK];
                    for_rows(i) acc[i] = 0;
                    rows_times(acc, x2 + r * ROW, ROW, W2, PITCH_V, c, INPUTS_2);
                    for_rows(i) vec_store(acc[i], d2 + (r + i) * ROW + c);
                }
                MEET();
            }
            loss_rows(sums, x + ROW_LOSS, ROW, OF_HEAD(k) + row * k_at.z, k_at.z, OF_HEAD(v) + row * v_at.z, v_at.z,
                      norm, count);
            MEET();
            if (LAYERS == 2) {
                for_each(task, count * ((HIDDEN_DIM + 3) / 4)) {
                    int i = task % count, f = task / count * 4;
                    float4 y = row_dots(x + ROW_D2 + i * ROW, W2 + f * PITCH_V, PITCH_V, PITCH_V);
                    vec_unrolled
                    for (int e = 0; e < 4; e++)
                        if (f + e < HIDDEN_DIM)
                            d[i * ROW + f + e] = dot_number(y, e) * gelu_slope(d[i * ROW + f + e]);
                }
                MEET();
            }
        }
        for (int row = max(first, first_row); row < min(last, end); row += CHUNK) {
            const int count = min(CHUNK, last - row), ends = row + count == last, columns = count + OMEGA - 1;
            const int first_column = max(OMEGA - 1 - row, 0);
            const int reads_moment = HAS_momentum || (HAS_eta && row > first);
            const int changes_w = !HAS_eta || ends, changes_m = HAS_momentum || (HAS_eta && !ends);
            global const float *x = rows + (long)(row - first) * ROW;
            rows_load(queries, PITCH_X1, OF_HEAD(q) + row * q_at.z, q_at.z, count, scale);
            factors_find(by, rates, row, count);
            MEET();
            if (MUON) {
                layer_learn(W1, M1, PITCH_Y1, x, x + ROW_D1, INPUTS_1, by, first_column, columns, 1, 0, 1, 1, 0);
                if (LAYERS == 2)
                    layer_learn(W2, M2, PITCH_V, x + ROW_X2, x + ROW_D2, INPUTS_2, by, first_column, columns, 1, 0, 1,
                                1, 0);
                MEET();
                muon_learn(sums, W1, M1, PITCH_Y1, KEY_DIM, OUTPUTS_1, muon, by.kept[0]);
                if (LAYERS == 2) {
                    MEET();
                    muon_learn(sums, W2, M2, PITCH_V, HIDDEN_DIM, VALUE_DIM, muon, by.kept[0]);
                }
                MEET();
            } else {
                scores_find(scores, by, queries, x, PITCH_X1, count, first_column);
                MEET();
            }
            layer_read(LAYERS == 2 ? hidden : z, LAYERS == 2 ? PITCH_X2 : PITCH_V, queries, PITCH_X1, W1, M1, PITCH_Y1,
                       INPUTS_1, scores, x + ROW_D1, by, count, first_column, reads_moment);
            MEET();
            if (LAYERS == 2) {
                for_each(task, count * (PITCH_X2 / VEC)) {
                    int i = task / (PITCH_X2 / VEC), c = task % (PITCH_X2 / VEC) * VEC;
                    global float *at = hidden + i * PITCH_X2 + c;
                    vec_store(with_one(c < PITCH_Y1 ? gelu(vec_load(at)) : (vec)(0), c, HIDDEN_DIM), at);
                }
                MEET();
                if (!MUON) {
                    scores_find(scores, by, hidden, x + ROW_X2, PITCH_X2, count, first_column);
                    MEET();
                }
                layer_read(z, PITCH_V, hidden, PITCH_X2, W2, M2, PITCH_V, INPUTS_2, scores, x + ROW_D2, by, count,
                           first_column, reads_moment);
                MEET();
            }
            readout_rows(sums, OF_HEAD(o) + row * o_at.z, o_at.z, z, queries, norm, count);
            if (!MUON) {
                const float kept = by.kept[count - 1], moved = by.moved[count - 1];
                layer_learn(W1, M1, PITCH_Y1, x, x + ROW_D1, INPUTS_1, by, first_column, columns, reads_moment,
                            changes_w, changes_m, kept, moved);
                if (LAYERS == 2)
                    layer_learn(W2, M2, PITCH_V, x + ROW_X2, x + ROW_D2, INPUTS_2, by, first_column, columns,
                                reads_moment, changes_w, changes_m, kept, moved);
            }
            MEET();
        }
    }
    if (end < tokens)
        return;
    state_store(OF_HEAD(final_w1), OF_HEAD(final_b1), W1, PITCH_Y1, KEY_DIM, OUTPUTS_1, HAS_final_w1, HAS_final_b1);
    if (HAS_final_momentum)
        state_store(OF_HEAD(final_momentum), OF_HEAD(final_momentum) + KEY_DIM * OUTPUTS_1, M1, PITCH_Y1, KEY_DIM,
                    OUTPUTS_1, 1, BIAS);
    if (LAYERS == 2) {
        state_store(OF_HEAD(final_w2), OF_HEAD(final_b2), W2, PITCH_V, HIDDEN_DIM, VALUE_DIM, HAS_final_w2,
                    HAS_final_b2);
        if (HAS_final_momentum)
            state_store(OF_HEAD(final_momentum) + MOMENTS_1,
                        OF_HEAD(final_momentum) + MOMENTS_1 + HIDDEN_DIM * VALUE_DIM, M2, PITCH_V, HIDDEN_DIM,
                        VALUE_DIM, 1, 1);
    }
}
