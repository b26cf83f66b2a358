/* Checks and times one problem. */
#ifndef CLATTN_SRC_CLI_DEVICE_MEASURE_H
#define CLATTN_SRC_CLI_DEVICE_MEASURE_H

#include "cli/device/target.h"
#include "tuner/timing.h"

struct measurement {
    struct timing timing;
    double error; /* against the reference */
    clattn_operand_id worst;
    clattn_plan_desc checked; /* the problem that was compared: a shorter one if the reference would take too long */
    double bytes;             /* of all operands */
    size_t workspace;         /* bytes */
    size_t sets;              /* of operands; runs use them in turn */
    char plan[2048];
};

enum { MEASURE_RUNS = 20 };

/* The problem with fewer batch elements, then fewer tokens, until the reference takes no more than about `budget`
 * seconds. */
clattn_plan_desc measure_reduced(const clattn_plan_desc *full, double budget);

/* desc is completed. in_place: final states overwrite the initial ones. On failure the target's sink has the reason. */
clattn_status measure(struct target *target, const clattn_plan_desc *desc, int in_place, uint64_t seed, size_t runs,
                      struct measurement *result);

#endif
