/* (e^G R + own keys + diag(ridge)) x = q for the rows of a chunk on a matrix engine, by conjugate gradients from x = 0:
 *     Y = (P R) o e^G + tril((P Kᵀ) o F) K + P o ridge        F_ij = beta_j e^(G_i - G_j)
 * R is the gram matrix before the chunk, K the chunk's keys. One group: the rows of one chunk of one head, ACC_ROWS of
 * them a sub-group, which has x, r and y of all channels in registers and solves alone.
 *
 * Channels are scaled so that the diagonal of R + diag(ridge) is 1 (cg_weight), but where the number of steps is given.
 * Products are of f16, whatever type the operands have, with sums in f32: of the engines' types f16 has the most bits.
 * What is multiplied is scaled into its range: R by its largest number, keys by a power of two, P to length 1, and
 * sums by the largest factor of a row. P is used as it is rounded, in x and r too: so r is q - A x of what x is, to
 * f32's precision, however P is rounded. What remains is the rounding of R, and of the scores that multiply the
 * chunk's keys. */
#include "matrix.clh"
#include "weight.clh"

#define KT (CHANNELS / 16)
#define SUBS (GROUP / ENGINE_LANES)
#define KEY_PITCH (CHANNELS + 8) /* rows begin in different banks */
#define TILE_PITCH 24            /* of a tile of R */
#define AT_ONCE 8                /* loads of a lane that are on their way together */
#define LEAST_LOG -160.0f        /* to base 2: e^g rounds to 0, and a difference of sums across it is finite */

/* R is symmetric: local memory has the tiles (c, k) with c <= k, row by row of tiles. */
WORD int gram_tile(int c, int k)
{
    return (c * KT - c * (c - 1) / 2 + k - c) * 16 * TILE_PITCH;
}
typedef struct {
    address_t gram, gram_t, keys, keys_t; /* where this lane loads frags: of rows, and of columns */
} tiles_t;
WORD frag_t gram_frag(engine_t m, const tiles_t *at, int c, int k)
{
    return c <= k ? frag_load(m, address_plus(at->gram, gram_tile(c, k)), TILE_PITCH)
                  : frag_load_t(m, address_plus(at->gram_t, gram_tile(k, c)), TILE_PITCH);
}

/* ---- Operands to local memory ---- */

/* Piece number `task` of the rows as they lie in memory, zeros beyond the `count` that there are */
WORD uint4 rows_piece(global const data_t *x, long stride, int count, int aligned, int task)
{
    int i = task / (CHANNELS / 8), n = task % (CHANNELS / 8) * 8;

    if (i < count && aligned && n + 8 <= KEY_DIM)
        return piece_get(x + i * stride + n);
    return piece_part(x + i * stride + n, i < count ? KEY_DIM - n : 0);
}
WORD void rows_stage(local out_t *to, global const out_t *from, long stride, int count)
{
    global const data_t *x = (global const data_t *)from; /* as many bits */
    const int aligned = rows_aligned(x, stride);

    for (int first = LANE; first < CHUNK * (CHANNELS / 8); first += AT_ONCE * GROUP) {
        uint4 piece[AT_ONCE];
        engine_unrolled
        for (int s = 0; s < AT_ONCE; s++)
            piece[s] = first + s * GROUP < CHUNK * (CHANNELS / 8)
                           ? rows_piece(x, stride, count, aligned, first + s * GROUP)
                           : (uint4)(0);
        engine_unrolled
        for (int s = 0; s < AT_ONCE; s++) {
            int task = first + s * GROUP;
            if (task < CHUNK * (CHANNELS / 8))
                piece_put(to + task / (CHANNELS / 8) * KEY_PITCH + task % (CHANNELS / 8) * 8, piece[s]);
        }
    }
}
/* The power of two that is at most x, within f32's range with its inverse */
WORD float power_below(float x)
{
    return as_float(clamp(as_uint(x) & 0x7f800000u, 0x10000000u, 0x6f800000u));
}
/* A number of a staged key, scaled */
WORD float key_number(local const out_t *row, local const float *scales, int n)
{
    return scales[n] * (KEYS_HALF ? data_get((local const data_t *)row, n) : out_get(row, n));
}
/* The largest number of every staged row, scaled, to each of its PARTS places of `parts` */
WORD void rows_largest(local float *parts, local const out_t *rows, local const float *scales)
{
    for_each(task, CHUNK * PARTS) {
        const int i = task / PARTS, part = task % PARTS;
        float most = 0;
        for (int n = part; n < CHANNELS; n += PARTS)
            most = fmax(most, fabs(key_number(rows + i * KEY_PITCH, scales, n)));
        parts[task] = most;
    }
}
WORD float parts_most(local const float *parts)
{
    float most = 0;

    engine_unrolled
    for (int part = 0; part < PARTS; part++)
        most = fmax(most, parts[part]);
    return most;
}
/* Turns staged rows into scaled ones of f16, each divided by its size */
WORD void rows_convert(local out_t *rows, local const float *scales, local const float *sizes)
{
    for_each(task, CHUNK * (CHANNELS / 2)) {
        int i = task / (CHANNELS / 2), n = task % (CHANNELS / 2) * 2;
        local out_t *row = rows + i * KEY_PITCH;
        float factor = as_float(0x7f000000u - as_uint(sizes[i])); /* 1 over a power of two */
        *(local uint *)(row + n) = pack2(factor * key_number(row, scales, n), factor * key_number(row, scales, n + 1));
    }
}

