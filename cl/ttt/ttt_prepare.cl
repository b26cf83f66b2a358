/* What a chunk's tokens see of each other's gradients, whatever the weights are: the scores
 *     A = -(scale Q K^T + bias) o seen      seen_ij = (1 - alpha_i) seen_(i-1)j + mu_ij
 *                                           mu_ij = m_i mu_(i-1)j + theta_i gamma_i [i = j]
 * or, with eta, seen_ij = eta_i theta_j gamma_j; and the factors of what goes into the weights (ttt_record.clh). One
 * sub-group: one chunk of one head. */
#include "ttt_record.clh"

/* Rows as they lie in memory, zeros beyond the `count` that there are, by the lanes of a sub-group */
WORD void rows_stage(engine_t m, local data_t *to, global const data_t *from, long step, int count)
{
    int aligned = rows_aligned(from, step);

    engine_unrolled
    for (int task = m.lane; task < CHUNK * (WIDTH / 8); task += ENGINE_LANES) {
        int i = task / (WIDTH / 8), n = task % (WIDTH / 8) * 8;
        uint4 piece = 0;
        if (i < count)
            piece = aligned ? piece_get(from + i * step + n) : piece_part(from + i * step + n, 8);
        piece_put(to + i * PITCH + n, piece);
    }
}

/* The numbers of a chunk's tokens, [which][token] */
#define THETA 0
#define ETA CHUNK
#define ALPHA (2 * CHUNK)
#define MOMENTUM (3 * CHUNK)
#define GAMMA (4 * CHUNK)
#define RATES (5 * CHUNK)
#define rate_stage(which, name, absent)                                                                                \
    do {                                                                                                               \
        if (HAS_##name && i < chunk.count)                                                                             \
            rates[which + i] = gate_get(write_row(name, chunk, chunk.at.head), i * name##_at.z);                       \
        else                                                                                                           \
            rates[which + i] = absent;                                                                                 \
    } while (0)

/* Down column j: how each row sees the gradient of token j, and how W and M do at the chunk's end */
WORD void column_find(local float *seen, global float *factors, local const float *rates, int count, int j)
{
    float moment = 0, weight = 0, theta = rates[THETA + j] * rates[GAMMA + j];

    for (int i = 0; i < CHUNK; i++) {
        float step = i == j ? theta : 0;
        if (i < count) {
            moment = HAS_eta ? moment + step : rates[MOMENTUM + i] * moment + step;
            weight = HAS_eta ? rates[ETA + i] * moment : (1 - rates[ALPHA + i]) * weight + moment;
        }
        seen[i * CHUNK + j] = i < count && j <= i ? weight : 0;
    }
    factors[LAST + j] = j < count ? weight : 0;
    factors[LAST_MOMENT + j] = j < count ? moment : 0;
}
/* How each row sees W and M of the chunk's begin, and what is left of these at its end */
WORD void state_find(global float *factors, local const float *rates, int count)
{
    float kept = 1, moved = 0, moment = 1;

    for (int i = 0; i < CHUNK; i++) {
        if (i < count) {
            moment *= rates[MOMENTUM + i];
            kept *= 1 - rates[ALPHA + i];
            moved = (1 - rates[ALPHA + i]) * moved + moment;
        }
        factors[KEPT + i] = kept;
        factors[MOVED + i] = moved;
    }
    factors[ENDS] = kept;
    factors[ENDS + 1] = moved;
    factors[ENDS + 2] = moment;
    factors[ENDS + 3] = 0;
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const gate_t, theta) X(global const gate_t, eta) \
    X(global const gate_t, alpha) X(global const gate_t, momentum) X(global const gate_t, gamma) \
    X(global const int, cu) X(global uint, records)
/* clang-format on */
KERNEL
ttt_prepare(TENSORS(PARAMETER) int seq_len, int sequences, float scale)
{
    TENSORS(ABSENT)
    LOCAL_NUMBERS(staged, LOCAL_ROWS)
    LOCAL_FLOATS(all_seen, LOCAL_SEEN)
    LOCAL_FLOATS(all_rates, LOCAL_RATES)
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    const long slot = (long)get_group_id(0) * SUBS + SUB, heads = get_num_groups(1);
    chunk_t chunk = chunk_of_slot(slot, get_group_id(1), sequences, seq_len, cu, cu_at);
    local data_t *queries = staged + SUB * 2 * CHUNK * PITCH, *keys = queries + CHUNK * PITCH;
    local float *seen = all_seen + SUB * CHUNK * CHUNK, *rates = all_rates + SUB * RATES;
    global uint *record = records + records_at.x + (slot * heads + chunk.at.head) * RECORD;
    global float *factors = (global float *)record + SCORE_WORDS;

    if (chunk.at.sequence >= sequences)
        chunk.count = 0;
    if (chunk.count > 0) {
        rows_stage(m, queries, write_row(q, chunk, chunk.at.qk_head), q_at.z, chunk.count);
        rows_stage(m, keys, write_row(k, chunk, chunk.at.qk_head), k_at.z, chunk.count);
    }
    for (int i = m.lane; i < CHUNK; i += ENGINE_LANES) {
        rate_stage(THETA, theta, 1);
        rate_stage(ETA, eta, 1);
        rate_stage(ALPHA, alpha, 0);
        rate_stage(MOMENTUM, momentum, 0);
        rate_stage(GAMMA, gamma, 1);
    }
    engine_sync_own();
    for (int j = m.lane; j <= CHUNK && chunk.count > 0; j += ENGINE_LANES) {
        if (j < CHUNK)
            column_find(seen, factors, rates, chunk.count, j);
        else
            state_find(factors, rates, chunk.count);
    }
    engine_sync_own();
    engine_unrolled
    for (int ti = 0; ti < CHUNK; ti += ACC_ROWS)
        engine_unrolled
    for (int tj = 0; tj < CHUNK; tj += 16) {
        acc_t x = 0;
        float element[ACC];
        engine_unrolled
        for (int kt = 0; kt < KT; kt++)
            x = mma_frag(m, x, chain_load(m, address_of(queries + ti * PITCH + kt * 16 + chain_lane(m, PITCH)), PITCH),
                         frag_load(m, address_of(keys + tj * PITCH + kt * 16 + frag_lane(m, PITCH)), PITCH));
        CAT(vstore, ACC)(-scale * x - BIAS, 0, element);
        engine_unrolled
        for (int e = 0; e < ACC; e += 2) {
            int i = ti + acc_row(m, e), j = tj + acc_column(m, e);
            float low = j <= i ? element[e] * seen[i * CHUNK + j] : 0;
            float high = j < i ? element[e + 1] * seen[i * CHUNK + j + 1] : 0;
            if (chunk.count > 0)
                record[(i * SCORE_PITCH + j) / 2] = pack2(low, high);
        }
    }
}
