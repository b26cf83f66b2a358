/* A plan: a problem, and the recipe that computes it bound to one device. */
#ifndef CLATTN_SRC_PLAN_H
#define CLATTN_SRC_PLAN_H

#include "op/arguments.h"
#include "plan/bound.h"
#include "plan/recipe.h"
#include "solve/solve.h"

/* Where an operand lies in a call of the plan's lengths that gives it no strides. */
struct usual {
    struct view view; /* from its buffer's beginning */
    size_t element;
    uint64_t bytes; /* 0: it has none, or does not lie so */
};

struct clattn_plan {
    clattn_context *context;
    struct log log; /* the context's; while solvers are tried, one to which errors are warnings */
    struct problem problem;
    struct extent most;                /* the plan's lengths, */
    struct usual usual[OPERAND_COUNT]; /* and the problem's operands then */
    const struct solver *solver;
    struct recipe recipe; /* of a solver of src/kernel, in the intermediate form from step `own` on */
    int own;
    struct bound bound; /* what is computed, and its kernels */
    int has_recipe;     /* plan_bind has found one, whatever became of its kernels */
    cl_mem head_decay;  /* the log-decays that the rule itself fixes, [heads]; or NULL */
    char *tiles_by;     /* what says the tiles: "rule of thumb", a path */
    int rejected;       /* solvers that the self-test turned down before this one */
};

/* A plan of a problem, bound to nothing yet. */
clattn_status plan_open(clattn_plan **plan, clattn_context *context, const clattn_plan_desc *desc, size_t desc_size);
/* Fills most and usual, before any call. */
void plan_find_usual(struct clattn_plan *plan);
/* Makes the solver's recipe and builds its kernels, in the place of those that the plan has: with the tiles of a point,
 * which may be NULL, or of another plan. */
clattn_status plan_bind(struct clattn_plan *plan, const struct solver *solver, const struct tuned *tuned,
                        const struct clattn_plan *like, int most_group);
/* The plan's own solver at work; NULL of one of src/kernel. */
const struct child *plan_child(const struct clattn_plan *plan);
/* A plan of a smaller problem with the kernels of another: its solver and tiles. It is not tested. */
clattn_status plan_like(clattn_plan **plan, const clattn_plan_desc *desc, const struct clattn_plan *like);
/* The status of what was done to a new plan, which is destroyed, and NULL, unless that is SUCCESS. */
clattn_status plan_made(clattn_plan **plan, clattn_status status);

/* The first time that these kernels meet this device and driver: a short run against the reference. UNSUPPORTED when
 * the results are wrong, which is remembered; DEVICE_ERROR when OpenCL fails, which is not; whatever else keeps the
 * test from running is no failure. */
clattn_status plan_self_test(struct clattn_plan *plan);
/* The same of any kernels, by the hash of their sources: run sets *verdict to 1 where they are right, -1 where not, and
 * leaves 0 where it could not be told. */
clattn_status self_test(clattn_context *context, struct hash kernels, const char *what,
                        clattn_status (*run)(void *user, int *verdict), void *user);

/* Adds the plan's recipe to the builder's, and ends it. OUT_OF_MEMORY. */
clattn_status plan_adapt(const struct clattn_plan *plan, struct builder *b);

/* Chooses a solver and tiles, and binds their recipe: exactly the tiles of a point, untested, where it is not NULL. */
clattn_status plan_choose(struct clattn_plan *plan, const struct tuned *forced);

/* Whether the context's device is of those for which the space's solver is chosen. */
int plan_chooses(const clattn_context *context, const struct space *space);

/* Whether a solver has a recipe for the problem; nothing is built. UNSUPPORTED. */
clattn_status plan_supports(clattn_context *context, const struct problem *problem);

/* clattn_plan_create with exactly the tiles of a point, which may be NULL. */
clattn_status plan_create(clattn_plan **plan, clattn_context *context, const clattn_plan_desc *desc,
                          const struct tuned *forced);

/* A few lines of text, to be freed; NULL without memory. Its parts: what the plan computes, by which kernels, and where
 * scratch memory lies in a workspace. */
char *plan_text(const struct clattn_plan *plan);
void plan_write_steps(struct text *text, const struct clattn_plan *plan);
void plan_write_workspace(struct text *text, const struct ir_recipe *recipe);

/* Binds and enqueues: the rest of clattn_enqueue. */
clattn_status plan_run(struct clattn_plan *plan, cl_command_queue queue, const struct arguments *arguments,
                       uint32_t n_wait, const cl_event *wait, cl_event *event);
/* Launches of a call of the desc's lengths: its steps, those of a loop for every stretch. */
int64_t plan_launches(const struct clattn_plan *plan);

/* The same as plan_run on a queue in order, waiting for nothing, with an event of every launch. */
clattn_status plan_run_each(struct clattn_plan *plan, cl_command_queue queue, const struct arguments *arguments,
                            struct ir_launches *launches);

#endif
