/* The gradients by the rows of a chunk as scalar_gradients.cl has them, where the walks have left everything in the 16 bits
 * of a matrix engine: it is copied to local memory as it is, and what multiplies a row or a column comes after, to sums
 * in registers. With y the rows that are written, and W_ij = c_i . y_j e^(G_i - G_j) beta_j of both streams that read:
 *
 *     dr_i = e^(G_i) S c_i + sum_j W_ij k_j                    c = do, r = scale q;  then c = -beta dx, r = k or p
 *     beta_j dk_j = beta_j e^(G_C - G_j) dS y_j + sum_i W_ij r_i
 *     dbeta_j = k_j . (e^(G_C - G_j) dS y_j) + sum_i W_ij / beta_j (r_i . k_j)
 *
 * and the flow through a row's decay as there. One group: a chunk of one head, and BK of its channels. Everything is a sum
 * over channels, so groups do not wait for each other: what a row has one number of, each group leaves its part of.
 * S, dS and rows come by units of BV value columns: two are on their way while one is multiplied. */
#include "gradient.clh"

#define ERASES (ERASE_STREAMS > 0)
#define one_by_one _Pragma("unroll 1")
#define LOG2_NEVER (-160.0f) /* 2 to that is 0 */
#define NUMBERS (FLOWS || HAS_betas)
enum {
    UNITS = VALUE_DIM / BV,
    ROW_PIECES = BV / 8,
    KEY_PIECES = BK / 8,
    TILE_PITCH = 17,
    TILE_FLOATS = 16 * TILE_PITCH
};
/* A unit: rows of cotangents and of values, S and dS, [value][channel] */
enum {
    AT_VALUES = CHUNK * VALUE_PITCH,
    AT_BEFORE = 2 * AT_VALUES,
    AT_AFTER = AT_BEFORE + BV * STATE_PITCH,
    UNIT = AT_AFTER + BV * STATE_PITCH
};
/* Where tiles of all channels, and what is made of weights, take the place of units: in floats from the first */
enum {
    AT_ROW_PARTS = PAIR_TILES * TILE_FLOATS,
    AT_COLUMN_PARTS = AT_ROW_PARTS + CHUNK * ROW_TILES,
    AT_THROUGH = AT_COLUMN_PARTS + CHUNK * ROW_TILES
};

/* The chunk's rows of a tensor, `width` numbers of each from n0 on */
WORD void rows_copy(local data_t *to, int pitch, global const data_t *rows, long stride, int pieces)
{
    for (int l = product_lane(); l < CHUNK * pieces; l += GROUP)
        piece_copy(to + l / pieces * pitch + l % pieces * 8, rows + l / pieces * stride + l % pieces * 8);
}
/* BV value columns of the group's channels of a state: what the walk left, the caller's floats, or zeros */
WORD void state_copy(local data_t *to, global const data_t *left, global const float *given, int c0)
{
    for (int l = product_lane(); l < BV * KEY_PIECES; l += GROUP) {
        int c = l / KEY_PIECES, n = l % KEY_PIECES * 8;
        local data_t *own = to + c * STATE_PITCH + n;
        if (left != 0)
            piece_copy(own, left + (long)(c0 + c) * KEY_DIM + n);
        for (int i = 0; i < 8 && left == 0; i += 4)
            tile_put(given != 0 ? vload4(0, given + (long)(c0 + c) * KEY_DIM + n + i) : 0, own + i);
    }
}
/* dS of a unit as the chunk's last row has it: the walk left it before the next row's decay, and without what that erases.
 * A sub-group does so for the channels that it multiplies. Returns the lane's part of <S, dS>. */
