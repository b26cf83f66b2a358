/* The gradients of a row's operands: the parts of all value tiles are added, and taken back through the maps of
 * strengths, gates, queries and keys. What tokens share is left in `shares`. One group: a row of the heads that share a
 * head of keys. A lane has the channels LANE, LANE + GROUP, … of it. */
#include "backward.clh"
#if ROPE
#include "turns.clh"
#endif

/* The sum of the parts of all tiles, of one channel; among padded rows also of all reads, which have rows of their own */
WORD float part_sum(global const float *part, int n)
{
    float sum = 0;

    for (int tile = 0; tile < TILES; tile++)
        sum += part[tile * KP + n];
    return sum;
}
/* From one read's parts to the next one's */
#define READ_PARTS (PADDED ? (READ_TILED ? HEADS : 1) * STREAMS * TILES * KP : TILES * KP)
WORD float stream_sum(global const float *part, int stream, int n)
{
    float sum = 0;

    for (int read = 0; read < (PADDED ? READS : 1); read++)
        sum += part_sum(part + read * READ_PARTS + stream * TILES * KP, n);
    return sum;
}

/* A number of each row, of which the groups of engine_gradients that share a chunk have left a part each */
WORD float numbers_sum(global const float *numbers, long row)
{
    float sum = 0;

    for (int part = 0; part < NUMBER_PARTS; part++)
        sum += numbers[part * (long)get_num_groups(0) * PADDED * HEADS + row];
    return sum;
}

/* dy by a row as it turned to that by the row as it was. `turned` has KP floats. */
WORD void turn_back(float *dy, local float *turned, long t)
{
#if ROPE
    SYNC();
    for (int l = 0; l < KL; l++)
        turned[channel_of(l)] = dy[l];
    SYNC();
    for (int l = 0; l < KL; l++) {
        int n = channel_of(l), apart = ROPE_DIM / 2, pair = INTERLEAVED ? n / 2 : n % apart;
        int is_first = INTERLEAVED ? n % 2 == 0 : n < apart;
        int other = INTERLEAVED ? n ^ 1 : is_first ? n + apart : n - apart;
        float angle = halves_of(turn_of(pair), t), sine = sinpi(angle) * (ROPE_INVERSE ? -1 : 1);
        if (n < ROPE_DIM)
            dy[l] = cospi(angle) * turned[n] + (is_first ? sine : -sine) * turned[other];
    }
    SYNC();
#endif
}

/* dy by a row as the state has it to that by the operand: y = map(norm x). The row's own gradient is stored. */
WORD void map_back(float *dy, global const data_t *row, global data_t *to, int adds, local float *squares,
                   local float *sums, local float *turned, long t)
{
    float norm, dot = 0;

    SYNC();
    if (L2NORM)
        row_squares(row, 0);
    SYNC();
    norm = row_norm(squares);
    for (int l = 0; l < KL; l++) {
        float x = channel_of(l) < KEY_DIM ? norm * data_get(row, channel_of(l)) : 0;
        if (FEATURE == FEATURE_ELU1)
            dy[l] *= x > 0 ? 1.0f : exp2(LOG2E * x);
        if (FEATURE == FEATURE_RELU)
            dy[l] = x > 0 ? dy[l] : 0.0f;
        dot += x * dy[l];
    }
    if (L2NORM) {
        dot = lanes_total(sums, dot);
        for (int l = 0; l < KL; l++)
            if (channel_of(l) < KEY_DIM)
                dy[l] = norm * (dy[l] - norm * data_get(row, channel_of(l)) * dot);
    }
    turn_back(dy, turned, t);
    for (int l = 0; l < KL; l++)
        if (channel_of(l) < KEY_DIM)
            data_put(dy[l] + (adds ? data_get(to, channel_of(l)) : 0.0f), to, channel_of(l));
}

/* Of the gradient by a log-decay that by the number it is made of; *rate gains what the rate's logarithm does. */
WORD float gate_back(gates_t gates, int head, int n, float x, float gradient, float *rates)
{
    float rate = gate_rate(gates, head), s;

    if (GATE_MAP != 0 && gradient == 0)
        return 0; /* of a decay that forgets all, whatever its number */
    if (HAS_GATE_BIAS)
        x += gates.bias[gates.bias_head * head + n];
    if (GATE_MAP == GATE_SOFTPLUS) {
        float step = softplus_step(x);
        *rates -= rate * step * gradient;
        return step_is_limited(step) ? 0 : -rate * gradient / (1 + exp2(-LOG2E * x));
    }
    if (GATE_MAP == GATE_SIGMOID) {
        s = 1 / (1 + exp2(-LOG2E * rate * x));
        gradient *= rate * GATE_SCALE * s * (1 - s);
        *rates += gradient == 0 ? 0 : x * gradient;
        return gradient;
    }
    if (GATE_MAP == GATE_LOGSIGMOID)
        return gradient * GATE_SCALE / (1 + exp2(LOG2E * x));
    return GATE_MAP == GATE_EXP ? -gradient * exp2(LOG2E * x) : gradient;
}

