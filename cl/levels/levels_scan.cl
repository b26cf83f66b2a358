/* Chunk by chunk, with a state for each bucket of earlier tokens (levels.clh). For a chunk of C tokens, A, T and the
 * factors e^G are those of prepare.cl, L_ij = the weight with which token i reads token j, and S_b the state of a bucket:
 *     D_b = -T (P o e^G) S_b          what the chunk erases from the bucket (0 if the rule does not erase)
 *     O   = sum_b L_b o ((Q o e^G) S_b + A D_b) + ((A T) o L) X
 *     S_b = e^(G_C) S_b + (K o e^(G_C - G))^T D_b
 * At the chunk's end the buckets up to the highest bit that its positions change become one, together with the chunk's
 * own writes, D = T X of the tokens that the bucket has. If the chunk does not end at a multiple of a power of two that
 * large, its last tokens form smaller buckets. Without an erase, S_b waits: a factor says how much it has decayed.
 * One group: BV value columns of one head of one sequence. */
#include "levels.clh"

#define ROWS ((1 + ERASES) * CHUNK) /* that multiply a state: of q, and of the erase key */

/* A slice of a bucket, [BK][BV]. Each lane stores what it will load again, so that no barrier is needed. */
WORD void slice_load(local float *S, global const float *bucket, int n0)
{
    for_each(i, BK * BV / VEC)
        vec_store(vec_load(bucket + n0 * BV + i * VEC), S + i * VEC);
}
WORD void slice_add(local float *S, global const float *bucket, float factor, int n0)
{
    for_each(i, BK * BV / VEC)
        vec_store(vec_load(S + i * VEC) + factor * vec_load(bucket + n0 * BV + i * VEC), S + i * VEC);
}
WORD void slice_store(global float *bucket, local const float *S, int n0)
{
    for_each(i, BK * BV / VEC)
        vec_store(vec_load(S + i * VEC), bucket + n0 * BV + i * VEC);
}
/* The same from and to the caller's states */
WORD void slice_begin(global float *bucket, global const state_t *from, int n0, int c0)
{
    for_each(i, BK * BV / VEC) {
        int n = n0 + i / (BV / VEC), c = i % (BV / VEC) * VEC;
        vec_store(state_row(from, n, c0 + c), bucket + n * BV + c);
    }
}
WORD void slice_end(global state_t *to, global const float *bucket, float factor, int n0, int c0)
{
    for_each(i, BK * BV / VEC) {
        int n = n0 + i / (BV / VEC), c = i % (BV / VEC) * VEC;
        state_row_store(bucket != 0 ? factor * vec_load(bucket + n * BV + c) : (vec)(0), to, n, c0 + c);
    }
}

/* U[i][:] *= -factor[i] */
WORD void tile_erase(local float *U, local const float *factor)
{
    for_each(task, CHUNK * (BV / VEC))
        vec_store(-factor[task / (BV / VEC)] * vec_load(U + task * VEC), U + task * VEC);
}

/* Rows from … until of the values, and 0 in place of the others */
WORD void value_rows_of(local float *to, local const float *X, int from, int until)
{
    for_each(task, CHUNK * (BV / VEC)) {
        int i = task / (BV / VEC);
        vec_store(i >= from && i < until ? vec_load(X + task * VEC) : (vec)(0), to + task * VEC);
    }
}

/* Rows from … until of the written values, times their factors; 0 elsewhere, or what is there already */
WORD void written_rows(local float *E, local const float *D, local const float *factor, int from, int until, int adds)
{
    for_each(task, CHUNK * (BV / VEC)) {
        int i = task / (BV / VEC);
        vec x = adds ? vec_load(E + task * VEC) : (vec)(0);
        if (i >= from && i < until)
            x += factor[i] * vec_load(D + task * VEC);
        vec_store(x, E + task * VEC);
    }
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global out_t, o) \
    X(global const float, levels) X(global const int, cu) X(global const int, slots) X(global const int, position) \
    X(global const float, records) X(global float, buckets)
#define OPTIONALS(X) \
    X(global const state_t, initial) X(global state_t, final)
