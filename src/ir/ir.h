/* The intermediate form: what a plan does, as data. It knows no rule and no solver.
 *
 * A recipe is a list of steps over tensors. A step launches a kernel, or calls a function that enqueues work of its own
 * (a matrix product); it may have a condition, and it may stand in loops. Sizes, numbers and conditions that depend on the
 * lengths of a call or on the turn of a loop are expressions. ir_allocate lays out scratch memory such that tensors share
 * it where their lifetimes do not meet; ir_enqueue resolves one launch after another and submits it. */
#ifndef CLATTN_SRC_IR_H
#define CLATTN_SRC_IR_H

#include "base/log.h"
#include "device/opencl.h"
#include "op/problem.h"

/* ---- Expressions --------------------------------------------------------------------------------------------------
 */

/* A number that a call decides: an index of the recipe's nodes. */
typedef int ir_expression;
enum { IR_NONE = -1, IR_MAX_LOOPS = 4 };

/* The lengths of a call, as struct extent has them. */
enum ir_length { IR_BATCH, IR_TOKENS, IR_SEQUENCES, IR_KEYS, IR_TAIL, IR_LENGTHS };

enum ir_operation {
    IR_CONSTANT,
    IR_LENGTH,
    IR_LOOP_TURN,  /* of a loop: the number of the turn, */
    IR_LOOP_FIRST, /* the first of its rows, */
    IR_LOOP_ROWS,  /* how many it has, */
    IR_LOOP_LAST,  /* and 1 in the last turn, else 0 */
    IR_PART,       /* which of its step's launches the one at hand is */
    IR_STRIDE,     /* of a tensor, as a call has it */
    IR_ADD,
    IR_SUBTRACT,
    IR_MULTIPLY,
    IR_DIVIDE, /* rounded down; of positive numbers */
    IR_DIVIDE_UP,
    IR_LOWER,
    IR_HIGHER,
    IR_LESS, /* 1 or 0 */
    IR_EQUAL
};

/* Whether it is of a loop, whose number is the node's value. */
static inline int ir_is_of_loop(enum ir_operation operation)
{
    return operation >= IR_LOOP_TURN && operation <= IR_LOOP_LAST;
}

struct ir_node {
    enum ir_operation operation;
    int64_t value;             /* the constant, the enum ir_length, the loop, or the tensor */
    ir_expression left, right; /* of a stride the left is an enum ir_stride */
};

enum ir_stride { IR_STRIDE_BATCH, IR_STRIDE_TOKEN, IR_STRIDE_HEAD };

/* ---- Tensors ------------------------------------------------------------------------------------------------------
 */

enum ir_home {
    IR_OPERAND, /* the caller's, by number: of a plan by id; its view follows the call */
    IR_SCRATCH, /* in the workspace, which nothing outlives */
    IR_SAVED,   /* in memory that a later plan reads: these never share */
    IR_CONSTANT_BUFFER,
    IR_SLICE, /* a part of another tensor */
    IR_HOME_COUNT
};

struct ir_tensor {
    const char *name;
    enum ir_home home;
    int element;   /* bytes of a number */
    int operand;   /* of IR_OPERAND */
    int64_t bytes; /* of IR_SCRATCH and IR_SAVED */
    ir_expression
        strides[3]; /* from one batch element, token and head to the next, in elements. IR_NONE of a slice: the
                                 base's; operands have none */
    cl_mem buffer;  /* of IR_CONSTANT_BUFFER */
    /* of IR_SLICE */
    int base;
    ir_expression tokens, heads; /* how many tokens and heads it begins after the base; IR_NONE: none */
    ir_expression elements;      /* and elements of its own size; likewise */
    int64_t head_step;           /* heads of the base from one of the slice's to the next; 0: 1 */
    /* found by ir_allocate */
    int first, last; /* the steps that name it */
    int64_t at;      /* in its home, in bytes */
};

