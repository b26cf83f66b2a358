/* W^T x, which batches of CHUNK tokens train, on a matrix engine: W and M in registers from batch to batch. A and factors
 * are the chunk's record (ttt_record.clh):
 *     Z = K W + c               what the weights before the batch make of its keys
 *     D = the gradient of the losses by Z
 *     O = kept o (scale Q W + c) + moved o (scale Q M + c_M) + A D
 *     W = kept W + moved M - (K o last)^T D,      M = moment M - (K o last_moment)^T D, the biases alike
 * One group: VALUES value columns of one head of one sequence; all of them, where rows are normalised. A sub-group:
 * ACC_ROWS columns. All tiles lie transposed, [value][channel] and [value][token], so that the sums of one product are
 * the operand of the next without an exchange between lanes.
 *
 * A slot of local memory has a chunk's q, k, v and record. There are three: that of this chunk, and of the two after it,
 * which are on their way. Outputs are normalised and stored while the chunk after theirs is computed; they lie in the
 * place of its v by then. */
#include "ttt_record.clh"

#define VALUE_PITCH (VALUES + 8)
#define KEYS_AT (CHUNK * PITCH)
#define VALUES_AT (2 * CHUNK * PITCH)
#define RECORD_AT (VALUES_AT + CHUNK * VALUE_PITCH)
#define SLOT (RECORD_AT + 2 * RECORD)
#define NORMED (READOUT != READOUT_NONE)

/* ---- Chunks to local memory ---- */

typedef struct {
    global const data_t *q, *k, *v;
    global const uint *record;
    long q_step, k_step, v_step, next_record;
    int aligned;
} source_t;

WORD void rows_copy(local data_t *to, int pitch, global const data_t *from, long step, int width, int count, int whole)
{
    copies_unrolled for (int task = LANE; task < CHUNK * (width / 8); task += GROUP)
    {
        int i = task / (width / 8), n = task % (width / 8) * 8;
        if (whole)
            piece_copy(to + i * pitch + n, from + i * step + n);
        else
            piece_put(to + i * pitch + n, piece_part(from + i * step + n, i < count ? 8 : 0));
    }
}
/* Chunk n, of `count` rows, if there are any; those beyond are zero. It is there after copies_end and a barrier. */
WORD void slot_fill(local data_t *slots, const source_t *from, int n, int count)
{
    local data_t *slot = slots + n % SLOTS * SLOT;
    global const data_t *record = (global const data_t *)(from->record + n * from->next_record);
    const int whole = from->aligned && count >= CHUNK;
    const long row = (long)n * CHUNK;

    if (count > 0) {
        rows_copy(slot, PITCH, from->q + row * from->q_step, from->q_step, WIDTH, count, whole);
        rows_copy(slot + KEYS_AT, PITCH, from->k + row * from->k_step, from->k_step, WIDTH, count, whole);
        rows_copy(slot + VALUES_AT, VALUE_PITCH, from->v + row * from->v_step, from->v_step, VALUES, count, whole);
        copies_unrolled for (int task = LANE; task < RECORD / 4; task += GROUP)
            piece_copy(slot + RECORD_AT + task * 8, record + task * 8);
    }
}

/* ---- Rows of an acc: value columns ---- */

/* The lane's numbers of x, which has one for each value column; without x 0 */
WORD acc_rows_t columns_load(engine_t m, global const float *x, int c0)
{
    float element[LANE_ROWS];

    engine_unrolled
    for (int i = 0; i < LANE_ROWS; i++)
        element[i] = x != 0 ? x[c0 + acc_row(m, acc_rows_element(i))] : 0.0f;
    return acc_rows_get(element);
}
WORD void columns_store(engine_t m, global float *x, acc_rows_t from, int c0)
{
    float element[LANE_ROWS];

    acc_rows_put(from, element);
    engine_unrolled
    for (int i = 0; i < LANE_ROWS; i++)
        if (x != 0 && acc_column(m, acc_rows_element(i)) == 0)
            x[c0 + acc_row(m, acc_rows_element(i))] = element[i];
}
/* W of the sub-group's columns, from and to [channel][value]; from NULL: zeros, to NULL: to nowhere */
WORD void weights_load(engine_t m, acc_t *W, global const float *from, int c0)
{
    engine_unrolled
    for (int kt = 0; kt < KT; kt++) {
        float element[ACC];
        engine_unrolled
        for (int e = 0; e < ACC; e++)
            element[e] = from != 0 ? from[(kt * 16 + acc_column(m, e)) * VALUE_DIM + c0 + acc_row(m, e)] : 0.0f;
        W[kt] = CAT(vload, ACC)(0, element);
    }
}
WORD void weights_store(engine_t m, global float *to, const acc_t *W, int c0)
{
    engine_unrolled
    for (int kt = 0; kt < KT; kt++) {
        float element[ACC];
        CAT(vstore, ACC)(W[kt], 0, element);
        engine_unrolled
        for (int e = 0; e < ACC; e++)
            if (to != 0)
                to[(kt * 16 + acc_column(m, e)) * VALUE_DIM + c0 + acc_row(m, e)] = element[e];
    }
}

