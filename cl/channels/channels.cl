/* Every element of the state with a decay of its own, several spans of tokens at a time:
 *     S[n][c] = e[n][c] S[n][c] + k[n] x[c];  o[c] = sum over n of q[n] S[n][c];  x = step v
 * One group: BV columns of one head of one sequence, a tile of SPANS spans of TOKENS tokens at a time. The lanes of a
 * span work it from a state of zero, together with the product of its decays; from both follows the state that each
 * span begins with; and they work it again from that state, with the decays that are still in their registers. So
 * inputs are read once. Words of the decay: channels_decay_….clh. */

/* S = e o S + k x of token i of the tile */
WORD void update_state(vec *S, const vec *E, local const float *keys, int i, int channel, vec x)
{
    decay_state(S, E);
    unrolled
    for (int n = 0; n < CHANNELS; n++)
        S[n] += (HAS_KEYS ? keys[i * KEY_PITCH + channel + n] : 1) * x;
}
/* q S of the lane's channels; without queries S times scale. */
WORD vec read_state(const vec *S, local const float *queries, int i, int channel, float scale)
{
    vec sum = 0;
    unrolled
    for (int n = 0; n < CHANNELS; n++)
        sum += (HAS_KEYS ? queries[i * KEY_PITCH + channel + n] : scale) * S[n];
    return sum;
}

/* A span's summary: the product of its decays, and the state that it comes to from zero; DECAYS + CHANNELS vectors of
 * each lane. */
WORD local float *summary_at(local float *summaries, int span, int index)
{
    return summaries + ((span * (DECAYS + CHANNELS) + index) * SPAN_LANES + LANE % SPAN_LANES) * VEC;
}
WORD void store_summary(local float *summaries, int span, const vec *P, const vec *S)
{
    unrolled
    for (int i = 0; i < DECAYS; i++)
        vec_store(P[i], summary_at(summaries, span, i));
    unrolled
    for (int n = 0; n < CHANNELS; n++)
        vec_store(S[n], summary_at(summaries, span, DECAYS + n));
}
WORD void load_summary(local float *summaries, int span, vec *P, vec *S)
{
    unrolled
    for (int i = 0; i < DECAYS; i++)
        P[i] = vec_load(summary_at(summaries, span, i));
    unrolled
    for (int n = 0; n < CHANNELS; n++)
        S[n] = vec_load(summary_at(summaries, span, DECAYS + n));
}

/* S, the state before the tile, becomes the state after it; in each span's summary the state that the span begins with
 * takes the place of its own. Where a lane has one channel, and registers to spare, the next summary is loaded a step
 * ahead. */
WORD void scan_summaries(local float *summaries, vec *S)
{
    vec next_P[DECAYS], next_own[CHANNELS];

    load_summary(summaries, 0, next_P, next_own);
    for (int span = 0; span < SPANS; span++) {
        vec P[DECAYS], own[CHANNELS];
        unrolled
        for (int i = 0; i < DECAYS; i++)
            P[i] = next_P[i];
        unrolled
        for (int n = 0; n < CHANNELS; n++)
            own[n] = next_own[n];
        if (CHANNELS > 1)
            load_summary(summaries, span, P, own);
        else
            load_summary(summaries, min(span + 1, SPANS - 1), next_P, next_own);
        unrolled
        for (int n = 0; n < CHANNELS; n++)
            vec_store(S[n], summary_at(summaries, span, DECAYS + n));
        decay_state(S, P);
        unrolled
        for (int n = 0; n < CHANNELS; n++)
            S[n] += own[n];
    }
}

/* Where a lane's inputs come from, and what it has of a tile's */
typedef struct {
    stream_t q, k, v, dt, gates;
    int last; /* row of the sequence */
} inputs_t;
typedef struct {
    ulong v[TOKENS * DATA_RAW], dt[TOKENS * DATA_RAW], gates[GATE_ROWS * TOKENS * GATE_RAW + 1];
    ulong q[ROW_VECTORS * DATA_RAW], k[ROW_VECTORS * DATA_RAW];
} raw_tile_t;

WORD void load_tile(raw_tile_t *tile, const inputs_t *in, lane_t lane, int row)
{
    int first = row + lane.span * TOKENS;
    load_columns(tile->v, in->v, first, in->last, lane.column, sizeof(data_t));
    if (HAS_STEP)
        load_columns(tile->dt, in->dt, first, in->last, lane.column, sizeof(data_t));
    unrolled
    for (int n = 0; n < GATE_ROWS; n++) {
        stream_t channel = in->gates;
        channel.rows += min(lane.channel + n, KEY_DIM - 1) * VALUE_DIM * sizeof(gate_t);
        load_columns(tile->gates + n * TOKENS * GATE_RAW, channel, first, in->last, lane.column, sizeof(gate_t));
    }
    load_keys(tile->q, in->q, row, in->last);
    load_keys(tile->k, in->k, row, in->last);
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global out_t, o) \
    X(global const decay_t, g) X(global const float, theta) X(global const data_t, dt) \
    X(global const float, bias) X(global const float, d) X(global const data_t, z) X(global const int, cu) \
    X(global const int, slots) X(global const int, accepted) X(global state_t, snapshots)
#define OPTIONALS(X) \
    X(global const state_t, initial) X(global state_t, final)
