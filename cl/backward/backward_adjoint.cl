/* The adjoint recurrence over one span of rows, from its last row to its first. dS is the gradient by the state after
 * the row:
 *
 *     read:   dq = S do;  dS += q do^T
 *     write:  dk' = dS E;  dx = strength dS^T k;  E is x, or x - u where the rule erases u = p^T S
 *     erase:  dp = -S dx;  dS -= p dx^T, after the decay or before it;  of low rank:  z = dS^T b;  db = dS u;
 *             da = S z;  dS += a z^T
 *     decay:  dg = rowsum(S o dS);  dgv = colsum(S o dS);  dS <- D dS
 *
 * Sums over channels are complete and stored. Sums over columns are those of the group's own, and lie in `parts`. One
 * group: BV value columns of one head of one sequence. */
#include "backward.clh"

/* do of a read, divided; the normalizer's column has its own */
WORD void cotangents(vec *d, global const data_t *row, global const float *divisor, int c0)
{
    for_columns(j)
    {
        int c = c0 + j * VEC;
        d[j] = c < VALUE_DIM ? data_row(row, c, VALUE_DIM) : (vec)(0);
        if (NORMALIZED)
            d[j] = select(d[j] * divisor[0], (vec)(divisor[1]), vec_iota + c == VALUE_DIM);
    }
}

