/* Adds what tokens read of a level to their sums: sums += l read in the second half of each piece. The first level that is
 * added sets them. One group: CHUNK tokens of one head. */
#include "rows.clh"

#define PARTS ((VALUE_DIM + VEC - 1) / VEC)

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, read) X(global const float, levels) X(global const int, cu) X(global float, sums)
/* clang-format on */
KERNEL
levels_add(TENSORS(PARAMETER) int seq_len, int sequences, int level)
{
    TENSORS(ABSENT)
    chunk_t chunk = chunk_of_slot(get_group_id(0), get_group_id(1), sequences, seq_len, cu, cu_at);
    int sets = level == OWN_BITS;

    for_each(task, CHUNK * PARTS) {
        int i = task / PARTS, c = task % PARTS * VEC, row = chunk.row + i, reads = row >> level & 1;
        long token = chunk.at.first + row;
        global float *to = sums + at_row(sums_at, chunk.at.batch, token, chunk.at.head) + c;
        vec x = 0;
        if (i >= chunk.count || !(reads || sets))
            continue;
        if (reads)
            x = levels[at_row(levels_at, chunk.at.batch, token, chunk.at.head) + level + 1] *
                data_row(read + at_row(read_at, chunk.at.batch, token, chunk.at.head), c, VALUE_DIM);
        vec_store(sets ? x : vec_load(to) + x, to);
    }
}
