/* Copies of q, k, g and beta in which the tokens of all sequences follow each other. One group: CHUNK tokens of one head. */
#include "row_put.clh"

#define PARTS ((KEY_DIM + VEC - 1) / VEC)

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, q) X(global const data_t, k) X(global const gate_t, g) X(global const strength_t, beta) \
    X(global data_t, row_q) X(global data_t, row_k) X(global gate_t, row_g) X(global strength_t, row_beta)
/* clang-format on */
KERNEL
levels_rows(TENSORS(PARAMETER) int seq_len, int sequences)
{
    TENSORS(ABSENT)
    chunk_t chunk = chunk_of_slot(get_group_id(0), get_group_id(1), sequences, seq_len, 0, (long4)(0));
    place at = chunk.at;
    int first_of_group = QK_TILED > 0 ? at.head < QK_TILED : at.head % QK_GROUP == 0;

    for_each(i, chunk.count) {
        long token = at.first + chunk.row + i;
        CAT(GATE, _put)
        (gate_get(g + at_row(g_at, at.batch, token, at.head), 0), row_g + at_row(row_g_at, at.batch, token, at.head),
         0);
        if (HAS_row_beta)
            CAT(STRENGTH, _put)
        (strength_get(beta + at_row(beta_at, at.batch, token, at.head), 0),
         row_beta + at_row(row_beta_at, at.batch, token, at.head), 0);
    }
    for_each(task, first_of_group * chunk.count * PARTS) {
        int n = task % PARTS * VEC;
        long token = at.first + chunk.row + task / PARTS;
        data_put_row(data_row(q + at_row(q_at, at.batch, token, at.qk_head), n, KEY_DIM),
                     row_q + at_row(row_q_at, at.batch, token, at.qk_head), n, KEY_DIM);
        data_put_row(data_row(k + at_row(k_at, at.batch, token, at.qk_head), n, KEY_DIM),
                     row_k + at_row(row_k_at, at.batch, token, at.qk_head), n, KEY_DIM);
    }
}
