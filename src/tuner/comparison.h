/* Measured parameters against the default, timed in turns. */
#ifndef CLATTN_SRC_TUNER_COMPARISON_H
#define CLATTN_SRC_TUNER_COMPARISON_H

#include "tune/tuning_table.h"
#include "tuner/trial.h"

struct comparison {
    const struct tuning_entry *entry; /* of the context's tables; NULL: nothing is known for the solver */
    int layer;                        /* which table */
    int64_t tokens;                   /* that the times are for */
    double default_seconds, tuned_seconds;
    int slower; /* the measured parameters are, by more than noise */
};

/* For the rule and sizes of desc, which has a seq_len, the parameters that plans by one solver take. */
clattn_status comparison_run(struct check_device *device, const clattn_plan_desc *desc, const struct space *space,
                             struct log log, struct comparison *comparison);

#endif
