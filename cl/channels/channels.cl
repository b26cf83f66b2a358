/* Every element of the state with a decay of its own, token by token:
 *     S[n][c] = e[n][c] S[n][c] + k_n x_c;  o_c = q.S[:][c]
 * One group: BV columns of one head of one sequence, a tile of SPANS stretches of TOKENS tokens at a time. Each stretch
 * is worked from zero with its factor, these are joined in order, and each is worked again from its true start, with
 * the factors that it had: operands are read once. */

/* S = e o S + k x of token i */
WORD void take(vec *S, const vec *E, local const float *keys, int i, int first, vec x)
{
    fade_state(S, E);
    unrolled
    for (int n = 0; n < KL; n++)
        S[n] += key_of(keys, i, first + n, 1) * x;
}
WORD vec read_out(const vec *S, local const float *queries, int i, int first, float scale)
{
    vec sum = 0;
    unrolled
    for (int n = 0; n < KL; n++)
        sum += key_of(queries, i, first + n, scale) * S[n];
    return sum;
}

/* Where a stretch's factor and state lie, a vector a lane. */
WORD local float *joint(local float *joints, int span, int index)
{
    return joints + ((span * (FADES + KL) + index) * SPAN_LANES + LANE % SPAN_LANES) * VEC;
}
WORD void joint_put(local float *joints, int span, const vec *P, const vec *S)
{
    unrolled
    for (int i = 0; i < FADES; i++)
        vec_store(P[i], joint(joints, span, i));
    unrolled
    for (int i = 0; i < KL; i++)
        vec_store(S[i], joint(joints, span, FADES + i));
}

WORD void joint_get(local float *joints, int span, vec *P, vec *S)
{
    unrolled
    for (int i = 0; i < FADES; i++)
        P[i] = vec_load(joint(joints, span, i));
    unrolled
    for (int i = 0; i < KL; i++)
        S[i] = vec_load(joint(joints, span, FADES + i));
}

/* S, the state ahead of the tile, becomes that behind it; each stretch's own is replaced by the one it begins with.
 * Of one channel, where registers are many, what comes next is read a step ahead. */
WORD void join_spans(local float *joints, vec *S)
{
    vec ahead[FADES], after[KL];

    joint_get(joints, 0, ahead, after);
    for (int span = 0; span < SPANS; span++) {
        vec P[FADES], own[KL];
        unrolled
        for (int i = 0; i < FADES; i++)
            P[i] = ahead[i];
        unrolled
        for (int i = 0; i < KL; i++)
            own[i] = after[i];
        if (KL > 1)
            joint_get(joints, span, P, own);
        else
            joint_get(joints, min(span + 1, SPANS - 1), ahead, after);
        unrolled
        for (int i = 0; i < KL; i++)
            vec_store(S[i], joint(joints, span, FADES + i));
        fade_state(S, P);
        unrolled
        for (int i = 0; i < KL; i++)
            S[i] += own[i];
    }
}

/* What a tile's tokens have, as it lies, on its way to a lane. */
typedef struct {
    ulong v[TOKENS * DATA_RAW], dt[TOKENS * DATA_RAW], gates[GATE_ROWS * TOKENS * GATE_RAW + 1];
    vec q[HELD], k[HELD];
} fetched_t;
typedef struct {
    place at;
    lane_t lane;
    stream_t v, dt, gates;
} inputs_t;

WORD void fetch(fetched_t *next, const inputs_t *in, int row)
{
    int from = row + in->lane.span * TOKENS, last = in->at.rows - 1;
    rows_take(next->v, in->v, from, last, 0, in->lane.c, sizeof(data_t));
    if (HAS_STEP)
        rows_take(next->dt, in->dt, from, last, 0, in->lane.c, sizeof(data_t));
    unrolled
    for (int n = 0; n < GATE_ROWS; n++)
        rows_take(next->gates + n * TOKENS * GATE_RAW, in->gates, from, last,
                  min(in->lane.first + n, KEY_DIM - 1) * VALUE_DIM, in->lane.c, sizeof(gate_t));
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global out_t, o) \
    X(global const decay_t, g) X(global const float, theta) X(global const data_t, dt) \
    X(global const float, bias) X(global const float, d) X(global const data_t, z) X(global const int, cu) \
    X(global const int, slots)
#define OPTIONALS(X) \
    X(global const state_t, initial) X(global state_t, final)