/* ---- Columns of an acc: tokens. What sub-groups find of their value columns they leave in local memory,
 * [which][sub-group][token]: moments of Z and of the outputs before it, and sums for the gradient. ---- */

#define LOSS_MOMENTS 0
#define READ_MOMENTS 2
#define LOSS_SUMS 4
#define SUMS_COUNT 6
#define sum_of(sums, which, sub) ((sums) + ((which)*SUBS + (sub)) * CHUNK)
/* What a sub-group makes of these for itself, of whole rows, [which][token]: the means and 1 / deviation of Z and of
 * the outputs; the means for the gradient */
#define FACTOR CHUNK
#define OF_READ (2 * CHUNK)
#define FIRST (4 * CHUNK)
#define SECOND (5 * CHUNK)
#define OWN (6 * CHUNK)

WORD void moments_leave(engine_t m, local float *sums, int which, const acc_t *x)
{
    engine_unrolled
    for (int t = 0; t < NT; t++)
        acc_column_moments(m, x[t], sum_of(sums, which, SUB) + t * 16, sum_of(sums, which + 1, SUB) + t * 16);
}
/* The sub-groups' numbers of a token */
WORD void numbers_load(float *to, local const float *from)
{
    engine_unrolled
    for (int s = 0; s < SUBS; s++)
        to[s] = from[s * CHUNK];
}
WORD float numbers_sum(const float *x)
{
    float sum = 0;

    engine_unrolled
    for (int s = 0; s < SUBS; s++)
        sum += x[s];
    return sum;
}
WORD void moments_find(engine_t m, local const float *sums, local float *own)
{
    for (int i = m.lane + (LOSS == LOSS_LN ? 0 : CHUNK); i < (NORMED ? 2 : 1) * CHUNK; i += ENGINE_LANES) {
        const int which = i / CHUNK * READ_MOMENTS, token = i % CHUNK;
        float means[SUBS], squares[SUBS], mean;
        numbers_load(means, sum_of(sums, which, 0) + token);
        numbers_load(squares, sum_of(sums, which + 1, 0) + token);
        mean = numbers_sum(means) * (1.0f / SUBS);
        engine_unrolled
        for (int s = 0; s < SUBS; s++)
            squares[s] += ACC_ROWS * (means[s] - mean) * (means[s] - mean);
        own[i / CHUNK * OF_READ + token] = mean;
        own[i / CHUNK * OF_READ + FACTOR + token] = rsqrt(numbers_sum(squares) * (1.0f / VALUE_DIM) + 1e-6f);
    }
    engine_sync_own();
}
WORD void means_find(engine_t m, local const float *sums, local float *own)
{
    for (int i = m.lane; i < 2 * CHUNK; i += ENGINE_LANES) {
        float x[SUBS];
        numbers_load(x, sum_of(sums, LOSS_SUMS + i / CHUNK, 0) + i % CHUNK);
        own[FIRST + i] = numbers_sum(x) * (1.0f / VALUE_DIM);
    }
    engine_sync_own();
}
/* (x - mean) / deviation of tile t, `of` the one or the other */
WORD acc_t normalized(engine_t m, acc_t x, local const float *of, int t)
{
    return (x - acc_factors(m, of + t * 16)) * acc_factors(m, of + FACTOR + t * 16);
}

/* ---- Outputs ---- */

typedef struct {
    acc_rows_t weight, shift;
} norm_t;

/* The outputs of `count` tokens to global memory, by way of the place of a chunk's v, where the sub-group's columns are
 * its own; `asked` q, of the columns of the values */
