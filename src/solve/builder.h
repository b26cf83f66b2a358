/* Building a recipe of the intermediate form for a problem: kernels whose tensors and numbers are found by their names. */
#ifndef CLATTN_SRC_SOLVE_BUILDER_H
#define CLATTN_SRC_SOLVE_BUILDER_H

#include "ir/ir.h"
#include "op/gemm.h"
#include "solve/kernel_step.h"

struct solver;
struct device_facts;
struct planner;
struct built_product;

enum { BUILDER_NAMES = 48, BUILDER_CHILDREN = 16 };

/* A solver at work in a recipe: the plan's own, or one that another adds. Tiles and shape are owned. */
struct child {
    const struct solver *solver;
    void *tiles, *shape;
    int first, count; /* its steps */
};

/* A matrix of each head of every sequence, in elements of its type in the product. */
struct product_matrix {
    int tensor;                  /* IR_NONE: there is none */
    ir_expression tokens;        /* how many tokens of the tensor it begins after; IR_NONE: none */
    int64_t offset;              /* and how many elements */
    int64_t row, head, sequence; /* from one to the next; row 0: as the tensor has them */
};

/* D = alpha op(A) op(B) + beta C of each of `batch` heads of every sequence. */
struct product {
    clattn_dtype dtype;
    uint32_t flags;     /* CLATTN_GEMM_TRANS_A … */
    double alpha, beta; /* alpha 0: 1 */
    ir_expression m, n, k;
    int64_t batch;
    struct product_matrix of[GEMM_OPERANDS]; /* C: none where beta is 0, or where D is added to */
};

/* What a plan is made of beside the intermediate form. */
struct built {
    struct kernel_step *steps; /* by step of the recipe */
    int step_count;
    struct built_product **products; /* those steps that are products (solve/gemm/gemm.h), in order */
    int product_count;
    /* in the order in which they were added */
    struct child children[BUILDER_CHILDREN];
    int child_count;
    int own; /* the child that is the plan's own solver, unless that is of src/kernel */
};

struct builder {
    struct ir_recipe *ir;
    struct built *built;
    const struct built *like; /* whose children's tiles are taken, in the same order; NULL: tiles are chosen */
    const struct problem *problem;
    const struct problem *outer; /* the plan's */
    const struct device_facts *facts;
    cl_mem head_decay;             /* the log-decays that the rule fixes by head; NULL */
    const struct planner *planner; /* who says what computes products; NULL: a recipe with products fails */
    /* by name, the last first */
    struct {
        const char *name;
        int tensor, number; /* one of them; IR_NONE of both: absent */
    } names[BUILDER_NAMES];
    int name_count;
    int operands[OPERAND_COUNT]; /* tensors of the plan's operands; IR_NONE: not made yet */
    int denominators;            /* what outputs are divided by; IR_NONE */
    int whole, whole_sums;       /* states after whole sequences that the caller does not want; IR_NONE */
    int reads_loop;              /* over the heads that read a state; IR_NONE */
    int failed;                  /* too many names, steps or children; a parameter that nothing has the name of */
};

/* ---- Lengths and grids --------------------------------------------------------------------------------------------
 */

ir_expression build_constant(const struct builder *b, int64_t value);
ir_expression build_length(const struct builder *b, enum ir_length length);
ir_expression build_binary(const struct builder *b, enum ir_operation operation, ir_expression x, ir_expression y);
ir_expression build_times(const struct builder *b, ir_expression x, int64_t factor);
/* Rows of a sequence: a step of a token each. */
ir_expression build_rows(const struct builder *b);
/* Slots of chunks of that many rows that sequences take at most; and of their keys, in blocks that begin anywhere. */
ir_expression build_slots(const struct builder *b, int chunk);
ir_expression build_key_slots(const struct builder *b, int chunk);
/* The same of the plan's own lengths. */
int64_t most_slots(const struct problem *problem, int chunk);
int64_t most_key_slots(const struct problem *problem, int chunk);

/* Groups along the three dimensions of a grid. */
struct grid3 {
    ir_expression x;
    int64_t y, z;
};

