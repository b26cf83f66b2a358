/* What a rule keeps from token to token, as data: the tensors of its state, and the operands that hold each of them
 * before the first token, after the last one, and on the way. A list of keys and values is no state: it is k and v. */
#ifndef CLATTN_SRC_OP_STATE_H
#define CLATTN_SRC_OP_STATE_H

#include "op/rule.h"

/* Dims of one tensor for each sequence, and for each state of a pool: letters of struct operand_row. */
struct state_dims {
    const char *sequence, *pool;
};

struct state_tensor {
    const char *name;                         /* NULL ends a list */
    clattn_operand_id before, after, between; /* NO_OPERAND: there is none */
    struct state_dims dims;
    struct state_dims turned; /* with CLATTN_STATE_VK; NULL: dims */
    struct state_dims many;   /* of `between`; with CLATTN_WITH_ACCEPTED also of `before` */
    enum storage storage;     /* STORE_MATRIX: f32, or any type that the caller names */
    enum numbers numbers;     /* how `before` is drawn */
    uint64_t flag;            /* the option without which the rule has no such tensor; 0: it always has it */
    int required;             /* a call needs `before`; else only one with CLATTN_INITIAL_STATE */
};

/* Lists for the rows of the rule table: no state; S; S and, with normalize, its normalizer; S, normalizer and
 * stabilizer; an S for each level, and the number of tokens so far; the inputs of a convolution; the weights of a
 * network; a matrix and a bias that learn; an MLP that learns; both, and with momentum their steps; S and
 * the gram matrix of the keys. */
extern const struct state_tensor state_none[], state_matrix[], state_normalized[], state_stabilized[], state_levels[],
    state_inputs[], state_network[], state_biased_weights[], state_mlp[], state_moving_weights[], state_moving_mlp[],
    state_solved[];

/* Lists the operands of a completed desc that hold its state. Returns their number. */
int state_operands(const clattn_plan_desc *desc, const struct rule *rule, struct operand_row rows[OPERAND_COUNT]);

/* The tensor's dims, as the desc's flags say. */
const struct state_dims *state_dims(const clattn_plan_desc *desc, const struct state_tensor *tensor);

/* The tensor that the operand of the rule holds, at whatever time; NULL: it holds no state. */
const struct state_tensor *state_of_operand(const struct rule *rule, clattn_operand_id id);
/* The operand from which a final state goes on, and whose memory it may have; else NO_OPERAND. */
clattn_operand_id state_before(const struct rule *rule, clattn_operand_id after);

#endif