/* Of the gradient by a strength that by the number it is made of */
WORD float strength_back(float strength, float gradient)
{
    if (EXP_STRENGTH)
        return strength * gradient;
    if (BETA_MAP == BETA_SOFTPLUS)
        return step_is_limited(strength) ? 0 : gradient * -expm1(-strength);
    return BETA_MAP > 0 ? gradient * strength * (1 - strength / BETA_MAP) : gradient;
}

#define out_put_or_add(x, to, n, adds) out_put((x) + ((adds) ? out_get(to, n) : 0.0f), to, n)

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global const data_t, d_o) \
    X(global const out_t, raw) X(global const float, a_log) X(global const float, bias) \
    X(global const gate_t, beta) X(global const erase_t, p) X(global const gate_t, u) X(global const int, position) \
    X(global const int, cu) X(global const float, parts) X(global const float, flows) X(global const float, betas) X(global float, shares) \
    X(global data_t, d_q) X(global data_t, d_k) X(global data_t, d_p) X(global out_t, d_g) X(global out_t, d_beta) \
    X(global out_t, d_b) X(global data_t, d_e)
/* clang-format on */
KERNEL
backward_rows(TENSORS(PARAMETER) int seq_len, int sequences, float scale, int span, int first_row)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(rows_q, LOCAL_ROWS)
    LOCAL_FLOATS(rows_k, LOCAL_ROWS)
    LOCAL_FLOATS(sums, LOCAL_SUMS)
    local float factors[FACTORS], squares[LOCAL_SQUARES];
#if PADDED
    long slot = get_group_id(0), i = slot * PADDED + get_group_id(2);
    place all = place_of_padded(slot, 0, sequences, seq_len, cu, cu_at);
    int row = (int)(i - padded_first(all, seq_len) * PADDED) - 1;
#else
    place all = place_of(get_group_id(0), 0, seq_len, cu, cu_at);
    int i = get_group_id(2), row = first_row + i;
