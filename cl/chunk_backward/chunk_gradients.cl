/* The gradients by the rows of a chunk, from the state S before it, the gradient dS by the state after it, and what its
 * rows write (E) and lose (dX), of rules with a log-decay a channel; others have scalar_gradients.cl. With G the sums of
 * log-decays from the begin of the chunk, a read stream (r, c) is the rows that read a state and the gradients of what they
 * read, a write stream (k, y) the rows that are written and their values:
 *
 *     reads     (q', do), and (p, -dx) where the rule erases; of low rank (a, z), which reads before the decay
 *     writes    (beta k, E); of low rank (k, v) and (b, u)
 *     B_ij    = c_i . y_j                                                                 i sees j
 *     dr_i    = e^(G_i) o (S c_i) + sum_j B_ij k_j o e^(G_i - G_j)
 *     dk_j    = e^(G_C - G_j) o (dS y_j) + sum_i B_ij r_i o e^(G_i - G_j)
 *     dg_t    = e^(G_C) rowsum(S o dS) + sum over i >= t of r_i o e^(G_i) o (S c_i)
 *               + sum over j < t of k_j o e^(G_C - G_j) o (dS y_j) + sum over i >= t > j of B_ij r_i o k_j o e^(G_i - G_j)
 *
 * A stream that reads before its row's decay has e^(G_i - g_i) and i > t. No sum is a difference of sums, and no factor is
 * above 1. One group: one chunk of one head; its products go by slices of BK channels and BV value columns. On a matrix
 * engine channel_gradients.cl computes the same. */

#define LOW_RANK (ERASE_STREAMS > 1)
#define ERASES (ERASE_STREAMS > 0)
enum { PAIR_QK, PAIR_PK, PAIR_QB, PAIR_PB }; /* B of the streams q or p, and k or b */

/* Between products a lane has channels of its own: one, or a vector of them where it is alone. */
#if GROUP == 1
typedef vec lane_t;
enum { WIDTH = VEC };
#define lane_at(p) vec_at(p)
#define lane_row(STORAGE, x, n) CAT(STORAGE, _row)(x, n, KEY_DIM)
#define lane_store(x, to) vec_store(x, to)
#define one_by_one
#else
typedef float lane_t;
enum { WIDTH = 1 };
#define lane_at(p) (*(p))
#define lane_row(STORAGE, x, n) CAT(STORAGE, _get)(x, n)
#define lane_store(x, to) (*(to) = (x))
#define one_by_one _Pragma("unroll 1") /* what is indexed in the loop within stays in registers */
#endif

