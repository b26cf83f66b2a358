/* The values of a level's pieces: v in the first half of each piece, which writes, and 0 in the second, which reads. With
 * UNITS, in pieces of CHUNK tokens, unit vectors in place of v, of all heads in one: what is read then are the rows of
 * the attention matrix. One group: CHUNK tokens of one head. */
#include "row_put.clh"

#define WIDTH (UNITS ? CHUNK : VALUE_DIM)
#define PARTS ((WIDTH + VEC - 1) / VEC)

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, v) X(global const int, cu) X(global data_t, values)
/* clang-format on */
KERNEL
levels_values(TENSORS(PARAMETER) int seq_len, int sequences, int level)
{
    TENSORS(ABSENT)
    chunk_t chunk = chunk_of_slot(get_group_id(0), get_group_id(1), sequences, seq_len, cu, cu_at);

    for_each(task, CHUNK * PARTS) {
        int i = task / PARTS, c = task % PARTS * VEC, row = chunk.row + i, reads = row >> level & 1;
        global data_t *to = values + at_row(values_at, chunk.at.batch, chunk.at.first + row, chunk.at.head);
        vec x = 0;
        if (i >= chunk.count)
            continue;
        if (UNITS)
            x = select((vec)(0), (vec)(1), vec_iota + c == i);
        else if (!reads)
            x = data_row(write_row(v, chunk, chunk.at.head) + i * v_at.z, c, VALUE_DIM);
        data_put_row(x, to, c, WIDTH);
    }
}