#endif
    int keys = get_group_id(1);
    int is_first = row % STEPS == 0, is_read = row % STEPS == STEPS - 1;
    long t = REVERSED ? all.tokens - 1 - row / STEPS : row / STEPS;
    float dq[KL], dk[KL], dp[KL];

    if (row < 0 || row >= all.rows)
        return;
    if (HAS_position)
        t += position[position_at.x + all.sequence];
    for (int l = 0; l < KL; l++)
        dq[l] = dk[l] = dp[l] = 0;
    for (int head = 0; head < HEADS; head++) {
        place at = place_of(all.sequence, head, seq_len, cu, cu_at);
        chunk_t chunk = chunk_at(at, row);
        global const float *part = parts + parts_at.x + parts_of(at, i, span);
        /* Among padded rows a q that reads the state before its row stands in the row before (pad_rows.cl). */
        global const float *read_part = parts + parts_at.x + parts_of(at, i - (PADDED && READ_BEFORE), span);
        global float *share = shares + shares_at.x + (SHARES > 0 ? number_of_row(at, i, span) * SHARES : 0);
        const gates_t gates = GATES_HERE;
        float strength, by_strength = 0, all_flow = 0, rates = 0, biases = 0, bonus = 0;

        if ((READS > 1 ? head : at.qk_head) != keys)
            continue;
        chunk.count = 1;
        SYNC();
        if (L2NORM)
            row_squares(write_row(k, chunk, at.qk_head), QUARTER_K);
        for_each(j, 1)
            strength_of(factors)[0] = write_strength(chunk, 0);
        SYNC();
        for_each(j, 1)
            norm_of_k(factors)[0] = row_norm(squares);
        SYNC();
        key_rows(rows_k, norm_of_k(factors), k, k_at, 0, chunk);
        SYNC();
        strength = strength_of(factors)[0];
        for (int l = 0; l < KL; l++) {
            int n = channel_of(l);
            float key = stream_sum(part, STREAM_KEY, n);
            by_strength += rows_k[n] * key;
            dk[l] += (NARROW ? 1 : strength) * key;
            if (ERASES && !(NARROW && ERASE_IS_KEY)) {
                float erase = stream_sum(part, STREAM_ERASE, n);
                if (ERASE_IS_KEY)
                    dk[l] += erase;
                if (ERASE_IS_GATED && n < KEY_DIM) {
#if ERASE_IS_GATED
                    dk[l] += erase * gate_get(write_row(p, chunk, head), n);
#endif
                    if (is_given(d_b))
                        out_put_or_add(rows_k[n] * erase, write_row(d_b, chunk, head), n, ADD_B);
                }
                if (ERASE_IS_OPERAND)
                    dp[l] += erase;
                if (LOW_RANK && n < KEY_DIM) {
                    if (is_given(d_p))
                        data_put(erase + (ADD_P ? data_get(write_row(d_p, chunk, head), n) : 0.0f),
                                 write_row(d_p, chunk, head), n);
                    if (is_given(d_e))
                        data_put(stream_sum(part, STREAM_LOW, n) +
                                     (ADD_E ? data_get(write_row(d_e, chunk, head), n) : 0.0f),
                                 write_row(d_e, chunk, head), n);
                }
            }
        }
        if (HAS_beta) {
            if (HAS_betas)
                by_strength = LANE == 0 ? numbers_sum(betas + betas_at.x, number_of_row(at, i, span)) : 0.0f;
            by_strength = strength_back(strength, lanes_total(sums, by_strength));
            biases += BETA_MAP == BETA_SOFTPLUS ? by_strength : 0.0f;
            for_each(j, 1)
                if (is_given(d_beta))
                    out_put_or_add(by_strength, write_row(d_beta, chunk, head), 0, ADD_BETA);
        }
        if (FLOWS) {
            for_each(j, HAS_flows && is_first ? READS : 0)
                all_flow += numbers_sum(flows + flows_at.x, i * HEADS * READS + head_of_read(at, j));
            for (int l = 0; l < KL * !HAS_flows; l++) {
                int n = channel_of(l);
                float gradient = is_first ? stream_sum(part, STREAM_FLOW, n) : 0, x = 0;
                all_flow += gradient;
                if (!FLOW_OF_CHANNELS || n >= KEY_DIM)
                    continue;
                if (GATE_MAP != 0)
                    x = out_get(token_row(raw, chunk, head), n);
                gradient = gate_back(gates, head, n, x, gradient, &rates);
                if (AT_GATE >= 0)
                    share[max(AT_GATE, 0) + n] = gradient;
                else if (is_given(d_g) && is_first)
                    out_put_or_add(gradient, token_row(d_g, chunk, head), n, ADD_G);
                if (AT_BIAS >= 0)
                    share[max(AT_BIAS, 0) + n] = gradient;
            }
            if (!FLOW_OF_CHANNELS) {
                float x = GATE_MAP != 0 ? out_get(token_row(raw, chunk, head), 0) : 0.0f;
                all_flow = gate_back(gates, head, 0, x, lanes_total(sums, all_flow), &rates);
                biases += all_flow;
                for_each(j, 1) {
                    if (AT_GATE >= 0)
                        share[max(AT_GATE, 0)] = all_flow;
                    else if (is_given(d_g) && is_first)
                        out_put_or_add(all_flow, token_row(d_g, chunk, head), 0, ADD_G);
                }
            }
        }
        if (AT_RATE >= 0) {
            if (FLOW_OF_CHANNELS)
                rates = lanes_total(sums, rates);
            for_each(j, 1)
                share[max(AT_RATE, 0)] = rates;
        }
        if (AT_BIAS >= 0 && !FLOW_OF_CHANNELS)
            for_each(j, 1)
                share[max(AT_BIAS, 0)] = biases;
        for (int read = 0; read < READS && is_read; read++) {
            chunk_t reading = chunk;
            int reader = head_of_read(at, read);
            float own[KL];
            reading.at.qk_head = READS > 1 ? reader : at.qk_head;
#if BONUS
            float r = 0;
            for_each(c, VALUE_DIM)
                r += data_get(token_row(d_o, reading, reader), c) * data_get(write_row(v, chunk, head), c);
            r = lanes_total(sums, r);
            query_load(rows_q, reading);
#endif
            for (int l = 0; l < KL; l++) {
                int n = channel_of(l);
                own[l] = part_sum(read_part + read * READ_PARTS, n);
#if BONUS
                float weight = n < KEY_DIM ? gate_get(u, at_row(u_at, 0, 0, head) + n) : 0.0f;
                own[l] += r * weight * rows_k[n];
                dk[l] += r * weight * rows_q[n];
                if (AT_BONUS >= 0 && n < KEY_DIM)
                    share[max(AT_BONUS, 0) + n] =
                        r * rows_q[n] * rows_k[n] + (read > 0 ? share[max(AT_BONUS, 0) + n] : 0.0f);
#endif
                own[l] *= NARROW ? 1 : scale; /* engine_gradients has scaled it */
                dq[l] += own[l];
            }
            if (READS > 1 && is_given(d_q))
                map_back(own, token_row(q, reading, reader), token_row(d_q, reading, reader), ADD_Q, squares, sums,
                         rows_q, t);
        }
    }
    {
        chunk_t chunk = chunk_at(all, row);
        if (READS == 1 && is_read && is_given(d_q))
            map_back(dq, token_row(q, chunk, keys), token_row(d_q, chunk, keys), ADD_Q, squares, sums, rows_q, t);
        if (is_given(d_k))
            map_back(dk, write_row(k, chunk, keys), write_row(d_k, chunk, keys), ADD_K, squares, sums, rows_q, t);
#if ERASE_IS_OPERAND
        if (is_given(d_p))
            map_back(dp, write_row(p, chunk, keys), write_row(d_p, chunk, keys), ADD_P, squares, sums, rows_q, t);
#endif
    }
}