WORD float state_close(engine_t m, local data_t *S, local data_t *dS, float decay, local const float *erased,
                       local const float *eraser)
{
    float sum = 0;

    for (int l = m.lane; l < BV * 2; l += ENGINE_LANES) {
        int c = l / 2, n = sub_group_number * 16 + l % 2 * 8, at = c * STATE_PITCH + n;
        engine_unrolled
        for (int i = 0; i < 8; i += 4) {
            uint2 s = *(local const uint2 *)(S + at + i), ds = *(local const uint2 *)(dS + at + i);
            float4 closed = decay * (float4)(low_of(ds.x), high_of(ds.x), low_of(ds.y), high_of(ds.y));
            if (ERASES)
                closed += erased[c] * (float4)(eraser[n + i], eraser[n + i + 1], eraser[n + i + 2], eraser[n + i + 3]);
            tile_put(closed, dS + at + i);
            closed *= (float4)(low_of(s.x), high_of(s.x), low_of(s.y), high_of(s.y));
            if (FLOWS)
                sum += closed.x + closed.y + closed.z + closed.w;
        }
    }
    return sum;
}

/* What stands between rows of the chunk: the decays from the first row of a row's block of 16 up to it, as a sum of
 * logarithms to base 2 and as a factor; those after it up to the last of the block; and those of the blocks between two. */
#define DECAY_LISTS                                                                                                    \
    local const float *logs, local const float *up_to, local const float *after, local const float *between
WORD float rows_decay(int i, int j, int is_own, DECAY_LISTS)
{
    if (DECAYS == 0)
        return j < i || (j == i && is_own) ? 1.0f : 0.0f;
    if (i / 16 > j / 16)
        return between[i / 16 * ROW_TILES + j / 16] * up_to[i] * after[j];
    return j < i || (j == i && is_own) ? exp2(logs[i] - logs[j]) : 0.0f;
}
/* Products become weights, but for beta_j: times `factor`, a factor of each row unless `rows` is 0, and the decays. With
 * beta_j they go to local memory. */
WORD void weigh(engine_t m, pairs_t *pairs, local tile_t *weights, local const float *strength, float factor,
                int by_row, int is_own, DECAY_LISTS)
{
    m = engine_again(m);
    engine_unrolled
    for (int t = 0; t < OWN_TILES; t++) {
        int i0 = lower_row(own_tile(t)) * 16, j0 = lower_column(own_tile(t)) * 16;
        float weight[ACC];
        CAT(vstore, ACC)(pairs->tile[t], 0, weight);
        engine_unrolled
        for (int e = 0; e < ACC; e++) {
            int i = i0 + acc_row(m, e), j = j0 + acc_column(m, e);
            weight[e] *= factor * rows_decay(i, j, is_own, logs, up_to, after, between) * (by_row ? strength[i] : 1.0f);
        }
        pairs->tile[t] = CAT(vload, ACC)(0, weight);
        acc_put(m, weights + i0 * WEIGHT_PITCH + j0, WEIGHT_PITCH,
                CAT(DATA, _limited)(pairs->tile[t] * acc_factors(m, strength + j0)));
    }
}
/* += weights times scores of this group's channels, r_i . k_j */
WORD void flow_add(engine_t m, pairs_t *flow, const pairs_t *weights, local const tile_t *r, local const tile_t *k)
{
    m = engine_again(m);
    r += chain_lane(m, STATE_PITCH);
    k += frag_lane(m, STATE_PITCH);
    engine_unrolled
    for (int t = 0; t < OWN_TILES; t++) {
        int i0 = lower_row(own_tile(t)) * 16, j0 = lower_column(own_tile(t)) * 16;
        acc_t score = 0;
        engine_unrolled
        for (int n = 0; n < BK; n += 16)
            score = mma_frag(m, score, chain_load(m, address_of(r + i0 * STATE_PITCH + n), STATE_PITCH),
                             frag_load(m, address_of(k + j0 * STATE_PITCH + n), STATE_PITCH));
        flow->tile[t] += weights->tile[t] * score;
    }
}
/* To floats in local memory, tile after tile */
WORD void flow_leave(engine_t m, const pairs_t *flow, local float *to)
{
    m = engine_again(m);
    engine_unrolled
    for (int t = 0; t < OWN_TILES; t++) {
        float element[ACC];
        CAT(vstore, ACC)(flow->tile[t], 0, element);
        engine_unrolled
        for (int e = 0; e < ACC; e++)
            if (own_tile(t) == t * SUB_GROUPS + sub_group_number)
                to[own_tile(t) * TILE_FLOATS + acc_row(m, e) * TILE_PITCH + acc_column(m, e)] = element[e];
    }
}