/* The scales of channels, and the ridges with which they leave; to `diagonals` those of the scaled R, or 0 without R */
WORD void channels_scale(local float *scales, local float *ridges, local float *diagonals, global const float *R,
                         global const float *ridge)
{
    for_each(n, CHANNELS) {
        float diagonal = R != 0 && n < KEY_DIM ? R[n * (KEY_DIM + 1)] : 0.0f, weight;
        ridges[n] = n < KEY_DIM ? ridge[n] : 0.0f;
        weight = cg_weight(diagonal + ridges[n]);
        scales[n] = sqrt(weight);
        ridges[n] *= weight;
        diagonals[n] = fabs(scales[n] * scales[n] * diagonal);
    }
}
/* The largest of so many numbers, a multiple of 4 */
WORD float largest_of(local const float *x, int count)
{
    float4 most = 0;

    engine_unrolled
    for (int n = 0; n < count; n += 4)
        most = fmax(most, *(local const float4 *)(x + n));
    return fmax(fmax(most.x, most.y), fmax(most.z, most.w));
}
WORD uint gram_pair(float2 x)
{
    x = clamp(x, -65504.0f, 65504.0f);
    return pack2(x.x, x.y);
}
/* Four numbers of row i of R from column n on */
WORD float4 gram_piece(global const float *R, int aligned, int i, int n)
{
    if (R == 0 || i >= KEY_DIM || n >= KEY_DIM)
        return 0;
    return aligned ? *(global const float4 *)(R + i * KEY_DIM + n) : f32_row(R + i * KEY_DIM, n, KEY_DIM);
}
/* Four scaled numbers to their tile; of tiles on the diagonal the lower half is made of the upper one */
WORD void gram_put(local data_t *to, float4 x, int i, int n)
{
    const int is_above = n / 16 > i / 16;
    local data_t *tile = to + gram_tile(i / 16, n / 16);

    i %= 16;
    n %= 16;
    if (is_above) {
        *(local uint2 *)(tile + i * TILE_PITCH + n) = (uint2)(gram_pair(x.xy), gram_pair(x.zw));
        return;
    }
    x = clamp(x, -65504.0f, 65504.0f);
    vec_unrolled
    for (int e = 0; e < 4; e++) {
        if (n + e < i)
            continue;
        data_put(vec_number(x, e), tile, i * TILE_PITCH + n + e);
        data_put(vec_number(x, e), tile, (n + e) * TILE_PITCH + i);
    }
}
/* The upper half of the scaled R times a factor. A lane has several pieces on their way at once. */
WORD void gram_stage(local data_t *to, global const float *R, local const float *scales, float factor)
{
    const int aligned = KEY_DIM % 4 == 0 && (ulong)R % 16 == 0;

    for (int first = LANE; first < CHANNELS * (CHANNELS / 4); first += AT_ONCE * GROUP) {
        float4 x[AT_ONCE];
        engine_unrolled
        for (int s = 0; s < AT_ONCE; s++) {
            int task = first + s * GROUP, i = task / (CHANNELS / 4), n = task % (CHANNELS / 4) * 4;
            x[s] = n / 16 < i / 16 ? (float4)(0) : gram_piece(R, aligned, i, n);
        }
        engine_unrolled
        for (int s = 0; s < AT_ONCE; s++) {
            int task = first + s * GROUP, i = task / (CHANNELS / 4), n = task % (CHANNELS / 4) * 4;
            if (i < CHANNELS && n / 16 >= i / 16)
                gram_put(to, factor * scales[i] * *(local const float4 *)(scales + n) * x[s], i, n);
        }
    }
}

