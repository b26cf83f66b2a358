/* The gradients by the rows of a chunk as chunk_gradients.cl has them, for rules whose log-decays are a number a row, or
 * that have none. What rows of the chunk read of each other is then products of matrices, too: with
 * W_ij = B_ij e^(G_i - G_j),
 *
 *     dr_i    = e^(G_i) S c_i + sum_j W_ij k_j
 *     dk_j    = e^(G_C - G_j) dS y_j + sum_i W_ij r_i
 *     dg_t    = e^(G_C) <S, dS> + sum over i >= t of e^(G_i) r_i . (S c_i)
 *               + sum over j < t of e^(G_C - G_j) k_j . (dS y_j) + sum over i >= t > j of W_ij (r_i . k_j)
 *
 * One group: one chunk of one head. First it makes W and the last sum of dg; then it goes by slices of BK channels, whose
 * sums have BV value columns added at a time. */

#define LOW_RANK (ERASE_STREAMS > 1)
#define ERASES (ERASE_STREAMS > 0)
#define one_by_one _Pragma("unroll 1")
enum { PAIR_QK, PAIR_PK, PAIR_QB, PAIR_PB, WEIGHTS = CHUNK * WEIGHT_PITCH };

/* for_each for loops whose addresses nothing else shares: a step's do not take registers in the step before. All loads are
 * on their way at once. */
#define for_staged(task, count)                                                                                        \
    unrolled                                                                                                           \
    for (int task = product_lane(), round = 0; round < ((count) + GROUP - 1) / GROUP; task += GROUP, round++)          \
        if ((count) % GROUP == 0 || task < (count))
/* A tile of rows: `width` numbers from n0 on of rows of `dim`, times scale and, unless it is NULL, factors[row] */
#define DEFINE_STAGE(STORAGE)                                                                                          \
    WORD void CAT(STORAGE, _stage)(local tile_t * to, int pitch, int width, global const CAT(STORAGE, _t) * rows,      \
                                   long stride, int n0, int dim, local const float *factors, float scale)              \
    {                                                                                                                  \
        for_staged(task, CHUNK *(width / VEC))                                                                         \
        {                                                                                                              \
            int i = task / (width / VEC), n = task % (width / VEC) * VEC;                                              \
            vec x = CAT(STORAGE, _padded)(rows + i * stride, n0 + n, dim);                                             \
            tile_put((factors != 0 ? scale * factors[i] : scale) * x, to + i * pitch + n);                             \
        }                                                                                                              \
    }
DEFINE_STAGE(f32)
DEFINE_STAGE(f16)
DEFINE_STAGE(bf16)
#define data_stage CAT(DATA, _stage)

/* What rows write: x without what they erase, which was read for the row before. Before row 0 nothing was. */
WORD void written_stage(local tile_t *to, global const data_t *x, global const float *erased, long stride, int c0,
                        int is_row_0)
{
    for_staged(task, CHUNK * (BV / VEC))
    {
        int i = task / (BV / VEC), c = task % (BV / VEC) * VEC;
        vec value = data_padded(x + i * stride, c0 + c, VALUE_DIM);
        if (i > 0 || !is_row_0)
            value -= f32_padded(erased + (i - 1) * stride, c0 + c, VALUE_DIM);
        tile_put(value, to + i * VALUE_PITCH + c);
    }
}
/* What rows erase, of low rank */
WORD void erased_stage(local tile_t *to, global const float *erased, long stride, int c0, int is_row_0)
{
    for_staged(task, CHUNK * (BV / VEC))
    {
        int i = task / (BV / VEC), c = task % (BV / VEC) * VEC;
        vec value = 0;
        if (i > 0 || !is_row_0)
            value = f32_padded(erased + (i - 1) * stride, c0 + c, VALUE_DIM);
        tile_put(value, to + i * VALUE_PITCH + c);
    }
}

/* The chunk's first row of a tensor of rows of `width` */
#define first_of(rows, width) first_of_(rows, width)
#define first_of_(rows, width) ((rows) + rows##_at.x + (row0 * heads + head) * (width))

/* A slice of the rows of a stream: do, or -dx or z; what is written, or erased; q, or p; k, or b */
#define stage_cotangents(to, erasing, c0)                                                                              \
    do {                                                                                                               \
        if (!(erasing))                                                                                                \
            data_stage(to, VALUE_PITCH, BV, first_of(rows_d, VALUE_DIM), heads *VALUE_DIM, c0, VALUE_DIM, 0, 1);       \
        else if (LOW_RANK)                                                                                             \
            f32_stage(to, VALUE_PITCH, BV, first_of(low, VALUE_DIM), heads *VALUE_DIM, c0, VALUE_DIM, 0, 1);           \
        else if (ERASES)                                                                                               \
            f32_stage(to, VALUE_PITCH, BV, first_of(written, VALUE_DIM), heads *VALUE_DIM, c0, VALUE_DIM, strength,    \
                      -1);                                                                                             \
    } while (0)
