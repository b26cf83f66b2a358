/* Builds a problem's recipe in the intermediate form. The builder finds a kernel's tensors and numbers by the names of
 * its parameters. */
#ifndef CLATTN_SRC_SOLVE_BUILDER_H
#define CLATTN_SRC_SOLVE_BUILDER_H

#include "ir/ir.h"
#include "op/gemm.h"
#include "solve/kernel_step.h"

struct solver;
struct device_facts;
struct planner;
struct built_product;

enum { BUILDER_NAMES = 160, BUILDER_CHILDREN = 16 };

/* A solver whose steps are part of a recipe: the plan's own solver, or one that another solver added. It owns its tiles
 * and its shape. */
struct child {
    const struct solver *solver;
    void *tiles, *shape;
    int first, count; /* the range of its steps */
};

/* One operand of a product: a matrix for each head of every sequence. Distances are in elements of its type in the
 * product. */
struct product_matrix {
    int tensor;                  /* IR_NONE: there is none */
    ir_expression tokens;        /* the tokens of the tensor before its first row; IR_NONE: none */
    int64_t offset;              /* further elements before its first row */
    int64_t row, head, sequence; /* distances from one to the next; row 0: the tensor's own distances */
};

/* D = alpha op(A) op(B) + beta C, for each of `batch` heads of every sequence. */
struct product {
    clattn_dtype dtype;
    uint32_t flags;     /* CLATTN_GEMM_TRANS_A … */
    double alpha, beta; /* alpha 0 stands for 1 */
    ir_expression m, n, k;
    int64_t batch;
    struct product_matrix of[GEMM_OPERANDS]; /* C: absent if beta is 0, or if C is D itself */
};

/* What a plan consists of besides the intermediate form. */
struct built {
    struct kernel_step *steps; /* by step of the recipe */
    int step_count;
    struct built_product **products; /* the steps that are products (solve/gemm/gemm.h), in order */
    int product_count;
    /* in the order in which they were added */
    struct child children[BUILDER_CHILDREN];
    int child_count;
    int own; /* the index of the plan's own solver */
};

struct builder {
    struct ir_recipe *ir;
    struct built *built;
    const struct built *like; /* the plan whose children's tiles are used again, in the same order; NULL: tiles are
                               * chosen */
    const struct problem *problem;
    const struct problem *outer;         /* the plan's problem */
    const struct solver *const *solvers; /* solver_list, of which a solver of the list may add others */
    const struct device_facts *facts;
    cl_mem head_decay;             /* the log-decays that the rule fixes for each head; NULL: none */
    const struct planner *planner; /* chooses the providers of products; NULL: a recipe with products fails */
    /* by name; the last binding comes first */
    struct {
        const char *name;
        int tensor, number; /* one of them; both IR_NONE: absent */
    } names[BUILDER_NAMES];
    int name_count;
    int operands[OPERAND_COUNT]; /* tensors of the plan's operands; IR_NONE: not added yet */
    int denominators;            /* the divisors of the outputs; IR_NONE: none */
    int whole, whole_sums;       /* states after whole sequences, if the caller does not ask for them; else IR_NONE */
    int normed_output;           /* o, if kernels write another, whose rows are then normalised; else IR_NONE */
    int converted_output;        /* the caller's o, if kernels write another, to be converted; else IR_NONE */
    /* a child's lengths by enum ir_length, where they are not the plan's; IR_NONE: this one is. NULL: all are */
    const ir_expression *lengths;
    int reads_loop; /* the loop over the heads that read a state; IR_NONE: none */
    int failed;     /* there were too many names, steps or children, or a parameter that no binding has the
                                  * name of */
};

/* ---- Lengths and grids --------------------------------------------------------------------------------------------
 */

ir_expression build_constant(const struct builder *b, int64_t value);
ir_expression build_length(const struct builder *b, enum ir_length length);
ir_expression build_binary(const struct builder *b, enum ir_operation operation, ir_expression x, ir_expression y);
ir_expression build_times(const struct builder *b, ir_expression x, int64_t factor);
/* Rows of a sequence: each step of each token is one. */
ir_expression build_rows(const struct builder *b);
/* The largest number of chunks of `chunk` rows that the sequences have; and the same for the keys of a list, in blocks
 * that begin at any key. */
ir_expression build_slots(const struct builder *b, int chunk);
ir_expression build_key_slots(const struct builder *b, int chunk);
/* The same at the plan's own lengths. */
int64_t most_slots(const struct problem *problem, int chunk);
int64_t most_key_slots(const struct problem *problem, int chunk);

/* The number of groups along each dimension of the grid. */
struct grid3 {
    ir_expression x;
    int64_t y, z;
};

/* ---- Tensors ------------------------------------------------------------------------------------------------------
 */

/* The tensor of an operand, or IR_NONE if the problem does not have it. */
int build_operand(struct builder *b, clattn_operand_id id);
/* Scratch memory of that many elements. Kernels that read strides see those of numbers for tokens and heads, [batch,
 * head, token]. IR_NONE: there are no elements. */
