/* What rows write, in place of x: x without what they erase, which was read for the row before. One group: a chunk of one
 * head. */
#include "padded.clh"
#include "row_put.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global data_t, rows_x) X(global const data_t, read)
/* clang-format on */
KERNEL
write_rows(TENSORS(PARAMETER) int seq_len)
{
    TENSORS(ABSENT)
    long slot = get_group_id(0), heads = get_num_groups(1), head = get_group_id(1);

    for_each(task, CHUNK * (VALUE_DIM / VEC)) {
        int i = task / (VALUE_DIM / VEC), c = task % (VALUE_DIM / VEC) * VEC;
        long row = (slot * CHUNK + i) * heads + head;
        if (slot > 0 || i > 0) /* before the first row nothing was read */
            CAT(DATA, _put_whole)
        (CAT(DATA, _get_whole)(rows_x + rows_x_at.x + row * VALUE_DIM + c) -
             CAT(DATA, _get_whole)(read + read_at.x + (row - heads) * VALUE_DIM + c),
         rows_x + rows_x_at.x + row * VALUE_DIM + c);
    }
}
