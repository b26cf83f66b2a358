/* The rows that the walks read, with everything applied that a rule applies to its operands: norms and feature maps of q
 * and k, maps of gates and strengths, gates of keys and values.
 *
 *     rows_q, rows_k, rows_x, rows_d    q, k, the written values, the gradient of o; with a normalizer the values have
 *                                       two columns of ones, and divide_rows.cl divides the gradients
 *     rows_p                            the erase key, where it is neither k nor rows_f
 *     rows_f                            what the state before a row is read by: e^g o p, or p where it erases before the decay
 *     rows_n                            -beta k, or -beta rows_f where the walks leave what rows erase; of low rank b
 *     logs, strengths                   log-decays, a number or KEY_DIM of them; beta
 *
 * One group: a chunk of one head. A row is a write; q and the gradient of o stand in the last row of their token, the decay
 * in the first. A q that reads the state before its row stands in the row before: there it reads the same state after
 * it. Where a walk leaves what rows erase, none leaves it for row 0, a row of zeros. */
#include "padded.clh"
#include "row_put.clh"

WORD float row_square(global const data_t *x)
{
    vec sum = 0;

    for (int n = 0; n < KEY_DIM; n += VEC) {
        vec y = data_row(x, n, KEY_DIM);
        sum += y * y;
    }
    return rsqrt(vec_sum(sum) + 1e-6f);
}

enum { NORM_Q, NORM_K, NORM_P, STRENGTH_OF, ROW_NUMBERS };

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const data_t, v) X(global const data_t, d_o) \
    X(global const gate_t, g) X(global const float, a_log) X(global const float, bias) \
    X(global const strength_t, beta) X(global const erase_t, p) X(global const data_t, e) X(global const gate_t, w) \
    X(global const int, cu) X(global data_t, rows_q) X(global data_t, rows_k) X(global data_t, rows_x) \
    X(global data_t, rows_d) X(global data_t, rows_p) X(global data_t, rows_f) X(global data_t, rows_n) \
    X(global float, logs) X(global float, strengths) X(global float, written) X(global float, low)