/* ---- Tensors ------------------------------------------------------------------------------------------------------
 */

/* The tensor of an operand; IR_NONE where the problem has none. */
int build_operand(struct builder *b, clattn_operand_id id);
/* Scratch memory of so many elements. Where strides are looked at they are those of numbers of tokens and heads,
 * [batch, head, token]. IR_NONE of no elements. */
int build_scratch(struct builder *b, const char *name, clattn_dtype type, int64_t elements);
/* The same with strides from one sequence, token and head to the next. */
int build_scratch_of(struct builder *b, const char *name, clattn_dtype type, int64_t elements,
                     const ir_expression strides[3]);

/* From here on kernels find the tensor, or the number, by that name. IR_NONE: they have none. */
void build_bind(struct builder *b, const char *name, int tensor);
void build_number(struct builder *b, const char *name, ir_expression number);
/* The tensor that kernels would find by the name. */
int build_bound(struct builder *b, const char *name);

/* ---- Steps --------------------------------------------------------------------------------------------------------
 */

/* Adds a kernel; returns its step. Its tensors are those that are bound under their names, else the problem's operands
 * of these names; numbers likewise. */
int build_kernel(struct builder *b, const struct kernel_step *step, struct grid3 grid);
/* The same, left out where the condition is 0. */
int build_kernel_if(struct builder *b, const struct kernel_step *step, struct grid3 grid, ir_expression condition);
/* Adds a matrix product; returns its step. */
int build_product(struct builder *b, const struct product *product);
/* The same, left out where the condition is 0. */
int build_product_if(struct builder *b, const struct product *product, ir_expression condition);
/* Steps from first on, up to the last that was added, are run for every per_turn of the rows. */
void build_loop(struct builder *b, int first, ir_expression rows, int64_t per_turn);
/* The number of the loop that build_loop will add next: for numbers of steps that are added before it. */
int build_next_loop(const struct builder *b);

/* Adds another solver's steps for a problem. What is bound meanwhile is forgotten at the end. Tiles come from the plan
 * that this one is like, or the solver's heuristic. Its status. */
clattn_status build_child(struct builder *b, const struct solver *solver, const struct problem *problem);
/* Adds the steps of the first solver in the list that can compute a problem. UNSUPPORTED where none can. */
clattn_status build_problem(struct builder *b, const struct problem *problem);
/* Adds a solver's steps for b->problem, with tiles, which are copied; NULL: as for a child. */
clattn_status build_solver(struct builder *b, const struct solver *solver, const void *tiles);

/* Runs add for each pass that b->problem needs: the one that leaves denominators, where there are any, then the one that
 * writes the outputs. problem is b->problem with the pass. */
typedef clattn_status (*build_pass_fn)(struct builder *b, const struct problem *problem, const void *shape);
clattn_status build_passes(struct builder *b, const void *shape, build_pass_fn add);
/* One of them. */
clattn_status build_pass(struct builder *b, enum pass pass, const void *shape, build_pass_fn add);

/* ---- A plan's recipe ----------------------------------------------------------------------------------------------
 */

/* Begins the recipe of b->problem, with what its rule fixes and what it asks for ahead of its solver. ir, built, like,
 * problem, facts, planner and head_decay are set. */
clattn_status build_begin(struct builder *b);
/* Room for the kernel of the recipe's next step, to be filled by those that add steps themselves; NULL without memory. */
struct kernel_step *build_step(struct builder *b, const struct kernel_step *step);
/* What computes the products that were added: as in b->like, or as the planner says. Its status. */
clattn_status build_products(struct builder *b);
/* Ends it: the loop over what reads a state, around all steps, and the products among these. */
clattn_status build_end(struct builder *b);
/* Begins the recipe, and adds the plan's own solver's steps, and what the problem asks for around them. tiles, of the
 * solver, are copied; NULL: from b->like. */
clattn_status build_own(struct builder *b, const struct solver *solver, const void *tiles);
/* The same, and ends it. */
clattn_status build_recipe(struct builder *b, const struct solver *solver, const void *tiles);
void built_free(struct built *built);

#endif
