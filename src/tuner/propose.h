/* New points of a space: random ones, and neighbours of good ones. All that come out are sound on the device. */
#ifndef CLATTN_SRC_TUNER_PROPOSE_H
#define CLATTN_SRC_TUNER_PROPOSE_H

#include "plan/plan.h"

struct propose {
    const clattn_context *context;
    const struct problem *problem;
    uint64_t random; /* the generator's state */
};

/* A point some steps from `from`: one or two parameters to the next value, or with wild half of them to any. */
struct tuned propose_near(struct propose *propose, const struct tuned *from, int wild);

/* Whether the device can have the point's tiles for every kernel of the solver. */
int propose_is_sound(const struct propose *propose, const struct tuned *tuned);

int tuned_equal(const struct tuned *a, const struct tuned *b);

#endif
