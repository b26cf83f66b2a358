/* Adds the parts of gradients that tokens share, in their order: sums of `count` rows of WIDTH numbers in each of SEGMENTS
 * runs of rows. One group: GROUP numbers of one run. */
#include "base.clh"

/* clang-format off */
#define TENSORS(X) \
    X(global const float, parts) X(global float, middle)
/* clang-format on */
KERNEL
add_parts(TENSORS(PARAMETER) int count)
{
    TENSORS(ABSENT)
    int segment = get_group_id(0), rows = (count + SEGMENTS - 1) / SEGMENTS;
    long first = (long)segment * rows, end = min(first + rows, (long)count);

    for (int i = 0; i < BLOCK / GROUP; i++) {
        int n = get_group_id(1) * BLOCK + i * GROUP + LANE;
        float sum = 0;
        if (n >= WIDTH)
            return;
        for (long row = first; row < end; row++)
            sum += parts[parts_at.x + row * WIDTH + n];
        middle[middle_at.x + (long)segment * WIDTH + n] = sum;
    }
}
