/* The sequences in a span of tokens: where each begins and ends in it, and where among the padded rows, and the position of
 * its first token in memory there. One group. */
#include "padded.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const int, cu) X(global const int, position) X(global int, cuts) X(global int, padded_cuts) \
    X(global int, positions)
/* clang-format on */
KERNEL
pad_cuts(TENSORS(PARAMETER) int seq_len, int sequences, int first_token, int span_tokens)
{
    TENSORS(ABSENT)
    int before = REVERSED ? seq_len - first_token - span_tokens : first_token; /* tokens in memory */

    for_each(n, sequences + 1) {
        int begin = CU_STRIDE > 0 ? (int)cu_entry(cu, cu_at, n, seq_len) : 0;
        int cut = clamp(begin - before, 0, span_tokens);

        if (HAS_cuts && CU_STRIDE == 2)
            ((global long *)cuts)[cuts_at.x + n] = cut;
        else if (HAS_cuts)
            cuts[cuts_at.x + n] = cut;
        if (HAS_padded_cuts)
            padded_cuts[padded_cuts_at.x + n] = (int)(((long)cut * STEPS / PADDED + n) * PADDED);
        if (HAS_positions && n < sequences)
            positions[positions_at.x + n] = (HAS_position ? position[position_at.x + n] : 0) + max(before - begin, 0);
    }
}
