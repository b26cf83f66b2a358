/* The recurrence of channels.cl for decays e^(step a), where columns alone fill the device:
 *     S[n][c] = e^(step[c] a[n][c]) S[n][c] + k[n] x[c];  o[c] = sum over n of q[n] S[n][c];  x = step v
 * One group: BV columns of one head of one sequence. A lane has one column and VEC of its channels, and works a tile's
 * tokens one after the other, with their steps, inputs, queries and keys in local memory. There each lane stores VEC
 * columns of TOKENS of the tokens; of the same it writes the outputs, when all lanes' parts of them are there. */
#include "channels_tile.clh"

/* [TILE][BV] parts of outputs of the channels of one lane; those of the next lie in other banks. */
enum { PARTS_PITCH = (TILE + 1) * BV };

/* VEC channels of one column */
WORD vec load_state(global const state_t *from, int channel, int column)
{
    vec S = 0;
    vec_unrolled
    for (int n = 0; n < VEC; n++)
        if (from != 0 && channel + n < KEY_DIM && column < VALUE_DIM)
            S = vec_with(S, n, state_get(from, state_index(channel + n, column)));
    return S;
}
WORD void store_state(vec S, global state_t *to, int channel, int column)
{
    vec_unrolled
    for (int n = 0; n < VEC; n++)
        if (to != 0 && channel + n < KEY_DIM && column < VALUE_DIM)
            state_put(vec_number(S, n), to, state_index(channel + n, column));
}
WORD vec load_rates(global const float *a, int channel, int column)
{
    vec A = 0;
    vec_unrolled
    for (int n = 0; n < VEC; n++)
        if (column < VALUE_DIM && channel + n < KEY_DIM)
            A = select(A, (vec)(LOG2E * a[column * KEY_DIM + channel + n]), vec_iota == n);
    return A;
}

/* Where a lane's inputs come from, and what it has of a tile's */
typedef struct {
    stream_t q, k, v, dt, z;
    int begin, last, column; /* its first token in a tile, the sequence's last row, its first column */
} inputs_t;
typedef struct {
    ulong v[TOKENS * DATA_RAW], dt[TOKENS * DATA_RAW], z[TOKENS * DATA_RAW];
    ulong q[ROW_VECTORS * DATA_RAW], k[ROW_VECTORS * DATA_RAW];
} raw_tile_t;

WORD void load_tile(raw_tile_t *tile, const inputs_t *in, int row)
{
    load_columns(tile->v, in->v, row + in->begin, in->last, in->column, sizeof(data_t));
    load_columns(tile->dt, in->dt, row + in->begin, in->last, in->column, sizeof(data_t));
    if (HAS_Z)
        load_columns(tile->z, in->z, row + in->begin, in->last, in->column, sizeof(data_t));
    load_keys(tile->q, in->q, row, in->last);
    load_keys(tile->k, in->k, row, in->last);
}

/* What a lane loads from local memory for AHEAD tokens, ahead of storing the parts of tokens before them: a compiler
 * keeps the order of loads and stores of local memory, so that each token would wait for its own loads. */
enum { AHEAD = 4 };
typedef struct {
    vec q[AHEAD], k[AHEAD];
    float step[AHEAD], x[AHEAD];
} tokens_t;

WORD void load_tokens(tokens_t *tokens, local const float *queries, local const float *keys, local const float *steps,
                      local const float *inputs)
{
    unrolled
    for (int i = 0; i < AHEAD; i++) {
        tokens->step[i] = steps[i * BV];
        tokens->x[i] = inputs[i * BV];
        tokens->k[i] = vec_at(keys + i * KEY_PITCH);
        tokens->q[i] = vec_at(queries + i * KEY_PITCH);
    }
}
/* q S as one chain of multiply-adds */
WORD float read_state(float4 q, float4 S)
{
    float sum = q.x * S.x;
    sum += q.y * S.y;
    sum += q.z * S.z;
    return sum + q.w * S.w;
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global out_t, o) \
    X(global const float, g) X(global const data_t, dt) X(global const float, bias) X(global const float, d) \
    X(global const data_t, z) X(global const int, cu) X(global const int, slots) X(global const int, accepted) X(global state_t, snapshots)
#define OPTIONALS(X) \
    X(global const state_t, initial) X(global state_t, final)