/* Where a tensor lies in a call. */
struct ir_place {
    cl_mem memory;
    struct view view;
};

/* ---- Steps and loops ----------------------------------------------------------------------------------------------
 */

enum { IR_MAX_WIDTH = 4 };

/* An argument of a kernel: a number, or a vector of them; or a tensor, which is two: its memory and its view, {offset,
 * batch, token, head} in elements. */
struct ir_argument {
    enum { IR_TENSOR, IR_INTEGER, IR_FLOAT } kind;
    int tensor; /* IR_NONE: memory NULL and zeros */
    int width;  /* numbers of a vector: 2 or 4; 0: one */
    ir_expression integers[IR_MAX_WIDTH];
    float reals[IR_MAX_WIDTH];
};

struct ir_call;

/* What a foreign step is asked to enqueue. */
struct ir_foreign {
    const void *user;
    int step;
    const struct ir_place *places; /* of the step's tensors, in order */
    const int64_t *sizes;          /* the values of the step's sizes, in order */
    int64_t part;                  /* which of the step's launches */
    const struct log *log;
    cl_command_queue queue;
    uint32_t n_wait;
    const cl_event *wait;
    cl_event *event;
};
typedef clattn_status (*ir_foreign_fn)(const struct ir_foreign *foreign);

enum { IR_MAX_FOREIGN = 4 };

struct ir_step {
    ir_expression condition; /* the step is left out where it is 0; IR_NONE: never */
    ir_expression parts;     /* launches; IR_NONE: 1 */
    /* a kernel's */
    int first_argument, argument_count; /* of the recipe's arguments */
    size_t group;
    ir_expression grid[3]; /* groups; none is launched where one is 0 */
    const char *kernel;    /* its name, for messages */
    /* a foreign step's; NULL of a kernel */
    ir_foreign_fn foreign;
    const void *user;
    int tensors[IR_MAX_FOREIGN];         /* IR_NONE: unused */
    ir_expression sizes[IR_MAX_FOREIGN]; /* the launch is left out where one is 0; IR_NONE: unused */
};

/* The steps first to last are run again and again: for every per_turn rows, upwards or downwards, or `turns` times. Loops
 * nest; an inner one is added before the loop that it stands in. No rows are one turn of none. */
struct ir_loop {
    int first, last;
    ir_expression rows;
    int64_t per_turn;
    int down;
    int64_t turns; /* where per_turn is 0 */
    int carries;   /* a turn reads what the turn before it wrote: tensors of the loop live as long as the loop */
};

struct ir_recipe {
    struct ir_node *nodes;
    struct ir_tensor *tensors;
    struct ir_step *steps;
    struct ir_argument *arguments;
    int node_count, tensor_count, step_count, argument_count, loop_count;
    int open_step; /* whose arguments are added */
    struct ir_loop loops[IR_MAX_LOOPS];
    int64_t bytes[IR_HOME_COUNT]; /* found by ir_allocate: of scratch and saved memory */
    int failed;                   /* memory ran out, or there are too many loops: the recipe is incomplete */
};

/* ---- Building: nothing of this returns a failure, ir_finish does ------------------------------------------------- */

ir_expression ir_constant(struct ir_recipe *recipe, int64_t value);
ir_expression ir_length(struct ir_recipe *recipe, enum ir_length length);
/* One of IR_LOOP_TURN … IR_LOOP_LAST. The loop may be added later: loops are numbered from 0 in the order of ir_loop. */
ir_expression ir_loop_value(struct ir_recipe *recipe, enum ir_operation value, int loop);
ir_expression ir_part(struct ir_recipe *recipe);
ir_expression ir_stride(struct ir_recipe *recipe, int tensor, enum ir_stride stride);
ir_expression ir_binary(struct ir_recipe *recipe, enum ir_operation operation, ir_expression left, ir_expression right);