#define stage_values(to, is_low, c0)                                                                                   \
    do {                                                                                                               \
        if (LOW_RANK && (is_low))                                                                                      \
            erased_stage(to, first_of(read, VALUE_DIM), heads *VALUE_DIM, c0, row0 == 0);                              \
        else if (ERASES && !LOW_RANK)                                                                                  \
            written_stage(to, first_of(rows_x, VALUE_DIM), first_of(read, VALUE_DIM), heads *VALUE_DIM, c0,            \
                          row0 == 0);                                                                                  \
        else                                                                                                           \
            data_stage(to, VALUE_PITCH, BV, first_of(rows_x, VALUE_DIM), heads *VALUE_DIM, c0, VALUE_DIM, 0, 1);       \
    } while (0)
#define stage_readers(to, pitch, width, erasing, n0)                                                                   \
    do {                                                                                                               \
        if (ERASES && (erasing))                                                                                       \
            data_stage(to, pitch, width, first_of(ERASE_ROWS, KEY_DIM), heads *KEY_DIM, n0, KEY_DIM, 0, 1);            \
        else                                                                                                           \
            data_stage(to, pitch, width, first_of(rows_q, KEY_DIM), heads *KEY_DIM, n0, KEY_DIM, 0, scale);            \
    } while (0)
#define stage_keys(to, pitch, width, is_low, n0)                                                                       \
    do {                                                                                                               \
        if (LOW_RANK && (is_low))                                                                                      \
            data_stage(to, pitch, width, first_of(rows_n, KEY_DIM), heads *KEY_DIM, n0, KEY_DIM, 0, 1);                \
        else                                                                                                           \
            data_stage(to, pitch, width, first_of(rows_k, KEY_DIM), heads *KEY_DIM, n0, KEY_DIM, strength, 1);         \
    } while (0)

/* clang-format off */
#define TENSORS(X) \
    X(global const int, cu) X(global const data_t, rows_q) X(global const data_t, rows_k) X(global const data_t, rows_x) \
    X(global const data_t, rows_d) X(global const data_t, rows_p) X(global const data_t, rows_f) \
    X(global const data_t, rows_n) X(global const float, logs) X(global const float, strengths) \
    X(global const float, read) X(global const float, written) X(global const float, low) \
    X(global const float, begins) X(global const float, ends) X(global const float, down) X(global const float, up) \
    X(global float, parts) X(global float, flows)