/* clang-format on */
KERNEL
channels(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, float scale, int states)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(queries, LOCAL_ROWS)
    LOCAL_FLOATS(keys, LOCAL_ROWS)
    LOCAL_FLOATS(summaries, LOCAL_SUMMARIES)
    local float *parts = summaries; /* of outputs: [LANES_K][TILE][BV], once the summaries are read */
    place at =
        place_with_states(place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at), states, slots, slots_at);
    lane_t lane = lane_at(get_group_id(2));
    const inputs_t in = {keys_of((global const char *)q, q_at, at, sizeof(data_t)),
                         keys_of((global const char *)k, k_at, at, sizeof(data_t)),
                         stream_of((global const char *)v, v_at, at, sizeof(data_t)),
                         stream_of((global const char *)dt, dt_at, at, sizeof(data_t)),
                         stream_of((global const char *)g, g_at, at, sizeof(gate_t)),
                         at.rows - 1};
    stream_t z_rows = stream_of((global const char *)z, z_at, at, sizeof(data_t));
    stream_t o_rows = stream_of((global const char *)o, o_at, at, sizeof(out_t));
    int begin = lane.span * TOKENS;
    /* of pairs the real part is read, twice: 2 (q_re S_re - q_im S_im) */
    vec query_scale = PAIRS ? select((vec)(2 * scale), (vec)(-2 * scale), (vec_iota & 1) != 0) : (vec)(scale);
    vec A[DECAYS], S[CHANNELS], biases = 0;
    raw_tile_t tile;

    if (HAS_BIAS)
        biases = columns_of(bias + at_row(bias_at, 0, 0, at.head), lane.column, 1, 1);
    decay_constants(A, g + at_row(g_at, 0, 0, at.head), theta + at_row(theta_at, 0, 0, at.head), lane);
    unrolled
    for (int n = 0; n < CHANNELS; n++)
        S[n] = state_row(state_of(initial, at), lane.channel + n, lane.column);
    if (at.rows > 0)
        load_tile(&tile, &in, lane, 0);
    for (int row = 0; row < at.rows; row += TILE) {
        vec x[TOKENS], E[TOKENS * DECAYS], own[CHANNELS];

        SYNC(); /* queries, keys and parts of the tile before are read */
        store_keys(queries, tile.q, in.q, row, in.last, query_scale);
        store_keys(keys, tile.k, in.k, row, in.last, 1);
        unrolled
        for (int i = 0; i < TOKENS; i++) {
            int exists = row + begin + i <= in.last;
            vec step = step_of(tile.dt + i * DATA_RAW, biases, exists);
            x[i] = input_of(tile.v + i * DATA_RAW, step, exists);
            decay_of_token(E + i * DECAYS, A, step, tile.gates + i * GATE_RAW, exists);
        }
        load_tile(&tile, &in, lane, row + TILE);
        SYNC(); /* queries and keys are written */
        if (SPANS > 1) {
            vec P[DECAYS];
            decay_one(P);
            unrolled
            for (int n = 0; n < CHANNELS; n++)
                own[n] = 0;
            unrolled
            for (int i = 0; i < TOKENS; i++) {
                decay_multiply(P, E + i * DECAYS);
                update_state(own, E + i * DECAYS, keys, begin + i, lane.channel, x[i]);
            }
            store_summary(summaries, lane.span, P, own);
            SYNC(); /* summaries are written */
            if (lane.span == 0)
                scan_summaries(summaries, S);
            SYNC(); /* the states that spans begin with are written */
            unrolled
            for (int n = 0; n < CHANNELS; n++)
                own[n] = vec_load(summary_at(summaries, lane.span, DECAYS + n));
            SYNC(); /* they are read: parts take their place */
        } else {
            unrolled
            for (int n = 0; n < CHANNELS; n++)
                own[n] = S[n];
        }
        unrolled
        for (int i = 0; i < TOKENS; i++) {
            update_state(own, E + i * DECAYS, keys, begin + i, lane.channel, x[i]);
            vec_store(read_state(own, queries, begin + i, lane.channel, scale),
                      parts + ((lane.channel / CHANNELS * TILE + begin + i) * COLUMN_VECTORS + LANE % COLUMN_VECTORS) *
                                  VEC);
#if SNAPSHOTS
            global state_t *snapshot =
                snapshot_of(snapshots, snapshots_at, at, snapshot_interval(states), row + begin + i + 1);
            unrolled
            for (int n = 0; n < CHANNELS; n++)
                state_row_store(own[n], snapshot, lane.channel + n, lane.column);
#endif
        }
        unrolled
        for (int n = 0; n < CHANNELS && SPANS == 1; n++)
            S[n] = own[n];
        SYNC(); /* parts are written */
        unrolled
        for (int turn = 0; turn < OUTPUT_TURNS && HAS_OUTPUT; turn++) {
            int task = LANE + turn * GROUP, token = row + task / COLUMN_VECTORS;
            int c = get_group_id(2) * BV + task % COLUMN_VECTORS * VEC;
            if (task < TILE * COLUMN_VECTORS && token <= in.last && c < VALUE_DIM) {
                ulong own_v[DATA_RAW], own_z[DATA_RAW];
                vec sum = 0, skip = 0;
                if (HAS_D) {
                    narrow_copy(own_v, in.v.rows + token * in.v.step, c, VALUE_DIM, sizeof(data_t));
                    skip = columns_of(d + at_row(d_at, 0, 0, at.head), c, 1, 1);
                }
                if (HAS_Z)
                    narrow_copy(own_z, z_rows.rows + token * z_rows.step, c, VALUE_DIM, sizeof(data_t));
                for (int l = 0; l < LANES_K; l++)
                    sum += vec_load(parts + (l * TILE * COLUMN_VECTORS + task) * VEC);
                stream_put(output_of_read(sum, own_v, skip, own_z), o_rows, token, c);
            }
        }
    }
    unrolled
    for (int n = 0; n < CHANNELS; n++)
        state_row_store(S[n], lane.span == 0 ? state_of(final, at) : 0, lane.channel + n, lane.column);
}