int build_scratch(struct builder *b, const char *name, clattn_dtype type, int64_t elements);
/* The same, with the strides from one sequence, token and head to the next. */
int build_scratch_of(struct builder *b, const char *name, clattn_dtype type, int64_t elements,
                     const ir_expression strides[3]);

/* Scratch memory that iterations of a loop pass to each other. */
int build_carried(struct builder *b, const char *name, clattn_dtype type, int64_t elements);
/* Makes scratch memory such memory. Returns the tensor. */
int build_carry(struct builder *b, int tensor);

/* From here on, kernels find the tensor, or the number, under this name. IR_NONE: it is absent. */
void build_bind(struct builder *b, const char *name, int tensor);
void build_number(struct builder *b, const char *name, ir_expression number);
/* The number that is bound to the name. */
ir_expression build_bound_number(const struct builder *b, const char *name);
/* The tensor that kernels find under the name. */
int build_bound(struct builder *b, const char *name);

/* ---- Steps --------------------------------------------------------------------------------------------------------
 */

/* Adds a kernel and returns its step. Its tensors are those bound under its parameters' names; without a binding, the
 * problem's operands with these names. The same holds for numbers. */
int build_kernel(struct builder *b, const struct kernel_step *step, struct grid3 grid);
/* The same. A call skips the step if the condition is 0. */
int build_kernel_if(struct builder *b, const struct kernel_step *step, struct grid3 grid, ir_expression condition);
/* Adds a matrix product and returns its step. */
int build_product(struct builder *b, const struct product *product);
/* The same. A call skips the step if the condition is 0. */
int build_product_if(struct builder *b, const struct product *product, ir_expression condition);
/* Puts the steps from `first` to the last one added into a loop, with one iteration for every `per_turn` rows. */
void build_loop(struct builder *b, int first, ir_expression rows, int64_t per_turn);
/* The same from the last rows to the first. */
void build_loop_down(struct builder *b, int first, ir_expression rows, int64_t per_turn);
/* The same of all steps from here to build_close_loop, which may be children with loops of their own. Returns the loop's
 * number. The last step is in none of these. */
int build_open_loop(struct builder *b, ir_expression rows, int64_t per_turn);
void build_close_loop(struct builder *b, int loop);
/* The number of the loop that build_loop will add next, for expressions in steps that are added before it. */
int build_next_loop(const struct builder *b);

/* Adds the steps of another solver, for a problem. Bindings that are made meanwhile are dropped at the end. The tiles
 * are those of the plan `like`, or the solver's heuristic chooses them. Returns the solver's status. */
clattn_status build_child(struct builder *b, const struct solver *solver, const struct problem *problem);
/* Adds the steps of the first solver in b->solvers that can compute the problem: of the desc's mode, if one of that mode
 * can. UNSUPPORTED: none can. */
clattn_status build_problem(struct builder *b, const struct problem *problem);
/* Adds a solver's steps for b->problem with these tiles, which are copied. NULL: the tiles are chosen as for a
 * child. */
clattn_status build_solver(struct builder *b, const struct solver *solver, const void *tiles);

/* Calls `add` for each pass that b->problem needs: the pass that computes denominators, if there are any, then the one
 * that writes the outputs. `problem` is b->problem with the pass set. */
typedef clattn_status (*build_pass_fn)(struct builder *b, const struct problem *problem, const void *shape);
clattn_status build_passes(struct builder *b, const void *shape, build_pass_fn add);
/* One of these passes. */
clattn_status build_pass(struct builder *b, enum pass pass, const void *shape, build_pass_fn add);

/* ---- A plan's recipe ----------------------------------------------------------------------------------------------
 */

/* Begins the recipe of b->problem with the steps that come before its solver. The caller has set ir, built, like,
 * problem, facts, planner and head_decay. */
clattn_status build_begin(struct builder *b);
/* Reserves the kernel of the recipe's next step, for a caller that adds the step itself. NULL: out of memory. */
struct kernel_step *build_step(struct builder *b, const struct kernel_step *step);
/* Chooses a provider for each product: that of b->like, or the planner's choice. Returns the planner's status. */
clattn_status build_products(struct builder *b);
/* Ends the recipe: puts all steps into the loop over the reads of a state, and builds the products among them. */
clattn_status build_end(struct builder *b);
/* Begins the recipe, adds the steps of the plan's own solver and the steps around it. The tiles are copied; NULL: those
 * of b->like. */
clattn_status build_own(struct builder *b, const struct solver *solver, const void *tiles);
/* build_own followed by build_end. */
clattn_status build_recipe(struct builder *b, const struct solver *solver, const void *tiles);
/* The same within the desc's workspace_limit: where a recipe needs more, the problem's span becomes shorter and the recipe
 * is made again. UNSUPPORTED: the limit is below the shortest span's, or the solver has no spans. *least becomes the
 * smallest number of bytes that a recipe needed, unless it is that already. */
clattn_status build_within_limit(struct builder *b, struct problem *problem, const struct solver *solver,
                                 const void *tiles, int64_t *least);
void built_free(struct built *built);

#endif