/* ---- Rows of the chunk ---- */

/* The numbers of a lane's rows, among those of the chunk */
WORD acc_rows_t rows_take(engine_t m, local const float *of_chunk, int row0)
{
    float x[LANE_ROWS];

    engine_unrolled
    for (int i = 0; i < LANE_ROWS; i++)
        x[i] = of_chunk[row0 + acc_row(m, acc_rows_element(i))];
    return acc_rows_get(x);
}
WORD acc_rows_t squares(engine_t m, const acc_t *r)
{
    acc_t sum = 0;

    engine_unrolled
    for (int c = 0; c < KT; c++)
        sum += r[c] * r[c];
    return acc_rows_sum(m, acc_row_sum(sum));
}
/* Whether it is so in any lane of the sub-group; of the group, where no sub-group may go on alone */
WORD int any_of(engine_t m, local int *flag, int so)
{
    float any = so;

    if (!ENGINE_ALONE) {
        SYNC();
        if (LANE == 0)
            *flag = 0;
        SYNC();
        if (so)
            *flag = 1;
        SYNC();
        return *flag;
    }
    engine_unrolled
    for (int bit = 1; bit < ENGINE_LANES; bit *= 2)
        any = fmax(any, lane_xor(m, any, bit));
    return any > 0;
}
/* Scores of rows from row0 on with the keys of a tile, times e^(G_i - G_j) weight_j, of keys up to their own */
WORD chain_t own_weights(engine_t m, acc_t scores, acc_rows_t logs, local const float *key_logs,
                         local const float *weights, int row0, int key0)
{
    acc_t between = acc_of_rows(logs) - acc_factors(m, key_logs + key0);
    float element[ACC], product[ACC];

    scores *= acc_factors(m, weights + key0);
    CAT(vstore, ACC)(between, 0, element);
    CAT(vstore, ACC)(scores, 0, product);
    engine_unrolled
    for (int e = 0; e < ACC; e++)
        product[e] = key0 + acc_column(m, e) <= row0 + acc_row(m, e) ? engine_exp2(element[e]) * product[e] : 0.0f;
    return chain_of(m, CAT(vload, ACC)(0, product));
}

/* clang-format off */
#define TENSORS(X) \
    X(global const out_t, q) X(global const out_t, k) X(global const gate_t, g) X(global const float, a_log) \
    X(global const float, bias) X(global const strength_t, beta) X(global const float, ridge) \
    X(global const int, cu) X(global const int, slots) X(global const float, grams) X(global out_t, solved)