WORD void outputs_store(engine_t m, global out_t *o, long step, local data_t *slot, const acc_t *O,
                        const chain_t *asked, norm_t norm, local const float *own, float scale, int count)
{
    const int aligned = (ulong)o % 16 == 0 && step % 8 == 0;
    local data_t *tile = slot + VALUES_AT + SUB * ACC_ROWS;

    engine_unrolled
    for (int t = 0; t < NT; t++) {
        acc_t x = O[t];
        if (NORMED)
            x = (READOUT == READOUT_Q ? scale * acc_of(m, asked[t]) : x) +
                acc_of_rows(norm.weight) * normalized(m, x, own + OF_READ, t) + acc_of_rows(norm.shift);
        acc_put_t(m, (local out_t *)tile + t * 16 * VALUE_PITCH, VALUE_PITCH, x);
    }
    engine_sync_own();
    engine_unrolled
    for (int task = m.lane; task < CHUNK * (ACC_ROWS / 8); task += ENGINE_LANES) {
        int i = task / (ACC_ROWS / 8), c = task % (ACC_ROWS / 8) * 8;
        local const data_t *from = tile + i * VALUE_PITCH + c;
        global out_t *to = o + i * step + c;
        if (i < count && aligned)
            *(global uint4 *)to = *(local const uint4 *)from;
        else if (i < count)
            for (int e = 0; e < 8; e++)
                ((global ushort *)to)[e] = ((local const ushort *)from)[e];
    }
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global out_t, o) \
    X(global const int, cu) X(global const uint, records) X(global const float, ln_weight) \
    X(global const float, ln_bias) X(global const float, w1) X(global const float, b1) \
    X(global const float, initial_momentum) X(global float, final_w1) X(global float, final_b1) \
    X(global float, final_momentum)
/* clang-format on */
#define OF_HEAD(x) (HAS_##x ? x + at_row(x##_at, at.sequence, 0, at.head) : 0)

