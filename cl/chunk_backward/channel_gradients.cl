/* The gradients by the rows of a chunk as chunk_gradients.cl has them, on a matrix engine. Rows are in blocks of 16.
 *
 *     between blocks    products of B, rounded to 16 bits, and of rows that are decayed within their block (row_blocks.clh)
 *     within a block    row by row, where a work-item has a channel and the decays between all pairs of rows:
 *                       f_ij = e^(G_i - G_j) is f_(i-1)j e^(g_i)
 *
 * What flows through the log-decay of a row t is, with the rows of its own block m:
 *
 *     from before m to after it    e^(G_C) rowsum(S o dS); k . (what it gains of dS), of rows before m; r . (what it reads of
 *                                  rows before m and of S), of rows after m
 *     from before m to m           r_i . (the same), of rows i >= t
 *     from m to after it           k_j . (what it gains of rows after m and of dS), of rows j < t
 *     within m                     all pairs i >= t > j
 *
 * No sum is a difference of sums. One group: one chunk of one head. First it makes B; then it goes by slices of BK channels,
 * whose sums have BV value columns added at a time. */
#include "row_blocks.clh"

#define LOW_RANK (ERASE_STREAMS > 1)
#define ERASES (ERASE_STREAMS > 0)
#define one_by_one _Pragma("unroll 1")
enum {
    PAIR_QK,
    PAIR_PK,
    PAIR_QB,
    PAIR_PB, /* B of the streams q or p, and k or b */
    AT_ONCE = GROUP / BK < 1            ? 1
              : GROUP / BK < ROW_BLOCKS ? GROUP / BK
                                        : ROW_BLOCKS, /* blocks that the group goes through row by row */
    LEFT_TILE = BLOCK * LEFT_PITCH,
    LEFT_STREAMS = 2 + ERASE_STREAMS
};

/* Loads of a loop are all on their way at once. */
#define for_staged(task, count)                                                                                        \
    unrolled                                                                                                           \
    for (int task = product_lane(), round = 0; round < ((count) + GROUP - 1) / GROUP; task += GROUP, round++)          \
        if ((count) % GROUP == 0 || task < (count))
/* BV value columns of the chunk's rows from c0 on */
#define DEFINE_STAGE(STORAGE)                                                                                          \
    WORD void CAT(STORAGE, _stage)(local tile_t * to, global const CAT(STORAGE, _t) * rows, long stride, int c0)       \
    {                                                                                                                  \
        for_staged(task, CHUNK *(BV / VEC))                                                                            \
        {                                                                                                              \
            int i = task / (BV / VEC), c = task % (BV / VEC) * VEC;                                                    \
            tile_put(CAT(STORAGE, _padded)(rows + i * stride, c0 + c, VALUE_DIM), to + i * VALUE_PITCH + c);           \
        }                                                                                                              \
    }
DEFINE_STAGE(f32)
DEFINE_STAGE(f16)
DEFINE_STAGE(bf16)
#define data_stage CAT(DATA, _stage)

/* What rows write: x without what they erase, which was read for the row before; of low rank only what they erase. Before
 * row 0 nothing was. */
WORD void written_stage(local tile_t *to, global const data_t *x, global const float *erased, long stride, int c0,
                        int is_row_0)
{
    for_staged(task, CHUNK * (BV / VEC))
    {
        int i = task / (BV / VEC), c = task % (BV / VEC) * VEC;
        vec value = 0;
        if (i > 0 || !is_row_0)
            value = f32_padded(erased + (i - 1) * stride, c0 + c, VALUE_DIM);
        if (!LOW_RANK)
            value = data_padded(x + i * stride, c0 + c, VALUE_DIM) - value;
        tile_put(value, to + i * VALUE_PITCH + c);
    }
}
/* The gradients of what rows erase: -beta dx */
WORD void lost_stage(local tile_t *to, global const float *written, global const float *strengths, long stride,
                     long heads, int c0)
{
    for_staged(task, CHUNK * (BV / VEC))
    {
        int i = task / (BV / VEC), c = task % (BV / VEC) * VEC;
        float strength = HAS_strengths ? strengths[i * heads] : 1.0f;
        tile_put(-strength * f32_padded(written + i * stride, c0 + c, VALUE_DIM), to + i * VALUE_PITCH + c);
    }
}

