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

/* S, the state ahead of the tile, becomes that behind it; each stretch's own is replaced by the one it begins with. */
WORD void join_spans(local float *joints, vec *S)
{
    for (int span = 0; span < SPANS; span++) {
        vec P[FADES], own[KL];
        unrolled
        for (int i = 0; i < FADES; i++)
            P[i] = vec_load(joint(joints, span, i));
        unrolled
        for (int i = 0; i < KL; i++) {
            own[i] = vec_load(joint(joints, span, FADES + i));
            vec_store(S[i], joint(joints, span, FADES + i));
        }
        fade_state(S, P);
        unrolled
        for (int i = 0; i < KL; i++)
            S[i] += own[i];
    }
}

KERNEL
channels(global const data_t *q, long4 q_at, global const data_t *k, long4 k_at, global const data_t *v, long4 v_at,
         global out_t *o, long4 o_at, global const decay_t *g, long4 g_at, global const float *theta, long4 theta_at,
         global const data_t *dt, long4 dt_at, global const float *bias, long4 bias_at, global const float *d,
         long4 d_at, global const data_t *z, long4 z_at, global const float *initial, long4 initial_at,
         global float *final, long4 final_at, global const int *cu, long4 cu_at, int seq_len, float scale, int states)
{
    LOCAL_FLOATS(rows_q, LOCAL_ROWS)
    LOCAL_FLOATS(rows_k, LOCAL_ROWS)
    LOCAL_FLOATS(joints, LOCAL_JOINTS)
    LOCAL_FLOATS(parts, LOCAL_PARTS)
    place at = place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at);
    lane_t lane = lane_at(get_group_id(2));
    vec A[FADES], S[KL];

    d += at_row(d_at, 0, 0, at.head);
    bias += at_row(bias_at, 0, 0, at.head);
    fades_begin(A, g + at_row(g_at, 0, 0, at.head), theta + at_row(theta_at, 0, 0, at.head), lane);
    unrolled
    for (int n = 0; n < KL; n++)
        S[n] = state_row(state_of(initial, at), states & HAS_INITIAL, lane.first + n, lane.c);
    for (int row = 0; row < at.rows; row += TILE) {
        int begin = lane.span * TOKENS;
        vec x[TOKENS], E[TOKENS * FADES], own[KL];

        SYNC();
        keys_rows(rows_q, q, q_at, at, row, scale, PAIRS);
        keys_rows(rows_k, k, k_at, at, row, 1, 0);
        unrolled
        for (int i = 0; i < TOKENS; i++) {
            int there = row + begin + i < at.rows;
            long token = at.first + row + begin + i;
            vec step = step_of(dt + at_row(dt_at, at.batch, token, at.head), bias, lane.c, there);
            x[i] = 0;
            if (there)
                x[i] = step * data_row(v + at_row(v_at, at.batch, token, at.head), lane.c, VALUE_DIM);
            fades_of(E + i * FADES, A, step, g + at_row(g_at, at.batch, token, at.head), lane, there);
        }
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
        for_each(task, TILE * (BV / VEC)) {
            int i = task / (BV / VEC), c = get_group_id(2) * BV + task % (BV / VEC) * VEC;
            long token = at.first + row + i;
            vec sum = 0;
            for (int l = 0; l < LANES_K; l++)
                sum += vec_load(parts + (l * TILE * (BV / VEC) + task) * VEC);
            if (row + i < at.rows && c < VALUE_DIM) {
                sum = finished(sum, v + at_row(v_at, at.batch, token, at.head), d,
                               z + at_row(z_at, at.batch, token, at.head), c);
                output_put(sum, at, row + i, c);
            }
        }
    }
    unrolled
    for (int n = 0; n < KL; n++)
        state_row_store(S[n], state_of(final, at), (states & HAS_FINAL) && lane.span == 0, lane.first + n, lane.c);
}
