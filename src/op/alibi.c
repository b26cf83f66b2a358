#include "op/alibi.h"

#include <math.h>

double alibi_decay(const clattn_plan_desc *desc, int64_t head)
{
    int64_t below = 1;

    while (2 * below <= desc->heads)
        below *= 2;
    if (head < below)
        return -exp2(-8.0 * (double)(head + 1) / (double)below);
    return -exp2(-8.0 * (double)(2 * (head - below) + 1) / (double)(2 * below));
}
