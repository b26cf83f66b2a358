/* One problem on one device, on which any point of a solver's space can be tried: a short run first, then timed, and
 * compared with the reference. */
#ifndef CLATTN_SRC_TUNER_TRIAL_H
#define CLATTN_SRC_TUNER_TRIAL_H

#include "plan/plan.h"
#include "tuner/buffers.h"

/* What a point's trial led to. X(name, text) */
#define TRIAL_STATES(X)                                                                                                \
    X(NEW, "not tried")                                                                                                \
    X(TRYING, "being tried")                                                                                           \
    X(TIMED, "timed")                                                                                                  \
    X(SLOW, "too slow at a short length")                                                                              \
    X(UNSUPPORTED, "not for this device")                                                                              \
    X(SPILLED, "keeps registers in memory")                                                                            \
    X(UNBUILT, "does not build")                                                                                       \
    X(FAILED, "does not run")                                                                                          \
    X(WRONG, "wrong results")                                                                                          \
    X(CRASHED, "stopped the process")
enum trial_state {
#define TRIAL_ENUM(name, text) TRIAL_##name,
    TRIAL_STATES(TRIAL_ENUM)
#undef TRIAL_ENUM
        TRIAL_STATE_COUNT
};
const char *trial_state_name(enum trial_state state); /* "timed" */
const char *trial_state_text(enum trial_state state);

/* Longer runs, in seconds, are not started: they would freeze displays and trigger watchdogs. */
#define TRIAL_LONGEST 0.2

struct trial {
    struct check_device *device;
    struct log log;
    const struct space *space;
    uint64_t seed;
    struct check_tensors tensors, expected;             /* the timed problem; trial_open chooses its tokens */
    int is_expected_known;                              /* its reference has been computed */
    struct check_tensors short_tensors, short_expected; /* its first tokens */
    struct buffers buffers;                             /* without workspace */
    cl_mem workspace;
    size_t workspace_bytes;
    int by_events;
};

/* Opens the problem with the solver's usual number of tokens, or fewer if the default would take too long. trial_close
 * in all cases. */
clattn_status trial_open(struct trial *trial, struct check_device *device, const struct space *space,
                         const clattn_plan_desc *desc, struct log log);
void trial_close(struct trial *trial);

/* The desc with which trial_open begins. */
clattn_plan_desc trial_desc(const struct check_device *device, const struct space *space, const clattn_plan_desc *desc);

/* The plan of a point. If there is none, *state says why. */
clattn_status trial_plan(const struct trial *trial, const struct tuned *tuned, clattn_plan **plan,
                         enum trial_state *state);

/* The same for that many tokens, at most those of the trial. */
clattn_status trial_plan_of(const struct trial *trial, int64_t tokens, const struct tuned *tuned, clattn_plan **plan,
                            enum trial_state *state);

/* The most memory that one of a plan's built kernels uses, in bytes. 0 if the driver does not say. */
struct trial_memory {
    uint64_t local, private;
};
struct trial_memory trial_memory(const clattn_plan *plan);

/* Seconds of `count` runs over that many tokens. */
clattn_status trial_time(struct trial *trial, clattn_plan *plan, int64_t tokens, size_t count, double *samples);

/* Whether the plan's results are right over the first tokens, or with `whole` over all. */
enum trial_state trial_check(struct trial *trial, clattn_plan *plan, int whole, double *error);

/* The shapes that trial_validate checks in addition to the timed problem. */
enum { AWKWARD = 4 };
clattn_plan_desc trial_awkward(const struct trial *trial, size_t i);

/* Whether the point's results are right on the timed problem and on awkward shapes. *error is the largest. */
enum trial_state trial_validate(struct trial *trial, const struct tuned *tuned, double *error);

/* The default point with the values that the plan's heuristic chose. */
struct tuned trial_explicit_point(const clattn_plan *plan);

#endif
