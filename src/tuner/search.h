/* Searches one solver's space for one problem:
 *
 *     1. Time the default, and points that were found earlier, perhaps for other kernels.
 *     2. While the budget allows: propose a point near a good one or anywhere. Run a few tokens, check and time them.
 *        Time all tokens of the faster points. From time to time run the best points again in turns.
 *     3. Run the best points and the default in turns. Check the winner on awkward shapes; if it fails, take the next.
 *
 * A point is in the journal before it runs. The default stays unless a point beats it by more than KEEP_MARGIN. */
#ifndef CLATTN_SRC_TUNER_SEARCH_H
#define CLATTN_SRC_TUNER_SEARCH_H

#include "tuner/journal.h"
#include "tuner/trial.h"

enum { MAX_SAMPLES = 48 };
#define KEEP_MARGIN 0.03

struct candidate {
    struct tuned tuned;
    enum trial_state state;
    double samples[MAX_SAMPLES]; /* seconds for all tokens */
    size_t count;
    double time;  /* their median */
    double error; /* the largest, against the reference */
    double at;    /* seconds after the search began */
    int resumed;  /* known from a journal */
};

struct search_result {
    struct candidate *all; /* [0] is the default; owned */
    size_t count, winner;
    int64_t tokens;       /* of the timed problem */
    double seconds;       /* that the search took */
    int stopped;          /* by the caller */
    int budget_too_small; /* the budget ended before there were enough points for a round of the best ones */
};

/* A plan that will be needed soon. */
struct search_point {
    clattn_plan_desc desc;
    struct tuned tuned;
};
enum { MAX_AHEAD = 16 };
/* As a word for another process of the same program, to be freed; NULL without memory. */
char *search_point_write(const struct search_point *point);
/* Returns 0 for a text that search_point_write did not make. */
int search_point_read(const char *text, struct search_point *point);

/* Calls from the search to its owner; each may be NULL. */
struct search_events {
    void (*improved)(void *user, const struct search_result *result, const struct candidate *best);
    void (*progress)(void *user, double seconds_spent);
    int (*stop)(void *user); /* not 0: finish with what is found */
    /* Builds the plans of at most `width` points at the same time, into the cache, where the search finds them.
     * sound[i] becomes 0 if the driver crashed. */
    void (*build_ahead)(void *user, const struct search_point *points, size_t count, int *sound);
    size_t width;
    void *user;
};

struct search {
    struct check_device *device;
    struct log log;
    const struct space *space;
    clattn_plan_desc desc; /* seq_len 0: the solver's usual length */
    double budget;         /* seconds */
    int only_default;      /* no other point is tried */
    uint64_t seed;
    const struct tuned *known; /* tried first */
    size_t known_count;
    struct journal *journal; /* or NULL */
    const char *item;        /* this search's name in the journal */
    struct search_events events;
};

/* Builds a point's plan as the search does, to fill the cache. */
clattn_status search_build(struct check_device *device, const struct search_point *point);

/* Has plans built ahead, at most events->width at a time. sound has count entries. */
void search_build_ahead(const struct search_events *events, const struct search_point *points, size_t count,
                        int *sound);

/* search_free in all cases. */
clattn_status search_run(const struct search *search, struct search_result *result);
void search_free(struct search_result *result);

#endif
