/* channels.cl's recurrence where columns alone fill the device, and their decay is e^(dt a): a lane has one column and
 * VEC of its channels, and takes a tile's tokens one after the other. A tile's steps, writes, queries and keys lie in
 * local memory, where VEC columns of TOKENS tokens are what a lane brings and, once all is summed, takes away. */
#include "fades.clh"

/* A tile's [TILE][BV] of a number, and those of the lanes of a column, which other banks have. */
enum { COLUMNS = BV / VEC, PLANE = (TILE + 1) * BV };

WORD vec channels_of_state(global const state_t *from, int first, int c)
{
    vec S = 0;
    vec_unrolled
    for (int n = 0; n < VEC; n++)
        if (from != 0 && first + n < KEY_DIM && c < VALUE_DIM)
            S = vec_with(S, n, state_get(from, state_index(first + n, c)));
    return S;
}
WORD void channels_of_state_store(vec S, global state_t *to, int first, int c)
{
    vec_unrolled
    for (int n = 0; n < VEC; n++)
        if (to != 0 && first + n < KEY_DIM && c < VALUE_DIM)
            state_put(vec_number(S, n), to, state_index(first + n, c));
}

/* What a lane brings of a tile, as it lies: nothing waits for it until it is put. And from where: its columns from c
 * on, of tokens from `begin` on. */
typedef struct {
    ulong v[TOKENS * DATA_RAW], dt[TOKENS * DATA_RAW], z[TOKENS * DATA_RAW], q[HELD * DATA_RAW], k[HELD * DATA_RAW];
} brought_t;
typedef struct {
    stream_t v, dt, z, q, k;
    int begin, last, c;
} source_t;

/* What tokens of a tile have for a lane. They are read ahead of what the tokens before them leave: a compiler keeps the
 * order of reads and writes of local memory, and each token would wait for its own. */
enum { AHEAD = 4 };
typedef struct {
    vec q[AHEAD], k[AHEAD];
    float step[AHEAD], write[AHEAD];
} tokens_t;

WORD void tokens_read(tokens_t *to, local const float *rows_q, local const float *rows_k, local const float *steps,
                      local const float *writes)
{
    unrolled
    for (int i = 0; i < AHEAD; i++) {
        to->step[i] = steps[i * BV];
        to->write[i] = writes[i * BV];
        to->k[i] = vec_at(rows_k + i * KP);
        to->q[i] = vec_at(rows_q + i * KP);
    }
}
/* q.S as one chain of multiply-adds */
WORD float read_part(float4 q, float4 S)
{
    float sum = q.x * S.x;
    sum += q.y * S.y;
    sum += q.z * S.z;
    return sum + q.w * S.w;
}

/* Each token's part of its output, of a lane's channels. */
WORD void tokens_take(vec *S, vec A, const tokens_t *token, local float *parts)
{
    vec E[AHEAD];
    float part[AHEAD];
    unrolled
    for (int i = 0; i < AHEAD; i++)
        E[i] = exp2(token->step[i] * A);
    unrolled
    for (int i = 0; i < AHEAD; i++) {
        *S = E[i] * *S + token->k[i] * token->write[i];
        part[i] = read_part(token->q[i], *S);
    }
    unrolled
    for (int i = 0; i < AHEAD; i++)
        parts[i * BV] = part[i];
}

/* Rows of queries, or keys: channels past the last are those before it. */
WORD global const char *key_place(stream_t x, int row, int last, int turn)
{
    return x.rows + min(row + (LANE + turn * GROUP) / (KP / VEC), last) * x.step;
}
WORD int key_channel(int turn)
{
    return (LANE + turn * GROUP) % (KP / VEC) * VEC;
}
WORD void keys_bring(ulong *to, stream_t x, int row, int last)
{
    if (x.wide) {
        unrolled
        for (int turn = 0; turn < HELD; turn++)
            wide_copy(to + turn * DATA_RAW, key_place(x, row, last, turn) + key_channel(turn) * sizeof(data_t),
                      sizeof(data_t));
    } else {
        unrolled
        for (int turn = 0; turn < HELD; turn++)
            narrow_copy(to + turn * DATA_RAW, key_place(x, row, last, turn), key_channel(turn), KEY_DIM,
                        sizeof(data_t));
    }
}
WORD void keys_leave(local float *rows, const ulong *raw, stream_t x, int row, int last, float scale)
{
    unrolled
    for (int turn = 0; turn < HELD; turn++) {
        global const data_t *from = (global const data_t *)key_place(x, row, last, turn);
        vec y = data_vec(raw + turn * DATA_RAW) * scale, sum = 0;
        for (int m = 0; m < KEY_DIM && L2NORM; m += VEC)
            sum += data_row(from, m, KEY_DIM) * data_row(from, m, KEY_DIM);
        if (L2NORM)
            y *= rsqrt(vec_sum(sum) + 1e-6f);
        if (KEY_DIM % VEC != 0)
            y = select((vec)(0), y, vec_iota + key_channel(turn) < KEY_DIM);
        if (LANE + turn * GROUP < TILE * (KP / VEC))
            vec_store(y, rows + (LANE + turn * GROUP) * VEC);
    }
}