/* The decay of a row: of VEC channels from n on, or of a lane's */
#define row_factor(row, n) exp2(LOG2E *f32_row(logs + logs_at.x + ((row)*heads + head) * KEY_DIM, n, KEY_DIM))
#define lane_factor(row, n) exp2(LOG2E *lane_row(f32, logs + logs_at.x + ((row)*heads + head) * KEY_DIM, n))
/* The same channels of a row of keys */
#define key_row(rows, row, n) key_row_(rows, row, n)
#define key_row_(rows, row, n) data_row(rows + rows##_at.x + ((row)*heads + head) * KEY_DIM, n, KEY_DIM)
#define lane_key(rows, row, n) lane_key_(rows, row, n)
#define lane_key_(rows, row, n) lane_row(DATA, rows + rows##_at.x + ((row)*heads + head) * KEY_DIM, n)
/* A lane's channels of row i of a tile of rows by channels */
#define at_slice(X, i) lane_at((X) + (i)*BK + task * WIDTH)

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
chunk_gradients(TENSORS(PARAMETER) int seq_len, int sequences, float scale)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(B, LOCAL_PAIRS) /* [PAIRS][CHUNK][CP] */
    LOCAL_FLOATS(area, LOCAL_AREA)
    PRODUCT_LOCALS
    LOCAL_FLOATS(through, BK) /* rowsum(S o dS) */
    /* Sums of rows by channels, [CHUNK][BK] */
    local float *dq = area, *dk = dq + CHUNK * BK, *dp = dk + CHUNK * BK, *db = dp + CHUNK * BK;
    /* do, what rows write, -dx or z, and u, [CHUNK][BV]; S and dS, [BV][BK] */
    local tile_t *cotangents = (local tile_t *)(area + AT_TILES), *values = cotangents + CHUNK * VALUE_PITCH,
                 *lost = values + CHUNK * VALUE_PITCH, *second = lost + ERASES * CHUNK * VALUE_PITCH,
                 *S = second + LOW_RANK * CHUNK * VALUE_PITCH, *dS = S + BV * STATE_PITCH;
    engine_t m = product_begin();
    sums_t sums_q, sums_k, sums_p, sums_b;
    long slot = get_group_id(0), heads = get_num_groups(1), head = get_group_id(1);
    place at = place_of_padded(slot, head, sequences, seq_len, cu, cu_at);
    long row0 = slot * CHUNK, next = row0 + CHUNK;
    int is_last = slot + 1 == padded_end(at, seq_len);
    global const float *before =
        state_before(at, slot, seq_len, HAS_begins ? begins + begins_at.x : 0, down + down_at.x);
    global const float *after = state_after(at, slot, seq_len, HAS_ends ? ends + ends_at.x : 0, up + up_at.x);

    if (slot >= padded_end(at, seq_len))
        return;
    for (int pass = 0; pass <= (PITCH + BK - 1) / BK; pass++) { /* the first: B; then a slice of channels each */
        int n0 = (pass - 1) * BK;

        SYNC();
        if (pass == 0)
            tile_zero(B, PAIRS * CHUNK * CP);
        else {
            sums_begin(&sums_q, dq);
            sums_begin(&sums_k, dk);
            if (ERASES)
                sums_begin(&sums_p, dp);
            if (LOW_RANK)
                sums_begin(&sums_b, db);
            for_each(n, BK)
                through[n] = 0;
        }
        for (int c0 = 0; c0 < VALUE_DIM; c0 += BV) {
            SYNC();
            for_each(task, CHUNK * (BV / VEC) * (pass == 0 || BV < VALUE_DIM)) {
                int i = task / (BV / VEC), c = c0 + task % (BV / VEC) * VEC;
                int to = i * VALUE_PITCH + c - c0;
                long row = (row0 + i) * heads + head, last = row - heads;
                float strength = HAS_strengths ? strengths[strengths_at.x + row] : 1.0f;
                vec x = data_row(rows_x + rows_x_at.x + row * VALUE_DIM, c, VALUE_DIM), gone = 0;
                if (ERASES && last >= 0)
                    gone = f32_row(read + read_at.x + last * VALUE_DIM, c, VALUE_DIM);
                tile_put(data_row(rows_d + rows_d_at.x + row * VALUE_DIM, c, VALUE_DIM), cotangents + to);
                tile_put(ERASES && !LOW_RANK ? x - gone : x, values + to);
                if (LOW_RANK)
                    tile_put(gone, second + to);
                if (LOW_RANK)
                    tile_put(f32_row(low + low_at.x + row * VALUE_DIM, c, VALUE_DIM), lost + to);
                else if (ERASES)
                    tile_put(-strength * f32_row(written + written_at.x + row * VALUE_DIM, c, VALUE_DIM), lost + to);
            }
            for_each(task, BV * (BK / VEC) * (pass > 0)) {
                int c = c0 + task / (BK / VEC), n = n0 + task % (BK / VEC) * VEC;
                int inside = c < VALUE_DIM && n < KEY_DIM;
                vec s = 0, ds = 0;
                if (inside && before != 0)
                    s = f32_row(before + (long)c * KEY_DIM, n, KEY_DIM);
                if (inside && after != 0)
                    ds = scale * row_factor(next, n) * f32_row(after + (long)c * KEY_DIM, n, KEY_DIM);
                if (ERASES && inside) { /* what the next row erases */
                    long row = next * heads + head;
                    float strength = HAS_strengths ? strengths[strengths_at.x + row] : 1.0f;
                    float gone = LOW_RANK ? low[low_at.x + row * VALUE_DIM + c]
                                          : -strength * written[written_at.x + row * VALUE_DIM + c];
                    if (!is_last)
                        ds += gone * key_row(rows_f, next, n);
                }
                tile_put(s, S + (c - c0) * STATE_PITCH + n - n0);
                tile_put(ds, dS + (c - c0) * STATE_PITCH + n - n0);
            }
            SYNC();
            if (pass == 0) {
                pair_products(m, B + PAIR_QK * CHUNK * CP, cotangents, values);
                if (ERASES)
                    pair_products(m, B + PAIR_PK * CHUNK * CP, lost, values);
                if (LOW_RANK) {
                    pair_products(m, B + PAIR_QB * CHUNK * CP, cotangents, second);
                    pair_products(m, B + PAIR_PB * CHUNK * CP, lost, second);
                }
                continue;
            }
            sums_add(m, &sums_q, dq, cotangents, S);
            sums_add(m, &sums_k, dk, values, dS);
            if (ERASES)
                sums_add(m, &sums_p, dp, lost, S);
            if (LOW_RANK)
                sums_add(m, &sums_b, db, second, dS);
            for_each(task, BK / WIDTH) {
                lane_t sum = at_slice(through, 0);
                for (int c = 0; c < BV; c++) {
                    int from = c * STATE_PITCH + task * WIDTH;
                    sum += lane_at(S + from) * lane_at(dS + from);
                }
                at_slice(through, 0) = sum;
            }
        }
        if (pass == 0)
            continue;
        SYNC();
        for_each(task, BK / WIDTH) {
            int n = n0 + task * WIDTH;
            lane_t keys[CHUNK], by_keys[CHUNK], lows[LOW_RANK ? CHUNK : 1], by_lows[LOW_RANK ? CHUNK : 1];
            lane_t flow[CHUNK], fade[CHUNK]; /* dg; e^(G_i - G_j) of the row i at work */
            lane_t factor = 1, run = 0, run_before = 0;
#if GROUP == 1 /* a work-item has room for what another makes again */
            lane_t factors[CHUNK];
#define factor_of(i) factors[i]
#else
#define factor_of(i) lane_factor(row0 + (i), n)
#endif
            global float *to = parts + parts_at.x + (row0 * heads + head) * STREAMS * PITCH + n;
            const long pitch = heads * STREAMS * PITCH; /* from row to row */

            if (n >= KEY_DIM) { /* the rows of parts are wider */
                for (int i = 0; i < CHUNK * STREAMS && n < PITCH; i++)
                    lane_store((lane_t)(0), to + i / STREAMS * pitch + i % STREAMS * PITCH);
                continue;
            }
#if GROUP == 1
            for (int i = 0; i < CHUNK; i++)
                factors[i] = lane_factor(row0 + i, n);
#endif
            /* What meets the states before and after the chunk */
            unrolled
            for (int i = 0; i < CHUNK; i++) {
                long row = row0 + i;
                lane_t before_row = factor;
                factor *= factor_of(i);
                keys[i] =
                    (HAS_strengths ? strengths[strengths_at.x + row * heads + head] : 1.0f) * lane_key(rows_k, row, n);
                if (LOW_RANK)
                    lows[LOW_RANK ? i : 0] = lane_key(rows_n, row, n);
                at_slice(dq, i) *= factor;
                if (ERASES)
                    at_slice(dp, i) *= ERASE_BEFORE ? before_row : factor;
            }
            run = at_slice(through, 0) * factor;
            factor = 1;
            unrolled
            for (int i = CHUNK - 1; i >= 0; i--) {
                long row = row0 + i;
                by_keys[i] = factor * at_slice(dk, i);
                if (LOW_RANK)
                    by_lows[LOW_RANK ? i : 0] = factor * at_slice(db, i);
                factor *= factor_of(i);
                run += scale * lane_key(rows_q, row, n) * at_slice(dq, i);
                if (ERASES && !ERASE_BEFORE)
                    run += lane_key(ERASE_ROWS, row, n) * at_slice(dp, i);
                flow[i] = run + run_before;
                if (ERASES && ERASE_BEFORE)
                    run_before += lane_key(ERASE_ROWS, row, n) * at_slice(dp, i);
            }
            run = 0;
            fade[0] = 1;
            unrolled
            for (int t = 0; t < CHUNK; t++) {
                flow[t] += run;
                run += keys[t] * by_keys[t];
                if (LOW_RANK)
                    run += lows[LOW_RANK ? t : 0] * by_lows[LOW_RANK ? t : 0];
                fade[t] = 1;
            }
            /* What rows of the chunk read of each other */
            one_by_one for (int i = 0; i < CHUNK; i++)
            {
                local const float *row_b = B + i * CP;
                lane_t q = scale * lane_key(rows_q, row0 + i, n), by_q = at_slice(dq, i), by_p = 0, p = 0, here = 1;
                lane_t crossing = 0, crossing_before = 0;

                if (ERASES) {
                    p = lane_key(ERASE_ROWS, row0 + i, n);
                    by_p = at_slice(dp, i);
                }
                here = factor_of(i);
                unrolled
                for (int j = 0; j < CHUNK; j++) {
                    const int l = LOW_RANK ? j : 0;
                    lane_t old = fade[j], f = j < i ? old * here : old, by_key, by_low = 0, b_q, b_p = 0;
                    if (j > i)
                        continue;
                    fade[j] = f;
                    b_q = f * row_b[PAIR_QK * CHUNK * CP + j];
                    by_q += b_q * keys[j];
                    by_key = b_q * q;
                    if (LOW_RANK) {
                        lane_t b = f * row_b[PAIR_QB * CHUNK * CP + j];
                        by_q += b * lows[l];
                        by_low = b * q;
                    }
                    if (j == i) { /* the row reads its own write, after it erased */
                        by_keys[j] += by_key;
                        if (LOW_RANK)
                            by_lows[l] += by_low;
                        continue;
                    }
                    if (ERASES) {
                        b_p = (ERASE_BEFORE ? old : f) * row_b[PAIR_PK * CHUNK * CP + j];
                        by_p += b_p * keys[j];
                        if (!ERASE_BEFORE)
                            by_key += b_p * p;
                    }
                    crossing += by_key * keys[j];
                    if (LOW_RANK)
                        crossing += by_low * lows[l];
                    if (ERASES && ERASE_BEFORE) {
                        by_key += b_p * p;
                        crossing_before += b_p * p * keys[j];
                    }
                    if (LOW_RANK) {
                        lane_t b = old * row_b[PAIR_PB * CHUNK * CP + j];
                        by_p += b * lows[l];
                        by_low += b * p;
                        crossing_before += b * p * lows[l];
                    }
                    by_keys[j] += by_key;
                    if (LOW_RANK)
                        by_lows[l] += by_low;
                    if (j + 1 < CHUNK)
                        flow[j + 1] += j + 1 < i ? crossing + crossing_before : crossing;
                }
                lane_store(by_q, to + i * pitch);
                if (ERASES)
                    lane_store(by_p, to + i * pitch + 2 * PITCH);
            }
            unrolled
            for (int i = 0; i < CHUNK; i++) {
                lane_store(by_keys[i], to + i * pitch + PITCH);
                if (LOW_RANK)
                    lane_store(by_lows[LOW_RANK ? i : 0], to + i * pitch + 3 * PITCH);
                if (FLOWS)
                    lane_store(flow[i], to + i * pitch + (2 + ERASE_STREAMS) * PITCH);
            }
        }
    }
}