/* B of all pairs of streams. Registers have one beside the sums of the first slice. */
#define PAIRS_BESIDE (PAIRS == 1)
typedef struct {
    pairs_t pair[PAIRS];
} all_pairs_t;
WORD void all_pairs_begin(all_pairs_t *pairs)
{
    engine_unrolled
    for (int pair = 0; pair < PAIRS; pair++)
        pairs_begin(&pairs->pair[pair], 0);
}
WORD void all_pairs_add(engine_t m, all_pairs_t *pairs, local const tile_t *cotangents, local const tile_t *values,
                        local const tile_t *lost, local const tile_t *second)
{
    engine_unrolled
    for (int pair = 0; pair < PAIRS; pair++)
        pairs_add(m, &pairs->pair[pair], 0, pair % 2 == 0 ? cotangents : lost, pair < PAIR_QB ? values : second);
}
WORD void all_pairs_leave(engine_t m, const all_pairs_t *pairs, local tile_t *weights)
{
    engine_unrolled
    for (int pair = 0; pair < PAIRS; pair++)
        pairs_leave(m, &pairs->pair[pair], weights + pair * WEIGHTS);
}

/* The chunk's first row of a tensor of rows of `width` */
#define first_of(rows, width) first_of_(rows, width)
#define first_of_(rows, width) ((rows) + rows##_at.x + (row0 * heads + head) * (width))
/* BV columns of all streams' values and of the gradients of what they read, which are side by side in local memory */
#define stage_values(c0)                                                                                               \
    do {                                                                                                               \
        data_stage(cotangents, first_of(rows_d, VALUE_DIM), heads *VALUE_DIM, c0);                                     \
        if (ERASES && !LOW_RANK)                                                                                       \
            written_stage(values, first_of(rows_x, VALUE_DIM), first_of(read, VALUE_DIM), heads *VALUE_DIM, c0,        \
                          row0 == 0);                                                                                  \
        else                                                                                                           \
            data_stage(values, first_of(rows_x, VALUE_DIM), heads *VALUE_DIM, c0);                                     \
        if (LOW_RANK) {                                                                                                \
            f32_stage(lost, first_of(low, VALUE_DIM), heads *VALUE_DIM, c0);                                           \
            written_stage(second, 0, first_of(read, VALUE_DIM), heads *VALUE_DIM, c0, row0 == 0);                      \
        } else if (ERASES)                                                                                             \
            lost_stage(lost, first_of(written, VALUE_DIM), first_of(strengths, 1), heads *VALUE_DIM, heads, c0);       \
    } while (0)