/* clang-format on */
KERNEL
pad_rows(TENSORS(PARAMETER) int seq_len, int sequences)
{
    TENSORS(ABSENT)
    local float numbers[CHUNK * ROW_NUMBERS];
    long slot = get_group_id(0), heads = get_num_groups(1), head = get_group_id(1);
    int beyond = slot + 1 == get_num_groups(0); /* a chunk of zeros after all sequences */
    place at = place_of_padded(beyond ? 0 : slot, head_of_state(head), sequences, seq_len, cu, cu_at);
    int q_head = READS > 1 ? head : at.qk_head, state_head = at.head;
    int first = beyond ? at.rows : (int)(slot - padded_first(at, seq_len)) * CHUNK - 1;
    const gates_t gates = GATES_HERE;

    for_each(i, CHUNK) {
        int row = first + i, exists = row >= 0 && row < at.rows;
        int reader = row + READ_BEFORE, reads = reader >= 0 && reader < at.rows;
        chunk_t chunk = chunk_at(at, exists ? row : 0), reading = chunk_at(at, reads ? reader : 0);
        local float *own = numbers + i * ROW_NUMBERS;
        own[NORM_Q] = own[NORM_K] = own[NORM_P] = 1;
        own[STRENGTH_OF] = exists ? write_strength(chunk, 0) : 0.0f;
        if (HAS_strengths)
            strengths[strengths_at.x + (slot * CHUNK + i) * heads + head] = own[STRENGTH_OF];
        if (DECAYS == 1)
            logs[logs_at.x + (slot * CHUNK + i) * heads + head] =
                exists && row % STEPS == 0
                    ? gate_of_head(gates, state_head, gate_get(token_row(g, chunk, state_head), 0))
                    : 0.0f;
        if (L2NORM && reads)
            own[NORM_Q] = row_square(token_row(q, reading, q_head));
        if (!L2NORM || !exists)
            continue;
        own[NORM_K] = row_square(write_row(k, chunk, at.qk_head));
#if ERASE_IS_OPERAND
        own[NORM_P] = row_square(write_row(p, chunk, at.qk_head));
#endif
    }
    SYNC();
    for_each(task, CHUNK * ((KEY_DIM + VEC - 1) / VEC)) {
        int i = task / ((KEY_DIM + VEC - 1) / VEC), n = task % ((KEY_DIM + VEC - 1) / VEC) * VEC, row = first + i;
        int exists = row >= 0 && row < at.rows, reader = row + READ_BEFORE;
        chunk_t chunk = chunk_at(at, exists ? row : 0);
        local const float *own = numbers + i * ROW_NUMBERS;
        long to = ((slot * CHUNK + i) * heads + head) * KEY_DIM;
        vec query = 0, key = 0, erase = 0, low = 0, decay = 1, log = 0;

        if (reader >= 0 && reader < at.rows && reader % STEPS == STEPS - 1)
            query = key_map(data_row(token_row(q, chunk_at(at, reader), q_head), n, KEY_DIM), own[NORM_Q], n);
        if (exists) {
            key = key_map(data_row(write_row(k, chunk, at.qk_head), n, KEY_DIM), own[NORM_K], n);
            if (DECAYS == 2 && row % STEPS == 0)
                log = gates_of_head(gates, state_head, n, gate_row(token_row(g, chunk, state_head), n, KEY_DIM));
            if (DECAYS == 1 && row % STEPS == 0)
                log = (vec)(gate_of_head(gates, state_head, gate_get(token_row(g, chunk, state_head), 0)));
            if (DECAYS > 0)
                decay = exp2(LOG2E * log);
#if ERASE_IS_KEY
            erase = key;
#elif ERASE_IS_GATED
            erase = key * gate_row(write_row(p, chunk, state_head), n, KEY_DIM);
#elif ERASE_IS_OPERAND
            erase = own[NORM_P] * data_row(write_row(p, chunk, at.qk_head), n, KEY_DIM);
#elif ERASE_STREAMS > 1
            erase = data_row(write_row(p, chunk, state_head), n, KEY_DIM);
            low = data_row(write_row(e, chunk, state_head), n, KEY_DIM);
#endif
            if (ERASE_STREAMS <= 1)
                low = -own[STRENGTH_OF] * (!LEAVES_ERASED ? key : ERASE_BEFORE ? erase : decay * erase);
        }
        data_put_row(query, rows_q + rows_q_at.x + to, n, KEY_DIM);
        data_put_row(key, rows_k + rows_k_at.x + to, n, KEY_DIM);
        if (DECAYS == 2)
            f32_put_row(log, logs + logs_at.x + to, n, KEY_DIM);
        if (HAS_rows_p)
            data_put_row(erase, rows_p + rows_p_at.x + to, n, KEY_DIM);
        if (HAS_rows_f)
            data_put_row(ERASE_BEFORE ? erase : decay * erase, rows_f + rows_f_at.x + to, n, KEY_DIM);
        if (HAS_rows_n)
            data_put_row(low, rows_n + rows_n_at.x + to, n, KEY_DIM);
    }
    for_each(task, CHUNK * ((COLUMNS + VEC - 1) / VEC)) {
        int i = task / ((COLUMNS + VEC - 1) / VEC), c = task % ((COLUMNS + VEC - 1) / VEC) * VEC, row = first + i;
        chunk_t chunk = chunk_at(at, row >= 0 && row < at.rows ? row : 0);
        long to = ((slot * CHUNK + i) * heads + head) * COLUMNS;
        vec value = 0, cotangent = 0;

        int reader = row + READ_BEFORE;
        if (reader >= 0 && reader < at.rows && reader % STEPS == STEPS - 1)
            cotangent = data_row(token_row(d_o, chunk_at(at, reader), head), c, VALUE_DIM);
        if (row >= 0 && row < at.rows) {
            value = data_row(write_row(v, chunk, state_head), c, VALUE_DIM);
            if (HAS_w)
                value *= gate_row(write_row(w, chunk, state_head), c, VALUE_DIM);
            if (NORMALIZED)
                value = select(value, (vec)(1), vec_iota + c == VALUE_DIM || vec_iota + c == VALUE_DIM + 1);
        }
        if (LEAVES_ERASED && HAS_written && slot == 0 && i == 0)
            f32_put_row((vec)(0), written + written_at.x + to, c, COLUMNS);
        if (LEAVES_ERASED && HAS_low && slot == 0 && i == 0)
            f32_put_row((vec)(0), low + low_at.x + to, c, COLUMNS);
        data_put_row(value, rows_x + rows_x_at.x + to, c, COLUMNS);
        data_put_row(cotangent, rows_d + rows_d_at.x + to, c, COLUMNS);
    }
}
