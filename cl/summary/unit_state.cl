/* The state that a summary's tokens are applied to, so that what they keep of a state is what they make of this one:
 * the identity where something is erased, else ones, of complex pairs (1, 0). One group: a row of it. */
#include "rows.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global float, unit)
/* clang-format on */
KERNEL
unit_state(TENSORS(PARAMETER) int rows)
{
    TENSORS(ABSENT)
    int n = get_group_id(0);

    for_each(c, VALUE_DIM) {
        int is_one = IS_DIAGONAL ? n == c : ROW_PAIRS ? n % 2 == 0 : COLUMN_PAIRS ? c % 2 == 0 : 1;
        unit[unit_at.x + n * VALUE_DIM + c] = n < rows && is_one ? 1 : 0;
    }
}