/* clang-format on */
KERNEL
scalar_gradients(TENSORS(PARAMETER) int seq_len, int sequences, float scale)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(area, LOCAL_AREA)
    LOCAL_FLOATS(weight_floats, LOCAL_WEIGHTS)
    PRODUCT_LOCALS
    local float strength[CHUNK], decay[CHUNK]; /* of each row */
    local float begun[CHUNK + 1], left[CHUNK]; /* e^G before each row, and after the last; e^(G_C - G) */
    local float crossing[CHUNK];               /* what flows through each row's decay within the chunk */
    /* What flows into reads after their row's decay, or before it, and out of writes */
    local float into[DOTS * CHUNK], into_before[ERASE_BEFORE ? DOTS * CHUNK : 1], out[DOTS * CHUNK];
    local tile_t *weights = (local tile_t *)weight_floats;
    /* At first the square of decays and flows, scores, and rows */
    local float *square = area;
    local tile_t *scores_tile = (local tile_t *)(area + AT_SCORES), *tiles = (local tile_t *)(area + AT_PAIRS);
    /* Then sums of rows by channels, where they are in local memory, [CHUNK][BK], and rows of values and states, or of
     * keys */
    local float *dq = area, *dk = dq + CHUNK * BK, *dp = dk + CHUNK * BK, *db = dp + CHUNK * BK;
    local tile_t *cotangents = (local tile_t *)(area + AT_TILES), *values = cotangents + CHUNK * VALUE_PITCH,
                 *lost = values + CHUNK * VALUE_PITCH, *second = lost + ERASES * CHUNK * VALUE_PITCH,
                 *S = second + LOW_RANK * CHUNK * VALUE_PITCH, *dS = S + BV * STATE_PITCH;
    local tile_t *readers = cotangents, *keys = readers + CHUNK * STATE_PITCH;
    engine_t m = product_begin();
    long slot = get_group_id(0), heads = get_num_groups(1), head = get_group_id(1);
    place at = place_of_padded(slot, head, sequences, seq_len, cu, cu_at);
    long row0 = slot * CHUNK;
    long next = (row0 + CHUNK) * heads + head; /* the row after the chunk */
    int is_last = slot + 1 == padded_end(at, seq_len);
    global const float *before =
        state_before(at, slot, seq_len, HAS_begins ? begins + begins_at.x : 0, down + down_at.x);
    global const float *after = state_after(at, slot, seq_len, HAS_ends ? ends + ends_at.x : 0, up + up_at.x);
    float next_decay = DECAYS > 0 ? exp2(LOG2E * logs[logs_at.x + next]) : 1.0f;
    float next_strength = HAS_strengths ? strengths[strengths_at.x + next] : 1.0f;
    float through = 0; /* the work-item's part of <S, dS> */

    if (slot >= padded_end(at, seq_len))
        return;
    for_each(i, CHUNK) {
        long row = (row0 + i) * heads + head;
        strength[i] = HAS_strengths ? strengths[strengths_at.x + row] : 1.0f;
        decay[i] = DECAYS > 0 ? exp2(LOG2E * logs[logs_at.x + row]) : 1.0f;
    }
    for_each(i, DOTS * CHUNK) {
        into[i] = out[i] = 0;
        into_before[ERASE_BEFORE ? i : 0] = 0;
    }
    SYNC();
    if (DECAYS > 0) {
        square_begin(square, decay);
        for_each(i, CHUNK) {
            float product = 1;
            if (i == 0)
                begun[0] = 1;
            left[i] = 1;
            for (int j = 0; j <= i; j++)
                product *= decay[j];
            begun[i + 1] = product;
            for (int j = i + 1; j < CHUNK; j++)
                left[i] *= decay[j];
        }
    }

    /* What rows of the chunk read of each other */
    one_by_one for (int pair = 0; pair < PAIRS; pair++)
    {
        int erasing = pair % 2, is_low = pair / 2;
        pairs_t products, scores;
        SYNC();
        pairs_begin(&products, weights + pair * WEIGHTS);
        pairs_begin(&scores, scores_tile);
        one_by_one for (int c0 = 0; c0 < VALUE_DIM; c0 += BV)
        {
            SYNC();
            stage_cotangents(tiles, erasing, c0);
            stage_values(tiles + CHUNK * VALUE_PITCH, is_low, c0);
            SYNC();
            pairs_add(m, &products, weights + pair * WEIGHTS, tiles, tiles + CHUNK * VALUE_PITCH);
        }
        one_by_one for (int n0 = 0; n0 < KEY_DIM && FLOWS; n0 += BV)
        {
            SYNC();
            stage_readers(tiles, VALUE_PITCH, BV, erasing, n0);
            stage_keys(tiles + CHUNK * VALUE_PITCH, VALUE_PITCH, BV, is_low, n0);
            SYNC();
            pairs_add(m, &scores, scores_tile, tiles, tiles + CHUNK * VALUE_PITCH);
        }
        SYNC();
        pairs_weigh(m, &products, weights + pair * WEIGHTS, &scores, scores_tile, square,
                    !erasing       ? READS_OWN
                    : ERASE_BEFORE ? READS_UNDECAYED
                                   : READS_EARLIER);
    }
    if (FLOWS)
        square_flows(square, crossing);

    one_by_one for (int n0 = 0; n0 < PITCH; n0 += BK)
    {
        global float *to = parts + parts_at.x + (row0 * heads + head) * STREAMS * PITCH + n0;
        const long pitch = heads * STREAMS * PITCH; /* from row to row */
        sums_t sums_q, sums_k, sums_p, sums_b;

        SYNC();
        sums_begin(&sums_q, dq);
        sums_begin(&sums_k, dk);
        if (ERASES)
            sums_begin(&sums_p, dp);
        if (LOW_RANK)
            sums_begin(&sums_b, db);
        one_by_one for (int c0 = 0; c0 < VALUE_DIM; c0 += BV)
        {
            SYNC();
            stage_cotangents(cotangents, 0, c0);
            stage_values(values, 0, c0);
            if (ERASES)
                stage_cotangents(lost, 1, c0);
            if (LOW_RANK)
                stage_values(second, 1, c0);
            for_staged(task, BV * (BK / VEC))
            {
                int c = c0 + task / (BK / VEC), n = n0 + task % (BK / VEC) * VEC;
                vec s = 0, ds = 0;
                if (c < VALUE_DIM && before != 0)
                    s = f32_padded(before + (long)c * KEY_DIM, n, KEY_DIM);
                if (c < VALUE_DIM && after != 0)
                    ds = scale * next_decay * f32_padded(after + (long)c * KEY_DIM, n, KEY_DIM);
                if (ERASES && c < VALUE_DIM && !is_last) { /* what the next row erases */
                    float erased = LOW_RANK ? low[low_at.x + next * VALUE_DIM + c]
                                            : -next_strength * written[written_at.x + next * VALUE_DIM + c];
                    ds += erased * data_padded(rows_f + rows_f_at.x + next * KEY_DIM, n, KEY_DIM);
                }
                if (FLOWS)
                    through += vec_sum(s * ds);
                tile_put(s, S + (c - c0) * STATE_PITCH + n - n0);
                tile_put(ds, dS + (c - c0) * STATE_PITCH + n - n0);
            }
            SYNC();
            sums_add(m, &sums_q, dq, cotangents, S);
            sums_add(m, &sums_k, dk, values, dS);
            if (ERASES)
                sums_add(m, &sums_p, dp, lost, S);
            if (LOW_RANK)
                sums_add(m, &sums_b, db, second, dS);
        }
        SYNC();
        stage_readers(readers, STATE_PITCH, BK, 0, n0);
        stage_keys(keys, STATE_PITCH, BK, 0, n0);
        if (DECAYS > 0) {
            sums_scale(m, &sums_q, dq, begun + 1);
            sums_scale(m, &sums_k, dk, left);
            if (ERASES)
                sums_scale(m, &sums_p, dp, begun + !ERASE_BEFORE);
            if (LOW_RANK)
                sums_scale(m, &sums_b, db, left);
        }
        SYNC();
        if (FLOWS) {
            sums_dot(m, &sums_q, dq, readers, into);
            sums_dot(m, &sums_k, dk, keys, out);
            sums_sync();
        }
        sums_add_reads(m, &sums_q, dq, weights + PAIR_QK * WEIGHTS, keys);
        sums_add_writes(m, &sums_k, dk, weights + PAIR_QK * WEIGHTS, readers);
        if (ERASES) {
            SYNC();
            stage_readers(readers, STATE_PITCH, BK, 1, n0);
            SYNC();
            if (FLOWS) {
                sums_dot(m, &sums_p, dp, readers, ERASE_BEFORE ? into_before : into);
                sums_sync();
            }
            sums_add_reads(m, &sums_p, dp, weights + PAIR_PK * WEIGHTS, keys);
            sums_add_writes(m, &sums_k, dk, weights + PAIR_PK * WEIGHTS, readers);
        }
        if (LOW_RANK) {
            SYNC();
            stage_keys(keys, STATE_PITCH, BK, 1, n0);
            SYNC();
            if (FLOWS) {
                sums_dot(m, &sums_b, db, keys, out);
                sums_sync();
            }
            sums_add_reads(m, &sums_p, dp, weights + PAIR_PB * WEIGHTS, keys);
            sums_add_writes(m, &sums_b, db, weights + PAIR_PB * WEIGHTS, readers);
            SYNC();
            stage_readers(readers, STATE_PITCH, BK, 0, n0);
            SYNC();
            sums_add_reads(m, &sums_q, dq, weights + PAIR_QB * WEIGHTS, keys);
            sums_add_writes(m, &sums_b, db, weights + PAIR_QB * WEIGHTS, readers);
        }
        sums_sync();
        sums_store(m, &sums_q, dq, to, pitch, PITCH - n0);
        sums_store(m, &sums_k, dk, to + PITCH, pitch, PITCH - n0);
        if (ERASES)
            sums_store(m, &sums_p, dp, to + 2 * PITCH, pitch, PITCH - n0);
        if (LOW_RANK)
            sums_store(m, &sums_b, db, to + 3 * PITCH, pitch, PITCH - n0);
    }
    if (!FLOWS)
        return;
    SYNC();
    for_each(l, GROUP)
        area[l] = through;
    SYNC();
    for_each(i, CHUNK) {
        float part = 0;
        for (int d = 1; d < DOTS; d++) {
            into[i] += into[d * CHUNK + i];
            out[i] += out[d * CHUNK + i];
            if (ERASE_BEFORE)
                into_before[ERASE_BEFORE ? i : 0] += into_before[ERASE_BEFORE ? d * CHUNK + i : 0];
        }
        for (int l = i; l < GROUP; l += CHUNK)
            part += area[l];
        decay[i] = begun[CHUNK] * part; /* of what flows through the chunk */
    }
    SYNC();
    for_each(t, CHUNK) {
        float sum = crossing[t];
        for (int i = 0; i < CHUNK; i++) {
            sum += decay[i] + (i < t ? out[i] : into[i]);
            if (ERASE_BEFORE && i > t)
                sum += into_before[ERASE_BEFORE ? i : 0];
        }
        flows[flows_at.x + (row0 + t) * heads + head] = sum;
    }
}