/* Each returns the number of what it adds. */
int ir_tensor(struct ir_recipe *recipe, const struct ir_tensor *tensor);
int ir_step(struct ir_recipe *recipe, const struct ir_step *step);
int ir_loop(struct ir_recipe *recipe, const struct ir_loop *loop);
/* Puts another step in the place of one. */
void ir_replace(struct ir_recipe *recipe, int number, const struct ir_step *step);
/* An argument of the kernel that was added or replaced last. */
void ir_argument(struct ir_recipe *recipe, const struct ir_argument *argument);

/* Adds the steps and loops of a finished recipe, with the tensors and expressions that they name, in the place of a call:
 * `operands` says by number which slice stands for an operand of the child, and `lengths`, by enum ir_length, which
 * lengths it has. NULL, or IR_NONE: those of the recipe. Returns its first step. */
int ir_inline(struct ir_recipe *recipe, const struct ir_recipe *child, const struct ir_tensor *operands,
              const ir_expression *lengths);

/* Places scratch and saved tensors. OUT_OF_MEMORY where the recipe is incomplete. */
clattn_status ir_finish(struct ir_recipe *recipe);
void ir_close(struct ir_recipe *recipe);

/* Bytes that a tensor takes with what it is rounded up by. */
int64_t ir_room(const struct ir_tensor *tensor);

/* ---- Running ------------------------------------------------------------------------------------------------------
 */

/* What an argument was last set to, of those that are no buffers. */
struct ir_set {
    size_t size; /* 0: nothing */
    unsigned char bytes[sizeof(cl_long4)];
};
/* Room for those of all steps, to be freed; NULL without memory. */
struct ir_set *ir_set_create(const struct ir_recipe *recipe);
/* The step has another kernel, which has no arguments yet. */
void ir_set_forget(const struct ir_recipe *recipe, struct ir_set *set, int step);

/* The launch at hand. */
struct ir_cursor {
    int step;
    int64_t part;
    int64_t turn[IR_MAX_LOOPS];
};

/* The launches of a call, in order: the step of each, and its event, the caller's to release. */
struct ir_launches {
    struct {
        int step;
        cl_event event;
    } * each; /* room for ir_count */
    int64_t count;
};

struct ir_call {
    const struct ir_recipe *recipe;
    const struct opencl *cl;
    struct log log;
    const cl_kernel *kernels; /* by step */
    struct ir_set *set;       /* while nobody else has the kernels */
    cl_event before;          /* of the last launch, on a queue out of order; the caller's to release at the end */
    struct extent extent;
    const struct ir_place *operands; /* by number */
    cl_mem scratch;
    size_t scratch_offset; /* bytes */
    cl_command_queue queue;
    int in_order;
    struct ir_cursor at;
};

/* The value of an expression at the cursor. */
int64_t ir_value(const struct ir_call *call, ir_expression expression);
/* The same; otherwise where it is IR_NONE. */
int64_t ir_value_or(const struct ir_call *call, ir_expression expression, int64_t otherwise);
/* Turns of a loop. */
int64_t ir_turns(const struct ir_call *call, int loop);
/* Where a tensor lies at the cursor. */
struct ir_place ir_resolve(const struct ir_call *call, int tensor);

/* The value of an expression in a call of those lengths, of loops in a turn that has as many rows as any. */
int64_t ir_most(const struct ir_recipe *recipe, const struct extent *extent, ir_expression expression);
/* Launches of a call of those lengths. */
int64_t ir_count(const struct ir_recipe *recipe, const struct extent *extent);

/* Enqueues all launches from the cursor on, each after the one before; the first waits for n_wait events, and *event
 * (event may be NULL) covers them all. With launches, on a queue in order, each launch has an event of its own. After a
 * failure the cursor stands at the launch that failed, from which the same call goes on. */
clattn_status ir_enqueue(struct ir_call *call, uint32_t n_wait, const cl_event *wait, cl_event *event,
                         struct ir_launches *launches);

#endif
