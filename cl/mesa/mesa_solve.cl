/* (e^G R + (own keys) + diag(ridge)) x = q for rows of a chunk, by conjugate gradients from x = 0:
 *     y_i = e^(G_i) R p_i + Σ_{j <= i} e^(G_i - G_j) beta_j (k_j·p_i) k_j + ridge o p_i
 *     x += a p;  r -= a y;  p = W r + b p               a = r·W r / p·y,  b = r'·W r' / r·W r
 * W has a number for each channel (cg_weight). R is the gram matrix before the chunk. A row that is solved stays as it is, whatever the others need.
 * One group: ROWS rows of one chunk of one head. A lane has blocks of AT_ONCE rows and a vector of columns. */
#include "mesa.clh"

#define BLOCKS (ROWS / AT_ONCE * COLUMNS)
#define TASKS ((BLOCKS + GROUP - 1) / GROUP) /* blocks of a lane */
/* The lane's blocks: rows i … i+AT_ONCE and columns c … c+VEC */
#define for_blocks(t, i, c)                                                                                            \
    unrolled                                                                                                           \
    for (int t = 0, i = LANE / COLUMNS * AT_ONCE, c = LANE % COLUMNS * VEC; t < TASKS;                                 \
         t++, i = (LANE + t * GROUP) / COLUMNS * AT_ONCE, c = (LANE + t * GROUP) % COLUMNS * VEC)                      \
        if (BLOCKS % GROUP == 0 || LANE + t * GROUP < BLOCKS)
#define for_rows(r)                                                                                                    \
    vec_unrolled                                                                                                       \
    for (int r = 0; r < AT_ONCE; r++)

/* The sum of the log-decays from row j, exclusive, to row i */
WORD float log_between(local const float *logs, int j, int i)
{
    float sum = 0;

    for (int m = j + 1; m <= i && GATED; m++)
        sum += logs[m];
    return sum;
}

WORD float row_sum(local const float *sums, int i)
{
    float sum = 0;

    for (int c = 0; c < COLUMNS; c++)
        sum += sums[i * COLUMNS + c];
    return sum;
}

/* A_ij = weights_ij (p_i · k_j), for j <= i */
WORD void own_scores(local float *A, local const float *weights, local const float *P, local const float *keys,
                     int row0, int count)
{
    for_each(task, ROWS * CHUNK) {
        int i = task / CHUNK, j = task % CHUNK;
        vec sum = 0;
        if (j > row0 + i || row0 + i >= count)
            continue;
        for (int n = 0; n < KP; n += VEC)
            sum += vec_at(P + i * KP + n) * vec_at(keys + j * RP + n);
        A[task] = weights[task] * vec_sum(sum);
    }
}

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const gate_t, g) X(global const float, a_log) \
    X(global const float, bias) X(global const strength_t, beta) X(global const float, ridge) \
    X(global const int, cu) X(global const float, grams) X(global data_t, solved) X(global data_t, keys)
