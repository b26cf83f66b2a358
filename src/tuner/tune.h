/* Tunes a problem: searches every solver's space, then measures from which length on each solver is the fastest.
 * Results are written to the user's file as they are found. */
#ifndef CLATTN_SRC_TUNER_TUNE_H
#define CLATTN_SRC_TUNER_TUNE_H

#include "tune/tuning_table.h"
#include "tuner/search.h"

struct tune {
    cl_device_id device;
    struct log log;
    double budget; /* seconds for a problem */
    uint64_t seed;
    const char *path; /* the user's file; NULL: nothing is written */
    struct journal *journal;
    struct search_events events;
};

/* The result of one solver. */
struct tune_outcome {
    const struct space *space;
    int known;            /* known from an earlier run that was stopped; then there is no result */
    clattn_status status; /* of the search; if it failed, entry has no meaning */
    struct tuning_entry entry;
    struct search_result result; /* search_free */
    double times_slower;         /* than the best default, if its space is not searched for that; else 0 */
};

/* A solver whose default is slower than another's by this factor is not searched. */
#define SKIP_FACTOR 2.0

enum { MAX_LENGTHS = 16 };

/* Times by length and solver, from which from_rows is derived. */
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

/* Tunes for desc without seq_len; its rule stands for its group. Times every solver's default first. A solver that is
 * slower by SKIP_FACTOR leaves its time to the others. tune_free in all cases. */
clattn_status tune_problem(const struct tune *tune, const clattn_plan_desc *desc, struct tune_result *result);
void tune_free(struct tune_result *result);

/* How many times slower the solver's default is than the best other one with as many tokens, if that is SKIP_FACTOR or
 * more; else 0. */
double tune_times_slower(const struct tune_result *whole, const struct tune_outcome *outcome);

/* Sets the entries' from_rows from result->lengths and, for longer sequences, from the entries' own times. */
void tune_set_from_rows(struct tune_result *result);

/* Fills result->lengths and the entries' from_rows. */
clattn_status tune_crossover(const struct tune *tune, struct check_device *device, struct tune_result *result);

#endif
