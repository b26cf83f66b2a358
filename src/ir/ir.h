/* The intermediate form: what a plan does, as data. It does not know rules or solvers.
 *
 * A recipe is a list of steps over tensors. A step launches a kernel, or calls a function that enqueues other work (a
 * matrix product). It may have a condition and may be in loops. Sizes, numbers and conditions that depend on a call's
 * lengths or on a loop's iteration are expressions. ir_finish lays out scratch memory so that tensors with disjoint
 * lifetimes share it. ir_enqueue resolves one launch after another and submits it. */
#ifndef CLATTN_SRC_IR_H
#define CLATTN_SRC_IR_H

#include "base/log.h"
#include "device/opencl.h"
#include "op/problem.h"

/* ---- Expressions --------------------------------------------------------------------------------------------------
 */

/* A number that depends on the call: an index of the recipe's nodes. */
typedef int ir_expression;
enum { IR_NONE = -1, IR_MAX_LOOPS = 8 };

/* The lengths of a call, as struct extent has them. */
enum ir_length { IR_BATCH, IR_TOKENS, IR_SEQUENCES, IR_KEYS, IR_TAIL, IR_LENGTHS };

enum ir_operation {
    IR_CONSTANT,
    IR_LENGTH,
    IR_LOOP_TURN,  /* for a loop: the number of the iteration, */
    IR_LOOP_FIRST, /* its first row, */
    IR_LOOP_ROWS,  /* its number of rows, */
    IR_LOOP_LAST,  /* and 1 in the last iteration, else 0 */
    IR_PART,       /* the number of the current launch within its step */
    IR_STRIDE,     /* of a tensor in the call */
    IR_ADD,
    IR_SUBTRACT,
    IR_MULTIPLY,
    IR_DIVIDE, /* rounds down; for positive numbers */
    IR_DIVIDE_UP,
    IR_LOWER,
    IR_HIGHER,
    IR_LESS, /* 1 or 0 */
    IR_EQUAL,
    IR_SHIFT, /* left times 2^right */
    IR_BITS   /* binary digits of left without leading zeros; right is not used */
};

/* Whether the operation refers to a loop, whose number is the node's value. */
static inline int ir_is_of_loop(enum ir_operation operation)
{
    return operation >= IR_LOOP_TURN && operation <= IR_LOOP_LAST;
}

struct ir_node {
    enum ir_operation operation;
    int64_t value;             /* a constant, an enum ir_length, the number of a loop, or a tensor */
    ir_expression left, right; /* for a stride, left is an enum ir_stride */
};

enum ir_stride { IR_STRIDE_BATCH, IR_STRIDE_TOKEN, IR_STRIDE_HEAD };

/* ---- Tensors ------------------------------------------------------------------------------------------------------
 */

enum ir_home {
    IR_OPERAND, /* the caller's, by number; a plan's numbers are ids. Its view depends on the call */
    IR_SCRATCH, /* in the workspace, for the duration of a call */
    IR_SAVED,   /* in memory that a later plan reads; it is never shared */
    IR_CONSTANT_BUFFER,
    IR_SLICE, /* a part of another tensor */
    IR_HOME_COUNT
};

struct ir_tensor {
    const char *name;
    enum ir_home home;
    int element;   /* bytes of an element */
    int operand;   /* of an IR_OPERAND */
    int64_t bytes; /* of IR_SCRATCH and IR_SAVED */
    ir_expression
        strides[3]; /* distances between batch elements, tokens and heads, in elements. IR_NONE in a slice: those of its
                     * base. Operands have none */
    int carried;    /* iterations of loops read what others wrote in it: it lives as long as the loops */
    cl_mem buffer;  /* of an IR_CONSTANT_BUFFER */
    /* of an IR_SLICE */
    int base;
    ir_expression tokens, heads; /* tokens and heads of the base before its first; IR_NONE: none */
    ir_expression elements;      /* further elements, of its own size, before its first; IR_NONE: none */
    int64_t head_step;           /* the step in heads of the base from one head of the slice to the next; 0 stands
                                  * for 1 */
    /* set by ir_finish */
    int first, last; /* the first and last step that use it */
    int64_t at;      /* offset in its home, in bytes */
};