/* Sums as rows of the caller's, through a tile in local memory */
WORD void sums_round(engine_t m, const sums_t *sums, local tile_t *to)
{
    m = engine_again(m);
    engine_unrolled
    for (int i = 0; i < ROW_TILES; i++)
        acc_put(m, to + i * 16 * STATE_PITCH + sub_group_number * 16, STATE_PITCH, CAT(DATA, _limited)(sums->tile[i]));
}
WORD void piece_store(global data_t *to, local const data_t *from)
{
    if ((ulong)to % 16 == 0) {
        *(global uint4 *)to = *(local const uint4 *)from;
        return;
    }
    for (int i = 0; i < 8; i++)
        ((global ushort *)to)[i] = ((local const ushort *)from)[i];
}
/* A row exists if it is one of a sequence's; a token's last row has its query. */
#define rows_store(gradient, head, last_alone, tile)                                                                   \
    for (int l = product_lane(); l < CHUNK * KEY_PIECES && is_given(gradient); l += GROUP) {                           \
        int row = first + l / KEY_PIECES;                                                                              \
        if (row >= 0 && row < at.rows && (!(last_alone) || row % STEPS == STEPS - 1))                                  \
            piece_store(((last_alone) ? token_row(gradient, chunk_at(at, row), head)                                   \
                                      : write_row(gradient, chunk_at(at, row), head)) +                                \
                            n0 + l % KEY_PIECES * 8,                                                                   \
                        (tile) + l / KEY_PIECES * STATE_PITCH + l % KEY_PIECES * 8);                                   \
    }
/* The gradient of a stream of rows, as it is or as a part of it; the tile is free */
#define leave(sums, gradient, stream, last_alone)                                                                      \
    do {                                                                                                               \
        if (DIRECT) {                                                                                                  \
            sums_round(m, &(sums), leaving);                                                                           \
            SYNC();                                                                                                    \
            rows_store(gradient, head, last_alone, leaving);                                                           \
        } else                                                                                                         \
            sums_store(m, &(sums), 0, parts + parts_at.x + ((row0 * heads + head) * STREAMS + (stream)) * PITCH + n0,  \
                       heads * STREAMS * PITCH, PITCH - n0);                                                           \
    } while (0)

/* The chunk's first row of a tensor of rows of `width` */
#define first_of(rows, width) ((rows) + rows##_at.x + (row0 * heads + head) * (width))
#define erase_rows first_of_erase(ERASE_ROWS)
#define first_of_erase(rows) first_of(rows, KEY_DIM)

/* clang-format off */
#define TENSORS(X) \
    X(global const int, cu) X(global const data_t, rows_q) X(global const data_t, rows_k) X(global const data_t, rows_x) \
    X(global const data_t, rows_d) X(global const data_t, rows_p) X(global const data_t, rows_f) \
    X(global const float, logs) X(global const float, strengths) X(global const data_t, written) \
    X(global const float, begins) X(global const float, ends) X(global const data_t, down) X(global const data_t, up) \
    X(global float, parts) X(global float, flows) X(global float, betas) \
    X(global data_t, d_q) X(global data_t, d_k) X(global data_t, d_p)
