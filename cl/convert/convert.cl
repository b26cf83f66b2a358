/* o = v: rows of one type into rows of another. One group: a row of one head. */
#include "rows.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const data_t, v) X(global out_t, o)
/* clang-format on */
KERNEL
convert(TENSORS(PARAMETER) int seq_len)
{
    TENSORS(ABSENT)
    long batch = get_group_id(0) / seq_len, row = get_group_id(0) % seq_len;

    v += at_row(v_at, batch, row, get_group_id(1));
    o += at_row(o_at, batch, row, get_group_id(1));
    for_each(i, VALUE_DIM)
        out_put(data_get(v, i), o, i);
}