#define OPTIONALS(X) X(global const float, initial)
/* clang-format on */
KERNEL
mesa_matrix(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, int sequences, float scale, int states)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(gram, LOCAL_GRAM)
    LOCAL_NUMBERS(keys, LOCAL_KEYS)
    local float logs[CHUNK], weights[CHUNK], units[CHUNK], sizes[CHUNK] __attribute__((aligned(16)));
    local float ridges[CHANNELS] __attribute__((aligned(16)));
    local float scales[CHANNELS] __attribute__((aligned(16)));
    local int flag;
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    chunk_t chunk = chunk_of_slot(get_group_id(0), get_group_id(1), sequences, seq_len, cu, cu_at);
    place at = place_with_states(chunk.at, states, slots, slots_at);
    global const float *R = chunk.row == 0
                                ? state_of(initial, at)
                                : grams + at_row(grams_at, at.batch, at.first / CHUNK + chunk.row / CHUNK - 1, at.head);
    const gates_t gates = GATES_HERE;
    local out_t *rows = (local out_t *)keys;
    local float *parts = (local float *)gram; /* of rows, and diagonals, before the gram matrix is there */
    /* Later rows have more keys of their own: every second group has them in its first sub-groups */
    int sub = LANE / ENGINE_LANES, turned = ENGINE_ALONE && ((get_group_id(0) + get_group_id(1)) & 1);
    int row0 = (turned ? SUBS - 1 - sub : sub) * ACC_ROWS, key_tiles = ENGINE_ALONE ? row0 / 16 + 1 : CHUNK / 16;
    tiles_t tiles;
    acc_t x[KT], r[KT], y[KT];
    chain_t p[KT];
    acc_rows_t row_logs, unit, gram_factor, left, until, length, squared;
    float most;

    if (chunk.count <= 0)
        return;
    rows_stage(rows, q + at_row(q_at, at.batch, at.first + chunk.row, at.qk_head), q_at.z, chunk.count);
    for_each(i, CHUNK)
        sizes[i] = GATED && i < chunk.count
                       ? fmax(LOG2E * gate_of_head(gates, at.head, gate_get(write_row(g, chunk, at.head), i * g_at.z)),
                              LEAST_LOG)
                       : 0.0f;
    channels_scale(scales, ridges, parts, R, ridge + ridge_at.x + ridge_at.w * at.head);
    SYNC();
    most = largest_of(parts, CHANNELS);
    for_each(i, CHUNK) {
        float sum = 0;
        for (int j = 0; j <= i && GATED; j++)
            sum += sizes[j];
        logs[i] = sum;
    }
    engine_unrolled
    for (int c = 0; c < KT; c++) {
        float element[ACC];
        engine_unrolled
        for (int e = 0; e < ACC; e++)
            element[e] = out_get(rows, (row0 + acc_row(m, e)) * KEY_PITCH + c * 16 + acc_column(m, e));
        r[c] = CAT(vload, ACC)(0, element);
        x[c] = 0;
    }
    SYNC();
    rows_stage(rows, k + at_row(k_at, at.batch, at.first + chunk.row, K_PER_HEAD ? at.head : at.qk_head), k_at.z,
               chunk.count);
    SYNC();
    rows_largest(parts, rows, scales);
    SYNC();
    for_each(i, CHUNK) {
        sizes[i] = power_below(parts_most(parts + i * PARTS));
        weights[i] = write_strength(chunk, i) * sizes[i] * sizes[i];
    }
    SYNC();
    rows_convert(rows, scales, sizes);
    for_each(task, CHUNK * PARTS) {
        const int i = task / PARTS, part = task % PARTS;
        float largest = part == 0 ? exp2(logs[i]) * most : 0.0f;
        for (int j = part; j <= i; j += PARTS)
            largest = fmax(largest, exp2(logs[i] - logs[j]) * fabs(weights[j]));
        parts[task] = largest;
    }
    SYNC();
    for_each(i, CHUNK)
        units[i] = fmax(parts_most(parts + i * PARTS), 0x1p-60f);
    SYNC(); /* nobody reads parts any more, whose place the gram matrix takes */
    gram_stage(gram, R, scales, most > 0 ? 1 / most : 0.0f);
    SYNC();
    tiles.gram = address_of(gram + frag_lane(m, TILE_PITCH));
    tiles.gram_t = address_of(gram + frag_lane_t(m, TILE_PITCH));
    tiles.keys = address_of(keys + frag_lane(m, KEY_PITCH));
    tiles.keys_t = address_of(keys + frag_lane_t(m, KEY_PITCH));
    unit = rows_take(m, units, row0);
    row_logs = rows_take(m, logs, row0);
    gram_factor = most * exp2(row_logs) / unit;
    row_logs -= log2(unit);
    length = L2NORM ? scale * rsqrt(squares(m, r) + 1e-6f) : (acc_rows_t)(scale);
    engine_unrolled
    for (int c = 0; c < KT; c++)
        r[c] *= acc_of_rows(length) * acc_factors(m, scales + c * 16);
    left = squares(m, r);
    until = CG_EXACT ? (acc_rows_t)(-1.0f) : EPS * left;
    squared = left;                                          /* |p|² */
    length = squared > 0 ? rsqrt(squared) : (acc_rows_t)(0); /* what p is multiplied with */
    engine_unrolled
    for (int c = 0; c < KT; c++)
        p[c] = chain_of(m, r[c] * acc_of_rows(length));
    for (int step = 0; step < CG_STEPS; step++) {
        acc_t sum = 0;
        acc_rows_t along, now, turn, before = length;

        if (!any_of(m, &flag, acc_rows_above(left, until)))
            break;
        engine_unrolled
        for (int c = 0; c < KT; c++)
            y[c] = 0;
        engine_unrolled
        for (int k = 0; k < KT; k++)
            engine_unrolled
        for (int c = 0; c < KT; c++)
            y[c] = mma_frag(m, y[c], p[k], gram_frag(m, &tiles, c, k));
        engine_unrolled
        for (int c = 0; c < KT; c++)
            y[c] *= acc_of_rows(gram_factor);
        for (int tile = 0; tile < key_tiles; tile++) {
            acc_t scores = 0;
            chain_t own;
            engine_unrolled
            for (int k = 0; k < KT; k++)
                scores = mma_frag(m, scores, p[k],
                                  frag_load(m, address_plus(tiles.keys, tile * 16 * KEY_PITCH + k * 16), KEY_PITCH));
            own = own_weights(m, scores, row_logs, logs, weights, row0, tile * 16);
            engine_unrolled
            for (int c = 0; c < KT; c++)
                y[c] = mma_frag(m, y[c], own,
                                frag_load_t(m, address_plus(tiles.keys_t, tile * 16 * KEY_PITCH + c * 16), KEY_PITCH));
        }
        engine_unrolled
        for (int c = 0; c < KT; c++) {
            acc_t direction = acc_of(m, p[c]);
            y[c] = acc_of_rows(unit) * y[c] + acc_factors(m, ridges + c * 16) * direction;
            sum += direction * y[c];
        }
        along = acc_rows_sum(m, acc_row_sum(sum));
        /* |r|² / (p y), in lengths of p as it is stored; 0 in rows that are solved */
        along = left > until && along > 0 ? left * length / along : (acc_rows_t)(0);
        engine_unrolled
        for (int c = 0; c < KT; c++) {
            x[c] += acc_of_rows(along) * acc_of(m, p[c]);
            r[c] -= acc_of_rows(along) * y[c];
        }
        now = squares(m, r);
        turn = left > 0 ? now / left : (acc_rows_t)(0);
        squared = now + turn * turn * squared;
        length = squared > 0 ? rsqrt(squared) : (acc_rows_t)(0);
        turn = before > 0 ? turn * length / before : (acc_rows_t)(0);
        engine_unrolled
        for (int c = 0; c < KT; c++)
            p[c] = chain_of(m, acc_of_rows(length) * r[c] + acc_of_rows(turn) * acc_of(m, p[c]));
        left = left > until ? now : left;
    }
    SYNC();       /* nobody reads keys any more */
    left -= left; /* NaN, where q is not finite */
    engine_unrolled
    for (int c = 0; c < KT; c++) {
        float element[ACC];
        CAT(vstore, ACC)(acc_factors(m, scales + c * 16) * x[c] + acc_of_rows(left), 0, element);
        engine_unrolled
        for (int e = 0; e < ACC; e++)
            out_put(element[e], rows, (row0 + acc_row(m, e)) * KEY_PITCH + c * 16 + acc_column(m, e));
    }
    SYNC();
    solved += at_row(solved_at, at.batch, at.first + chunk.row, at.head);
    for_each(task, chunk.count * ((KEY_DIM + 7) / 8)) {
        int i = task / ((KEY_DIM + 7) / 8), n = task % ((KEY_DIM + 7) / 8) * 8;
        local const out_t *from = rows + i * KEY_PITCH + n;
        global out_t *to = solved + i * solved_at.z + n;
        if (KEY_DIM % 8 == 0)
            *(global uint4 *)to = *(local const uint4 *)from;
        else
            for (int e = 0; e < 8 && n + e < KEY_DIM; e++)
                ((global ushort *)to)[e] = ((local const ushort *)from)[e];
    }
}