KERNEL
ttt_matrix(TENSORS(PARAMETER) int seq_len, float scale)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(slots, LOCAL_SLOTS)
    LOCAL_FLOATS(sums, LOCAL_SUMS)
    ENGINE_LOCALS
    const engine_t m = engine_begin(engine_scratch);
    const place at = place_of(get_group_id(0), get_group_id(1), seq_len, cu, cu_at);
    const int column = (int)get_group_id(2) * VALUES, own_column = SUB * ACC_ROWS, c0 = column + own_column;
    const int chunks = (at.rows + CHUNK - 1) / CHUNK, heads = get_num_groups(1);
    const source_t source = {.q = q + at_row(q_at, at.batch, at.first, at.qk_head),
                             .k = k + at_row(k_at, at.batch, at.first, at.qk_head),
                             .v = v + at_row(v_at, at.batch, at.first, at.head) + column,
                             .record = records + records_at.x + (slot_of(at, seq_len) * heads + at.head) * RECORD,
                             .q_step = q_at.z,
                             .k_step = k_at.z,
                             .v_step = v_at.z,
                             .next_record = (long)heads * RECORD,
                             .aligned = rows_aligned(q + at_row(q_at, at.batch, at.first, at.qk_head), q_at.z) &&
                                        rows_aligned(k + at_row(k_at, at.batch, at.first, at.qk_head), k_at.z) &&
                                        rows_aligned(v + at_row(v_at, at.batch, at.first, at.head), v_at.z)};
    global out_t *to = o + at_row(o_at, at.batch, at.first, at.head) + c0;
    global const float *momentum1 = OF_HEAD(initial_momentum);
    global float *momentum2 = OF_HEAD(final_momentum);
    const norm_t norm = {columns_load(m, HAS_ln_weight ? ln_weight + ln_weight_at.x + ln_weight_at.w * at.head : 0, c0),
                         columns_load(m, HAS_ln_bias ? ln_bias + ln_bias_at.x + ln_bias_at.w * at.head : 0, c0)};
    local float *own = sums + SUMS_COUNT * SUBS * CHUNK + SUB * OWN;
    acc_t W[KT], M[MOMENTS ? KT : 1], O[NT];
    chain_t asked[NT]; /* q as the outputs add it */
    acc_rows_t bias = columns_load(m, OF_HEAD(b1), c0), bias_moment = 0;

    engine_unrolled
    for (int t = 0; t < NT; t++) {
        O[t] = 0;
        asked[t] = 0;
    }
    weights_load(m, W, OF_HEAD(w1), c0);
    if (MOMENTS) {
        weights_load(m, M, momentum1, c0);
        if (BIAS)
            bias_moment = columns_load(m, momentum1 != 0 ? momentum1 + KEY_DIM * VALUE_DIM : 0, c0);
    }
    slot_fill(slots, &source, 0, at.rows);
    slot_fill(slots, &source, 1, at.rows - CHUNK);
    copies_end();
    engine_sync_all(); /* the first chunks are in their slots */

    for (int n = 0; n < chunks; n++) {
        local data_t *slot = slots + n % SLOTS * SLOT;
        local const float *factors = (local const float *)(slot + RECORD_AT) + SCORE_WORDS;
        const address_t queries = address_of(slot + frag_lane(m, PITCH));
        const address_t keys = address_plus(queries, KEYS_AT);
        const address_t keys_t = address_of(slot + KEYS_AT + frag_lane_t(m, PITCH));
        const address_t scores = address_of(slot + RECORD_AT + frag_lane(m, SCORE_PITCH));
        const address_t own_columns = address_of(slot + own_column + chain_lane_t(m, PITCH));
        const address_t values = address_of(slot + VALUES_AT + own_column + chain_lane_t(m, VALUE_PITCH));
        acc_t Z[NT], odd[NT], R[NT], moved[NT], error[NT];
        chain_t D[NT];
        acc_rows_t learned = 0, learned_moment = 0;

        /* What the loss compares with */
        engine_unrolled
        for (int t = 0; t < NT; t++) {
            error[t] = acc_of(m, chain_load_t(m, address_plus(values, t * 16 * VALUE_PITCH), VALUE_PITCH));
            if (LOSS == LOSS_LN)
                error[t] -= acc_of(m, chain_load_t(m, address_plus(own_columns, KEYS_AT + t * 16 * PITCH), PITCH));
        }

        /* Z = K W + c, of even and of odd channels apart, R = Q W */
        engine_unrolled
        for (int t = 0; t < NT; t++)
            Z[t] = odd[t] = R[t] = moved[t] = 0;
        engine_unrolled
        for (int kt = 0; kt < KT; kt++) {
            chain_t w = chain_of(m, W[kt]);
            engine_unrolled
            for (int t = 0; t < NT && LOSS != LOSS_DOT; t++) {
                frag_t key = frag_load(m, address_plus(keys, t * 16 * PITCH + kt * 16), PITCH);
                if (kt % 2 == 0)
                    Z[t] = mma_frag(m, Z[t], w, key);
                else
                    odd[t] = mma_frag(m, odd[t], w, key);
            }
            engine_unrolled
            for (int t = 0; t < NT; t++)
                R[t] = mma_frag(m, R[t], w, frag_load(m, address_plus(queries, t * 16 * PITCH + kt * 16), PITCH));
        }
        engine_unrolled
        for (int kt = 0; kt < (MOMENTS ? KT : 0); kt++) {
            chain_t x = chain_of(m, M[kt]);
            engine_unrolled
            for (int t = 0; t < NT; t++)
                moved[t] =
                    mma_frag(m, moved[t], x, frag_load(m, address_plus(queries, t * 16 * PITCH + kt * 16), PITCH));
        }
        if (NORMED) /* while the engine multiplies */
            moments_leave(m, sums, READ_MOMENTS, O);
        engine_unrolled
        for (int t = 0; t < NT; t++)
            Z[t] += odd[t] + acc_of_rows(bias);
        if (LOSS == LOSS_LN)
            moments_leave(m, sums, LOSS_MOMENTS, Z);
        engine_sync_all(); /* moments are there, and the slot of the chunk before is free */
        if (LOSS == LOSS_LN || NORMED)
            moments_find(m, sums, own);
        if (LOSS == LOSS_LN) {
            engine_unrolled
            for (int t = 0; t < NT; t++) {
                Z[t] = normalized(m, Z[t], own, t);
                error[t] =
                    acc_of_rows(norm.weight) * (acc_of_rows(norm.weight) * Z[t] + acc_of_rows(norm.shift) - error[t]);
                acc_column_sums(m, error[t], error[t] * Z[t], sum_of(sums, LOSS_SUMS, SUB) + t * 16,
                                sum_of(sums, LOSS_SUMS + 1, SUB) + t * 16);
            }
        }
        copies_end();
        engine_sync_all(); /* sums for the gradient are there, and the next chunk is in its slot */

        /* Z = D: the gradient of the losses by Z */
        if (LOSS == LOSS_LN)
            means_find(m, sums, own);
        engine_unrolled
        for (int t = 0; t < NT; t++) {
            if (LOSS == LOSS_LN)
                Z[t] = acc_factors(m, own + FACTOR + t * 16) *
                       (error[t] - acc_factors(m, own + FIRST + t * 16) - Z[t] * acc_factors(m, own + SECOND + t * 16));
            else
                Z[t] = LOSS == LOSS_L2 ? Z[t] - error[t] : -error[t];
        }

        /* W = kept W + moved M - (K o last)^T D */
        engine_unrolled
        for (int kt = 0; kt < KT; kt++) {
            if (FORGETS)
                W[kt] *= factors[ENDS];
            if (MOMENTS) {
                W[kt] += factors[ENDS + 1] * M[kt];
                M[kt] *= factors[ENDS + 2];
            }
        }
        engine_unrolled
        for (int t = 0; t < NT; t++) {
            acc_t step = -Z[t] * acc_factors(m, factors + LAST + t * 16);
            acc_t moment = -Z[t] * acc_factors(m, factors + LAST_MOMENT + t * 16);
            chain_t x = chain_of(m, step), y = chain_of(m, moment);
            D[t] = chain_of(m, Z[t]);
            engine_unrolled
            for (int kt = 0; kt < KT; kt++) {
                frag_t key = frag_load_t(m, address_plus(keys_t, t * 16 * PITCH + kt * 16), PITCH);
                W[kt] = mma_frag(m, W[kt], x, key);
                if (MOMENTS)
                    M[kt] = mma_frag(m, M[kt], y, key);
            }
            if (BIAS)
                learned += acc_row_sum(step);
            if (BIAS && MOMENTS)
                learned_moment += acc_row_sum(moment);
        }

        /* The outputs before; O = R + A D, R = kept o (scale Q W + c) + moved o (scale Q M + c_M) */
        slot_fill(slots, &source, n + 2, at.rows - (n + 2) * CHUNK);
        outputs_store(m, to + (long)max(n - 1, 0) * CHUNK * o_at.z, o_at.z, slot, O, asked, norm, own, scale,
                      n > 0 ? CHUNK : 0);
        engine_unrolled
        for (int t = 0; t < NT; t++) {
            O[t] = acc_factors(m, factors + KEPT + t * 16) * (scale * R[t] + acc_of_rows(bias));
            if (MOMENTS)
                O[t] += acc_factors(m, factors + MOVED + t * 16) * (scale * moved[t] + acc_of_rows(bias_moment));
            engine_unrolled
            for (int j = 0; j <= t; j++)
                O[t] = mma_frag(m, O[t], D[j],
                                frag_load(m, address_plus(scores, t * 16 * SCORE_PITCH + j * 16), SCORE_PITCH));
            if (READOUT == READOUT_Q)
                asked[t] = chain_load_t(m, address_plus(own_columns, t * 16 * PITCH), PITCH);
        }
        if (BIAS) {
            bias = (FORGETS ? factors[ENDS] * bias : bias) + acc_rows_sum(m, learned);
            if (MOMENTS) {
                bias += factors[ENDS + 1] * bias_moment;
                bias_moment = factors[ENDS + 2] * bias_moment + acc_rows_sum(m, learned_moment);
            }
        }
    }
    if (NORMED) {
        moments_leave(m, sums, READ_MOMENTS, O);
        engine_sync_all(); /* moments are there */
        moments_find(m, sums, own);
    }
    outputs_store(m, to + (long)max(chunks - 1, 0) * CHUNK * o_at.z, o_at.z, slots + chunks % SLOTS * SLOT, O, asked,
                  norm, own, scale, chunks > 0 ? at.rows - (chunks - 1) * CHUNK : 0);
    weights_store(m, OF_HEAD(final_w1), W, c0);
    columns_store(m, OF_HEAD(final_b1), bias, c0);
    if (MOMENTS) {
        weights_store(m, momentum2, M, c0);
        if (BIAS)
            columns_store(m, momentum2 != 0 ? momentum2 + KEY_DIM * VALUE_DIM : 0, bias_moment, c0);
    }
}
