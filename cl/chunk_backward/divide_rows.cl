/* Of outputs that were divided by N: the gradient by what was divided, do / N, and in two columns behind it the gradient by
 * the read of the normalizer, c = -(do . o) / N, which of mLSTM has the sign of the read where that is the divisor, and is
 * 0 elsewhere. Of 16 bits c is the sum of both columns. z is the normalizer:
 *
 *     z_i = e^(g_i) z_(i-1) + beta_i k_i;   the read of row i is q_i . z_i
 *
 * One group: one chunk of one head, before which z is known. A lane has channels of its own. */
#include "padded.clh"
#include "row_put.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, o) X(global const float, m) X(global const int, cu) X(global const data_t, rows_q) \
    X(global const data_t, rows_k) X(global data_t, rows_d) X(global const float, logs) \
    X(global const float, strengths) X(global const float, begins) X(global const float, down)
/* clang-format on */
KERNEL
divide_rows(TENSORS(PARAMETER) int seq_len, int sequences, float scale)
{
    TENSORS(ABSENT)
    local float reads[CHUNK * GROUP], decay[CHUNK], strength[CHUNK], inverse[CHUNK];
    long slot = get_group_id(0), heads = get_num_groups(1), head = get_group_id(1);
    place at = place_of_padded(slot, head, sequences, seq_len, cu, cu_at);
    int first = (int)(slot - padded_first(at, seq_len)) * CHUNK - 1;
    long row0 = slot * CHUNK;
    global const float *z0 = state_before(at, slot, seq_len, HAS_begins ? begins + begins_at.x : 0, down + down_at.x);

    for_each(i, CHUNK) {
        long row = (row0 + i) * heads + head;
        strength[i] = HAS_strengths ? strengths[strengths_at.x + row] : 1.0f;
        decay[i] = DECAYS > 0 ? exp2(LOG2E * logs[logs_at.x + row]) : 1.0f;
    }
    for (int i = 0; i < CHUNK; i++)
        reads[i * GROUP + LANE] = 0;
    SYNC();
    for_each(task, (KEY_DIM + VEC - 1) / VEC) {
        int n = task * VEC;
        vec z = z0 != 0 ? f32_row(z0 + VALUE_DIM * KEY_DIM, n, KEY_DIM) : (vec)(0);
        for (int i = 0; i < CHUNK; i++) {
            long row = ((row0 + i) * heads + head) * KEY_DIM;
            z = decay[i] * z + strength[i] * data_row(rows_k + rows_k_at.x + row, n, KEY_DIM);
            reads[i * GROUP + LANE] += vec_sum(z * data_row(rows_q + rows_q_at.x + row, n, KEY_DIM));
        }
    }
    SYNC();
    for_each(i, CHUNK) {
        int row = first + i;
        chunk_t chunk = chunk_at(at, row);
        global data_t *d = rows_d + rows_d_at.x + ((row0 + i) * heads + head) * COLUMNS;
        float read = 0, sign = 1, c;
        vec product = 0;

        inverse[i] = 0;
        if (row < 0 || row >= at.rows || row % STEPS != STEPS - 1)
            continue;
        for (int l = 0; l < GROUP; l++)
            read += scale * reads[i * GROUP + l];
        for (int n = 0; n < VALUE_DIM; n += VEC)
            product += data_row(d, n, VALUE_DIM) * data_row(token_row(o, chunk, head), n, VALUE_DIM);
        if (STABLE) {
            float least = exp2(-LOG2E * m[at_row(m_at, at.batch, at.first + row / STEPS, head_of_state(head))]);
            sign = fabs(read) > least ? (read > 0 ? 1.0f : -1.0f) : 0.0f;
            read = fmax(fabs(read), least);
        }
        read += EPS;
        inverse[i] = isinf(read) ? 0.0f : 1 / read;
        c = isinf(read) ? 0.0f : -sign * vec_sum(product) / read;
        CAT(DATA, _put)(c, d, VALUE_DIM);
        CAT(DATA, _put)(c - data_get(d, VALUE_DIM), d, VALUE_DIM + 1);
    }
    SYNC();
    for_each(task, CHUNK * ((VALUE_DIM + VEC - 1) / VEC)) {
        int i = task / ((VALUE_DIM + VEC - 1) / VEC), n = task % ((VALUE_DIM + VEC - 1) / VEC) * VEC;
        global data_t *d = rows_d + rows_d_at.x + ((row0 + i) * heads + head) * COLUMNS;
        data_put_row(inverse[i] * data_row(d, n, VALUE_DIM), d, n, VALUE_DIM);
    }
}