/* clang-format on */
KERNEL
engine_gradients(TENSORS(PARAMETER) int seq_len, int sequences, float scale)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(units, 3 * UNIT)
    LOCAL_NUMBERS(weights, LOCAL_WEIGHTS)
    PRODUCT_LOCALS
    LOCAL_FLOATS(strength, LOCAL_ROW_NUMBERS)
    local float *log_up_to = strength + CHUNK, *up_to = log_up_to + CHUNK, *after = up_to + CHUNK;
    local float *begun = after + CHUNK, *left = begun + CHUNK; /* e^G after each row; e^(G_C - G) */
    local float *into = left + CHUNK,
                *out = into + DOTS * CHUNK; /* what flows into reads, and out of writes but for beta */
    local float *erased = out + DOTS * CHUNK,
                *eraser = erased + VALUE_DIM; /* what the next row erases: erased eraser^T */
    local float *between = eraser + BK;
    engine_t m = product_begin();
    /* Groups that share rows of memory follow each other. */
    int n0 = (int)(get_group_id(0) % (KEY_DIM / BK)) * BK;
    long heads = HEADS, head = get_group_id(0) / (KEY_DIM / BK) % HEADS;
    long slot = get_group_id(0) / (KEY_DIM / BK * HEADS), slots = get_num_groups(0) / (KEY_DIM / BK * HEADS);
    long row0 = slot * CHUNK, next = (row0 + CHUNK) * heads + head;
    place at = place_of_padded(slot, head, sequences, seq_len, cu, cu_at);
    int first = (int)(slot - padded_first(at, seq_len)) * CHUNK - 1; /* the chunk's first row, of the sequence's */
    int is_first = slot == padded_first(at, seq_len), is_last = slot + 1 == padded_end(at, seq_len);
    long of_one = CU_STRIDE > 0 ? slots : (long)seq_len * STEPS / PADDED + 1; /* chunks that are turned round */
    long turned = slot / of_one * of_one + of_one - slot % of_one - 2;
    long state = KEY_DIM * VALUE_DIM;
    global const data_t *S, *dS;
    global const float *S_given, *dS_given;
    sums_t reads, writes;
    pairs_t pairs, flow;
    float through = 0; /* the work-item's part of <S, dS> */
    float next_decay = DECAYS > 0 ? exp2(LOG2E * logs[logs_at.x + next]) : 1.0f;
    local tile_t *keys, *readers, *leaving = units;

    if (slot >= padded_end(at, seq_len))
        return;
    S = is_first ? 0 : down + down_at.x + ((slot - 1) * heads + head) * state + n0;
    S_given = HAS_begins && is_first ? begins + begins_at.x + (at.sequence * heads + head) * state + n0 : 0;
    dS = is_last ? 0 : up + up_at.x + (turned * heads + head) * state + n0;
    dS_given = HAS_ends && is_last ? ends + ends_at.x + (at.sequence * heads + head) * state + n0 : 0;

/* A unit of the reads by q or, without dS, of those that erase; and a tile of rows in a unit's place */
#define unit_at(u) (units + (u) % 3 * UNIT)
#define unit_copy(u, cotangents, c0, with_after)                                                                       \
    do {                                                                                                               \
        local data_t *unit = unit_at(u);                                                                               \
        rows_copy(unit, VALUE_PITCH, first_of(cotangents, VALUE_DIM) + (c0), heads * VALUE_DIM, ROW_PIECES);           \
        rows_copy(unit + AT_VALUES, VALUE_PITCH, first_of(rows_x, VALUE_DIM) + (c0), heads * VALUE_DIM, ROW_PIECES);   \
        state_copy(unit + AT_BEFORE, S, S_given, c0);                                                                  \
        if (with_after)                                                                                                \
            state_copy(unit + AT_AFTER, dS, dS_given, c0);                                                             \
    } while (0)