/* A channel of row i of the block at work; 0 where there is none */
#define lane_row(STORAGE, rows, i) lane_row_(STORAGE, rows, i)
#define lane_row_(STORAGE, rows, i)                                                                                    \
    (inside ? CAT(STORAGE, _get)(rows + rows##_at.x + first_number, (i)*row_stride) : 0.0f)
#define lane_decay(i) exp2(LOG2E *lane_row(f32, logs, i))
#define lane_query(i) (scale * lane_row(DATA, rows_q, i))
#define lane_key(i)                                                                                                    \
    ((HAS_strengths ? strengths[strengths_at.x + first_strength + (i)*heads] : 1.0f) * lane_row(DATA, rows_k, i))

/* clang-format off */
#define TENSORS(X) \
    X(global const int, cu) X(global const data_t, rows_q) X(global const data_t, rows_k) X(global const data_t, rows_x) \
    X(global const data_t, rows_d) X(global const data_t, rows_p) X(global const data_t, rows_f) \
    X(global const data_t, rows_n) X(global const float, logs) X(global const float, strengths) \
    X(global const float, read) X(global const float, written) X(global const float, low) \
    X(global const float, begins) X(global const float, ends) X(global const float, down) X(global const float, up) \
    X(global float, parts)
/* clang-format on */
KERNEL
channel_gradients(TENSORS(PARAMETER) int seq_len, int sequences, float scale)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(area, LOCAL_AREA)
    LOCAL_FLOATS(weight_floats, LOCAL_WEIGHTS)
    LOCAL_FLOATS(across, LOCAL_BLOCKS) /* the decay across each block, [ROW_BLOCKS][BK] */
    LOCAL_FLOATS(tails, LOCAL_BLOCKS)  /* from each block to the chunk's end; the first: what flows through the chunk */
    LOCAL_FLOATS(passes, LOCAL_BLOCKS) /* what flows from rows and the state before each block to those after it */
    PRODUCT_LOCALS
    local tile_t *weights = (local tile_t *)weight_floats; /* B, [PAIRS][PAIR_TILES][BLOCK][SQUARE_ROW] */
    /* do, what rows write, -dx or z, and u, [CHUNK][BV]; S and dS, [BV][BK] */
    local tile_t *cotangents = (local tile_t *)area, *values = cotangents + CHUNK * VALUE_PITCH,
                 *lost = values + CHUNK * VALUE_PITCH, *second = lost + ERASES * CHUNK * VALUE_PITCH,
                 *S = second + LOW_RANK * CHUNK * VALUE_PITCH, *dS = S + BV * STATE_PITCH;
    /* Then q, k, p and b decayed within their blocks, [CHUNK][BK]; then the sums of AT_ONCE blocks, LEFT_STREAMS of [BLOCK][BK] */
    local tile_t *queries = (local tile_t *)area, *keys = queries + CHUNK * STATE_PITCH,
                 *erasers = keys + CHUNK * STATE_PITCH, *lows = erasers + CHUNK * STATE_PITCH;
    engine_t m = product_begin();
    long slot = get_group_id(0), heads = get_num_groups(1), head = get_group_id(1);
    place at = place_of_padded(slot, head, sequences, seq_len, cu, cu_at);
    long row0 = slot * CHUNK;
    long next = (row0 + CHUNK) * heads + head; /* the row after the chunk */
    int is_last = slot + 1 == padded_end(at, seq_len);
    global const float *before =
        state_before(at, slot, seq_len, HAS_begins ? begins + begins_at.x : 0, down + down_at.x);
    global const float *after = state_after(at, slot, seq_len, HAS_ends ? ends + ends_at.x : 0, up + up_at.x);
    all_pairs_t pairs;
    float next_strength = HAS_strengths ? strengths[strengths_at.x + next] : 1.0f;

    if (slot >= padded_end(at, seq_len))
        return;
    if (!PAIRS_BESIDE) {
        all_pairs_begin(&pairs);
        one_by_one for (int c0 = 0; c0 < VALUE_DIM; c0 += BV)
        {
            SYNC();
            stage_values(c0);
            SYNC();
            all_pairs_add(m, &pairs, cotangents, values, lost, second);
        }
        all_pairs_leave(m, &pairs, weights);
    }
    one_by_one for (int n0 = 0; n0 < PITCH; n0 += BK)
    {
        sums_t sums_q, sums_k, sums_p, sums_b;
        vec through = 0; /* the work-item's part of rowsum(S o dS), of VEC channels */
        vec next_decay = 0, next_erase = 0;

        {
            int n = n0 + product_lane() % (BK / VEC) * VEC;
            if (n < KEY_DIM)
                next_decay = scale * exp2(LOG2E * f32_padded(logs + logs_at.x + next * KEY_DIM, n, KEY_DIM));
            if (ERASES && !is_last)
                next_erase = data_padded(rows_f + rows_f_at.x + next * KEY_DIM, n, KEY_DIM);
        }
        if (PAIRS_BESIDE)
            all_pairs_begin(&pairs);
        sums_begin(&sums_q, area);
        sums_begin(&sums_k, area);
        if (ERASES)
            sums_begin(&sums_p, area);
        if (LOW_RANK)
            sums_begin(&sums_b, area);
        one_by_one for (int c0 = 0; c0 < VALUE_DIM; c0 += BV)
        {
            SYNC();
            stage_values(c0);
            for_staged(task, BV * (BK / VEC))
            {
                int c = c0 + task / (BK / VEC), n = n0 + task % (BK / VEC) * VEC;
                vec s = 0, ds = 0;
                if (c < VALUE_DIM && before != 0)
                    s = f32_padded(before + (long)c * KEY_DIM, n, KEY_DIM);
                if (c < VALUE_DIM && after != 0)
                    ds = next_decay * f32_padded(after + (long)c * KEY_DIM, n, KEY_DIM);
                if (ERASES && c < VALUE_DIM && !is_last) { /* what the next row erases */
                    float erased = LOW_RANK ? low[low_at.x + next * VALUE_DIM + c]
                                            : -next_strength * written[written_at.x + next * VALUE_DIM + c];
                    ds += erased * next_erase;
                }
                through += s * ds;
                tile_put(s, S + (c - c0) * STATE_PITCH + n - n0);
                tile_put(ds, dS + (c - c0) * STATE_PITCH + n - n0);
            }
            SYNC();
            sums_add(m, &sums_q, area, cotangents, S);
            sums_add(m, &sums_k, area, values, dS);
            if (ERASES)
                sums_add(m, &sums_p, area, lost, S);
            if (LOW_RANK)
                sums_add(m, &sums_b, area, second, dS);
            if (PAIRS_BESIDE && n0 == 0)
                all_pairs_add(m, &pairs, cotangents, values, lost, second);
        }
        if (PAIRS_BESIDE && n0 == 0)
            all_pairs_leave(m, &pairs, weights);
        SYNC();
        vec_at(area + product_lane() * VEC) = through;
        SYNC();
        for_each(n, BK) {
            float sum = 0;
            for (int part = 0; part < GROUP * VEC / BK; part++)
                sum += area[part * BK + n];
            tails[n] = sum;
        }
        SYNC();
        for_each(task, ROW_BLOCKS * BK) {
            int n = task % BK, first = task / BK * BLOCK, inside = n0 + n < KEY_DIM;
            long first_strength = (row0 + first) * heads + head, first_number = first_strength * KEY_DIM + n0 + n;
            long row_stride = heads * KEY_DIM;
            float decay[BLOCK], factor = 1;

            first = first * STATE_PITCH + n;
            engine_unrolled
            for (int i = 0; i < BLOCK; i++)
                decay[i] = lane_decay(i);
            engine_unrolled
            for (int i = 0; i < BLOCK; i++) {
                float before_row = factor;
                factor *= decay[i];
                number_put(factor * lane_query(i), queries + first + i * STATE_PITCH);
                if (ERASES)
                    number_put((ERASE_BEFORE ? before_row : factor) * lane_row(DATA, ERASE_ROWS, i),
                               erasers + first + i * STATE_PITCH);
            }
            across[task] = factor;
            factor = 1;
            engine_unrolled
            for (int i = BLOCK - 1; i >= 0; i--) {
                number_put(factor * lane_key(i), keys + first + i * STATE_PITCH);
                if (LOW_RANK)
                    number_put(factor * lane_row(DATA, rows_n, i), lows + first + i * STATE_PITCH);
                factor *= decay[i];
            }
        }
        SYNC();
        for_each(n, BK) {
            float factor = 1;
            for (int b = ROW_BLOCKS - 1; b > 0; b--) {
                factor *= across[b * BK + n];
                tails[b * BK + n] = factor;
            }
            tails[n] *= factor * across[n];
        }
        SYNC();
        /* What blocks read of each other */
        m = engine_again(m);
        engine_unrolled
        for (int t = 0; t < KEY_TILES; t++) {
            int n = own_channels(t);
            acc_t written_before = 0, passing_even = 0; /* what flows out of writes before block b to the chunk's end */

            engine_unrolled
            for (int b = 0; b < ROW_BLOCKS; b++) {
                acc_t factor = acc_factors(m, across + b * BK + n), factor_to_reader = factor, passing;
                frag_t key, low_key;

                if (b + 1 < ROW_BLOCKS) {
                    key = block_frag(m, keys, b, n);
                    if (LOW_RANK)
                        low_key = block_frag(m, lows, b, n);
                }
                if (b > 0) {
                    acc_t gained = block_acc(m, keys, b - 1, n) * sums_k.tile[(b - 1) * KEY_TILES + t];
                    if (LOW_RANK)
                        gained += block_acc(m, lows, b - 1, n) * sums_b.tile[(b - 1) * KEY_TILES + t];
                    written_before += gained * acc_factors(m, tails + b * BK + n);
                }
                passing = written_before;
                engine_unrolled
                for (int i = b + 1; i < ROW_BLOCKS; i++) {
                    const int tile = i * KEY_TILES + t;
                    acc_t taken = block_acc(m, queries, i, n) * sums_q.tile[tile];
                    sums_q.tile[tile] =
                        block_reads(m, factor * sums_q.tile[tile], weights + PAIR_QK * WEIGHTS, i, b, key);
                    if (LOW_RANK)
                        sums_q.tile[tile] =
                            block_reads(m, sums_q.tile[tile], weights + PAIR_QB * WEIGHTS, i, b, low_key);
                    if (ERASES) {
                        taken += block_acc(m, erasers, i, n) * sums_p.tile[tile];
                        sums_p.tile[tile] =
                            block_reads(m, factor * sums_p.tile[tile], weights + PAIR_PK * WEIGHTS, i, b, key);
                    }
                    if (LOW_RANK)
                        sums_p.tile[tile] =
                            block_reads(m, sums_p.tile[tile], weights + PAIR_PB * WEIGHTS, i, b, low_key);
                    passing += taken * factor_to_reader;
                    factor_to_reader *= acc_factors(m, across + i * BK + n);
                }
                if (b % 2 == 0)
                    passing_even = passing;
                else
                    acc_column_sums(m, passing_even, passing, passes + (b - 1) * BK + n, passes + b * BK + n);
            }
            engine_unrolled
            for (int b = ROW_BLOCKS - 1; b > 0; b--) {
                acc_t factor = acc_factors(m, across + b * BK + n);
                frag_t query = block_frag(m, queries, b, n), eraser;

                if (ERASES)
                    eraser = block_frag(m, erasers, b, n);
                engine_unrolled
                for (int j = 0; j < b; j++) {
                    const int tile = j * KEY_TILES + t;
                    sums_k.tile[tile] =
                        block_writes(m, factor * sums_k.tile[tile], weights + PAIR_QK * WEIGHTS, b, j, query);
                    if (ERASES)
                        sums_k.tile[tile] =
                            block_writes(m, sums_k.tile[tile], weights + PAIR_PK * WEIGHTS, b, j, eraser);
                    if (LOW_RANK) {
                        sums_b.tile[tile] =
                            block_writes(m, factor * sums_b.tile[tile], weights + PAIR_QB * WEIGHTS, b, j, query);
                        sums_b.tile[tile] =
                            block_writes(m, sums_b.tile[tile], weights + PAIR_PB * WEIGHTS, b, j, eraser);
                    }
                }
            }
        }
        one_by_one for (int first_block = 0; first_block < ROW_BLOCKS; first_block += AT_ONCE)
        {
            SYNC();
            engine_unrolled
            for (int b = 0; b < ROW_BLOCKS; b++) {
                local float *left = area + b % AT_ONCE * LEFT_STREAMS * LEFT_TILE;
                if (b / AT_ONCE * AT_ONCE != first_block)
                    continue;
                block_leave(m, &sums_q, b, left);
                block_leave(m, &sums_k, b, left + LEFT_TILE);
                if (ERASES)
                    block_leave(m, &sums_p, b, left + 2 * LEFT_TILE);
                if (LOW_RANK)
                    block_leave(m, &sums_b, b, left + 3 * LEFT_TILE);
            }
            SYNC();
            /* What rows of a block read of each other */
            for_each(task, AT_ONCE * BK) {
                int n = task % BK, block = first_block + task / BK, inside = n0 + n < KEY_DIM;
                long first_strength = (row0 + block * BLOCK) * heads + head;
                long first_number = first_strength * KEY_DIM + n0 + n, row_stride = heads * KEY_DIM;
                local float *by_q = area + task / BK * LEFT_STREAMS * LEFT_TILE + n, *by_p = by_q + 2 * LEFT_TILE;
                local const float *by_k = by_q + LEFT_TILE, *by_b = by_q + 3 * LEFT_TILE;
                local const tile_t *own = weights + square_of(block, block) * SQUARE;
                global float *to = parts + parts_at.x + first_strength * STREAMS * PITCH + n0 + n;
                const long pitch = heads * STREAMS * PITCH; /* from row to row */
                float decay[BLOCK], key[BLOCK], by_key[BLOCK], low_key[LOW_RANK ? BLOCK : 1],
                    by_low[LOW_RANK ? BLOCK : 1];
                float flow[BLOCK], fade[BLOCK]; /* dg; e^(G_i - G_j) of the row i at work */
                float factor = 1, run = tails[n] + (ROW_BLOCKS > 1 ? passes[block * BK + n] : 0.0f), run_before = 0;

                if (n0 + n >= PITCH)
                    continue;
                engine_unrolled
                for (int i = 0; i < BLOCK; i++) {
                    float before_row = factor;
                    decay[i] = lane_decay(i);
                    factor *= decay[i];
                    by_q[i * LEFT_PITCH] *= factor;
                    if (ERASES)
                        by_p[i * LEFT_PITCH] *= ERASE_BEFORE ? before_row : factor;
                }
                factor = 1;
                engine_unrolled
                for (int i = BLOCK - 1; i >= 0; i--) {
                    key[i] = lane_key(i);
                    by_key[i] = factor * by_k[i * LEFT_PITCH];
                    if (LOW_RANK) {
                        low_key[LOW_RANK ? i : 0] = lane_row(DATA, rows_n, i);
                        by_low[LOW_RANK ? i : 0] = factor * by_b[i * LEFT_PITCH];
                    }
                    factor *= decay[i];
                    run += lane_query(i) * by_q[i * LEFT_PITCH];
                    if (ERASES && !ERASE_BEFORE)
                        run += lane_row(DATA, ERASE_ROWS, i) * by_p[i * LEFT_PITCH];
                    flow[i] = run + run_before;
                    if (ERASES && ERASE_BEFORE)
                        run_before += lane_row(DATA, ERASE_ROWS, i) * by_p[i * LEFT_PITCH];
                }
                run = 0;
                engine_unrolled
                for (int t = 0; t < BLOCK; t++) {
                    flow[t] += run;
                    run += key[t] * by_key[t];
                    if (LOW_RANK)
                        run += low_key[LOW_RANK ? t : 0] * by_low[LOW_RANK ? t : 0];
                    fade[t] = 1;
                }
                engine_unrolled
                for (int i = 0; i < BLOCK; i++) {
                    float b_qk[BLOCK], b_pk[BLOCK], b_qb[BLOCK], b_pb[BLOCK];
                    float q = lane_query(i), p = 0, taken_q = 0, taken_p = 0; /* what row i reads of rows up to j */

                    weights_of_row(own + i * SQUARE_ROW + PAIR_QK * WEIGHTS, b_qk);
                    if (ERASES) {
                        weights_of_row(own + i * SQUARE_ROW + PAIR_PK * WEIGHTS, b_pk);
                        p = lane_row(DATA, ERASE_ROWS, i);
                    }
                    if (LOW_RANK) {
                        weights_of_row(own + i * SQUARE_ROW + PAIR_QB * WEIGHTS, b_qb);
                        weights_of_row(own + i * SQUARE_ROW + PAIR_PB * WEIGHTS, b_pb);
                    }
                    engine_unrolled
                    for (int j = 0; j < i; j++) {
                        const int l = LOW_RANK ? j : 0;
                        float before_row = fade[j], f = before_row * decay[i], f_p = ERASE_BEFORE ? before_row : f, b;

                        fade[j] = f;
                        b = f * b_qk[j];
                        taken_q += b * key[j];
                        by_key[j] += b * q;
                        if (LOW_RANK) {
                            b = f * b_qb[j];
                            taken_q += b * low_key[l];
                            by_low[l] += b * q;
                        }
                        flow[j + 1] += q * taken_q;
                        if (!ERASES)
                            continue;
                        b = f_p * b_pk[j];
                        taken_p += b * key[j];
                        by_key[j] += b * p;
                        if (LOW_RANK) {
                            b = f_p * b_pb[j];
                            taken_p += b * low_key[l];
                            by_low[l] += b * p;
                        }
                        if (!ERASE_BEFORE || j + 1 < i)
                            flow[j + 1] += p * taken_p;
                    }
                    /* The row reads its own write, after it erased. */
                    taken_q += b_qk[i] * key[i];
                    by_key[i] += b_qk[i] * q;
                    if (LOW_RANK) {
                        taken_q += b_qb[i] * low_key[LOW_RANK ? i : 0];
                        by_low[LOW_RANK ? i : 0] += b_qb[i] * q;
                    }
                    to[i * pitch] = by_q[i * LEFT_PITCH] + taken_q;
                    if (ERASES)
                        to[i * pitch + 2 * PITCH] = by_p[i * LEFT_PITCH] + taken_p;
                }
                engine_unrolled
                for (int i = 0; i < BLOCK; i++) {
                    to[i * pitch + PITCH] = by_key[i];
                    if (LOW_RANK)
                        to[i * pitch + 3 * PITCH] = by_low[LOW_RANK ? i : 0];
                    if (FLOWS)
                        to[i * pitch + (2 + ERASE_STREAMS) * PITCH] = flow[i];
                }
            }
        }
    }
}