/* clang-format on */
KERNEL
mesa_solve(TENSORS(PARAMETER) int seq_len, float scale, int first_row, int stretch_rows)
{
    TENSORS(ABSENT)
    LOCAL_FLOATS(own, LOCAL_KEYS)
    LOCAL_FLOATS(P, LOCAL_DIRECTIONS)
    LOCAL_FLOATS(W, LOCAL_WEIGHTS)
    local float A[LOCAL_SCORES], weights[LOCAL_SCORES], sums[LOCAL_SUMS], factors[FACTORS];
    local float left[LOCAL_STEPS], until[LOCAL_STEPS], length[LOCAL_STEPS], turn[LOCAL_STEPS], reads[LOCAL_STEPS];
    DECAY_LOCALS
    int chunks = stretch_rows / CHUNK, slot = get_group_id(0), row0 = get_group_id(2) * ROWS;
    place at = place_of(slot / chunks, get_group_id(1), seq_len, cu, cu_at);
    chunk_t chunk = chunk_at(at, first_row + slot % chunks * CHUNK);
    global const float *R = grams + grams_at.x + ((long)slot * HEADS + at.head) * (KEY_DIM * PITCH);
    vec x[TASKS][AT_ONCE], r[TASKS][AT_ONCE], y[TASKS][AT_ONCE];

    if (row0 >= chunk.count)
        return;
    ridge += ridge_at.x + ridge_at.w * at.head;
    q += at_row(q_at, at.batch, at.first + chunk.row, at.qk_head);
    rows_norm(norm_of_q(factors), q, q_at.z, 0, 1, chunk.count);
    key_norms(norm_of_k(factors), k, k_at, chunk);
    for_each(i, CHUNK)
        strength_of(factors)[i] = write_strength(chunk, i);
    decay_chunk(decay, g, g_at, chunk);
    SYNC();
    key_rows(own, norm_of_k(factors), k, k_at, 0, chunk);
    for_each(task, ROWS * CHUNK) {
        int i = row0 + task / CHUNK, j = task % CHUNK;
        A[task] = 0;
        weights[task] = j <= i ? exp2(log_between(decay.log, j, i)) * strength_of(factors)[j] : 0;
    }
    for_each(i, ROWS)
        reads[i] = exp2(log_between(decay.log, -1, row0 + i));
    for_each(n, KP)
        W[n] = n < KEY_DIM ? cg_weight(R[n * PITCH + n] + ridge[n]) : 1.0f;
    SYNC();
    for_blocks(t, i, c) for_rows(s)
    {
        int row = row0 + i + s;
        r[t][s] = x[t][s] = 0;
        if (row < chunk.count)
            r[t][s] = scale * key_map(data_row(q + row * q_at.z, c, KEY_DIM), norm_of_q(factors)[row], c);
        vec_at(P + (i + s) * KP + c) = vec_at(W + c) * r[t][s];
        sums[(i + s) * COLUMNS + c / VEC] = vec_sum(vec_at(W + c) * r[t][s] * r[t][s]);
    }
    SYNC();
    for_each(i, ROWS) {
        left[i] = row_sum(sums, i);
        until[i] = CG_EXACT ? -1.0f : EPS * left[i];
    }
    for (int step = 0; step < CG_STEPS; step++) {
        int solved_rows = 0;

        SYNC();
        for (int i = 0; i < ROWS; i++)
            solved_rows += left[i] <= until[i];
        if (solved_rows == ROWS)
            break;
        own_scores(A, weights, P, own, row0, chunk.count);
        SYNC();
        for_blocks(t, i, c)
        {
            vec z[AT_ONCE];
            for_rows(s) z[s] = 0;
            for (int n = 0; n < KEY_DIM; n++) {
                vec column = vec_load(R + n * PITCH + c);
                for_rows(s) z[s] += P[(i + s) * KP + n] * column;
            }
            for_rows(s) z[s] *= reads[i + s];
            for (int j = 0; j < min(row0 + i + AT_ONCE, chunk.count); j++) {
                vec key = vec_at(own + j * RP + c);
                for_rows(s) if (j <= row0 + i + s) z[s] += A[(i + s) * CHUNK + j] * key;
            }
            for_rows(s)
            {
                vec p = vec_at(P + (i + s) * KP + c);
                z[s] += f32_row(ridge, c, KEY_DIM) * p;
                y[t][s] = z[s];
                sums[(i + s) * COLUMNS + c / VEC] = vec_sum(z[s] * p);
            }
        }
        SYNC();
        for_each(i, ROWS)
            length[i] = left[i] <= until[i] ? 0.0f : cg_length(left[i], row_sum(sums, i));
        SYNC();
        for_blocks(t, i, c) for_rows(s)
        {
            x[t][s] += length[i + s] * vec_at(P + (i + s) * KP + c);
            r[t][s] -= length[i + s] * y[t][s];
            sums[(i + s) * COLUMNS + c / VEC] = vec_sum(vec_at(W + c) * r[t][s] * r[t][s]);
        }
        SYNC();
        for_each(i, ROWS) {
            float old = left[i];
            if (left[i] <= until[i])
                turn[i] = 0;
            else {
                left[i] = row_sum(sums, i);
                turn[i] = cg_turn(left[i], old);
            }
        }
        SYNC();
        for_blocks(t, i, c) for_rows(s) vec_at(P + (i + s) * KP + c) =
            vec_at(W + c) * r[t][s] + turn[i + s] * vec_at(P + (i + s) * KP + c);
    }
    for_blocks(t, i, c) for_rows(s)
    {
        int row = row0 + i + s;
        if (row < chunk.count)
            key_store(x[t][s], solved + at_row(solved_at, at.batch, at.first + chunk.row + row, at.head), c);
        if (HAS_keys && row < chunk.count)
            key_store(vec_at(own + row * RP + c), keys + at_row(keys_at, at.batch, at.first + chunk.row + row, at.head),
                      c);
    }
}