#define tile_copy(u, rows) rows_copy(unit_at(u), STATE_PITCH, (rows) + n0, heads * KEY_DIM, KEY_PIECES)
    unit_copy(0, rows_d, 0, 1);
    copies_group();
    unit_copy(1, rows_d, BV, 1);
    copies_group();

    for_each(i, CHUNK) {
        long row = (row0 + i) * heads + head;
        strength[i] = HAS_strengths ? strengths[strengths_at.x + row] : 1.0f;
        log_up_to[i] = DECAYS > 0 ? fmax(LOG2E * logs[logs_at.x + row], LOG2_NEVER) : 0.0f;
    }
    for_each(i, DOTS * CHUNK)
        into[i] = out[i] = 0;
    for_each(c, ERASES * VALUE_DIM) {
        float next_strength = HAS_strengths ? strengths[strengths_at.x + next] : 1.0f;
        erased[c] = is_last ? 0.0f : -next_strength * data_get(written + written_at.x + next * VALUE_DIM, c);
    }
    for_each(n, ERASES * BK)
        eraser[n] = data_get(rows_f + rows_f_at.x + next * KEY_DIM, n0 + n);
    SYNC();
    {
        float sum = 0, rest = 0;
        for_each(i, CHUNK)
            for (int j = 0; j < 16; j++) {
                float log = log_up_to[i / 16 * 16 + j];
                sum += j <= i % 16 ? log : 0.0f;
                rest += j > i % 16 ? log : 0.0f;
            }
        SYNC();
        for_each(i, CHUNK) {
            log_up_to[i] = sum;
            up_to[i] = exp2(sum);
            after[i] = exp2(rest);
        }
    }
    SYNC();
    for_each(i, CHUNK) {
        begun[i] = up_to[i];
        left[i] = after[i];
        for (int b = 0; b < ROW_TILES; b++) {
            begun[i] *= b < i / 16 ? up_to[b * 16 + 15] : 1.0f;
            left[i] *= b > i / 16 ? up_to[b * 16 + 15] : 1.0f;
        }
    }
    for_each(t, ROW_TILES * ROW_TILES) {
        between[t] = 1;
        for (int b = 0; b < ROW_TILES; b++)
            between[t] *= b > t % ROW_TILES && b < t / ROW_TILES ? up_to[b * 16 + 15] : 1.0f;
    }

    /* What q reads, and what is written */
    sums_begin(&reads, 0);
    sums_begin(&writes, 0);
    pairs_begin(&pairs, 0);
    pairs_begin(&flow, 0);
    one_by_one for (int u = 0; u < UNITS; u++)
    {
        local data_t *unit = unit_at(u);
        copies_wait();
        SYNC(); /* all have multiplied the unit before, in whose place the second after this one comes */
        if (u + 2 < UNITS)
            unit_copy(u + 2, rows_d, (u + 2) * BV, 1);
        else if (u + 2 == UNITS)
            tile_copy(UNITS, first_of(rows_k, KEY_DIM));
        else
            tile_copy(UNITS + 1, first_of(rows_q, KEY_DIM));
        copies_group();
        through += state_close(engine_again(m), unit + AT_BEFORE, unit + AT_AFTER, scale * next_decay, erased + u * BV,
                               eraser);
        engine_sync_own();
        pairs_add(m, &pairs, 0, unit, unit + AT_VALUES);
        sums_add(m, &reads, 0, unit, unit + AT_BEFORE);
        sums_add(m, &writes, 0, unit + AT_VALUES, unit + AT_AFTER);
    }
    weigh(m, &pairs, weights, strength, scale, 0, 1, log_up_to, up_to, after, between);
    copies_end();
    SYNC();
    keys = unit_at(UNITS);
    readers = unit_at(UNITS + 1);
    if (ERASES) {
        unit_copy(UNITS + 2, written, 0, 0);
        copies_group();
    } else
        leaving = unit_at(UNITS + 2);
    if (NUMBERS)
        flow_add(m, &flow, &pairs, readers, keys);
    if (DECAYS > 0)
        sums_scale(m, &reads, 0, begun);
    for (int i = 0; i < ROW_TILES; i++)
        reads.tile[i] *= scale;
    if (DECAYS > 0)
        sums_scale(m, &writes, 0, left);
    if (FLOWS)
        sums_dot(m, &reads, 0, readers, into);
    if (NUMBERS)
        sums_dot(m, &writes, 0, keys, out);
    if (HAS_strengths)
        sums_scale(m, &writes, 0, strength);
    sums_add_reads(m, &reads, 0, weights, keys);
    sums_add_writes(m, &writes, 0, weights, readers);