/* All reads of a token: of the state that lies at `S`, whose gradients are parts of row i */
#define reads_back(S, i, with_parts)                                                                                   \
    do {                                                                                                               \
        for (int read = 0; read < READS; read++) {                                                                     \
            chunk_t reading = chunk;                                                                                   \
            int head = head_of_read(at, read);                                                                         \
            vec d[NV];                                                                                                 \
            global float *part = parts + parts_at.x + part_of(at, i, span, read, tile);                                \
            reading.at.qk_head = READS > 1 ? head : at.qk_head;                                                        \
            query_load(rows_q, reading);                                                                               \
            cotangents(                                                                                                \
                d, token_row(d_o, reading, head),                                                                      \
                divisors + divisors_at.x + (NORMALIZED ? divisor_of(at, reading.row / STEPS, head, seq_len) : 0), c0); \
            for_channels(l)                                                                                            \
            {                                                                                                          \
                int n = channel_of(l);                                                                                 \
                vec sum = 0;                                                                                           \
                for_columns(j)                                                                                         \
                {                                                                                                      \
                    if (with_parts)                                                                                    \
                        sum += vec_load((S) + n * BV + j * VEC) * d[j];                                                \
                    if (with_parts != READS_WHOLE)                                                                     \
                        dS[l * NV + j] += rows_q[n] * d[j];                                                            \
                }                                                                                                      \
                if (with_parts)                                                                                        \
                    part[n] = vec_sum(sum);                                                                            \
            }                                                                                                          \
            if (BONUS && with_parts) {                                                                                 \
                read_token_rows(bonus_parts, rows_q, rows_k, u, u_at, chunk);                                          \
                SYNC();                                                                                                \
                for_columns(j) dx[j] = read_token_bonus(dx[j], bonus_parts, d[j]);                                     \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)
enum { READS_WITHOUT_PARTS = 0, READS_WITH_PARTS = 1, READS_WHOLE = 2 };

/* Element n, c of a gradient by states, which is f32 and lies by sequence */
WORD float state_gradient(global const float *x, int n, int c)
{
    return n < KEY_DIM && c < VALUE_DIM ? x[state_index(n, c)] : 0.0f;
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global const data_t, d_o) \
    X(global const gate_t, g) X(global const float, a_log) X(global const float, bias) X(global const gate_t, gv) \
    X(global const gate_t, beta) X(global const erase_t, p) X(global const data_t, e) X(global const gate_t, w) \
    X(global const gate_t, u) X(global const int, cu) X(global const int, slots) X(global const float, d_final) \
    X(global const float, d_final_z) X(global float, d_initial) X(global float, d_initial_z) \
    X(global data_t, d_v) X(global out_t, d_w) X(global out_t, d_gv) X(global const float, between) \
    X(global const float, whole) X(global const float, erased) X(global const float, divisors) \
    X(global float, carried) X(global float, parts)
/* clang-format on */
KERNEL
backward_adjoint(TENSORS(PARAMETER) int seq_len, float scale, int states, int span, int first_row)
{
    TENSORS(ABSENT)
    ROW_LOCALS
    READ_TOKEN_LOCALS
    LOCAL_FLOATS(rows_q, LOCAL_ROWS)
    enum { HAS_SLOT = 4 };
    place at = place_with_states(place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at), states | HAS_SLOT,
                                 slots, slots_at);
    int tile = get_group_id(2), c0 = tile * BV;
    int end = min(first_row + span, at.rows), is_last = first_row + span >= at.rows;
    global float *carry = carried + carried_at.x + tile_number(at, tile) * TILE;
    vec dS[KL * NV], dx[NV], z[NV];

    if (first_row > 0 && first_row >= at.rows)
        return;
    for_channels(l) for_columns(j)
    {
        int n = channel_of(l), c = c0 + j * VEC;
        vec x = 0;
        if (!is_last)
            x = vec_load(carry + n * BV + j * VEC);
        vec_unrolled
        for (int i = 0; i < VEC && is_last && (at.states & HAS_SLOT); i++) {
            if (HAS_d_final)
                x = vec_with(x, i, state_gradient(d_final + at_row(d_final_at, at.sequence, 0, at.head), n, c + i));
            if (HAS_d_final_z && c + i == VALUE_DIM && n < KEY_DIM)
                x = vec_with(x, i, d_final_z[at_row(d_final_z_at, at.sequence, 0, at.head) + n]);
        }
        dS[l * NV + j] = x;
    }
    for (int row = STEPS - 1; row < at.rows && NONCAUSAL && is_last; row += STEPS) {
        chunk_t chunk = chunk_at(at, row);
        reads_back(between, 0, READS_WITHOUT_PARTS);
    }
    for (int row = end - 1; row >= first_row; row--) {
        chunk_t chunk = chunk_at(at, row);
        int i = row - first_row;
        global const float *before = between + between_at.x + between_at_row(at, tile, i, span), *after = before + TILE;
        global const float *taken = erased + erased_at.x + (ERASES ? erased_at_row(at, tile, i, span) : 0);
        global float *part = parts + parts_at.x + part_of(at, i, span, 0, tile);
        vec fade[NV], written[NV], flow_of_columns[NV];
        float factor, strength;

        row_load(chunk, c0);
        if (row % STEPS == STEPS - 1 && !READ_BEFORE)
            reads_back(NONCAUSAL ? whole + whole_at.x + tile_number(at, tile) * TILE : after, i,
                       (NONCAUSAL ? READS_WHOLE : READS_WITH_PARTS));
        factor = decay_token_factor(decay.log, 0);
        strength = strength_of(factors)[0];
        for_columns(j)
        {
            vec gone = ERASES ? vec_load(taken + j * VEC) : (vec)(0);
            dx[j] = z[j] = flow_of_columns[j] = 0;
            fade[j] = row % STEPS == 0 ? mix_token(mix_factor, 0, j * VEC) : (vec)(1);
            written[j] = erase_token_delta(vec_load(rows_x + j * VEC), gone, 1);
        }
        for_channels(l)
        {
            int n = channel_of(l);
            vec key = 0, low = 0;
            for_columns(j)
            {
                vec s = dS[l * NV + j];
                key += s * written[j];
                dx[j] += rows_k[n] * s;
                if (LOW_RANK) {
                    low += s * vec_load(taken + j * VEC);
                    z[j] = erase_token_update(z[j], erase_B, n, s);
                }
            }
            part[STREAM_KEY * TILES * KP + n] = vec_sum(key);
            if (LOW_RANK)
                part[STREAM_LOW * TILES * KP + n] = vec_sum(low);
        }
        columns_total(dx, sums);
        if (LOW_RANK)
            columns_total(z, sums);
        for_columns(j)
        {
            dx[j] *= strength;
            if (!LOW_RANK)
                z[j] = -dx[j];
        }
        for_channels(l)
        {
            int n = channel_of(l);
            float d = decay_of(decay, factor, n), erase = 0;
            vec erased_part = 0, flow = 0;
#if ERASES
            erase = erase_P[n];
#endif
            for_columns(j)
            {
                vec s = vec_load(before + n * BV + j * VEC), ds = dS[l * NV + j], decayed = d * fade[j] * s, gone;
                if (ERASES)
                    erased_part += (LOW_RANK || ERASE_BEFORE ? s : decayed) * z[j];
                if (ERASES && !LOW_RANK && !ERASE_BEFORE)
                    ds += erase * z[j];
                gone = decayed * ds;
                flow += gone;
                flow_of_columns[j] += gone;
                ds *= d * fade[j];
                if (LOW_RANK || (ERASES && ERASE_BEFORE))
                    ds += erase * z[j];
                dS[l * NV + j] = ds;
            }
            if (ERASES)
                part[STREAM_ERASE * TILES * KP + n] = vec_sum(erased_part);
            if (FLOWS && row % STEPS == 0)
                part[STREAM_FLOW * TILES * KP + n] = vec_sum(flow);
        }
        if (READ_BEFORE)
            reads_back(before, i, READS_WITH_PARTS);
        for_columns(j)
        {
            int c = c0 + j * VEC;
            vec gate = 1;
            if (LANE != j % GROUP || c >= VALUE_DIM)
                continue;
            if (HAS_w)
                gate = gate_row(write_row(w, chunk, at.head), c, VALUE_DIM);
            if (is_given(d_v))
                CAT(DATA, _put_row)(gate * dx[j], write_row(d_v, chunk, at.head), c, VALUE_DIM, ADD_V);
            if (is_given(d_w))
                CAT(OUT, _put_row)
            (data_row(write_row(v, chunk, at.head), c, VALUE_DIM) * dx[j], write_row(d_w, chunk, at.head), c, VALUE_DIM,
             ADD_W);
        }
        if (is_given(d_gv) && row % STEPS == 0) {
            columns_total(flow_of_columns, sums);
            for_columns(j) if (LANE == j % GROUP) CAT(OUT, _put_row)(
                flow_of_columns[j], token_row(d_gv, chunk, at.head), c0 + j * VEC, VALUE_DIM, ADD_GV);
        }
    }
    for_channels(l) for_columns(j)
    {
        int n = channel_of(l), c = c0 + j * VEC;
        vec x = at.states & HAS_SLOT ? dS[l * NV + j] : (vec)(0);
        vec_store(dS[l * NV + j], carry + n * BV + j * VEC);
        vec_unrolled
        for (int i = 0; i < VEC && first_row == 0 && n < KEY_DIM; i++) {
            global float *to = d_initial + at_row(d_initial_at, at.sequence, 0, at.head);
            if (is_given(d_initial) && c + i < VALUE_DIM)
                to[state_index(n, c + i)] = vec_number(x, i) + (ADD_STATE ? to[state_index(n, c + i)] : 0.0f);
            if (is_given(d_initial_z) && c + i == VALUE_DIM) {
                to = d_initial_z + at_row(d_initial_z_at, at.sequence, 0, at.head);
                to[n] = vec_number(x, i) + (ADD_NORMALIZER ? to[n] : 0.0f);
            }
        }
    }
}