/* clang-format on */
KERNEL
channels(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, float scale, int states)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(rows_q, LOCAL_ROWS)
    LOCAL_FLOATS(rows_k, LOCAL_ROWS)
    LOCAL_FLOATS(joints, LOCAL_JOINTS)
    local float *parts = joints; /* what is joined is read by then */
    place at =
        place_with_states(place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at), states, slots, slots_at);
    lane_t lane = lane_at(get_group_id(2));
    const inputs_t in = {at, lane, stream_of((global const char *)v, v_at, at, sizeof(data_t)),
                         stream_of((global const char *)dt, dt_at, at, sizeof(data_t)),
                         stream_of((global const char *)g, g_at, at, sizeof(gate_t))};
    stream_t silus = stream_of((global const char *)z, z_at, at, sizeof(data_t));
    stream_t outs = stream_of((global const char *)o, o_at, at, sizeof(out_t));
    int begin = lane.span * TOKENS, last = at.rows - 1;
    vec A[FADES], S[KL], biases = 0;
    fetched_t next;

    if (HAS_BIAS)
        biases = columns_of(bias + at_row(bias_at, 0, 0, at.head), lane.c, 1, 1);
    fades_begin(A, g + at_row(g_at, 0, 0, at.head), theta + at_row(theta_at, 0, 0, at.head), lane);
    unrolled
    for (int n = 0; n < KL; n++)
        S[n] = state_row(state_of(initial, at), lane.first + n, lane.c);
    if (at.rows > 0) {
        fetch(&next, &in, 0);
        keys_take(next.q, q, q_at, at, 0, scale, PAIRS);
        keys_take(next.k, k, k_at, at, 0, 1, 0);
    }
    for (int row = 0; row < at.rows; row += TILE) {
        vec x[TOKENS], E[TOKENS * FADES], own[KL];

        SYNC();
        keys_put(rows_q, next.q);
        keys_put(rows_k, next.k);
        unrolled
        for (int i = 0; i < TOKENS; i++) {
            int there = row + begin + i <= last;
            vec step = step_of(next.dt + i * DATA_RAW, biases, there);
            x[i] = there ? step * data_vec(next.v + i * DATA_RAW) : (vec)(0);
            fades_of(E + i * FADES, A, step, next.gates + i * GATE_RAW, there);
        }
        fetch(&next, &in, row + TILE);
        keys_take(next.q, q, q_at, at, row + TILE, scale, PAIRS);
        keys_take(next.k, k, k_at, at, row + TILE, 1, 0);
        SYNC();
        if (SPANS > 1) {
            vec P[FADES];
            fade_nothing(P);
            unrolled
            for (int n = 0; n < KL; n++)
                own[n] = 0;
            unrolled
            for (int i = 0; i < TOKENS; i++) {
                fade_more(P, E + i * FADES);
                take(own, E + i * FADES, rows_k, begin + i, lane.first, x[i]);
            }
            joint_put(joints, lane.span, P, own);
            SYNC();
            if (lane.span == 0)
                join_spans(joints, S);
            SYNC();
        }
        unrolled
        for (int n = 0; n < KL; n++)
            own[n] = SPANS > 1 ? vec_load(joint(joints, lane.span, FADES + n)) : S[n];
        SYNC();
        unrolled
        for (int i = 0; i < TOKENS; i++) {
            take(own, E + i * FADES, rows_k, begin + i, lane.first, x[i]);
            vec_store(read_out(own, rows_q, begin + i, lane.first, scale),
                      parts + ((lane.first / KL * TILE + begin + i) * (BV / VEC) + LANE % (BV / VEC)) * VEC);
        }
        unrolled
        for (int n = 0; n < KL && SPANS == 1; n++)
            S[n] = own[n];
        SYNC();
        unrolled
        for (int turn = 0; turn < OUTS; turn++) {
            int task = LANE + turn * GROUP, i = row + task / (BV / VEC);
            int c = get_group_id(2) * BV + task % (BV / VEC) * VEC;
            if (task < TILE * (BV / VEC) && i <= last && c < VALUE_DIM) {
                ulong own_v[DATA_RAW], own_z[DATA_RAW];
                vec sum = 0, skip = 0;
                if (HAS_D) {
                    narrow_copy(own_v, in.v.rows + i * in.v.step, c, VALUE_DIM, sizeof(data_t));
                    skip = columns_of(d + at_row(d_at, 0, 0, at.head), c, 1, 1);
                }
                if (HAS_Z)
                    narrow_copy(own_z, silus.rows + i * silus.step, c, VALUE_DIM, sizeof(data_t));
                for (int l = 0; l < LANES_K; l++)
                    sum += vec_load(parts + (l * TILE * (BV / VEC) + task) * VEC);
                sum = finished(sum, own_v, skip, own_z);
                if (outs.wide) {
                    ulong raw[VEC * sizeof(out_t) / 8];
                    out_putv(sum, (out_t *)raw, 0);
                    wide_store((global char *)output_row(at, i) + c * sizeof(out_t), raw, sizeof(out_t));
                } else
                    output_put(sum, at, i, c);
            }
        }
    }
    unrolled
    for (int n = 0; n < KL; n++)
        state_row_store(S[n], lane.span == 0 ? state_of(final, at) : 0, lane.first + n, lane.c);
}
