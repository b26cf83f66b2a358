/* A plan: a problem, and the recipe that computes it bound to one device. */
#ifndef CLATTN_SRC_PLAN_H
#define CLATTN_SRC_PLAN_H

#include "ir/ir.h"
#include "op/arguments.h"
#include "tune/space.h"
#include "solve/solve.h"

/* Where an operand lies in a call of the plan's lengths that gives it no strides. */
struct usual {
    struct view view; /* from its buffer's beginning */
    size_t element;
    uint64_t bytes; /* 0: it has none, or does not lie so */
};

/* A matrix product among a plan's steps. */
struct plan_product {
    const struct product *product;
    clattn_gemm_desc most; /* at the plan's lengths, of all sequences */
    int varies;            /* whether turns and calls have other sizes */
    int is_one;            /* whether one launch computes the product of all sequences; else each has one, because its
                              matrices are not evenly apart and the provider has no second stride */
    clattn_gemm_plan *by;  /* what computes it; products that are alike share it */
};

struct clattn_plan {
    clattn_context *context;
    struct log log; /* the context's; while solvers are tried, one to which errors are warnings */
    struct problem problem;
    struct extent most;                /* the plan's lengths, */
    struct usual usual[OPERAND_COUNT]; /* and the problem's operands then */
    const struct solver *solver;
    struct ir_recipe ir;            /* what is computed */
    struct built built;             /* its kernels, and the solvers that added them */
    int has_recipe;                 /* plan_bind has found one, whatever became of its kernels */
    struct kernel *kernels;         /* by step; none of a product. NULL: none is built */
    struct plan_product *products;  /* as built has them; NULL: none, or not bound */
    const struct clattn_plan *like; /* whose kernels and products it takes, which outlives it; or NULL */
    cl_mem head_decay;              /* the log-decays that the rule itself fixes, [heads]; or NULL */
    mutex lock;                     /* kernels carry their arguments until enqueued; over set too */
    cl_kernel *launched;            /* what calls launch: the kernels' handles */
    struct ir_set *set;             /* what they were last set to */
    struct hash hash;               /* of its kernels' sources */
    char *tiles_by;                 /* what says the tiles: "rule of thumb", a path */
    int rejected;                   /* solvers that the self-test turned down before this one */
};

/* A plan of a problem, bound to nothing yet. */
clattn_status plan_open(clattn_plan **plan, clattn_context *context, const clattn_plan_desc *desc, size_t desc_size);
/* Fills most and usual, before any call. */
void plan_find_usual(struct clattn_plan *plan);
/* Makes the solver's recipe and builds its kernels, in the place of those that the plan has: with the tiles of a point,
 * which may be NULL, or of another plan. */
clattn_status plan_bind(struct clattn_plan *plan, const struct solver *solver, const struct tuned *tuned,
                        const struct clattn_plan *like, int most_group);
/* The plan's own solver at work. */
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

/* Finds what computes the recipe's products: what does in the plan that this one is like, or what was measured, or the
 * heuristic's choice; tried on numbers. And gives it back. */
clattn_status plan_bind_products(struct clattn_plan *plan);
void plan_drop_products(struct clattn_plan *plan);

/* Whether there is something to compute each product of a recipe for those lengths, as far as is known without building
 * it. */
int products_fit(clattn_context *context, const struct extent *most, const struct ir_recipe *ir,
                 const struct built *built);

/* What follows its name in the plan's description: a line's end. */
void plan_describe_product(struct text *text, const struct plan_product *product);
/* The builder's enqueue_product; user is a struct plan_product. */
clattn_status plan_enqueue_product(const struct ir_foreign *foreign);

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
/* Makes the kernels again whose programs came from the cache, for those fail when they are run; whether any did. */
int plan_renew(struct clattn_plan *plan);
/* Launches of a call of the desc's lengths: its steps, those of a loop for every stretch. */
int64_t plan_launches(const struct clattn_plan *plan);

/* The same as plan_run on a queue in order, waiting for nothing, with an event of every launch. */
clattn_status plan_run_each(struct clattn_plan *plan, cl_command_queue queue, const struct arguments *arguments,
                            struct ir_launches *launches);

#endif
