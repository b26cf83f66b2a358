/* The search of one solver's space for one problem:
 *     the default, timed; points that were found earlier, perhaps for other kernels
 *     while the budget leaves time for what follows: a point near a good one, or anywhere; first a few tokens, checked
 * and timed; the faster ones all tokens; from time to time the best few again, one after the other a last round of the
 * best few and the default, interleaved; the winner is checked on awkward shapes, or the next A point is in the journal
 * before it runs. The default stays unless it is beaten by more than KEEP_MARGIN. */
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
    double error; /* against the reference, the worst */
    double at;    /* seconds after the search began */
    int resumed;  /* known from a journal */
};

struct search_result {
    struct candidate *all; /* [0] is the default; owned */
    size_t count, winner;
    int64_t tokens; /* that the times are for */
    double seconds; /* that the search took */
    int stopped;    /* by the caller */
    int hurried;    /* the budget ended it before there were enough points for a round of the best */
};

/* A plan that is wanted soon. */
struct search_point {
    clattn_plan_desc desc;
    struct tuned tuned;
};
enum { MAX_AHEAD = 16 };
/* As a word for another process of the same program, to be freed; NULL without memory. */
char *search_point_write(const struct search_point *point);
/* Returns 0 for a text that search_point_write did not make. */
int search_point_read(const char *text, struct search_point *point);

/* What a search tells, and asks, its caller; all may be NULL. */
struct search_events {
    void (*improved)(void *user, const struct search_result *result, const struct candidate *best);
    void (*progress)(void *user, double seconds_spent);
    int (*stop)(void *user); /* not 0: come to an end with what is found */
    /* Builds the kernels of plans, all at once, into the cache where their plans find them: of at most width points.
     * sound[i] becomes 0 where the driver did not live to the end of it. */
    void (*ahead)(void *user, const struct search_point *points, size_t count, int *sound);
    size_t width;
    void *user;
};

struct search {
    struct check_device *device;
    struct log log;
    const struct space *space;
    clattn_plan_desc desc; /* seq_len 0: the solver's */
    double budget;         /* seconds */
    int only_default;      /* no other point is tried */
    uint64_t seed;
    const struct tuned *known; /* to be tried first */
    size_t known_count;
    struct journal *journal; /* or NULL */
    const char *item;        /* this search's name in the journal */
    struct search_events events;
};

/* Builds a point's plan as the search does, for what it leaves in the cache. */
clattn_status search_build(struct check_device *device, const struct search_point *point);

/* Asks for plans ahead, at most width at a time; sound has count entries. */
void search_ahead(const struct search_events *events, const struct search_point *points, size_t count, int *sound);

/* search_free in all cases. */
clattn_status search_run(const struct search *search, struct search_result *result);
void search_free(struct search_result *result);

#endif
