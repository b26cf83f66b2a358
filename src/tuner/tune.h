/* A problem tuned whole: every solver's space searched, then the lengths from which each solver is the fastest; what is
 * found goes into the user's file as it is found. */
#ifndef CLATTN_SRC_TUNER_TUNE_H
#define CLATTN_SRC_TUNER_TUNE_H

#include "tune/tuning_table.h"
#include "tuner/search.h"

struct tune {
    cl_device_id device;
    struct log log;
    double budget; /* seconds for a problem */
    uint64_t seed;
    const char *path; /* the file; NULL: nothing is written */
    struct journal *journal;
    struct search_events events;
};

/* What became of one solver. */
struct tune_outcome {
    const struct space *space;
    int known;            /* taken from an earlier run that was stopped; no result then */
    clattn_status status; /* of the search; entry is not meaningful when it failed */
    struct tuning_entry entry;
    struct search_result result; /* search_free */
    double beaten;               /* how many times another's default it takes, and is not searched; else 0 */
};

#define LEFT_OUT 2.0 /* by so many times */

enum { MAX_LENGTHS = 16 };

/* Seconds by length and solver: how the lengths from which a solver is the fastest were found. */
struct tune_lengths {
    size_t count;
    int64_t tokens[MAX_LENGTHS];
    double seconds[MAX_LENGTHS][MAX_SPACES]; /* 0: not measured */
};

struct tune_result {
    clattn_plan_desc desc; /* completed */
    char group[32];
    struct tune_outcome outcomes[MAX_SPACES];
    int count, stopped;
    struct tune_lengths lengths;
};

/* Every solver's default first: one that another's beats by LEFT_OUT leaves its time to the others.
 * desc without seq_len: its rule stands for its group. tune_free in all cases. */
clattn_status tune_problem(const struct tune *tune, const clattn_plan_desc *desc, struct tune_result *result);
void tune_free(struct tune_result *result);

/* How many times the best default of the others a solver's takes, for as many tokens, where that is LEFT_OUT or more;
 * else 0. */
double tune_times_beaten(const struct tune_result *whole, const struct tune_outcome *outcome);

/* The entries' from_rows, by result->lengths and, beyond these, the entries' own times. */
void tune_stretches(struct tune_result *result);

/* Fills result->lengths and the entries' from_rows. */
clattn_status tune_crossover(const struct tune *tune, struct check_device *device, struct tune_result *result);

#endif