/* The place of a tensor in a call. */
struct ir_place {
    cl_mem memory;
    struct view view;
};

/* ---- Steps and loops ----------------------------------------------------------------------------------------------
 */

enum { IR_MAX_WIDTH = 4 };

/* An argument of a kernel: a number, or a vector of numbers. A tensor is passed as two: its memory, and its view
 * {offset, batch, token, head} in elements. */
struct ir_argument {
    enum { IR_TENSOR, IR_INTEGER, IR_FLOAT } kind;
    int tensor; /* IR_NONE: NULL memory and zeros */
    int width;  /* elements of a vector, 2 or 4; 0: a scalar */
    ir_expression integers[IR_MAX_WIDTH];
    float reals[IR_MAX_WIDTH];
};

struct ir_call;

/* What a foreign step must enqueue. */
struct ir_foreign {
    const void *user;
    int step;
    const struct ir_place *places; /* places of the step's tensors, in order */
    const int64_t *sizes;          /* values of the step's sizes, in order */
    int64_t part;                  /* the number of the launch within the step */
    const struct log *log;
    cl_command_queue queue;
    uint32_t n_wait;
    const cl_event *wait;
    cl_event *event;
};
typedef clattn_status (*ir_foreign_fn)(const struct ir_foreign *foreign);

enum { IR_MAX_FOREIGN = 4 };

struct ir_step {
    ir_expression condition; /* the step is skipped if it is 0; IR_NONE: never */
    ir_expression parts;     /* the number of launches; IR_NONE: 1 */
    /* kernels only */
    int first_argument, argument_count; /* a range of the recipe's arguments */
    size_t group;
    ir_expression grid[3]; /* groups; nothing is launched if one of them is 0 */
    const char *kernel;    /* the kernel's name, for messages */
    /* foreign steps only; NULL for a kernel */
    ir_foreign_fn foreign;
    const void *user;
    int tensors[IR_MAX_FOREIGN];         /* IR_NONE: unused */
    ir_expression sizes[IR_MAX_FOREIGN]; /* the launch is skipped if one of them is 0; IR_NONE: unused */
};

/* Repeats the steps first to last: once for every per_turn rows, in ascending or descending order, or `turns` times.
 * Loops nest; an inner loop is added before the loop that contains it. Without rows there is one iteration, which has
 * none. */
struct ir_loop {
    int first, last;
    ir_expression rows;
    int64_t per_turn;
    int down;
    int64_t turns; /* if per_turn is 0 */
    int carries;   /* all tensors of the loop are carried */
};

struct ir_recipe {
    struct ir_node *nodes;
    struct ir_tensor *tensors;
    struct ir_step *steps;
    struct ir_argument *arguments;
    int node_count, tensor_count, step_count, argument_count, loop_count;
    int open_step; /* whose arguments are added */
    struct ir_loop loops[IR_MAX_LOOPS];
    int64_t bytes[IR_HOME_COUNT]; /* sizes of scratch and saved memory, set by ir_finish */
    int failed;                   /* memory ran out, or there are too many loops: the recipe is incomplete */
};

/* ---- Building. These functions do not report failures: ir_finish does ------------------------------------------- */

ir_expression ir_constant(struct ir_recipe *recipe, int64_t value);
ir_expression ir_length(struct ir_recipe *recipe, enum ir_length length);
/* IR_LOOP_TURN … IR_LOOP_LAST of a loop. The loop may be added later: loops are numbered from 0 in the order of
 * ir_loop. */
ir_expression ir_loop_value(struct ir_recipe *recipe, enum ir_operation value, int loop);
ir_expression ir_part(struct ir_recipe *recipe);
ir_expression ir_stride(struct ir_recipe *recipe, int tensor, enum ir_stride stride);
ir_expression ir_binary(struct ir_recipe *recipe, enum ir_operation operation, ir_expression left, ir_expression right);

