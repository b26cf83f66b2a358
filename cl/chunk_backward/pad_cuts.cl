/* Where sequences begin and end among the padded rows, in one group. */
#include "padded.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const int, cu) X(global int, padded_cuts)
/* clang-format on */
KERNEL
pad_cuts(TENSORS(PARAMETER) int seq_len, int sequences)
{
    TENSORS(ABSENT)
    for_each(n, sequences + 1)
        padded_cuts[padded_cuts_at.x + n] = (int)((cu_entry(cu, cu_at, n, seq_len) * STEPS / PADDED + n) * PADDED);
}