#if ERASE_STREAMS > 0
    /* What erases read, in place of the reads by q */
    SYNC();
    leaving = readers;
    leave(reads, d_q, 0, 1);
    SYNC();
    unit_copy(UNITS + 3, written, BV, 0);
    copies_group();
    sums_begin(&reads, 0);
    pairs_begin(&pairs, 0);
    one_by_one for (int u = 0; u < UNITS; u++)
    {
        local data_t *unit = unit_at(UNITS + 2 + u);
        copies_wait();
        SYNC();
        if (u + 2 < UNITS)
            unit_copy(UNITS + 4 + u, written, (u + 2) * BV, 0);
        else if (u + 2 == UNITS)
            tile_copy(2 * UNITS + 2, first_of(rows_k, KEY_DIM));
        else if (!ERASE_IS_KEY)
            tile_copy(2 * UNITS + 3, erase_rows);
        copies_group();
        pairs_add(m, &pairs, 0, unit, unit + AT_VALUES);
        sums_add(m, &reads, 0, unit, unit + AT_BEFORE);
    }
    weigh(m, &pairs, weights, strength, -1, 1, 0, log_up_to, up_to, after, between);
    copies_end();
    SYNC();
    keys = unit_at(2 * UNITS + 2);
    readers = ERASE_IS_KEY ? keys : unit_at(2 * UNITS + 3);
    leaving = unit_at(2 * UNITS + 4);
    if (NUMBERS)
        flow_add(m, &flow, &pairs, readers, keys);
    if (DECAYS > 0)
        sums_scale(m, &reads, 0, begun);
    if (HAS_strengths)
        sums_scale(m, &reads, 0, strength);
    for (int i = 0; i < ROW_TILES; i++)
        reads.tile[i] *= -1.0f;
    if (FLOWS)
        sums_dot(m, &reads, 0, readers, into);
    sums_add_reads(m, &reads, 0, weights, keys);
    sums_add_writes(m, &writes, 0, weights, readers);
    if (ERASE_IS_KEY)
        for (int i = 0; i < ROW_TILES; i++)
            writes.tile[i] += reads.tile[i];
    else {
        leave(reads, d_p, 2, 0);
        SYNC();
    }
#else
    leave(reads, d_q, 0, 1);
    SYNC();
#endif
    leave(writes, d_k, 1, 0);
    if (!NUMBERS)
        return;

    /* The numbers of rows */
    {
        local float *tiles = (local float *)units, *row_parts = tiles + AT_ROW_PARTS,
                    *column_parts = tiles + AT_COLUMN_PARTS, *parts_through = tiles + AT_THROUGH;
        SYNC();
        flow_leave(m, &flow, tiles);
        for_each(l, GROUP)
            parts_through[l] = through;
        SYNC();
        for_each(task, CHUNK * ROW_TILES) {
            int i = task % CHUNK, I = i / 16, J = task / CHUNK;
            float row = 0, column = 0;
            for (int x = 0; x < 16; x++) {
                if (J < I) /* of the row, in the tiles before the one on the diagonal */
                    row += strength[J * 16 + x] * tiles[(I * (I + 1) / 2 + J) * TILE_FLOATS + i % 16 * TILE_PITCH + x];
                if (J >= I) /* of the column */
                    column += tiles[(J * (J + 1) / 2 + I) * TILE_FLOATS + x * TILE_PITCH + i % 16];
            }
            row_parts[task] = row;
            column_parts[task] = column;
        }
        for_each(i, CHUNK) {
            float sum = 0;
            for (int d = 1; d < DOTS; d++) {
                into[i] += into[d * CHUNK + i];
                out[i] += out[d * CHUNK + i];
            }
            for (int l = i; l < GROUP; l += CHUNK)
                sum += parts_through[l];
            up_to[i] = begun[CHUNK - 1] * sum; /* of what flows through the chunk */
        }
        SYNC();
        for_each(t, CHUNK) {
            long number = (((long)(n0 / BK) * slots + slot) * CHUNK + t) * heads + head;
            int block = t / 16;
            float sum = 0, by_strength = out[t];
            for (int b = block; b < ROW_TILES; b++)
                by_strength += column_parts[b * CHUNK + t];
            for (int i = 0; i < CHUNK && FLOWS; i++) {
                sum += up_to[i] + (i < t ? strength[i] * out[i] : into[i]);
                for (int b = 0; b < ROW_TILES; b++) {
                    if (b < block && i >= t)
                        sum += row_parts[b * CHUNK + i];
                    if (b > block && i / 16 == block && i < t)
                        sum += strength[i] * column_parts[b * CHUNK + i];
                }
            }
            for (int i = 0; i < 16 && FLOWS; i++)
                for (int j = 0; j < 16; j++)
                    if (i >= t % 16 && j < t % 16)
                        sum += strength[block * 16 + j] *
                               tiles[block * (block + 3) / 2 * TILE_FLOATS + i * TILE_PITCH + j];
            if (FLOWS)
                flows[flows_at.x + number] = sum;
            if (HAS_betas)
                betas[betas_at.x + number] = by_strength;
        }
    }
}
