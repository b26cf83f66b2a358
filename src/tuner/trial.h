/* One problem on one device, on which any point of a solver's space can be tried: run short first, timed, held to the
 * reference. */
#ifndef CLATTN_SRC_TUNER_TRIAL_H
#define CLATTN_SRC_TUNER_TRIAL_H

#include "plan/plan.h"
#include "tuner/buffers.h"

/* What became of a point. X(name, text) */
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

/* Runs that would take longer than this, in seconds, are not begun: displays and watchdogs. */
#define TRIAL_LONGEST 0.2

struct trial {
    struct check_device *device;
    struct log log;
    const struct space *space;
    uint64_t seed;
    struct check_tensors tensors, expected;             /* the timed problem, its tokens chosen by trial_open */
    struct check_tensors short_tensors, short_expected; /* its first tokens */
    struct buffers buffers;                             /* without workspace */
    cl_mem workspace;
    size_t workspace_bytes;
    int by_events;
};

/* The problem with the solver's tokens, or fewer where the default would take too long. trial_close in all cases. */
clattn_status trial_open(struct trial *trial, struct check_device *device, const struct space *space,
                         const clattn_plan_desc *desc, struct log log);
void trial_close(struct trial *trial);

/* The desc that trial_open begins with, where the default is not too slow. */
clattn_plan_desc trial_desc(const struct check_device *device, const struct space *space, const clattn_plan_desc *desc);

/* The plan of a point; *state says why there is none. */
clattn_status trial_plan(const struct trial *trial, const struct tuned *tuned, clattn_plan **plan,
                         enum trial_state *state);

/* The same of so many tokens, at most those of the trial. */
clattn_status trial_plan_of(const struct trial *trial, int64_t tokens, const struct tuned *tuned, clattn_plan **plan,
                            enum trial_state *state);

/* Memory that the built kernels of a plan take at most, in bytes; 0 where the driver does not say. */
struct trial_memory {
    uint64_t local, private;
};
struct trial_memory trial_memory(const clattn_plan *plan);

/* Seconds of count runs over that many tokens. */
clattn_status trial_time(struct trial *trial, clattn_plan *plan, int64_t tokens, size_t count, double *samples);

/* Whether the plan's results over the first tokens (or, with whole, all) are right. */
enum trial_state trial_check(struct trial *trial, clattn_plan *plan, int whole, double *error);

/* What trial_validate has plans of, beside the timed problem. */
enum { AWKWARD = 4 };
clattn_plan_desc trial_awkward(const struct trial *trial, size_t i);

/* Whether the point's results are right on the timed problem and on awkward shapes; *error is the worst. */
enum trial_state trial_validate(struct trial *trial, const struct tuned *tuned, double *error);

/* The fields of the point that are left to the rule of thumb, as the plan has them. */
struct tuned trial_explicit(const clattn_plan *plan, const struct space *space);

#endif