/* clang-format on */
KERNEL
levels_scan(TENSORS(PARAMETER) OPTIONALS(OPTIONAL) int seq_len, float scale, int states)
{
    TENSORS(ABSENT)
    OF_OTHER_WORDS
    LOCAL_FLOATS(reading, LOCAL_READING) /* all slices of the rows that read: [KP / BK][ROWS][RP] */
    LOCAL_FLOATS(writing, LOCAL_WRITING) /* and of k: [KP / BK][CHUNK][RP] */
    LOCAL_FLOATS(S, LOCAL_STATE)
    LOCAL_FLOATS(R, LOCAL_READ) /* what they read of a bucket: [ROWS][BV] */
    LOCAL_FLOATS(X, LOCAL_VALUES)
    LOCAL_FLOATS(D, LOCAL_WRITTEN)
    LOCAL_FLOATS(E, LOCAL_MERGED) /* what is written into the buckets that become one */
    LOCAL_FLOATS(O, LOCAL_OUTPUT)
    LOCAL_FLOATS(A, LOCAL_SCORES)
    LOCAL_FLOATS(T, LOCAL_SOLVED)
    LOCAL_FLOATS(B, LOCAL_OWN) /* (A T) o L */
    local float factors[FACTORS], weights[LOCAL_WEIGHTS];
    float faded[LEVELS]; /* without an erase: what the decays of the chunks before have left of a bucket's state */
    place at =
        place_with_states(place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at), states, slots, slots_at);
    int c0 = get_group_id(2) * BV, heads = get_num_groups(1);
    long slot = slot_of(at, seq_len);
    uint here = first_position(at), live = first_buckets(at, here);

    for (int b = 0; b < BUCKETS; b++) {
        faded[b] = 1;
        for (int n0 = 0; n0 < KP && (live >> b & 1); n0 += BK)
            slice_begin(bucket_of(buckets, buckets_at, at, b), level_of_state(initial, at, b + 1), n0, c0);
    }
    for (int row = 0; row < at.rows; row += CHUNK, slot++) {
        global const float *record = records + records_at.x + (slot * heads + at.head) * RECORD;
        global const float *weight = levels + at_row(levels_at, at.batch, at.first + row, at.head);
        chunk_t chunk = chunk_at(at, row);
        uint next = here + (uint)chunk.count;
        int merged = level_between(here, next) - 1; /* the bucket that those up to it become */
        int keeps = row + CHUNK < at.rows || (at.states & HAS_final);

        SYNC();
        copy_in(factors, record + (1 + ERASE_MATRICES) * MATRIX, FACTORS);
        copy_in(A, record, MATRIX);
        if (ERASES)
            copy_in(T, record + MATRIX, MATRIX);
        for_each(i, CHUNK * LEVELS)
            weights[i] = i / LEVELS < chunk.count ? weight[i / LEVELS * levels_at.z + i % LEVELS] : 0;
        tile_zero(O, CHUNK * BV);
        tile_zero(D, CHUNK * BV);
        tile_zero(E, CHUNK * BV);
        tile_zero(B, MATRIX);
        SYNC();
        value_rows(X, strength_of(factors), v, v_at, w, w_at, c0, chunk);
        for (int n0 = 0; n0 < KP; n0 += BK) {
            query_rows(reading + n0 / BK * (ROWS * RP), norm_of_q(factors), q, q_at, n0, chunk, scale);
            erase_key_rows(reading + n0 / BK * (ROWS * RP) + CHUNK * RP, norm_of_k(factors), k, k_at, p, p_at, n0,
                           chunk);
            key_rows(writing + n0 / BK * (CHUNK * RP), norm_of_k(factors), k, k_at, n0, chunk);
        }
        if (ERASES)
            mma(B, 0, 0, A, CP, 1, T, CHUNK, CP, CHUNK, 1);
        SYNC();

        /* The chunk's own tokens */
        for_each(i, CHUNK * CP) {
            int row_i = i / CP, j = i % CP;
            float x = ERASES ? B[i] : A[i];
            if (j <= row_i && row_i < chunk.count) {
                int level = level_between(here + row_i, here + j);
                B[i] = level < LEVELS ? x * weights[row_i * LEVELS + level] : 0.0f; /* a level that does not exist */
            }
        }
        SYNC();
        mma_lower(O, B, X, BV);
        SYNC();

        /* Each bucket */
        for (int b = 0; b < BUCKETS; b++) {
            global float *bucket = bucket_of(buckets, buckets_at, at, b);
            if (!(live >> b & 1))
                continue;
            tile_zero(R, ROWS * BV);
            for (int n0 = 0; n0 < KP; n0 += BK) {
                SYNC();
                slice_load(S, bucket, n0);
                SYNC();
                mma(R, 0, 0, reading + n0 / BK * (ROWS * RP), RP, 1, S, ROWS, BV, BK, 0);
            }
            SYNC();
            tile_scale_rows(R, query_factor(factors), CHUNK, BV);
            if (ERASES) {
                tile_erase(R + CHUNK * BV, erase_factor(factors));
                tile_zero(D, CHUNK * BV);
                SYNC();
                mma_lower(D, T, R + CHUNK * BV, BV);
                SYNC();
                mma_lower(R, A, D, BV);
            }
            SYNC();
            for_each(task, CHUNK * (BV / VEC)) {
                int i = task / (BV / VEC), level = level_of_bucket(b, here + i, here);
                if (i < chunk.count && level < LEVELS)
                    vec_store(vec_load(O + task * VEC) +
                                  weights[i * LEVELS + level] * faded[b] * vec_load(R + task * VEC),
                              O + task * VEC);
            }
            if (!ERASES && b > merged)
                faded[b] *= across_factor(factors)[0];
            if (!ERASES || !keeps)
                continue;
            if (b < merged) {
                written_rows(E, D, write_factor(factors), 0, CHUNK, 1);
                continue;
            }
            tile_scale_rows(D, write_factor(factors), CHUNK, BV);
            for (int n0 = 0; n0 < KP; n0 += BK) {
                SYNC();
                slice_load(S, bucket, n0);
                SYNC();
                mma_atb(S, across_factor(factors), 0, writing + n0 / BK * (CHUNK * RP), D, BV);
                SYNC();
                slice_store(bucket, S, n0);
            }
        }

        /* The bucket of all that the chunk's positions change, then those of its last tokens */
        for (int b = keeps ? merged : -1, from = 0; b >= 0; b--) {
            int until = from + (int)(1u << b);
            if (!(next >> b & 1))
                continue;
            if (b == merged)
                until = (int)((next & ~(buckets_up_to(b) >> 1)) - here);
            if (b < BUCKETS) {
                if (ERASES) {
                    SYNC();
                    value_rows_of(R, X, from, until);
                    tile_zero(D, CHUNK * BV);
                    SYNC();
                    mma_lower(D, T, R, BV);
                    SYNC();
                    written_rows(E, D, write_factor(factors), 0, CHUNK, b == merged);
                } else
                    written_rows(E, X, write_factor(factors), from, until, b == merged);
                for (int n0 = 0; n0 < KP; n0 += BK) {
                    SYNC();
                    tile_zero(S, BK * BV);
                    for (int small = 0; small < BUCKETS && b == merged; small++)
                        if ((live & buckets_up_to(b)) >> small & 1)
                            slice_add(S, bucket_of(buckets, buckets_at, at, small), faded[small], n0);
                    SYNC();
                    mma_atb(S, across_factor(factors), 0, writing + n0 / BK * (CHUNK * RP), E, BV);
                    SYNC();
                    slice_store(bucket_of(buckets, buckets_at, at, b), S, n0);
                }
                faded[b] = 1;
                SYNC();
            }
            from = until;
        }
        live = ((live & ~buckets_up_to(merged)) | (next & buckets_up_to(merged))) & ALL_BUCKETS;
        here = next;
        SYNC();
        output_store(O, c0, chunk);
    }
    for (int level = 0; level < LEVELS && (at.states & HAS_final); level++) {
        int b = level - 1, has = level > 0 && (live >> b & 1);
        for (int n0 = 0; n0 < KP; n0 += BK)
            slice_end(level_of_state(final, at, level), has ? bucket_of(buckets, buckets_at, at, b) : 0,
                      has ? faded[b] : 0, n0, c0);
    }
}
