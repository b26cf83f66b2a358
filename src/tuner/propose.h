/* Proposes new points of a space: random ones and neighbours of good ones. All of them are valid on the device. */
#ifndef CLATTN_SRC_TUNER_PROPOSE_H
#define CLATTN_SRC_TUNER_PROPOSE_H

#include "plan/plan.h"

struct propose {
    const clattn_context *context;
    const struct problem *problem;
    uint64_t random; /* the generator's state */
};

/* A point near `from`: one or two parameters move to the next value. far: about half of them move to any value. */
struct tuned propose_near(struct propose *propose, const struct tuned *from, int far);

/* Whether the device supports the point's tiles for every kernel of the solver. */
int propose_is_valid(const struct propose *propose, const struct tuned *tuned);

int tuned_equal(const struct tuned *a, const struct tuned *b);

#endif
