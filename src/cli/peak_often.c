#include "cli/peak.h"

#include <math.h>

static const double agreement = 0.05;
enum { MEASUREMENTS = 3 };

clattn_status peak_often(clattn_status (*measure)(void *user, struct peak *now), void *user, struct peak *peak)
{
    *peak = (struct peak){0, 0};
    for (int i = 0, agreed = 0; i < MEASUREMENTS && !agreed; i++) {
        struct peak now = {0, 0};
        TRY(measure(user, &now));
        agreed = fabs(now.flops - peak->flops) <= agreement * now.flops &&
                 fabs(now.bytes - peak->bytes) <= agreement * now.bytes;
        peak->flops = fmax(peak->flops, now.flops);
        peak->bytes = fmax(peak->bytes, now.bytes);
    }
    return CLATTN_SUCCESS;
}
