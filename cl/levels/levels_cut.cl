/* Where the pieces of each level begin in the row of all sequences' tokens: cuts[level][n], for n up to their number, of
 * pieces of 2^(level + 1) tokens of a sequence. Packed sequences have as many as their tokens could need wherever they
 * begin, so that no table is needed; those beyond a sequence's end are empty. lasts[level][n] is the sequence whose final
 * state has a bucket of this level with tokens of piece n, else -1. One group: a part of the pieces of one level. */
#include "rows.clh"

/* The token of the row at which a sequence begins */
WORD int begin_of(place at, int seq_len)
{
    return CU_STRIDE > 0 ? (int)at.first : at.sequence * seq_len;
}
/* The number of its first piece */
WORD int first_piece(place at, int seq_len, int piece)
{
    return CU_STRIDE > 0 ? (int)at.first / piece + at.sequence : at.sequence * ((seq_len + piece - 1) / piece);
}

/* clang-format off */
#define TENSORS(X) \
    X(global const int, cu) X(global int, cuts) X(global int, lasts)
/* clang-format on */
KERNEL
levels_cut(TENSORS(PARAMETER) int seq_len, int sequences)
{
    TENSORS(ABSENT)
    int level = OWN_BITS - 1 + get_group_id(0), piece = 2 << level;
    int pieces = CU_STRIDE > 0 ? seq_len / piece + sequences : sequences * ((seq_len + piece - 1) / piece);
    long row = (long)get_group_id(0) * cuts_at.y;

    for (int n = get_group_id(1) * GROUP + LANE; n <= pieces; n += get_num_groups(1) * GROUP) {
        int low = 0, high = sequences - 1, index;
        place at;
        while (low < high) { /* the last sequence whose first piece is not after this one */
            int middle = (low + high + 1) / 2;
            if (first_piece(place_of(middle, 0, seq_len, cu, cu_at), seq_len, piece) <= n)
                low = middle;
            else
                high = middle - 1;
        }
        at = place_of(low, 0, seq_len, cu, cu_at);
        index = max(n - first_piece(at, seq_len, piece), 0);
        cuts[cuts_at.x + row + n] =
            begin_of(at, seq_len) + (index > at.tokens / piece ? at.tokens : min(index * piece, at.tokens));
        if (HAS_lasts)
            lasts[lasts_at.x + row + n] = at.tokens >> level & 1 && index == at.tokens / piece ? low : -1;
    }
}