/* clang-format on */
KERNEL
channels_lanes(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, float scale, int states)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(queries, LOCAL_ROWS)
    LOCAL_FLOATS(keys, LOCAL_ROWS)
    LOCAL_FLOATS(steps, LOCAL_TILE)
    LOCAL_FLOATS(inputs, LOCAL_TILE)
    LOCAL_FLOATS(parts, LOCAL_PARTS)
    place at =
        place_with_states(place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at), states, slots, slots_at);
    stream_t o_rows = stream_of((global const char *)o, o_at, at, sizeof(out_t));
    /* the column and the first channel whose state the lane has, and the first of the columns that it moves */
    int first_column = get_group_id(2) * BV, column = LANE % BV, channel = LANE / BV * VEC;
    int own = LANE % COLUMN_VECTORS * VEC, begin = LANE / COLUMN_VECTORS * TOKENS;
    const inputs_t in = {keys_of((global const char *)q, q_at, at, sizeof(data_t)),
                         keys_of((global const char *)k, k_at, at, sizeof(data_t)),
                         stream_of((global const char *)v, v_at, at, sizeof(data_t)),
                         stream_of((global const char *)dt, dt_at, at, sizeof(data_t)),
                         stream_of((global const char *)z, z_at, at, sizeof(data_t)),
                         begin,
                         at.rows - 1,
                         first_column + own};
    vec S = load_state(state_of(initial, at), channel, first_column + column);
    vec A = load_rates(g + at_row(g_at, 0, 0, at.head), channel, first_column + column), biases = 0, skip = 0;
    raw_tile_t next, tile;
    tokens_t coming;

    if (HAS_BIAS)
        biases = columns_of(bias + at_row(bias_at, 0, 0, at.head), in.column, 1, 1);
    if (HAS_D)
        skip = columns_of(d + at_row(d_at, 0, 0, at.head), in.column, 1, 1);
    if (at.rows > 0)
        load_tile(&next, &in, 0);
    for (int row = 0; row < at.rows; row += TILE) {
        SYNC(); /* what the tile before has in local memory is read */
        store_keys(queries, next.q, in.q, row, in.last, scale);
        store_keys(keys, next.k, in.k, row, in.last, 1);
        unrolled
        for (int i = 0; i < TOKENS; i++) {
            int exists = row + begin + i <= in.last;
            vec step = step_of(next.dt + i * DATA_RAW, biases, exists);
            vec_store(step, steps + (begin + i) * BV + own);
            vec_store(input_of(next.v + i * DATA_RAW, step, exists), inputs + (begin + i) * BV + own);
        }
        tile = next;
        load_tile(&next, &in, row + TILE);
        SYNC(); /* the tile is in local memory */
        load_tokens(&coming, queries + channel, keys + channel, steps + column, inputs + column);
        _Pragma("unroll 2") for (int i = 0; i < TILE; i += AHEAD)
        {
            tokens_t tokens = coming;
            int then = i + AHEAD < TILE ? i + AHEAD : 0;
            local float *lane_parts = parts + channel / VEC * PARTS_PITCH + i * BV + column;
            vec E[AHEAD];
            float part[AHEAD];

            load_tokens(&coming, queries + then * KEY_PITCH + channel, keys + then * KEY_PITCH + channel,
                        steps + then * BV + column, inputs + then * BV + column);
            unrolled
            for (int j = 0; j < AHEAD; j++)
                E[j] = exp2(tokens.step[j] * A);
            unrolled
            for (int j = 0; j < AHEAD; j++) {
                S = E[j] * S + tokens.k[j] * tokens.x[j];
                part[j] = read_state(tokens.q[j], S);
#if SNAPSHOTS
                store_state(S, snapshot_of(snapshots, snapshots_at, at, snapshot_interval(states), row + i + j + 1),
                            channel, first_column + column);
#endif
            }
            unrolled
            for (int j = 0; j < AHEAD; j++)
                lane_parts[j * BV] = part[j];
        }
        SYNC(); /* parts are written */
        unrolled
        for (int i = 0; i < TOKENS && HAS_OUTPUT; i++) {
            int token = row + begin + i;
            vec sum = 0;
            unrolled
            for (int l = 0; l < LANES_K; l++)
                sum += vec_load(parts + l * PARTS_PITCH + (begin + i) * BV + own);
            if (token <= in.last && in.column < VALUE_DIM)
                stream_put(output_of_read(sum, tile.v + i * DATA_RAW, skip, tile.z + i * DATA_RAW), o_rows, token,
                           in.column);
        }
    }
    store_state(S, state_of(final, at), channel, first_column + column);
}