/* Each function returns the number of what it adds. */
int ir_tensor(struct ir_recipe *recipe, const struct ir_tensor *tensor);
int ir_step(struct ir_recipe *recipe, const struct ir_step *step);
int ir_loop(struct ir_recipe *recipe, const struct ir_loop *loop);
/* Sets the last step of a loop. */
void ir_loop_end(struct ir_recipe *recipe, int loop, int last);
/* Replaces a step. */
void ir_replace(struct ir_recipe *recipe, int number, const struct ir_step *step);
/* Adds an argument to the kernel that was added or replaced last. */
void ir_argument(struct ir_recipe *recipe, const struct ir_argument *argument);

/* Adds the steps and loops of a finished recipe and the tensors and expressions that they use. `operands` lists, by
 * number, the slices that replace the operands of the child. `lengths` lists, by enum ir_length, the lengths of the
 * child; where it is NULL or IR_NONE, these are the recipe's own. Returns the first step. */
int ir_inline(struct ir_recipe *recipe, const struct ir_recipe *child, const struct ir_tensor *operands,
              const ir_expression *lengths);

/* Lays out scratch and saved tensors. OUT_OF_MEMORY: the recipe is incomplete. */
clattn_status ir_finish(struct ir_recipe *recipe);
void ir_close(struct ir_recipe *recipe);

/* The bytes that a tensor occupies, with padding. */
int64_t ir_room(const struct ir_tensor *tensor);

/* ---- Running ------------------------------------------------------------------------------------------------------
 */

/* The value that an argument was last set to, for arguments that are not buffers. */
struct ir_set {
    size_t size; /* 0: not set yet */
    unsigned char bytes[sizeof(cl_long4)];
};
/* One for each argument of each step, to be freed. NULL: out of memory. */
struct ir_set *ir_set_create(const struct ir_recipe *recipe);
/* Tells that the step has a new kernel, whose arguments are not set. */
void ir_set_forget(const struct ir_recipe *recipe, struct ir_set *set, int step);

/* The current launch. */
struct ir_cursor {
    int step;
    int64_t part;
    int64_t turn[IR_MAX_LOOPS];
};

/* The launches of a call in order, with their steps and events. The caller releases the events. */
struct ir_launches {
    struct {
        int step;
        cl_event event;
    } * each; /* with room for ir_count launches */
    int64_t count;
};

struct ir_call {
    const struct ir_recipe *recipe;
    const struct opencl *cl;
    struct log log;
    const cl_kernel *kernels; /* by step */
    struct ir_set *set;       /* used while this thread alone has the kernels */
    cl_event before;          /* the event of the last launch, on a queue out of order; the caller releases it at the
                               * end */
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
/* The same, or `otherwise` for IR_NONE. */
int64_t ir_value_or(const struct ir_call *call, ir_expression expression, int64_t otherwise);
/* The number of iterations of a loop. */
int64_t ir_turns(const struct ir_call *call, int loop);
/* The place of a tensor at the cursor. */
struct ir_place ir_resolve(const struct ir_call *call, int tensor);

/* The value of an expression in a call of these lengths. Loops are in an iteration that has the most rows. */
int64_t ir_most(const struct ir_recipe *recipe, const struct extent *extent, ir_expression expression);
/* The number of launches in a call of these lengths. */
int64_t ir_count(const struct ir_recipe *recipe, const struct extent *extent);

/* Enqueues all launches from the cursor on, each after the one before. The first waits for n_wait events, and *event
 * (event may be NULL) completes with the last. If `launches` is given, the queue must be in order, and each launch gets
 * an event of its own. After a failure the cursor stays at the launch that failed; the same call can resume there. */
clattn_status ir_enqueue(struct ir_call *call, uint32_t n_wait, const cl_event *wait, cl_event *event,
                         struct ir_launches *launches);

#endif