WORD void bring(brought_t *next, const source_t *from, int row)
{
    rows_take(next->v, from->v, row + from->begin, from->last, 0, from->c, sizeof(data_t));
    rows_take(next->dt, from->dt, row + from->begin, from->last, 0, from->c, sizeof(data_t));
    if (HAS_Z)
        rows_take(next->z, from->z, row + from->begin, from->last, 0, from->c, sizeof(data_t));
    keys_bring(next->q, from->q, row, from->last);
    keys_bring(next->k, from->k, row, from->last);
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global out_t, o) \
    X(global const float, g) X(global const data_t, dt) X(global const float, bias) X(global const float, d) \
    X(global const data_t, z) X(global const int, cu) X(global const int, slots)
#define OPTIONALS(X) \
    X(global const state_t, initial) X(global state_t, final)
/* clang-format on */
KERNEL
channels_lanes(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, float scale, int states)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(rows_q, LOCAL_ROWS)
    LOCAL_FLOATS(rows_k, LOCAL_ROWS)
    LOCAL_FLOATS(steps, LOCAL_TILE)
    LOCAL_FLOATS(writes, LOCAL_TILE)
    LOCAL_FLOATS(parts, LOCAL_PARTS)
    place at =
        place_with_states(place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at), states, slots, slots_at);
    stream_t outs = stream_of((global const char *)o, o_at, at, sizeof(out_t));
    int block_c = get_group_id(2) * BV, column = LANE % BV, first = LANE / BV * VEC;
    int own = LANE % COLUMNS * VEC, begin = LANE / COLUMNS * TOKENS, last = at.rows - 1;
    const source_t from = {stream_of((global const char *)v, v_at, at, sizeof(data_t)),
                           stream_of((global const char *)dt, dt_at, at, sizeof(data_t)),
                           stream_of((global const char *)z, z_at, at, sizeof(data_t)),
                           keys_of((global const char *)q, q_at, at, sizeof(data_t)),
                           keys_of((global const char *)k, k_at, at, sizeof(data_t)),
                           begin,
                           last,
                           block_c + own};
    vec S = channels_of_state(state_of(initial, at), first, block_c + column);
    vec A = 0, biases = 0, skip = 0;
    brought_t next, now;
    tokens_t coming;

    vec_unrolled
    for (int n = 0; n < VEC; n++)
        if (block_c + column < VALUE_DIM && first + n < KEY_DIM)
            A = select(A, (vec)(LOG2E * g[at_row(g_at, 0, 0, at.head) + (block_c + column) * KEY_DIM + first + n]),
                       vec_iota == n);
    if (HAS_BIAS)
        biases = columns_of(bias + at_row(bias_at, 0, 0, at.head), from.c, 1, 1);
    if (HAS_D)
        skip = columns_of(d + at_row(d_at, 0, 0, at.head), from.c, 1, 1);
    if (at.rows > 0)
        bring(&next, &from, 0);
    for (int row = 0; row < at.rows; row += TILE) {
        SYNC();
        keys_leave(rows_q, next.q, from.q, row, last, scale);
        keys_leave(rows_k, next.k, from.k, row, last, 1);
        unrolled
        for (int i = 0; i < TOKENS; i++) {
            int there = row + begin + i <= last;
            vec step = step_of(next.dt + i * DATA_RAW, biases, there);
            vec_store(step, steps + (begin + i) * BV + own);
            vec_store(there ? step * data_vec(next.v + i * DATA_RAW) : (vec)(0), writes + (begin + i) * BV + own);
        }
        now = next;
        bring(&next, &from, row + TILE);
        SYNC();
        tokens_read(&coming, rows_q + first, rows_k + first, steps + column, writes + column);
        _Pragma("unroll 2") for (int i = 0; i < TILE; i += AHEAD)
        {
            tokens_t token = coming;
            int then = i + AHEAD < TILE ? i + AHEAD : 0;
            tokens_read(&coming, rows_q + then * KP + first, rows_k + then * KP + first, steps + then * BV + column,
                        writes + then * BV + column);
            tokens_take(&S, A, &token, parts + first / VEC * PLANE + i * BV + column);
        }
        SYNC();
        unrolled
        for (int i = 0; i < TOKENS; i++) {
            int token = row + begin + i;
            vec sum = 0;
            unrolled
            for (int l = 0; l < LANES_K; l++)
                sum += vec_load(parts + l * PLANE + (begin + i) * BV + own);
            sum = finished(sum, now.v + i * DATA_RAW, skip, now.z + i * DATA_RAW);
            if (token <= last && from.c < VALUE_DIM) {
                if (outs.wide) {
                    ulong raw[VEC * sizeof(out_t) / 8];
                    out_putv(sum, (out_t *)raw, 0);
                    wide_store((global char *)output_row(at, token) + from.c * sizeof(out_t), raw, sizeof(out_t));
                } else
                    output_put(sum, at, token, from.c);
            }
        }
    }
    channels_of_state_store(S, state_of(final, at), first, block_c + column);
}
