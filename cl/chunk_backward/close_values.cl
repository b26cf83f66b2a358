/* The gradients of v and of its gate, from that of what a row writes, and of gates and strengths where nothing is to be done
 * but to add the parts that engine_gradients leaves, and of its bonus, which the row reads itself: q and do of that read stand
 * in the row before (pad_rows.cl). One group: a chunk of one head of states, all of whose reads are added. */
#include "gradient.clh"
#include "padded.clh"

#if NARROW
typedef data_t written_t;
#define written_row data_row
#else
typedef float written_t;
#define written_row f32_row
#endif

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, v) X(global const gate_t, w) X(global const gate_t, u) X(global const int, cu) \
    X(global const data_t, rows_q) X(global const data_t, rows_k) X(global const data_t, rows_d) \
    X(global const float, strengths) X(global const written_t, written) X(global data_t, d_v) X(global out_t, d_w) \
    X(global const float, flows) X(global const float, betas) X(global out_t, d_g) X(global out_t, d_beta)
/* clang-format on */
KERNEL
close_values(TENSORS(PARAMETER) int seq_len, int sequences, float scale)
{
    TENSORS(ABSENT)
    long slot = get_group_id(0), states = get_num_groups(1), heads = states * READS, head = get_group_id(1);
    place at = place_of_padded(slot, head, sequences, seq_len, cu, cu_at);
    int first = (int)(slot - padded_first(at, seq_len)) * CHUNK - 1;
#if READ_BEFORE
    local float bonus[CHUNK * READS];

    for_each(task, CHUNK * READS) {
        int i = task % CHUNK, reader = head_of_read_of(head, task / CHUNK, states);
        long own = (slot * CHUNK + i) * heads + reader;
        vec sum = 0;
        for (int n = 0; n < KEY_DIM && first + i >= 0; n += VEC)
            sum += data_row(rows_q + rows_q_at.x + (own - heads) * KEY_DIM, n, KEY_DIM) *
                   data_row(rows_k + rows_k_at.x + own * KEY_DIM, n, KEY_DIM) *
                   gate_row(u + at_row(u_at, 0, 0, head), n, KEY_DIM);
        bonus[task] = scale * vec_sum(sum);
    }
    SYNC();
#endif

#if DIRECT
    for_each(i, CHUNK) {
        long number = (slot * CHUNK + i) * heads + head, count = (long)get_num_groups(0) * CHUNK * heads;
        int row = first + i;
        float flow = 0, by_strength = 0;
        for (int part = 0; part < NUMBER_PARTS && row >= 0 && row < at.rows; part++) {
            if (HAS_flows)
                flow += flows[flows_at.x + part * count + number];
            if (HAS_betas)
                by_strength += betas[betas_at.x + part * count + number];
        }
        if (row < 0 || row >= at.rows)
            continue;
        if (is_given(d_g) && row % STEPS == 0)
            out_put(flow, token_row(d_g, chunk_at(at, row), head), 0);
        if (is_given(d_beta))
            out_put(by_strength, write_row(d_beta, chunk_at(at, row), head), 0);
    }
#endif
    for_each(task, CHUNK * ((VALUE_DIM + VEC - 1) / VEC)) {
        int i = task / ((VALUE_DIM + VEC - 1) / VEC), c = task % ((VALUE_DIM + VEC - 1) / VEC) * VEC, row = first + i;
        vec x = 0, gate = 1;

        if (row < 0 || row >= at.rows)
            continue;
        chunk_t chunk = chunk_at(at, row);
        for (int read = 0; read < READS; read++) {
            long own = (slot * CHUNK + i) * heads + head_of_read_of(head, read, states);
            x += written_row(written + written_at.x + own * COLUMNS, c, VALUE_DIM) *
                 (HAS_strengths ? strengths[strengths_at.x + own] : 1.0f);
#if READ_BEFORE
            x += bonus[read * CHUNK + i] * data_row(rows_d + rows_d_at.x + (own - heads) * COLUMNS, c, VALUE_DIM);
#endif
        }
        if (HAS_w)
            gate = gate_row(write_row(w, chunk, head), c, VALUE_DIM);
        if (is_given(d_v))
            CAT(DATA, _put_row)(gate * x, write_row(d_v, chunk, head), c, VALUE_DIM, ADD_V);
        if (is_given(d_w))
            CAT(OUT, _put_row)
        (x * data_row(write_row(v, chunk, head), c, VALUE_DIM), write_row(d_w, chunk, head), c, VALUE_DIM, ADD_W);
    }
}
