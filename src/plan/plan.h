/* A plan: a problem, and a recipe that computes it, bound to one device. */
#ifndef CLATTN_SRC_PLAN_H
#define CLATTN_SRC_PLAN_H

#include "op/arguments.h"
#include "plan/bound.h"
#include "solve/solve.h"
#include "tune/space.h"

/* The placement of an operand without strides, in a call of the plan's own lengths. */
struct usual {
    struct view view; /* from the beginning of its buffer */
    size_t element;
    uint64_t bytes; /* 0: it is absent, or cannot be placed contiguously */
};

struct clattn_plan {
    clattn_context *context;
    struct log log; /* the context's; while solvers are tried, a log that turns errors into warnings */
    struct problem problem;
    struct extent most;                /* the plan's own lengths */
    struct usual usual[OPERAND_COUNT]; /* where operands lie at these lengths */
    const struct solver *solver;
    struct bound bound;      /* the steps, and their kernels */
    int has_recipe;          /* plan_bind has made a recipe, even if its kernels could not be built */
    cl_mem head_decay;       /* log-decays [heads] that the rule fixes; or NULL */
    char *tiles_by;          /* where the tiles come from: "rule of thumb", or a path */
    int verbose;             /* whether its calls have a line on stderr */
    int64_t least_workspace; /* bytes of the smallest workspace among those that were tried */
    int rejected;            /* solvers that failed the self-test before this one was chosen */
};

/* Creates a plan that is not bound to a solver yet. */
clattn_status plan_open(clattn_plan **plan, clattn_context *context, const clattn_plan_desc *desc, size_t desc_size);
/* Fills `most` and `usual`, which calls read. */
void plan_find_usual(struct clattn_plan *plan);
/* Makes the solver's recipe and builds its kernels, replacing what the plan has. The tiles are those of a point
 * (`tuned`, may be NULL) or of the plan `like`. */
clattn_status plan_bind(struct clattn_plan *plan, const struct solver *solver, const struct tuned *tuned,
                        const struct clattn_plan *like, int most_group);
/* The child that the plan's own solver added. */
const struct child *plan_child(const struct clattn_plan *plan);
/* Creates a plan of a smaller problem with the kernels of another plan: the same solver and tiles. The self-test is not
 * run. */
clattn_status plan_create_sharing(clattn_plan **plan, const clattn_plan_desc *desc, const struct clattn_plan *like);
/* Finishes the creation of a plan: on failure destroys it and sets *plan to NULL. Returns `status`. */
clattn_status plan_finish_create(clattn_plan **plan, clattn_status status);

/* Runs the plan's kernels on a short problem and compares with the reference, the first time that this device and
 * driver see them. UNSUPPORTED: the results are wrong, which is remembered. DEVICE_ERROR: OpenCL failed, which is not
 * remembered. If something else prevents the test, that is no failure. */
clattn_status plan_self_test(struct clattn_plan *plan);
/* The same for any kernels, which the hash of their sources identifies. `run` sets *verdict to 1 if they are right and
 * to -1 if they are wrong; it leaves 0 if it cannot tell. */
clattn_status self_test(clattn_context *context, struct hash kernels, const char *what,
                        clattn_status (*run)(void *user, int *verdict), void *user);

/* Chooses a solver and tiles and binds the plan to them. If `forced` is not NULL, exactly that point is bound, without
 * a self-test. */
clattn_status plan_choose(struct clattn_plan *plan, const struct tuned *forced);

/* Whether the space's solver is among those that are chosen on the context's device. */
int plan_chooses(const clattn_context *context, const struct space *space);

/* Whether some solver has a recipe for the problem. Nothing is built. UNSUPPORTED: none has. */
clattn_status plan_supports(clattn_context *context, const struct problem *problem);

/* clattn_plan_create with exactly the tiles of a point. A NULL point leaves the choice to the library. */
clattn_status plan_create(clattn_plan **plan, clattn_context *context, const clattn_plan_desc *desc,
                          const struct tuned *forced);

/* The description, a few lines of text to be freed; NULL: out of memory. The other two write parts of it: the steps
 * with their kernels, and where scratch buffers lie in the workspace. */
char *plan_text(const struct clattn_plan *plan);
void plan_write_steps(struct text *text, const struct clattn_plan *plan);
void plan_write_workspace(struct text *text, const struct ir_recipe *recipe);

/* Checks the arguments and enqueues the steps: clattn_enqueue without its first checks. */
clattn_status plan_run(struct clattn_plan *plan, cl_command_queue queue, const struct arguments *arguments,
                       uint32_t n_wait, const cl_event *wait, cl_event *event);
/* The number of launches in a call of the desc's lengths. A step of a loop counts once an iteration. */
int64_t plan_launches(const struct clattn_plan *plan);

/* plan_run on a queue in order, without a wait list, with one event for each launch. */
clattn_status plan_run_each(struct clattn_plan *plan, cl_command_queue queue, const struct arguments *arguments,
                            struct ir_launches *launches);

#endif
